"""Files, directories and batches of small files of PandoFS, a parallel file system, without a mount.

    import pandofs

    with pandofs.Client("/var/tmp/pando/cluster.json") as fs:
        fs.makedirs("/results", exist_ok=True)
        with fs.open("/results/first", "w") as file:
            file.write("47000 trunks")

`pandofs.fsspec` has a file system for fsspec, and `pandofs.torch` a data set for PyTorch.
"""

from pandofs._client import Client
from pandofs._directory import DirEntry, Scandir
from pandofs._file import fsync
from pandofs._pandofs import VERSION as __version__

__all__ = ["Client", "DirEntry", "Scandir", "fsync", "__version__"]
