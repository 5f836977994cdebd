"""Servers that are not there, or not any more."""

import errno
import re
import time

import pandofs
import pytest


@pytest.mark.parametrize(
    "cluster, words",
    [
        ("/there/is/none.json", "/there/is/none.json"),
        ("/proc/self/exe", "/proc/self/exe"),
        ("unix:/there/is/none,tcp:127.0.0.1:1", "tcp:127.0.0.1:1"),
        ("tcp:nothing", "tcp:nothing"),
        ("unix:", "no path of a socket"),
        ("", "none"),
    ],
)
def test_wrong_addresses(cluster, words):
    if not cluster:
        with pytest.raises(OSError):
            pandofs.Client(cluster, timeout=0.5)
        return
    with pytest.raises(OSError) as caught:
        pandofs.Client(cluster, timeout=0.5)
    assert caught.value.errno == errno.EIO and words in caught.value.strerror
    assert caught.value.filename == cluster


def test_wrong_options(cluster):
    with pytest.raises(TypeError):
        pandofs.Client()
    with pytest.raises(TypeError):
        pandofs.Client(7)
    for options in [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": 1e12},
        {"umask": 0o7777},
        {"umask": -1},
    ]:
        with pytest.raises(ValueError):
            pandofs.Client(cluster, **options)
    for options in [{"uid": 5}, {"gid": 5}, {"groups": [1]}, {"uid": 1, "gid": 1, "groups": [1] * 100_000}]:
        with pytest.raises(OSError) as caught:
            pandofs.Client(cluster, **options)
        assert caught.value.errno == errno.EINVAL, options
    with pytest.raises(OverflowError):
        pandofs.Client(cluster, cache_bytes=-1)


def test_addresses_and_folders(cluster, folder):
    with open(cluster) as file:
        address = re.search(r'"(unix:[^"]+)"', file.read()).group(1)
    for place in [address, f"unix:/there/is/none,{address}", cluster.rpartition("/")[0]]:
        with pandofs.Client(place) as client:
            assert client.isdir(folder)


def test_a_server_that_vanishes(own_server):
    client = pandofs.Client(own_server.cluster, timeout=0.5)
    client.mkdir("/folder")
    raw = client.open("/folder/raw", "wb", 0)
    raw.write(b"there")
    buffered = client.open("/folder/buffered", "w")
    buffered.write("not written yet")
    client.create_many({f"/folder/{number}": b"x" for number in range(10)})
    own_server.kill()
    started = time.monotonic()
    for use in [
        lambda: client.stat("/folder/none"),
        lambda: client.mkdir("/other"),
        lambda: client.open("/folder/0"),
        lambda: client.listdir("/folder"),
        lambda: raw.write(b"gone"),
        raw.sync,
        buffered.flush,
        client.statvfs,
        lambda: client.read_many(["/folder/0", "/folder/1"]),
    ]:
        with pytest.raises(OSError) as caught:
            use()
        assert caught.value.errno == errno.EIO
        assert "server 0" in str(caught.value)
    errors = client.stat_many([f"/folder/none-{number}" for number in range(5)], return_errors=True)
    assert {error.errno for error in errors} == {errno.EIO}
    with pytest.raises(OSError):
        client.close()
    assert client.closed and raw.closed and buffered.closed
    assert time.monotonic() - started < 60
