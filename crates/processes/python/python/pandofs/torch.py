"""A data set for PyTorch: folders of many small files, read a batch at a time.

    data = pandofs.torch.Folder("/var/tmp/pando/cluster.json", "/images")
    for contents, labels in torch.utils.data.DataLoader(data, batch_size=256, num_workers=4, shuffle=True):
        ...
"""

from __future__ import annotations

import os
from array import array
from typing import Any, Callable, Generic, List, Optional, Sequence, Tuple, TypeVar, Union

from torch.utils.data import Dataset

from pandofs._client import DEFAULT_THREADS, Client
from pandofs._types import StrOrBytesPath

_T = TypeVar("_T")


class Folder(Dataset, Generic[_T]):  # type: ignore[misc]
    """The files of a folder and of those below it, in the order of their paths.

    An item is `transform(contents)`, and `contents` as bytes without it; with `labels` it is a pair of that and of the number
    in `classes` of the folder, directly in `root`, that the file is in or below. `extensions` (`(".jpg", ".png")`) says which
    files count. A loader's workers each have a connection of their own, and read what a batch needs with so many `threads`.
    """

    def __init__(
        self,
        client: Union[Client, StrOrBytesPath],
        root: str,
        *,
        labels: bool = True,
        transform: Optional[Callable[[bytes], _T]] = None,
        extensions: Optional[Sequence[str]] = None,
        threads: int = DEFAULT_THREADS,
    ) -> None:
        self.client = client if isinstance(client, Client) else Client(client)
        self.root = root
        self.transform = transform
        self.threads = threads
        #: The names of the folders in `root`, sorted; none without labels.
        self.classes: List[str] = []
        if labels:
            self.classes = sorted(entry.name for entry in self.client.scandir(root) if entry.is_dir())
        numbers = {name: number for number, name in enumerate(self.classes)}
        # In three pieces of memory, which workers share as long as nobody writes to them: as objects of their own a million
        # paths would be copied into each worker.
        self._ends = array("Q")
        self._labels = array("q")
        paths = []
        for name, label in numbers.items() if labels else (("", -1),):
            suffixes = None if extensions is None else tuple(extensions)
            for path in self._files(os.path.join(root, name) if name else root, suffixes):
                paths.append(os.fsencode(os.path.relpath(path, root)))
                self._labels.append(label)
                self._ends.append(len(paths[-1]) + (self._ends[-1] if self._ends else 0))
        self._paths = b"".join(paths)

    def _files(self, folder: str, extensions: Optional[Tuple[str, ...]]) -> List[str]:
        found = []
        for directory, _, names in self.client.walk(folder, onerror=_raise):
            found += [os.path.join(directory, name) for name in names if extensions is None or name.endswith(extensions)]
        return sorted(found)

    def __len__(self) -> int:
        return len(self._ends)

    def path(self, index: int) -> str:
        """The path of an item's file."""
        if not -len(self) <= index < len(self):
            raise IndexError(f"item {index} of {len(self)}")
        index %= len(self)
        start = self._ends[index - 1] if index else 0
        return os.path.join(self.root, os.fsdecode(self._paths[start : self._ends[index]]))

    def __getitem__(self, index: int) -> Any:
        return self.__getitems__([index])[0]

    def __getitems__(self, indices: Sequence[int]) -> List[Any]:
        """A batch, which loaders ask for at once."""
        contents = self.client.read_many([self.path(index) for index in indices], threads=self.threads)
        made = contents if self.transform is None else [self.transform(one) for one in contents]
        if not self.classes:
            return made
        return [(one, self._labels[index]) for one, index in zip(made, indices)]


def _raise(error: OSError) -> None:
    raise error
