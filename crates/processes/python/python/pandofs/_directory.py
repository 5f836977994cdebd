"""Listings of directories, with attributes: `os.scandir()` and `os.walk()` of a `Client`."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING, Any, Callable, Iterator, List, Optional, Tuple, Type

from pandofs._pandofs import Listing
from pandofs._types import Attributes, StrOrBytesPath, stat_result

if TYPE_CHECKING:
    from pandofs._client import Client


class DirEntry:
    """An entry of a directory, as `os.DirEntry`. Its attributes came along with its name."""

    __slots__ = ("_client", "_kind", "_number", "_attributes", "name", "path")

    def __init__(
        self, client: Client, directory: Any, name: Any, number: int, kind: int, attributes: Optional[Attributes]
    ) -> None:
        self._client = client
        self._number = number
        self._kind = kind
        self._attributes = attributes
        #: The name in the directory.
        self.name = name
        #: The directory as it was given, and the name.
        self.path = os.path.join(directory, name)

    def __fspath__(self) -> Any:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"

    def inode(self) -> int:
        """The number of the inode."""
        return self._number

    def is_symlink(self) -> bool:
        """Whether it is a symbolic link."""
        return stat.S_ISLNK(self._kind)

    def is_junction(self) -> bool:
        """False: there are none."""
        return False

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a directory, or a symbolic link to one."""
        return stat.S_ISDIR(self._target(follow_symlinks))

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        """Whether it is a regular file, or a symbolic link to one."""
        return stat.S_ISREG(self._target(follow_symlinks))

    def _target(self, follow_symlinks: bool) -> int:
        if not follow_symlinks or not self.is_symlink():
            return self._kind
        try:
            return self.stat().st_mode
        except FileNotFoundError:
            return 0

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Attributes: those of the time of the listing, unless a link has to be followed."""
        if self._attributes is None or (follow_symlinks and self.is_symlink()):
            return self._client.stat(self.path, follow_symlinks=follow_symlinks)
        return stat_result(self._attributes)


class Scandir:
    """What `Client.scandir()` answers: entries, as they are asked for."""

    def __init__(self, client: Client, listing: Listing, path: StrOrBytesPath) -> None:
        self._client = client
        self._listing: Optional[Listing] = listing
        self._path = os.fspath(path)
        self._page: Iterator[Tuple[bytes, int, int, Optional[Attributes]]] = iter(())

    def __iter__(self) -> Scandir:
        return self

    def __next__(self) -> DirEntry:
        if self._listing is None:
            raise StopIteration
        for name, number, kind, attributes in self._page:
            as_given = name if isinstance(self._path, bytes) else os.fsdecode(name)
            return DirEntry(self._client, self._path, as_given, number, kind, attributes)
        page = self._listing.page()
        if not page:
            self.close()
            raise StopIteration
        self._page = iter(page)
        return self.__next__()

    def close(self) -> None:
        """Ends it early."""
        if self._listing is not None:
            self._listing.close()
            self._listing = None

    def __enter__(self) -> Scandir:
        return self

    def __exit__(self, kind: Optional[Type[BaseException]], error: Any, trace: Any) -> None:
        self.close()


def _is_dir(entry: DirEntry) -> bool:
    """Whether it can be gone into, for walks: not where a link goes round."""
    try:
        return entry.is_dir()
    except OSError:
        return False


def walk(
    client: Client,
    top: StrOrBytesPath,
    topdown: bool,
    onerror: Optional[Callable[[OSError], object]],
    followlinks: bool,
) -> Iterator[Tuple[Any, List[Any], List[Any]]]:
    """As `os.walk()`. What is still to be done is a list, so that trees may be of any depth."""
    to_do: List[Any] = [os.fspath(top)]
    while to_do:
        at = to_do.pop()
        if isinstance(at, tuple):
            yield at
            continue
        directories: List[Any] = []
        others: List[Any] = []
        into: List[Any] = []
        links = set()
        try:
            with client.scandir(at) as entries:
                for entry in entries:
                    if not _is_dir(entry):
                        others.append(entry.name)
                        continue
                    directories.append(entry.name)
                    if entry.is_symlink():
                        links.add(entry.name)
                    if followlinks or not entry.is_symlink():
                        into.append(entry.path)
        except OSError as error:
            if onerror is not None:
                onerror(error)
            continue
        if topdown:
            listed = set(directories)
            yield at, directories, others
            for name in reversed(directories):
                path = os.path.join(at, name)
                # Who walks may have added names.
                is_link = name in links if name in listed else client.islink(path)
                if followlinks or not is_link:
                    to_do.append(path)
        else:
            to_do.append((at, directories, others))
            to_do.extend(reversed(into))
