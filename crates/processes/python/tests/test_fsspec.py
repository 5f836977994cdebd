"""The file system for fsspec: its own abstract suite, and what is beside that."""

import gzip
import os
import pickle

import fsspec
import pytest
from fsspec.core import url_to_fs
from fsspec.tests.abstract import (
    AbstractCopyTests,
    AbstractFixtures,
    AbstractGetTests,
    AbstractOpenTests,
    AbstractPipeTests,
    AbstractPutTests,
)

from pandofs.fsspec import PandoFileSystem


class Fixtures(AbstractFixtures):
    @pytest.fixture
    def fs(self, cluster):
        return PandoFileSystem(cluster, auto_mkdir=True)

    @pytest.fixture
    def fs_path(self, folder):
        return folder


class TestCopy(AbstractCopyTests, Fixtures):
    pass


class TestGet(AbstractGetTests, Fixtures):
    pass


class TestOpen(AbstractOpenTests, Fixtures):
    pass


class TestPipe(AbstractPipeTests, Fixtures):
    pass


class TestPut(AbstractPutTests, Fixtures):
    pass


@pytest.fixture
def pando(cluster):
    return fsspec.filesystem("pandofs", cluster=cluster)


def test_it_is_known_by_its_name(pando, cluster, folder, monkeypatch):
    assert isinstance(pando, PandoFileSystem)
    with fsspec.open(f"pandofs://{folder}/x", "w", cluster=cluster) as file:
        file.write("text")
    with fsspec.open(f"pandofs://{folder}/x", cluster=cluster) as file:
        assert file.read() == b"text" and file.size == 4
    found, path = url_to_fs(f"pandofs://{folder}/x", cluster=cluster)
    assert found is pando and path == folder + "/x"
    assert pando.unstrip_protocol(path) == f"pandofs://{path}"
    monkeypatch.setenv("PANDOFS_CLUSTER", cluster)
    assert fsspec.open(f"pandofs://{folder}/x").open().read() == b"text"
    monkeypatch.delenv("PANDOFS_CLUSTER")
    with pytest.raises(ValueError, match="PANDOFS_CLUSTER"):
        PandoFileSystem(skip_instance_cache=True)


def test_servers_in_urls():
    strip, arguments = PandoFileSystem._strip_protocol, PandoFileSystem._get_kwargs_from_urls
    assert strip("pandofs://a:7400,b:7400/x/y/") == "/x/y" and strip("pandofs://a:7400") == "/"
    assert strip("pandofs:///x") == "/x" == strip("/x/") == strip("x") and strip("/") == "/" == strip("")
    assert strip(["pandofs:///x", "y"]) == ["/x", "/y"]
    assert arguments("pandofs://a:7400,b:7400/x") == {"cluster": "tcp:a:7400,tcp:b:7400"}
    assert arguments("pandofs:///x") == {} == arguments("/x")


def test_infos(pando, folder):
    pando.pipe({f"{folder}/{number}": b"x" * number for number in range(20)})
    pando.mkdir(folder + "/sub/folder")
    pando.symlink("5", folder + "/link")
    pando.symlink("nowhere", folder + "/dangling")
    infos = {info["name"]: info for info in pando.ls(folder, detail=True)}
    assert infos[folder + "/7"]["size"] == 7 and infos[folder + "/7"]["type"] == "file"
    assert infos[folder + "/sub"]["type"] == "directory"
    assert infos[folder + "/link"]["islink"] and infos[folder + "/link"]["destination"] == "5"
    assert infos[folder + "/link"]["size"] == 5
    assert infos[folder + "/dangling"]["islink"] and not pando.exists(folder + "/dangling")
    assert pando.lexists(folder + "/dangling")
    assert pando.ls(folder, detail=False) == sorted(infos)
    assert pando.ls(folder + "/7", detail=False) == [folder + "/7"]
    assert pando.info(folder + "/7") == infos[folder + "/7"]
    assert len(pando.find(folder)) == 21 + 1 and pando.du(folder) == sum(range(20)) + 5 + 7
    assert pando.glob(folder + "/1?") == [f"{folder}/{number}" for number in range(10, 20)]
    assert abs((pando.modified(folder + "/7") - pando.created(folder + "/7")).total_seconds()) < 60
    key = pando.ukey(folder + "/7")
    assert pando.ukey(folder + "/7") == key
    pando.touch(folder + "/7", truncate=False)
    assert pando.ukey(folder + "/7") != key and pando.size(folder + "/7") == 7
    pando.touch(folder + "/7")
    assert pando.size(folder + "/7") == 0
    for missing in [folder + "/none", folder + "/7/x"]:
        with pytest.raises((FileNotFoundError, NotADirectoryError)):
            pando.info(missing)
    with pytest.raises(FileNotFoundError):
        pando.ls(folder + "/none")


def test_many_at_once(pando, folder):
    files = {f"{folder}/{number}": os.urandom(50) for number in range(100)}
    pando.pipe(files)
    assert pando.cat(list(files)) == files
    assert pando.cat(folder, recursive=True) == files
    assert pando.cat(folder + "/7") == files[folder + "/7"]
    some = pando.cat([folder + "/1", folder + "/none"], on_error="return")
    assert some[folder + "/1"] == files[folder + "/1"] and isinstance(some[folder + "/none"], FileNotFoundError)
    assert list(pando.cat([folder + "/1", folder + "/none"], on_error="omit")) == [folder + "/1"]
    with pytest.raises(FileNotFoundError):
        pando.cat([folder + "/1", folder + "/none"])
    data = files[folder + "/3"]
    for start, end in [(None, None), (3, None), (None, 7), (3, 7), (-5, None), (-5, -2), (2, -2), (10, 5), (45, 99)]:
        assert pando.cat_file(folder + "/3", start, end) == data[start:end], (start, end)
    assert pando.cat_ranges([folder + "/3"] * 2, [0, 5], [5, 9]) == [data[:5], data[5:9]]
    assert pando.head(folder + "/3", 4) == data[:4] and pando.tail(folder + "/3", 4) == data[-4:]
    mapper = pando.get_mapper(folder)
    assert mapper["3"] == data and len(mapper) == 100


def test_transactions(pando, folder, fs):
    with pando.transaction:
        with pando.open(folder + "/new", "wb") as file:
            file.write(b"data")
        pando.pipe_file(folder + "/other", b"other")
        assert not pando.exists(folder + "/new") and not pando.exists(folder + "/other")
    assert pando.cat_file(folder + "/new") == b"data" and pando.cat_file(folder + "/other") == b"other"
    with pytest.raises(RuntimeError, match="on purpose"):
        with pando.transaction:
            pando.pipe_file(folder + "/new", b"never")
            raise RuntimeError("on purpose")
    assert pando.cat_file(folder + "/new") == b"data"
    assert sorted(fs.listdir(folder)) == ["new", "other"], "nothing is left of what was not committed"


def test_moves_and_removals(pando, folder):
    pando.pipe_file(folder + "/x", b"x")
    number = pando.info(folder + "/x")["ino"]
    pando.mkdir(folder + "/a/b")
    pando.mv(folder + "/x", folder + "/a")
    assert pando.info(folder + "/a/x")["ino"] == number, "it is renamed, not copied"
    pando.mv(folder + "/a", folder + "/c")
    assert pando.exists(folder + "/c/b") and not pando.exists(folder + "/a")
    with pytest.raises(FileNotFoundError):
        pando.mv(folder + "/none", folder + "/y")
    with pytest.raises(IsADirectoryError):
        pando.rm(folder + "/c")
    with pytest.raises(FileExistsError):
        pando.makedirs(folder + "/c")
    with pytest.raises(FileExistsError):
        pando.mkdir(folder + "/c")
    pando.symlink("c", folder + "/link")
    pando.rm(folder + "/link", recursive=True)
    pando.rm(folder + "/c", recursive=True)
    assert pando.ls(folder) == []


def test_compression_and_pickles(pando, cluster, folder):
    with fsspec.open(f"pandofs://{folder}/x.gz", "wt", compression="infer", cluster=cluster) as file:
        file.write("text " * 1000)
    assert gzip.decompress(pando.cat_file(folder + "/x.gz")) == b"text " * 1000
    other = pickle.loads(pickle.dumps(pando))
    assert other.cat_file(folder + "/x.gz") == pando.cat_file(folder + "/x.gz")
    assert PandoFileSystem.from_json(pando.to_json()) == pando
