"""Measures how fast many small files are read: by PandoFS's data set, by a loop over its mount, by one over a local folder.

small_files_rate.py --cluster MAP --mount FOLDER --local FOLDER [--files N] [--bytes N] [--workers N] [--batch N] [--rounds N]

It makes the same files on both, reads them in random order by turns, prints files a second (the median of the rounds, and the
least and the most), and removes them. `--plain` does without PyTorch: the same batches in this process alone.
"""

import argparse
import os
import pathlib
import random
import shutil
import statistics
import time
import uuid

import pandofs


class Loop:
    """What people write for a folder that is mounted."""

    def __init__(self, root):
        self.paths = sorted(str(path) for path in pathlib.Path(root).rglob("*") if path.is_file())

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        with open(self.paths[index], "rb") as file:
            return file.read()


class Plain:
    """The batches of `pandofs.torch.Folder`, without PyTorch."""

    def __init__(self, client, root):
        self.client = client
        self.paths = sorted(os.path.join(at, name) for at, _, names in client.walk(root) for name in names)

    def __len__(self):
        return len(self.paths)

    def __getitems__(self, indices):
        return self.client.read_many([self.paths[index] for index in indices])


def read(data, arguments):
    """Reads all, in random order, and says how many files a second."""
    started = time.monotonic()
    if arguments.plain:
        order = random.sample(range(len(data)), len(data))
        sizes = []
        for start in range(0, len(order), arguments.batch):
            indices = order[start : start + arguments.batch]
            many = getattr(data, "__getitems__", None)
            sizes += map(len, many(indices) if many else [data[index] for index in indices])
    else:
        from torch.utils.data import DataLoader

        loader = DataLoader(
            data, batch_size=arguments.batch, shuffle=True, num_workers=arguments.workers, collate_fn=list
        )
        sizes = [len(contents) for batch in loader for contents in batch]
    assert sizes == [arguments.bytes] * arguments.files, "a file was not read whole"
    return len(sizes) / (time.monotonic() - started)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cluster", required=True)
    parser.add_argument("--mount", required=True)
    parser.add_argument("--local", required=True)
    parser.add_argument("--files", type=int, default=20_000)
    parser.add_argument("--bytes", type=int, default=8_192)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plain", action="store_true")
    arguments = parser.parse_args()

    name = f"rate-{uuid.uuid4().hex}"
    local = os.path.join(arguments.local, name)
    client = pandofs.Client(arguments.cluster)
    root = "/" + name
    folders = [f"{number:02}" for number in range(10)]
    names = [f"{folders[number % 10]}/{number:06}" for number in range(arguments.files)]
    contents = [os.urandom(arguments.bytes) for _ in range(100)]
    try:
        for folder in folders:
            client.makedirs(f"{root}/{folder}")
            os.makedirs(f"{local}/{folder}")
        client.create_many([(f"{root}/{path}", contents[place % 100]) for place, path in enumerate(names)])
        for place, path in enumerate(names):
            pathlib.Path(local, path).write_bytes(contents[place % 100])
        if arguments.plain:
            ours = Plain(client, root)
        else:
            from pandofs.torch import Folder

            ours = Folder(client, root, labels=False)
        kinds = {
            "the data set of PandoFS": ours,
            "a loop over its mount": Loop(os.path.join(arguments.mount, name)),
            "a loop over the local folder": Loop(local),
        }
        rates = {kind: [] for kind in kinds}
        for _ in range(arguments.rounds):
            for kind, data in kinds.items():
                rates[kind].append(read(data, arguments))
        for kind, found in rates.items():
            print(f"{kind}: {statistics.median(found):.0f} files/s ({min(found):.0f} to {max(found):.0f})")
    finally:
        shutil.rmtree(local, ignore_errors=True)
        if client.exists(root):
            client.rmtree(root)
        client.close()


if __name__ == "__main__":
    main()
