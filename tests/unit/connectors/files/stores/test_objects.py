"""Objects on real servers: SeaweedFS (S3), fake-gcs-server (Google Cloud Storage), Azurite (Azure), and HDFS."""

from __future__ import annotations

import bz2
import gc
import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import hdfs_native
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from fencepost import ConfigError, DataError, RetriableError, SourceBatch
from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.source import SourceTask
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.content import restart_point
from fencepost.connectors.files.discovery.file_rule import TASK_RULE
from fencepost.connectors.files.discovery.find import Discovery
from fencepost.connectors.files.stores import arrow as arrow_stores
from fencepost.connectors.files.stores import hadoop as hadoop_store
from fencepost.connectors.files.stores.objects import ObjectFile
from fencepost.connectors.files.task import FileSourceTask
from tests.support.azure_store import ACCOUNT, Azurite
from tests.support.hadoop_store import Hdfs
from tests.support.object_store import BUCKET, GoogleStore, ObjectStore, Seaweed
from tests.support.topics import unique
from tests.unit.connectors.files import altering
from tests.unit.connectors.files.content.test_restart_points import Offsets
from tests.unit.connectors.files.discovery.test_additions import Watching
from tests.unit.connectors.files.test_file_source import config, errors_of, tasks
from tests.unit.connectors.support import errors_in, read, read_to_end, start

LINES = [f'{number},"text, {number * 7919 % 10007}"' for number in range(3_000)]
TEXT = "".join(f"{line}\n" for line in LINES).encode()
ROWS = {"format": "csv", "schema": "n INT, t STRING"}


@pytest.fixture(scope="module", params=[Seaweed, GoogleStore, Azurite, Hdfs])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    with request.param(tmp_path_factory.mktemp("objects")) as server:
        yield server


@pytest.fixture
def store(server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return server


@pytest.fixture
def folder() -> str:
    return unique("in")


def _task(url: str, offsets: Offsets, **properties: str) -> SourceTask:
    return start(FileSourceTask(), {**config(url, **properties), "task.files": json.dumps([url])}, offsets)


def _by_batch(url: str, count: int, **properties: str) -> list[Any]:
    """The rows of an object; each batch is read by a new task that starts from the previous batch's offset."""
    offsets, rows = Offsets(), list[Any]()
    while len(rows) < count:
        batch = _task(url, offsets, **properties).poll()
        assert isinstance(batch, SourceBatch)
        rows += read(batch)
        offsets.commit(batch)
    task: Any = _task(url, offsets, **properties)
    assert not task._next_batch()
    assert task.at_end()
    return rows


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_text_is_read_once_from_each_offset_on(store: ObjectStore, folder: str, compress: Any) -> None:
    url = store.put(f"{folder}/größe, 1.csv", compress(b"n,t\n" + TEXT[:-1]))
    rows = _by_batch(url, len(LINES), **ROWS, header="true", batch_bytes="9000")
    assert [row["n"] for row in rows] == list(range(len(LINES)))


@pytest.mark.parametrize("form", ["parquet", "orc"])
def test_tables_are_read_once_from_each_offset_on(store: ObjectStore, folder: str, form: str, tmp_path: Path) -> None:
    table = pa.table({"n": list(range(5_000))})
    if form == "parquet":
        parquet.write_table(table, tmp_path / "rows", row_group_size=700)
    else:
        orc.write_table(table, tmp_path / "rows")
    url = store.put(f"{folder}/rows", (tmp_path / "rows").read_bytes())
    rows = _by_batch(url, 5_000, format=form, batch_bytes="8000")
    assert [row["n"] for row in rows] == list(range(5_000))


def test_a_pattern_finds_objects_as_it_finds_files(store: ObjectStore, folder: str, tmp_path: Path) -> None:
    keys = ["a.csv", "b.csv", "b.txt", "deep/c.csv", "deep/er/d.csv", ".hidden.csv"]
    for key in keys:
        store.put(f"{folder}/{key}", b"1\n")
        (tmp_path / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / key).write_text("1\n")
    for pattern in ("*.csv", "?.*", "**/*.csv", "*/*.csv", "deep/**", "[ab].csv", "none/*"):
        found = Discovery((store.url(f"{folder}/{pattern}"),), ANYWHERE).find()
        local = Discovery((f"{tmp_path}/{pattern}",), ANYWHERE).find()
        assert [url.removeprefix(store.url(f"{folder}/")) for url in found] == [
            path.removeprefix(f"{tmp_path}/") for path in local
        ], pattern


def test_a_missing_bucket_is_an_error_and_not_an_empty_match(store: ObjectStore) -> None:
    pattern = store.url("in/*.csv").replace(BUCKET, "nobucket")
    discovery = Discovery((pattern,), ANYWHERE)
    if pattern == store.url("in/*.csv"):
        # HDFS does not have buckets.
        assert discovery.find() == []
        return
    with pytest.raises(ConfigError, match=r"There is no \w+://nobucket.*: create it, or correct the URL"):
        discovery.find()
    assert Discovery((store.url("none/*.csv"),), ANYWHERE).find() == []


def test_the_objects_of_a_pattern_are_read_to_their_ends(store: ObjectStore, folder: str) -> None:
    store.put(f"{folder}/1.csv", b"1\n2")
    store.put(f"{folder}/2.csv.gz", gzip.compress(b"3\n4\n"))
    pattern = store.url(f"{folder}/*")
    for scheme in (store.scheme, *store.aliases):
        [task] = tasks(config(pattern.replace(f"{store.scheme}://", f"{scheme}://"), format="text"))
        assert read_to_end(task) == ["1", "2", "3", "4"]


def test_an_object_that_was_read_to_its_end_is_not_kept_in_memory(store: ObjectStore, folder: str) -> None:
    url = store.put(f"{folder}/a.csv", b"n,t\n" + TEXT)
    task = _task(url, Offsets(), **ROWS, header="true")
    assert len(read_to_end(task)) == len(LINES)
    left = [found for found in gc.get_objects() if type(found) is ObjectFile and found.url == url]
    assert all(found.closed for found in left)


@pytest.mark.usefixtures("short_waits", "by_rule")
def test_tasks_that_list_objects_themselves_read_each_once(store: ObjectStore, folder: str) -> None:
    for number in range(20):
        store.put(f"{folder}/{number:02}", b"%d\n" % number)
    watching = Watching(store.url(folder))
    watching.look()
    assert all(TASK_RULE in given for given in watching.configs)
    # The connector has not seen this object.
    store.put(f"{folder}/20", b"20\n")
    assert sorted(map(int, watching.read())) == list(range(20))
    watching.look()
    assert sorted(map(int, watching.read())) == list(range(21))
    assert watching.restarted == [0, 1]


@pytest.mark.usefixtures("short_waits", "by_rule")
def test_a_task_that_starts_later_reads_the_objects_that_the_connector_saw(store: ObjectStore, folder: str) -> None:
    for number in range(3):
        store.put(f"{folder}/{number}", b"%d\n" % number)
    watching = Watching(store.url(folder), most=1)
    watching.look()
    store.put(f"{folder}/3", b"3\n")
    store.delete(f"{folder}/1")
    [task] = [start(FileSourceTask(), given, Offsets()) for given in watching.configs]
    assert read(task.poll()) == ["0", "2"]
    assert not task.at_end()


@pytest.mark.parametrize("form", ["text", "parquet"])
def test_an_object_that_was_replaced_is_not_read_on(store: ObjectStore, folder: str, form: str, tmp_path: Path) -> None:
    def data(first: int) -> bytes:
        if form == "text":
            return b"".join(b"%06d\n" % number for number in range(first, first + 2_000))
        parquet.write_table(pa.table({"n": range(first, first + 2_000)}), tmp_path / "rows", row_group_size=500)
        return (tmp_path / "rows").read_bytes()

    url = store.put(f"{folder}/rows", data(0))
    offsets = Offsets()
    batch = _task(url, offsets, format=form, batch_bytes="4000").poll()
    assert isinstance(batch, SourceBatch)
    offsets.commit(batch)
    store.put(f"{folder}/rows", data(1))
    with pytest.raises(DataError, match="was replaced"):
        _task(url, offsets, format=form, batch_bytes="4000").poll()


def test_data_of_an_object_that_was_replaced_meanwhile_is_not_returned(store: ObjectStore, folder: str) -> None:
    url = store.put(f"{folder}/rows.csv", TEXT)
    task = _task(url, Offsets(), **ROWS, batch_bytes="9000")
    assert task.poll() is not None
    store.put(f"{folder}/rows.csv", TEXT.replace(b"1", b"2"))
    with pytest.raises(DataError, match="was replaced"):
        task.poll()


def test_rows_of_a_table_that_was_replaced_before_they_are_read_are_refused(
    store: ObjectStore, folder: str, tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"n": [1, 2]}), tmp_path / "rows")
    url = store.put(f"{folder}/rows", (tmp_path / "rows").read_bytes())
    batch = _task(url, Offsets(), format="parquet").poll()
    parquet.write_table(pa.table({"n": [3, 4]}), tmp_path / "rows")
    store.put(f"{folder}/rows", (tmp_path / "rows").read_bytes())
    with pytest.raises(DataError, match="was replaced"):
        read(batch)


def test_a_poll_continues_at_its_position_after_the_server_was_away(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = store.put(
        f"{folder}/rows.csv.gz", b"".join(gzip.compress(TEXT[at : at + 9_000]) for at in range(0, len(TEXT), 9_000))
    )
    monkeypatch.setattr(restart_point, "RESTART_BYTES", 1)
    task = _task(url, Offsets(), **ROWS, batch_bytes="30000")
    rows: list[int] = []
    while len(rows) < len(LINES):
        rows += [row["n"] for row in read(task.poll())]
        if len(rows) == len(LINES):
            break
        with monkeypatch.context() as away:
            for name, value in store.away().items():
                away.setenv(name, value)
            with pytest.raises(RetriableError):
                task.poll()
    assert rows == list(range(len(LINES)))


def test_a_missing_object_is_refused_by_its_url(store: ObjectStore, folder: str) -> None:
    assert "the object does not exist" in errors_of(files=store.url(f"{folder}/none.csv"), format="text")["files"]


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_an_object_that_was_read_to_its_end_may_go_away(store: ObjectStore, folder: str, compress: Any) -> None:
    url = store.put(f"{folder}/rows.csv", compress(TEXT))
    offsets = Offsets()
    batch = _task(url, offsets, **ROWS).poll()
    assert isinstance(batch, SourceBatch)
    offsets.commit(batch)
    store.delete(f"{folder}/rows.csv")
    task: Any = _task(url, offsets, **ROWS)
    assert not task._next_batch()
    assert task.lag() == 0
    assert task.at_end()


def test_an_object_whose_offset_was_altered_is_read_again(store: ObjectStore, folder: str) -> None:
    url = store.put(f"{folder}/rows.csv", TEXT)
    offsets = Offsets()
    batch = _task(url, offsets, **ROWS).poll()
    assert isinstance(batch, SourceBatch)
    [(partition, offset)] = batch.offsets
    assert offset is not None
    batch.offsets[:] = [(partition, {**offset, "position": 0})]
    offsets.commit(batch)
    assert len(read(_task(url, offsets, **ROWS).poll())) == len(LINES)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_offset_that_a_user_sets_belongs_to_the_object_that_is_there(
    store: ObjectStore, folder: str, form: str
) -> None:
    def content(first: int) -> bytes:
        if form == "csv":
            return b"".join(b"%d,a\n" % number for number in range(first, first + 9))
        table = pa.table({"n": list(range(first, first + 9))})
        parquet.write_table(table, file := pa.BufferOutputStream())
        return bytes(file.getvalue())

    url = store.put(f"{folder}/rows", content(10))
    properties = ROWS if form == "csv" else {"format": form}
    given, offsets = config(url, **properties), Offsets()
    connector = altering.connector(given)
    pairs = [({"filename": url}, {"position": 10} if form == "csv" else {"group": 0, "row": 2})]
    assert connector.alter_offsets(given, pairs)
    assert (
        connector.bind_offsets(given, [({"filename": store.url(f"{folder}/none")}, pairs[0][1])])[0][1] == pairs[0][1]
    )
    bound = connector.bind_offsets(given, pairs)
    offsets.positions[url] = bound[0][1]
    assert [row["n"] for row in read(_task(url, offsets, **properties).poll())] == list(range(12, 19))
    store.put(f"{folder}/rows", content(50))
    with pytest.raises(DataError, match="was replaced"):
        _task(url, offsets, **properties).poll()


def test_an_object_that_goes_away_while_it_is_read_is_missed(store: ObjectStore, folder: str) -> None:
    url = store.put(f"{folder}/rows.csv", TEXT)
    task = _task(url, Offsets(), **ROWS, batch_bytes="9000")
    assert task.poll() is not None
    store.delete(f"{folder}/rows.csv")
    with pytest.raises(DataError, match=r"removed while it was read|does not exist"):
        task.poll()


@pytest.mark.parametrize("server", [Seaweed], indirect=True)
def test_refused_credentials_are_reported_with_advice(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = store.put(f"{folder}/1.csv", b"1\n")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    arrow_stores._s3.cache_clear()
    try:
        assert "AWS_SECRET_ACCESS_KEY" in errors_of(files=url, format="text")["files"]
    finally:
        arrow_stores._s3.cache_clear()


@pytest.mark.parametrize("server", [Azurite], indirect=True)
def test_azure_is_read_by_a_signature_and_not_by_a_wrong_key(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert isinstance(store, Azurite)
    store.put(f"{folder}/1.csv", b"1\n")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", store.connection_with_signature())
    [task] = tasks(config(store.url(f"{folder}/*"), format="text"))
    assert read_to_end(task) == ["1"]
    wrong = store.environment["AZURE_STORAGE_CONNECTION_STRING"].replace("AccountKey=", "AccountKey=AAAA")
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", wrong)
    assert "AZURE_STORAGE_CONNECTION_STRING" in errors_of(files=store.url(f"{folder}/1.csv"), format="text")["files"]


@pytest.mark.parametrize("server", [Hdfs], indirect=True)
def test_a_file_of_hdfs_is_named_by_its_name_node_or_by_the_default(store: ObjectStore, folder: str) -> None:
    assert isinstance(store, Hdfs)
    store.put(f"{folder}/100% of it.csv", b"1\n2\n")
    for host in (store.address, ""):
        [task] = tasks(config(f"hdfs://{host}/{folder}/*.csv", format="text"))
        assert read_to_end(task) == ["1", "2"]


@pytest.mark.parametrize("server", [Hdfs], indirect=True)
@pytest.mark.parametrize("flushed", [False, True])
def test_a_file_of_hdfs_that_is_still_written_is_waited_for(store: ObjectStore, folder: str, *, flushed: bool) -> None:
    data = b"%07d\n" * 200_000 % tuple(range(200_000))
    options = hdfs_native.WriteOptions(block_size=1 << 20, create_parent=True)
    writer = store.files.create(f"/{folder}/1.txt", options)
    url = store.url(f"{folder}/1.txt")
    found = Discovery((store.url(f"{folder}/*"),), ANYWHERE)
    for part in (b"", data[:1_000_001], data[1_000_001:]):
        writer.write(part)
        if flushed:
            writer.hsync()
        else:
            assert found.find() == []
        with pytest.raises(RetriableError, match="may be still written"):
            _task(url, Offsets(), format="text").poll()
    writer.close()
    assert found.find() == [url]
    assert read_to_end(_task(url, Offsets(), format="text")) == data.decode().split()


@pytest.mark.parametrize("server", [Hdfs], indirect=True)
def test_a_user_of_hdfs_without_read_rights_gets_an_error(
    store: ObjectStore, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = store.put(f"{folder}/1.csv", b"1\n")
    store.files.set_permission(f"/{folder}/1.csv", 0o600)
    monkeypatch.setenv("HADOOP_USER_NAME", "stranger")
    with pytest.raises(
        DataError, match=r"Permission denied: user=stranger[^\n]*\. Give the worker .* by HADOOP_USER_NAME"
    ):
        _task(url, Offsets(), format="text").poll()


def test_hdfs_without_its_package_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hadoop_store, "hdfs_native", None)
    assert "pip install 'hdfs-native>=" in errors_of(files="hdfs://test/in/*.csv", format="text")["files"]


@pytest.mark.parametrize(
    ("url", "needed"),
    [
        ("s3:///in/*.csv", "names no bucket"),
        ("s3://*/in/a.csv", "name objects in one bucket"),
        ("gs://*/in/a.csv", "name objects in one bucket"),
        (f"abfss://*@{ACCOUNT}.dfs.core.windows.net/in/a.csv", "name objects in one bucket"),
        (f"abfss://{BUCKET}/in/*.csv", "abfss://container@account.dfs.core.windows.net/"),
        ("hdfs://test:8020", "name objects in one bucket"),
        ("hdfs://test/in/*.csv", "write its port, as hdfs://host:8020/path"),
    ],
)
def test_a_url_that_names_nothing_is_refused(url: str, needed: str) -> None:
    assert needed in errors_of(files=url, format="text")["files"]


def test_a_worker_that_restricts_files_reads_the_objects_that_it_names(store: ObjectStore, folder: str) -> None:
    url = store.put(f"{folder}/1.csv", b"1\n")

    def refused(*allowed: str) -> list[str]:
        found = errors_in(FileSourceConnector(), config(url, format="text"), AllowedPaths.of(allowed))
        return found.get("files", [])

    assert refused(store.url("")) == refused(store.url(f"{folder}/")) == []
    for other in ("/data", store.url(f"{folder}x"), store.url(folder[:-1])):
        [error] = refused(other)
        assert (
            f"{url} may not be read: it is not in what the property fencepost.files.allowed.paths allows ({other})"
            in error
        )


@pytest.mark.parametrize("after_end", ["delete", "move"])
@pytest.mark.parametrize("url", [f"s3://{BUCKET}", f"gs://{BUCKET}", f"abfss://{Azurite.host}", "hdfs://test:8020"])
def test_objects_are_not_taken_away(after_end: str, url: str) -> None:
    found = errors_of(files=f"{url}/*.csv", format="text", files_after_end=after_end)
    assert "is not supported for objects" in found["files.after.end"]
