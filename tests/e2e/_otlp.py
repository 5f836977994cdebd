"""A collector of traces for tests: takes OTLP over HTTP, writes each span as a line of JSON, and checks what has come.

    _otlp.py receive PORT FILE [deaf]   with 'deaf' connections are taken and nothing is answered
    _otlp.py spans FILE NAME            how many spans there are of this name
    _otlp.py distributed FILE NAME      whether a trace of this operation goes through all that took part, rightly
    _otlp.py tree FILE NAME             such a trace, for people
"""

import http.server
import json
import socket
import struct
import sys
import threading

CLIENT, SERVER = 3, 2


def fields(data):
    """Numbers and values of a protobuf message."""
    at = 0

    def varint():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(data):
        key = varint()
        number, kind = key >> 3, key & 7
        if kind == 0:
            yield number, varint()
        elif kind in (1, 5):
            size = 8 if kind == 1 else 4
            yield number, struct.unpack("<Q" if kind == 1 else "<I", data[at : at + size])[0]
            at += size
        elif kind == 2:
            length = varint()
            yield number, data[at : at + length]
            at += length
        else:
            raise ValueError(f"wire type {kind}")


def attributes(pairs):
    found = {}
    for pair in pairs:
        pair = dict(fields(pair))
        for number, value in fields(pair[2]):
            found[pair[1].decode()] = value.decode() if number == 1 else value
    return found


def of(data, number):
    return [value for field, value in fields(data) if field == number]


def spans_of(body):
    for resource_spans in of(body, 1):
        resource = [pair for it in of(resource_spans, 1) for pair in of(it, 1)]
        for scope_spans in of(resource_spans, 2):
            for span in of(scope_spans, 2):
                one = dict(fields(span))
                yield {
                    "trace": one[1].hex(),
                    "span": one[2].hex(),
                    "parent": one.get(4, b"").hex(),
                    "name": one[5].decode(),
                    "kind": one[6],
                    "start": one[7],
                    "end": one[8],
                    "attributes": attributes(of(span, 9)),
                    "resource": attributes(resource),
                }


def receive(port, path):
    lock = threading.Lock()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            right = self.path == "/v1/traces" and self.headers["Content-Type"] == "application/x-protobuf"
            if right:
                with lock, open(path, "a") as file:
                    for span in spans_of(body):
                        file.write(json.dumps(span) + "\n")
            self.send_response(200 if right else 400)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_):
            pass

    http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler).serve_forever()


def be_deaf(port):
    with socket.create_server(("127.0.0.1", port)) as listener:
        taken = []
        while True:
            taken.append(listener.accept())


def read(path):
    try:
        with open(path) as file:
            return [json.loads(line) for line in file]
    except FileNotFoundError:
        return []


def inside(part, whole):
    return whole["start"] <= part["start"] and part["end"] <= whole["end"]


def child(spans, parent, name, kind):
    found = [it for it in spans if it["parent"] == parent["span"] and it["name"] == name and it["kind"] == kind]
    return found[0] if found else None


def way(spans, root):
    """From the mount to the last server: each a part of the one before it, or None if the operation was on one server."""
    name = root["name"]
    request = child(spans, root, f"request {name}", CLIENT)
    served = request and child(spans, request, name, SERVER)
    if not served:
        return None
    for asked in spans:
        is_step = asked["parent"] == served["span"] and asked["name"].startswith("step ") and asked["kind"] == CLIENT
        # On a slow machine a step may be asked for again when its answer has come already: nobody waits for that.
        if is_step and "pandofs.outcome" in asked["attributes"]:
            performed = child(spans, asked, asked["name"], SERVER)
            if performed:
                return [root, request, served, asked, performed]
    return None


def distributed(path, name):
    spans = read(path)
    for root in spans:
        if root["name"] != name or root["parent"]:
            continue
        same = [it for it in spans if it["trace"] == root["trace"]]
        found = way(same, root)
        if not found:
            continue
        for whole, part in zip(found, found[1:]):
            assert inside(part, whole), f"{part} is not within {whole}"
        root, request, served, asked, performed = found
        services = [it["resource"]["service.name"] for it in found]
        assert services == ["pandofs-mount"] * 2 + ["pandofs-server"] * 3, services
        first, second = served["resource"]["pandofs.server"], performed["resource"]["pandofs.server"]
        assert first != second, "a step of another server was performed by the same one"
        assert request["attributes"]["pandofs.server"] == first == performed["attributes"]["pandofs.peer"]
        assert asked["attributes"]["pandofs.peer"] == second
        assert request["attributes"]["pandofs.shard"] == served["attributes"]["pandofs.shard"]
        assert asked["attributes"]["pandofs.shard"] == performed["attributes"]["pandofs.shard"]
        assert root["attributes"]["pandofs.name"] == served["attributes"]["pandofs.name"]
        assert root["attributes"]["pandofs.dir"] == served["attributes"]["pandofs.dir"]
        transactions = {it["attributes"]["pandofs.transaction"] for it in (served, asked, performed)}
        assert len(transactions) == 1, transactions
        assert served["attributes"]["pandofs.outcome"] == request["attributes"]["pandofs.outcome"] == "done"
        took = (served["end"] - served["start"]) // 1000
        waits = {key: us for key, us in served["attributes"].items() if key.startswith("pandofs.wait.")}
        for key in ("turn", "server", "log"):
            assert f"pandofs.wait.{key}_us" in waits, f"{key} is not in {waits}"
        assert sum(waits.values()) <= took + 1000, f"{waits} of {took} µs"
        return found
    return None


def tree(path, name):
    spans = read(path)
    root = distributed(path, name)[0]

    def show(span, depth):
        told = " ".join(f"{key.removeprefix('pandofs.')}={value}" for key, value in sorted(span["attributes"].items()))
        where = span["resource"]["service.name"].removeprefix("pandofs-")
        where += f" {span['resource']['pandofs.server']}" if "pandofs.server" in span["resource"] else ""
        took = (span["end"] - span["start"]) / 1e6
        print(f"{'  ' * depth}{span['name']} ({where}) {took:.2f} ms {told}")
        parts = [it for it in spans if it["parent"] == span["span"]]
        for part in sorted(parts, key=lambda it: it["start"]):
            show(part, depth + 1)

    show(root, 0)


how, *words = sys.argv[1:]
if how == "receive":
    port, path, *deaf = words
    be_deaf(int(port)) if deaf else receive(int(port), path)
elif how == "spans":
    path, name = words
    print(sum(span["name"] == name for span in read(path)))
elif how == "distributed":
    sys.exit(0 if distributed(*words) else 1)
elif how == "tree":
    tree(*words)
else:
    sys.exit(__doc__)
