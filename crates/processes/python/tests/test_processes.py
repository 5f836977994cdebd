"""Processes that are forked, spawned, or given a client pickled."""

import errno
import gc
import multiprocessing
import os
import pickle
import signal
import threading
import time
import traceback

import pandofs
import pytest


def in_child(work):
    """Runs it in a forked process, which must not hang."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(60)
            work()
            code = 0
        except BaseException:  # noqa: BLE001 the code says it, and the trace why
            traceback.print_exc()
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert status == 0, f"the child ended with {status}"


def test_a_forked_child_connects_anew(fs, folder):
    file = fs.open(folder + "/parents", "w+b")
    file.write(b"buffered")
    raw = fs.open(folder + "/raw", "wb", 0)
    entries = fs.scandir("/")
    next(entries)

    def child():
        fs.mkdir(folder + "/child")
        assert fs.listdir(folder) != []
        for use in [raw.stat, raw.sync, lambda: raw.write(b"x"), lambda: raw.truncate(0)]:
            with pytest.raises(OSError) as caught:
                use()
            assert caught.value.errno == errno.ESTALE and "forked" in str(caught.value)
        raw.close()
        with pytest.raises(OSError) as caught:
            fs._now.scan("/").page()
            list(entries) and entries._listing.page()
        assert caught.value.errno == errno.ESTALE
        with fs.open(folder + "/own", "w") as own:
            own.write("child")
        in_child(lambda: (fs.stat(folder + "/own"), fs.close()))
        fs.close()
        gc.collect()

    in_child(child)
    assert fs.isdir(folder + "/child") and fs.stat(folder + "/own").st_size == 5
    raw.write(b"still here")
    raw.close()
    file.close()
    assert fs.read_many([folder + "/raw", folder + "/parents"]) == [b"still here", b"buffered"]


def test_a_child_forked_while_threads_are_at_work(fs, folder):
    is_over = threading.Event()

    def be_busy(number):
        while not is_over.is_set():
            fs.create_many({f"{folder}/{number}-{place}": b"busy" for place in range(20)}, overwrite=True)
            fs.stat(folder)

    threads = [threading.Thread(target=be_busy, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    try:
        for round_ in range(10):

            def child():
                fs.mkdir(f"{folder}/child-{round_}")
                # Else it is waited for, as for one that was killed.
                fs.close()

            in_child(child)
    finally:
        is_over.set()
        for thread in threads:
            thread.join()
    assert len([name for name in fs.listdir(folder) if name.startswith("child")]) == 10


def count(arguments):
    client, path = arguments
    return os.getpid(), client.stat(path).st_size, client.read_many([path])


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(fs, folder, method):
    with fs.open(folder + "/file", "w") as file:
        file.write("12345")
    pool = multiprocessing.get_context(method).Pool(2)
    results = pool.map(count, [(fs, folder + "/file")] * 8)
    pool.close()
    pool.join()
    started = time.monotonic()
    fs.remove(folder + "/file")
    assert time.monotonic() - started < 5, "workers that have ended are waited for"
    assert os.getpid() not in {pid for pid, _, _ in results}
    assert {(size, *data) for _, size, data in results} == {(5, b"12345")}


def test_pickles(fs, folder, cluster):
    client = pandofs.Client(os.path.dirname(cluster), timeout=7.5, uid=1, gid=2, groups=[3], umask=0o77, cache_bytes=0)
    other = pickle.loads(pickle.dumps(client))
    assert other._options == client._options and other is not client
    assert other.cluster == cluster
    other.close()
    client.close()
    with pytest.raises(ValueError):
        pickle.dumps(client)
    with fs.open(folder + "/x", "wb") as file:
        for one in [file, file.raw]:
            with pytest.raises(TypeError):
                pickle.dumps(one)
    assert "cluster" in repr(client) and "closed" in repr(client)


def test_what_is_not_closed_is_closed_at_the_end(fs, folder, cluster):
    def child():
        import atexit

        client = pandofs.Client(cluster)
        keep.append(client.open(folder + "/x", "w"))
        keep[0].write("kept")
        atexit._run_exitfuncs()

    keep = []
    in_child(child)
    assert fs.read_many([folder + "/x"]) == [b"kept"]


def test_threads_share_a_client(fs, folder):
    failed = []

    def work(number):
        try:
            for place in range(30):
                path = f"{folder}/{number}-{place}"
                with fs.open(path, "w") as file:
                    file.write(path)
                assert fs.stat(path).st_size == len(path)
                with fs.open(path) as file:
                    assert file.read() == path
        except BaseException as error:  # noqa: BLE001
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == [] and len(fs.listdir(folder)) == 240


def test_a_file_that_is_closed_while_others_use_it(fs, folder):
    path = folder + "/shared"
    fs.create_many({path: b"x" * 100_000})
    for _ in range(20):
        file = fs.open(path, "rb", 0)
        seen = []

        def read():
            try:
                while True:
                    file.seek(0)
                    file.read(1000)
            except (ValueError, OSError) as error:
                seen.append(error)

        threads = [threading.Thread(target=read) for _ in range(3)]
        for thread in threads:
            thread.start()
        time.sleep(0.005)
        file.close()
        for thread in threads:
            thread.join()
        assert len(seen) == 3
        assert all(isinstance(error, ValueError) or error.errno == errno.EBADF for error in seen), seen
