"""File objects: raw, buffered and text, beside what Python's own do with the same calls."""

import errno
import gc
import io
import os
import threading

import pandofs
import pytest

TEXT = "αβγ one\nzwei\r\n\nlast"
BYTES = bytes(range(256)) * 40


def steps(opener, path):
    """Does much with files, and gives what everything answered or raised."""
    log = []

    def note(call, *arguments, **keywords):
        try:
            log.append(call(*arguments, **keywords))
        except Exception as error:  # noqa: BLE001 what is raised is compared
            log.append((type(error), getattr(error, "errno", None)))

    for mode in ["wb", "rb", "r+b", "ab", "w+b", "a+b", "rb+", "br", "bw", "w", "r", "a", "r+", "w+", "a+", "rt", "tr"]:
        for buffering in (-1, 0, 1, 7):
            try:
                file = opener(path, mode, buffering)
            except Exception as error:  # noqa: BLE001
                log.append((mode, buffering, type(error)))
                continue
            binary = "b" in mode
            log.append((mode, buffering, isinstance(file, io.TextIOBase), isinstance(file, io.BufferedIOBase)))
            log.append((file.readable(), file.writable(), file.seekable(), file.isatty(), file.closed))
            note(file.tell)
            note(file.write, BYTES[:1000] if binary else TEXT)
            note(file.tell)
            note(file.seek, 0)
            note(file.read, 5)
            note(file.readline)
            note(file.read)
            note(file.seek, 0, os.SEEK_END)
            note(file.seek, -3 if binary else 0, os.SEEK_CUR if binary else os.SEEK_SET)
            note(file.seek, -9)
            note(file.seek, 0, 9)
            note(file.truncate, 700)
            note(file.tell)
            note(file.writelines, [b"a\n", b"b"] if binary else ["a\n", "b"])
            note(file.flush)
            note(file.seek, 10)
            note(file.readlines)
            if binary:
                room = bytearray(b"?" * 20)
                note(file.seek, 3)
                note(file.readinto, room)
                log.append(bytes(room))
                note(file.write, memoryview(BYTES)[::2][:10])
                note(file.write, bytearray(b"array"))
            note(file.write, 7)
            note(file.close)
            note(file.close)
            log.append(file.closed)
            note(file.read)
            note(file.write, b"" if binary else "")
            note(file.tell)
            note(file.seek, 0)
            note(file.flush)
            note(lambda: iter(file).__next__())
            with opener(path, "rb") as whole:
                log.append(whole.read())
    for mode in ["", "rw", "rbt", "q", "rr", "r++", "b", "+"]:
        try:
            opener(path, mode)
        except Exception as error:  # noqa: BLE001
            log.append((mode, type(error)))
    for keywords in [{"encoding": "latin-1"}, {"errors": "ignore"}, {"newline": "\n"}]:
        try:
            opener(path, "rb", **keywords)
        except Exception as error:  # noqa: BLE001
            log.append((keywords, type(error)))
    return log


def test_what_pythons_own_files_do(fs, folder, tmp_path):
    own = steps(open, str(tmp_path / "file"))
    ours = steps(fs.open, folder + "/file")
    assert len(own) > 1000
    for place, (wanted, found) in enumerate(zip(own, ours)):
        assert found == wanted, f"step {place}, after {own[max(place - 12, 0):place]}"
    assert len(ours) == len(own)


def test_text(fs, folder):
    path = folder + "/text"
    with fs.open(path, "w", encoding="utf-16", newline="\r\n") as file:
        assert file.write(TEXT) == len(TEXT)
        print("printed", file=file)
    with fs.open(path, encoding="utf-16") as file:
        assert file.encoding == "utf-16" and file.mode == "r" and file.name == path
        assert list(file) == ["αβγ one\n", "zwei\n", "\n", "\n", "lastprinted\n"]
    with fs.open(path, encoding="ascii") as file, pytest.raises(UnicodeDecodeError):
        file.read()
    with fs.open(path, "w", 1) as file:
        file.write("by line\nrest")
        assert fs.stat(path).st_size == 12, "what ends a line is written, and what came with it"


def test_buffers(fs, folder):
    path = folder + "/buffered"
    with fs.open(path, "wb") as file:
        assert isinstance(file, io.BufferedWriter)
        file.write(b"kept")
        with fs.open(path, "rb") as other:
            assert other.read() == b""
            file.flush()
            assert other.read() == b"kept", "what was flushed is seen by others"
    with fs.open(path, "r+b") as file:
        assert isinstance(file, io.BufferedRandom)
        assert file.peek(2)[:2] == b"ke"
        assert file.read(1) == b"k"
        file.write(b"E")
        assert file.read() == b"pt"
    with fs.open(path, "rb") as file:
        assert isinstance(file, io.BufferedReader)
        assert file.read1(10) == b"kEpt"


def test_large_files_and_holes(fs, folder, mounted):
    path = folder + "/large"
    block = os.urandom(1 << 20)
    with fs.open(path, "wb") as file:
        for _ in range(5):
            file.write(block)
        file.seek(40 << 20)
        file.write(b"end")
    assert fs.stat(path).st_size == (40 << 20) + 3
    with fs.open(path, "rb", 0) as file:
        assert file.read(1 << 20) == block
        file.seek((4 << 20) + 7)
        assert file.read(1 << 20) == block[7:] + bytes(7)
        file.seek(0)
        whole = file.readall()
    assert whole == block * 5 + bytes(35 << 20) + b"end"
    assert (mounted / "large").read_bytes() == whole, "programs on a mount see the same"


def test_appenders_do_not_meet(fs, folder):
    path = folder + "/log"

    def append(number):
        with fs.open(path, "ab", 0) as file:
            for line in range(50):
                file.write(b"%d %d\n" % (number, line))

    threads = [threading.Thread(target=append, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with fs.open(path) as file:
        lines = file.read().splitlines()
    assert sorted(lines) == sorted(f"{number} {line}" for number in range(4) for line in range(50))


def test_permissions_and_sync(fs, folder, cluster):
    with pandofs.Client(cluster, umask=0o027) as client:
        with client.open(folder + "/x", "xb") as file:
            file.write(b"on disk")
            pandofs.fsync(file)
        assert client.stat(folder + "/x").st_mode & 0o777 == 0o640
        with client.open(folder + "/y", "x", permissions=0o777) as file:
            file.write("text")
            pandofs.fsync(file)
        assert client.stat(folder + "/y").st_mode & 0o777 == 0o750
    old = os.umask(0o077)
    try:
        with pandofs.Client(cluster) as client:
            client.open(folder + "/z", "w").close()
    finally:
        os.umask(old)
    assert fs.stat(folder + "/z").st_mode & 0o777 == 0o600


def test_there_is_no_descriptor(fs, folder):
    with fs.open(folder + "/x", "wb") as file, pytest.raises(io.UnsupportedOperation):
        file.fileno()


def test_closed_files(fs, folder):
    file = fs.open(folder + "/x", "w+b")
    raw = file.raw
    file.close()
    for use in [file.read, file.tell, raw.readall, raw.tell, raw.flush, raw.sync, raw.stat, raw.truncate]:
        with pytest.raises(ValueError):
            use()
    file.close()
    raw.close()


def test_a_closed_client_closes_its_files(cluster, fs, folder):
    client = pandofs.Client(cluster)
    file = client.open(folder + "/x", "w")
    file.write("was buffered")
    raw = client.open(folder + "/y", "wb", 0)
    scan = client.scandir(folder)
    client.close()
    client.close()
    assert file.closed and raw.closed and client.closed
    with fs.open(folder + "/x") as other:
        assert other.read() == "was buffered"
    for use in [lambda: client.stat("/"), lambda: client.open(folder + "/x"), client.statvfs, client.__enter__]:
        with pytest.raises(OSError) as caught:
            use()
        assert caught.value.errno == errno.EBADF
        assert "closed" in str(caught.value)
    list(scan)


def test_a_file_without_an_owner_is_closed(cluster, fs, folder):
    client = pandofs.Client(cluster)
    client.open(folder + "/x", "w").write("kept")
    gc.collect()
    with fs.open(folder + "/x") as other:
        assert other.read() == "kept"
    file = client.open(folder + "/y", "w")
    del client
    gc.collect()
    file.write("a file keeps its connection")
    file.close()
    assert fs.stat(folder + "/y").st_size == 27
