"""PyTorch: folders of many small files, in batches and workers, and checkpoints through fsspec."""

import os
import pickle

import pandofs
import pytest
import torch
import torch.distributed
import torch.distributed.checkpoint as checkpoint
import torch.multiprocessing
from torch.distributed.checkpoint.fsspec_filesystem import FsspecReader, FsspecWriter
from torch.utils.data import DataLoader

from pandofs.torch import Folder


@pytest.fixture
def images(fs, folder):
    """Files in two classes, one of them with a folder of its own."""
    files = {}
    for number in range(200):
        place = ["cats", "dogs/old", "dogs"][number % 3]
        files[f"{folder}/{place}/{number:03}.bin"] = bytes([number] * (number + 1))
    for place in ["cats", "dogs/old"]:
        fs.makedirs(f"{folder}/{place}")
    fs.create_many(files)
    fs.create_many({f"{folder}/cats/read.me": b"no image"})
    return files


def first(contents):
    return torch.tensor([contents[0], len(contents)])


def test_items(fs, folder, images):
    data = Folder(fs, folder, extensions=[".bin"])
    assert len(data) == 200 and data.classes == ["cats", "dogs"]
    found = {data.path(place): data[place] for place in range(len(data))}
    assert {path: contents for path, (contents, _) in found.items()} == images
    assert all(label == ("/dogs/" in path) for path, (_, label) in found.items())
    assert data[-1] == data[199]
    for index in [200, -201]:
        with pytest.raises(IndexError):
            data[index]
    assert len(Folder(fs, folder)) == 201
    plain = Folder(fs, folder, labels=False, extensions=(".bin",))
    assert [plain.path(place) for place in range(3)] == sorted(images)[:3] and plain[0] == images[sorted(images)[0]]
    assert pickle.loads(pickle.dumps(data))[7] == data[7]
    with pytest.raises(FileNotFoundError):
        Folder(fs, folder + "/none")


@pytest.mark.parametrize("workers, method", [(0, None), (2, "fork"), (2, "spawn")])
def test_loaders(cluster, folder, images, workers, method):
    data = Folder(cluster, folder, extensions=[".bin"], transform=first)
    loader = DataLoader(
        data,
        batch_size=32,
        shuffle=True,
        num_workers=workers,
        persistent_workers=workers > 0,
        multiprocessing_context=method if workers else None,
    )
    for _ in range(2):
        seen = []
        for contents, labels in loader:
            assert contents.shape[1] == 2 and len(labels) == len(contents) <= 32
            seen += [(int(byte), int(size), int(label)) for (byte, size), label in zip(contents, labels)]
        assert sorted(seen) == [(number, number + 1, int(number % 3 != 0)) for number in range(200)]


def test_a_file_that_is_gone(fs, folder, images):
    data = Folder(fs, folder, extensions=[".bin"])
    fs.remove(data.path(5))
    with pytest.raises(FileNotFoundError) as caught:
        list(DataLoader(data, batch_size=8, collate_fn=list))
    assert caught.value.filename == data.path(5)


def test_checkpoints(cluster, folder):
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    state = {"model": model.state_dict(), "step": torch.tensor(47)}
    url = f"pandofs://{folder}/checkpoint"
    checkpoint.save(state, storage_writer=FsspecWriter(url, cluster=cluster), no_dist=True)
    found = {
        "model": {name: torch.zeros_like(value) for name, value in model.state_dict().items()},
        "step": torch.tensor(0),
    }
    checkpoint.load(found, storage_reader=FsspecReader(url, cluster=cluster), no_dist=True)
    assert int(found["step"]) == 47
    for name, value in model.state_dict().items():
        assert torch.equal(found["model"][name], value), name
    with pandofs.Client(cluster) as client:
        assert ".metadata" in client.listdir(folder + "/checkpoint")


def take_part(rank, cluster, url, meeting):
    """One of two processes that write a checkpoint and read it."""
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    state = {"all": torch.arange(10), f"of-{rank}": torch.full((1000,), float(rank))}
    checkpoint.save(state, storage_writer=FsspecWriter(url, cluster=cluster))
    # What the other one had.
    found = {"all": torch.zeros(10, dtype=torch.int64), f"of-{1 - rank}": torch.full((1000,), 9.0)}
    checkpoint.load(found, storage_reader=FsspecReader(url, cluster=cluster))
    assert torch.equal(found["all"], torch.arange(10))
    assert torch.equal(found[f"of-{1 - rank}"], torch.full((1000,), 1.0 - rank))
    torch.distributed.destroy_process_group()


def test_checkpoints_of_several_processes(cluster, folder, fs, tmp_path):
    arguments = (cluster, f"pandofs://{folder}/checkpoint", str(tmp_path / "meeting"))
    torch.multiprocessing.spawn(take_part, arguments, nprocs=2)
    written = [name for name in fs.listdir(folder + "/checkpoint") if name.endswith(".distcp")]
    assert len(written) == 2
