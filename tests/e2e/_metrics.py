"""Part of the test of metrics: asks endpoints and a Prometheus over HTTP.

_metrics.py ports COUNT          the first of so many free ports in a row
_metrics.py get URL [ACCEPT]     what is there; fails, with what is said, unless that is what was asked for
_metrics.py query BASE QUERY     the one value that the Prometheus at BASE has for it
_metrics.py dashboard BASE FILE  runs every query of the dashboard: each is valid and gives something
"""

import json
import random
import re
import socket
import sys
import urllib.error
import urllib.parse
import urllib.request

# Seconds that an answer may take.
PATIENCE = 30
# Below those that the system gives to whoever asks for any.
PORTS = range(20000, 32000)


def ports(count):
    for _ in range(1000):
        base = random.choice(PORTS)
        held = []
        try:
            for port in range(base, base + count):
                one = socket.socket()
                held.append(one)
                one.bind(("127.0.0.1", port))
            return base
        except OSError:
            continue
        finally:
            for one in held:
                one.close()
    sys.exit("no free ports")


def get(url, accept="*/*"):
    request = urllib.request.Request(url, headers={"Accept": accept})
    # Not by a proxy.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=PATIENCE) as answer:
            return answer.read().decode()
    except urllib.error.HTTPError as error:
        sys.exit(f"{url}: {error.code}: {error.read().decode()}")
    except OSError as error:
        sys.exit(f"{url}: {error}")


def results(base, query):
    url = f"{base}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    answer = json.loads(get(url))
    if answer["status"] != "success":
        sys.exit(f"{query}: {answer}")
    return answer["data"]["result"]


def value(base, query):
    found = results(base, query)
    if len(found) != 1:
        sys.exit(f"{query}: {len(found)} results instead of one: {found}")
    return found[0]["value"][1]


def dashboard(base, path):
    with open(path, encoding="utf-8") as file:
        board = json.load(file)
    queries = [target["expr"] for panel in board["panels"] for target in panel.get("targets", [])]
    for variable in board["templating"]["list"]:
        of = re.fullmatch(r"label_values\((.*), *(\w+)\)", variable["definition"])
        queries.append(f"count by ({of[2]}) ({of[1]})")
    empty = []
    for query in queries:
        for name, given in (("$__rate_interval", "1m"), ("$job", ".*"), ("$instance", ".*")):
            query = query.replace(name, given)
        if "$" in query:
            sys.exit(f"{query}: an unknown variable")
        if not results(base, query):
            empty.append(query)
    if empty:
        sys.exit("these give nothing:\n" + "\n".join(empty))
    return len(queries)


COMMANDS = {
    "ports": lambda count: ports(int(count)),
    "get": get,
    "query": value,
    "dashboard": dashboard,
}

if __name__ == "__main__":
    print(COMMANDS[sys.argv[1]](*sys.argv[2:]))
