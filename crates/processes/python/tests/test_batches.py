"""Batches: many calls at once, without the interpreter's lock."""

import errno
import os
import signal
import threading
import time

import pytest


def test_files_are_made_and_read(fs, folder, mounted):
    files = {f"{folder}/{number}": os.urandom(number * 17) for number in range(500)}
    files[folder + "/large"] = os.urandom(3 << 20)
    assert fs.create_many(files) == [None] * 501
    assert fs.read_many(files) == list(files.values())
    assert fs.read_many(files, threads=1) == list(files.values())
    assert {name: (mounted / name).read_bytes() for name in os.listdir(mounted)} == {
        path[len(folder) + 1 :]: data for path, data in files.items()
    }
    sizes = [found.st_size for found in fs.stat_many(files, threads=64)]
    assert sizes == [len(data) for data in files.values()]
    assert fs.read_many([]) == [] == fs.stat_many(iter([])) == fs.create_many({})
    some = folder + "/0"
    fs.create_many([(some, bytearray(b"array")), (folder + "/view", memoryview(b"a view")[2:])], overwrite=True)
    assert fs.read_many([some.encode(), folder + "/view"]) == [b"array", b"view"]


def test_errors_are_in_their_places(fs, folder):
    fs.mkdir(folder + "/folder")
    with fs.open(folder + "/file", "w") as file:
        file.write("text")
    paths = [folder + "/file", folder + "/none", folder + "/folder", folder + "/file/x", ""]
    read = fs.read_many(paths, return_errors=True)
    assert read[0] == b"text"
    numbers = [errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.ENOENT]
    assert [error.errno for error in read[1:]] == numbers
    assert [error.filename for error in read[1:]] == paths[1:]
    assert isinstance(read[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError) as caught:
        fs.read_many(paths)
    assert caught.value.filename == folder + "/none"
    found = fs.stat_many(paths, return_errors=True)
    assert found[0].st_size == 4 and found[1].errno == errno.ENOENT and found[2].st_nlink >= 2
    made = fs.create_many([(path, b"x") for path in paths[:3] + [folder + "/new"]], return_errors=True)
    assert [getattr(one, "errno", None) for one in made] == [errno.EEXIST, None, errno.EEXIST, None]
    assert fs.read_many([folder + "/file", folder + "/none", folder + "/new"]) == [b"text", b"x", b"x"]
    with pytest.raises(FileExistsError):
        fs.create_many({folder + "/file": b""})
    fs.create_many({folder + "/file": b""}, overwrite=True)
    assert fs.read_many([folder + "/file"]) == [b""]


def test_arguments(fs, folder):
    for threads in [0, -1, 65]:
        with pytest.raises(ValueError):
            fs.read_many([folder], threads=threads)
    with pytest.raises(TypeError):
        fs.read_many([folder, 7])
    with pytest.raises(TypeError):
        fs.create_many({folder + "/x": "text"})
    with pytest.raises(ValueError):
        fs.stat_many(["a\0b"])
    assert not fs.exists(folder + "/x")


def test_other_threads_go_on(fs, folder):
    files = {f"{folder}/{number}": b"x" * 4000 for number in range(3000)}
    fs.create_many(files)
    counted = 0
    is_over = threading.Event()

    def read():
        try:
            fs.read_many(files, threads=2)
        finally:
            is_over.set()

    thread = threading.Thread(target=read)
    thread.start()
    while not is_over.is_set():
        counted += 1
    thread.join()
    # One that held the lock would have let this loop go round a few times only.
    assert counted > 10_000


def test_a_signal_ends_a_batch(fs, folder):
    paths = [folder] * 1_000_000

    def handler(number, frame):
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, handler)
    timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1))
    timer.start()
    started = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            # Long enough to be interrupted, however fast it is.
            while time.monotonic() - started < 60:
                fs.stat_many(paths, threads=4)
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert fs.isdir(folder)
