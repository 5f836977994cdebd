"""Names, attributes and directories: what `os` does with the same calls on a local directory."""

import errno
import os
import pathlib
import stat

import pandofs
import pytest


def failure(call, *arguments, **keywords):
    """Type, number and names of the paths of what is raised."""
    try:
        call(*arguments, **keywords)
    except OSError as error:
        paths = [os.path.basename(os.fsdecode(path)) for path in (error.filename, error.filename2) if path is not None]
        return type(error), error.errno, error.strerror, paths
    return None


def tree(mkdir, opener, symlink, root):
    for path in ["a", "a/b", "a/b/c", "empty"]:
        mkdir(f"{root}/{path}")
    for path in ["a/one", "a/b/two", "a/b/c/three", "four"]:
        with opener(f"{root}/{path}", "w") as file:
            file.write(path)
    symlink("b", f"{root}/a/link")
    symlink("nowhere", f"{root}/dangling")


@pytest.fixture
def both(fs, folder, tmp_path):
    """The same tree twice: here, and in a local directory."""
    tree(fs.mkdir, fs.open, fs.symlink, folder)
    tree(os.mkdir, open, os.symlink, str(tmp_path))
    return folder, str(tmp_path)


def test_errors_are_those_of_os(fs, both):
    ours, own = both
    for name, arguments in [
        ("stat", ["none"]),
        ("stat", ["four/x"]),
        ("stat", ["dangling"]),
        ("stat", ["x" * 300]),
        ("stat", ["four/"]),
        ("mkdir", ["a"]),
        ("mkdir", ["none/x"]),
        ("mkdir", ["a/."]),
        ("rmdir", ["a"]),
        ("rmdir", ["four"]),
        ("rmdir", ["none"]),
        ("remove", ["a"]),
        ("remove", ["none"]),
        ("rename", ["none", "x"]),
        ("rename", ["a", "a/b/x"]),
        ("rename", ["four", "empty"]),
        ("rename", ["a", "four"]),
        ("rename", ["empty", "a"]),
        ("link", ["a", "x"]),
        ("link", ["none", "x"]),
        ("link", ["four", "a/one"]),
        ("readlink", ["four"]),
        ("listdir", ["four"]),
        ("listdir", ["none"]),
        ("scandir", ["none"]),
        ("makedirs", ["a/b"]),
        ("makedirs", ["four/x"]),
    ]:
        wanted = failure(getattr(os, name), *[f"{own}/{path}" for path in arguments])
        found = failure(getattr(fs, name), *[f"{ours}/{path}" for path in arguments])
        assert wanted is not None
        assert found == wanted, (name, arguments)
    for path, mode in [("none", "r"), ("a", "r"), ("a", "w"), ("four", "x"), ("none/x", "w"), ("four/x", "r")]:
        wanted = failure(open, f"{own}/{path}", mode)
        assert failure(fs.open, f"{ours}/{path}", mode) == wanted, (path, mode)
    found = failure(fs.symlink, "target", ours + "/four")
    assert found == failure(os.symlink, "target", own + "/four")
    assert failure(fs.truncate, ours + "/a", 0)[1] == errno.EISDIR
    assert failure(fs.setxattr, ours + "/four", "user.x", b"", os.XATTR_REPLACE)[1] == errno.ENODATA
    assert failure(fs.stat, "")[1] == errno.ENOENT


def test_arguments_of_the_wrong_kind(fs, folder):
    for call in [fs.stat, fs.mkdir, fs.remove, fs.listdir, fs.open, fs.readlink]:
        for path in [None, 7, 1.5, [], object()]:
            with pytest.raises(TypeError):
                call(path)
        with pytest.raises(ValueError):
            call(folder + "/null\0byte")
    with pytest.raises(TypeError):
        fs.setxattr(folder, "user.x", "text")
    with pytest.raises((OverflowError, ValueError)):
        fs.truncate(folder + "/x", -1)
    with pytest.raises(OverflowError):
        fs.chmod(folder, 2**40)


def test_paths_are_text_bytes_or_objects(fs, folder):
    name = b"not text: \xff"
    fs.mkdir(folder.encode() + b"/" + name)
    assert fs.listdir(folder) == [os.fsdecode(name)]
    assert fs.listdir(folder.encode()) == [name]
    assert fs.isdir(folder + "/" + os.fsdecode(name))
    with fs.scandir(pathlib.PurePosixPath(folder)) as entries:
        (entry,) = entries
    assert entry.path == f"{folder}/{os.fsdecode(name)}" == os.fspath(entry)
    assert fs.stat(entry).st_ino == entry.inode()
    assert fs.stat(folder.lstrip("/")) == fs.stat(folder), "relative paths begin at the root"
    with pytest.raises(FileNotFoundError) as caught:
        fs.stat(folder.encode() + b"/none")
    assert caught.value.filename == folder.encode() + b"/none"


def test_stat(fs, folder, mounted):
    path = folder + "/file"
    with fs.open(path, "w") as file:
        file.write("12345")
    fs.utime(path, ns=(1_000_000_001, -1_500_000_000))
    fs.chmod(path, 0o4711)
    fs.chown(path, 11, -1)
    fs.chown(path, -1, 22)
    fs.chmod(path, 0o4711)
    fs.link(path, folder + "/other")
    found, on_mount = fs.stat(path), os.stat(mounted / "file")
    for field in ["st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_atime_ns", "st_mtime_ns",
                  "st_ctime_ns", "st_mtime", "st_blocks", "st_rdev"]:
        assert getattr(found, field) == getattr(on_mount, field), field
    assert (found.st_uid, found.st_gid, found.st_nlink, found.st_size) == (11, 22, 2, 5)
    assert (found.st_mtime_ns, found.st_mtime, found[8]) == (-1_500_000_000, -1.5, -2)
    assert stat.filemode(found.st_mode) == "-rws--x--x"
    fs.symlink("file", folder + "/link")
    assert fs.stat(folder + "/link") == fs.stat(path)
    assert stat.S_ISLNK(fs.lstat(folder + "/link").st_mode)
    assert fs.lstat(folder + "/link") == fs.stat(folder + "/link", follow_symlinks=False)
    fs.utime(folder + "/link", (5, 6), follow_symlinks=False)
    assert fs.lstat(folder + "/link").st_mtime == 6 and fs.stat(path).st_mtime == -1.5
    fs.utime(path)
    assert abs(fs.stat(path).st_mtime - on_mount.st_ctime) < 3600
    with pytest.raises(ValueError):
        fs.utime(path, (1, 1), ns=(1, 1))
    fs.truncate(path, 2)
    assert (mounted / "file").read_text() == "12"
    room = fs.statvfs()
    assert room.f_blocks >= room.f_bfree >= room.f_bavail > 0
    assert room.f_frsize * room.f_blocks == os.statvfs(mounted).f_frsize * os.statvfs(mounted).f_blocks


def test_rights_are_the_callers(fs, folder, cluster):
    fs.chmod(folder, 0o700)
    fs.open(folder + "/mine", "w").close()
    with pandofs.Client(cluster, uid=12345, gid=12345, groups=[12346]) as other:
        for use in [lambda: other.stat(folder + "/mine"), lambda: other.listdir(folder), lambda: other.mkdir(folder + "/x")]:
            with pytest.raises(PermissionError):
                use()
        assert not other.access(folder, os.R_OK) and other.access(folder, os.F_OK)
        assert other.read_many([folder + "/mine"], return_errors=True)[0].errno == errno.EACCES
        fs.chmod(folder, 0o755)
        fs.chmod(folder + "/mine", 0o600)
        assert other.stat(folder + "/mine").st_size == 0
        assert other.read_many([folder + "/mine"], return_errors=True)[0].errno == errno.EACCES
        fs.chown(folder + "/mine", -1, 12346)
        fs.chmod(folder + "/mine", 0o640)
        assert other.read_many([folder + "/mine"]) == [b""]
        with pytest.raises(PermissionError):
            other.open(folder + "/mine", "a")


def test_names(fs, folder):
    fs.makedirs(folder + "/a/b/c")
    fs.makedirs(folder + "/a/b/c", exist_ok=True)
    fs.makedirs(folder + "/a/b/d/", 0o700)
    assert fs.stat(folder + "/a/b/d").st_mode & 0o777 == 0o700
    fs.open(folder + "/x", "w").close()
    fs.open(folder + "/y", "w").close()
    number = fs.stat(folder + "/x").st_ino
    with pytest.raises(FileExistsError):
        fs.rename(folder + "/x", folder + "/y", replace=False)
    fs.rename(folder + "/x", folder + "/a", exchange=True)
    assert fs.isdir(folder + "/x") and fs.stat(folder + "/a").st_ino == number
    fs.replace(folder + "/a", folder + "/y")
    assert fs.stat(folder + "/y").st_ino == number
    fs.symlink("x", folder + "/link")
    assert fs.readlink(folder + "/link") == "x" and fs.readlink(folder.encode() + b"/link") == b"x"
    assert fs.islink(folder + "/link") and fs.isdir(folder + "/link") and not fs.isfile(folder + "/link")
    fs.symlink("round", folder + "/round")
    assert not fs.exists(folder + "/round") and not fs.exists(folder + "/y/z") and not fs.exists(folder + "/none")
    fs.unlink(folder + "/y")
    fs.rmdir(folder + "/x/b/c")
    with pytest.raises(OSError) as caught:
        fs.rmdir(folder + "/x/b")
    assert caught.value.errno == errno.ENOTEMPTY


def test_trees_are_removed_and_what_links_lead_to_is_not(fs, folder):
    tree(fs.mkdir, fs.open, fs.symlink, folder)
    fs.mkdir(folder + "/kept")
    fs.open(folder + "/kept/file", "w").close()
    fs.symlink("../kept", folder + "/a/to-kept")
    fs.symlink("kept", folder + "/link")
    for path in ["/link", "/four", "/none"]:
        with pytest.raises(OSError):
            fs.rmtree(folder + path)
    fs.rmtree(folder + "/a")
    assert sorted(fs.listdir(folder)) == ["dangling", "empty", "four", "kept", "link"]
    assert fs.listdir(folder + "/kept") == ["file"]


def test_extended_attributes(fs, folder, mounted):
    fs.setxattr(folder, "user.colour", b"green")
    assert fs.getxattr(folder, "user.colour") == b"green" == os.getxattr(mounted, "user.colour")
    with pytest.raises(FileExistsError):
        fs.setxattr(folder, b"user.colour", b"", os.XATTR_CREATE)
    assert "user.colour" in fs.listxattr(folder)
    fs.removexattr(folder, "user.colour")
    with pytest.raises(OSError) as caught:
        fs.getxattr(folder, "user.colour")
    assert (caught.value.errno, caught.value.filename) == (errno.ENODATA, folder)
    fs.setxattr(folder, "user.pandofs.layout", b"unit=64K count=2")
    assert b"65536" in fs.getxattr(folder, "user.pandofs.layout") or b"64K" in fs.getxattr(folder, "user.pandofs.layout")


def entries(scandir, root):
    found = {}
    with scandir(root) as iterator:
        for entry in iterator:
            try:
                size = entry.stat().st_size if entry.is_file() else None
            except FileNotFoundError:
                size = "none"
            kinds = entry.is_dir(), entry.is_file(), entry.is_symlink(), entry.is_dir(follow_symlinks=False)
            found[entry.name] = kinds, size, entry.stat(follow_symlinks=False).st_mode & 0o170000
            assert entry.path == os.path.join(root, entry.name) and entry.inode() > 0
    return found


def test_scandir_is_that_of_os(fs, both):
    ours, own = both
    for path in ["", "/a", "/a/b", "/empty", "/"]:
        assert entries(fs.scandir, ours + path) == entries(os.scandir, own + path)
    iterator = fs.scandir(ours)
    next(iterator)
    iterator.close()
    assert list(iterator) == []


def test_walk_is_that_of_os(fs, both):
    ours, own = both

    def sorted_walk(walk, root, **options):
        return [
            (path[len(root):], sorted(dirs), sorted(files)) for path, dirs, files in sorted(walk(root, **options))
        ]

    for options in [{}, {"topdown": False}, {"followlinks": True}]:
        assert sorted_walk(fs.walk, ours, **options) == sorted_walk(os.walk, own, **options), options

    def pruned(walk, root):
        found = []
        for path, dirs, _ in walk(root):
            dirs.sort()
            if "b" in dirs:
                dirs.remove("b")
            found.append(path[len(root):])
        return found

    assert pruned(fs.walk, ours) == pruned(os.walk, own)
    order = [path for path, _, _ in fs.walk(ours, topdown=False)]
    assert order.index(ours + "/a/b/c") < order.index(ours + "/a/b") < order.index(ours + "/a") < order.index(ours)
    seen = []
    assert list(fs.walk(ours + "/none", onerror=seen.append)) == []
    assert isinstance(seen[0], FileNotFoundError)


def test_large_directories_are_listed_whole(fs, folder):
    names = [f"file-{number:05}" for number in range(3000)]
    fs.create_many([(f"{folder}/{name}", b"") for name in names])
    assert sorted(fs.listdir(folder)) == names
    fs.rmtree(folder)
    assert not fs.exists(folder)
    fs.mkdir(folder)
