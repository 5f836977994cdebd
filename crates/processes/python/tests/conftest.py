"""What the tests share: the cluster that `tests/e2e/python.sh` started, and servers of a test's own."""

import os
import pathlib
import re
import signal
import subprocess
import time
import uuid

import pandofs
import pytest

CLUSTER = os.environ["PANDOFS_CLUSTER"]
#: Seconds that anything may take before the test gives it up.
PATIENCE = 120


@pytest.fixture(scope="session")
def cluster():
    """The path of the cluster's map."""
    return CLUSTER


@pytest.fixture
def fs():
    """A client of its own."""
    with pandofs.Client(CLUSTER) as client:
        yield client


@pytest.fixture
def folder():
    """A new folder, as text without an end."""
    path = f"/test-{uuid.uuid4().hex}"
    with pandofs.Client(CLUSTER) as client:
        client.mkdir(path)
        yield path
        client.rmtree(path)


@pytest.fixture
def mounted(folder):
    """The same folder where it is mounted."""
    return pathlib.Path(os.environ["PANDOFS_MOUNT"] + folder)


class OwnServer:
    """A file system of one server that somebody may kill."""

    def __init__(self, data):
        self.data = data
        command = [os.environ["PANDOFS"], "up", "--servers", "1", "--no-restart", "--no-mount", "--data", str(data)]
        said = pathlib.Path(f"{data}-up.txt")
        with open(said, "w") as log:
            self.up = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + PATIENCE
        while not re.search(r" (is|are) up", said.read_text()):
            assert self.up.poll() is None and time.monotonic() < deadline, said.read_text()
            time.sleep(0.05)

    @property
    def cluster(self):
        return str(self.data / "cluster.json")

    def kill(self):
        pid = int((self.data / "server-0" / "pid").read_text())
        os.kill(pid, signal.SIGKILL)

    def end(self):
        self.up.kill()
        self.up.wait()


@pytest.fixture
def own_server(tmp_path):
    server = OwnServer(tmp_path / "data")
    yield server
    server.end()
