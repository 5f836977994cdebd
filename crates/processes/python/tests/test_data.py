"""Libraries that read and write data by fsspec."""

import dask
import dask.dataframe
import fsspec
import numpy
import pandas
import pyarrow
import pyarrow.dataset
import pyarrow.fs
import pyarrow.parquet
import pytest
import zarr


@pytest.fixture
def options(cluster):
    return {"cluster": cluster}


@pytest.fixture
def url(folder):
    return f"pandofs://{folder}"


@pytest.fixture
def frame():
    numbers = numpy.arange(10_000)
    return pandas.DataFrame({"key": numbers % 7, "value": numbers * 0.5, "name": [f"name {n}" for n in numbers]})


def test_pandas(url, options, frame):
    frame.to_csv(url + "/x.csv.gz", index=False, storage_options=options)
    pandas.testing.assert_frame_equal(pandas.read_csv(url + "/x.csv.gz", storage_options=options), frame)
    frame.to_json(url + "/x.json", orient="records", lines=True, storage_options=options)
    found = pandas.read_json(url + "/x.json", orient="records", lines=True, storage_options=options)
    assert found["value"].sum() == frame["value"].sum()
    frame.to_parquet(url + "/x.parquet", storage_options=options)
    columns = pandas.read_parquet(url + "/x.parquet", columns=["key"], storage_options=options)
    assert list(columns["key"]) == list(frame["key"])
    frame.to_pickle(url + "/x.pickle", storage_options=options)
    pandas.testing.assert_frame_equal(pandas.read_pickle(url + "/x.pickle", storage_options=options), frame)
    with pytest.raises(FileNotFoundError):
        pandas.read_csv(url + "/none.csv", storage_options=options)


def test_pyarrow_parquet_data_sets(folder, options, frame):
    fs = pyarrow.fs.PyFileSystem(pyarrow.fs.FSSpecHandler(fsspec.filesystem("pandofs", **options)))
    table = pyarrow.Table.from_pandas(frame)
    pyarrow.dataset.write_dataset(
        table, folder + "/set", format="parquet", filesystem=fs, partitioning=["key"], partitioning_flavor="hive",
        max_rows_per_file=500, max_rows_per_group=500,
    )
    data = pyarrow.dataset.dataset(folder + "/set", format="parquet", filesystem=fs, partitioning="hive")
    assert len(data.files) >= 7 * 3
    assert data.count_rows() == len(frame)
    found = data.to_table(filter=pyarrow.dataset.field("key") == 3, columns=["value"])
    assert sorted(found["value"].to_pylist()) == sorted(frame[frame["key"] == 3]["value"])
    pyarrow.parquet.write_table(table, folder + "/one.parquet", filesystem=fs, row_group_size=1000)
    with fs.open_input_file(folder + "/one.parquet") as file:
        parquet = pyarrow.parquet.ParquetFile(file)
        assert parquet.num_row_groups == 10
        assert parquet.read_row_group(4)["value"][0].as_py() == 2000.0
    assert fs.get_file_info(folder + "/one.parquet").size == fs.open_input_file(folder + "/one.parquet").size()
    assert fs.get_file_info(folder + "/none").type == pyarrow.fs.FileType.NotFound


@pytest.mark.parametrize("version", [2, 3])
def test_zarr(url, options, version):
    # It makes no folders itself.
    options = {**options, "auto_mkdir": True}
    values = numpy.random.default_rng(7).random((200, 300))
    store = zarr.storage.FsspecStore.from_url(url + "/array.zarr", storage_options=options)
    group = zarr.create_group(store, zarr_format=version)
    array = group.create_array("values", shape=values.shape, chunks=(50, 50), dtype=values.dtype)
    array[:] = values
    array.attrs["unit"] = "m"
    array[10:20, 10:20] = 0
    store = zarr.storage.FsspecStore.from_url(url + "/array.zarr", storage_options=options, read_only=True)
    found = zarr.open_group(store, mode="r")["values"]
    values[10:20, 10:20] = 0
    assert found.attrs["unit"] == "m"
    numpy.testing.assert_array_equal(found[:], values)
    numpy.testing.assert_array_equal(found[77:123, 1:2], values[77:123, 1:2])


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_dask(url, options, frame, scheduler):
    with dask.config.set(scheduler=scheduler, num_workers=2):
        data = dask.dataframe.from_pandas(frame, npartitions=5)
        data.to_parquet(url + "/set", storage_options=options)
        found = dask.dataframe.read_parquet(url + "/set", storage_options=options)
        assert found.npartitions == 5
        sums = found.groupby("key")["value"].sum().compute().sort_index()
        assert list(sums) == list(frame.groupby("key")["value"].sum())
        data.to_csv(url + "/csv/*.csv", index=False, storage_options=options)
        lines = dask.dataframe.read_csv(url + "/csv/*.csv", storage_options=options)
        assert lines["value"].sum().compute() == frame["value"].sum()
