"""Parquet, ORC and Avro files: rows, resumes, and files that were changed."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import orc, parquet

from fencepost import ConfigError, DataError, RefusedRow, SourceBatch
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.source import SourceTask
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.content.compressed import TRUNCATED_SECONDS
from fencepost.connectors.files.content.origin import FileOrigin
from fencepost.connectors.files.formats.tables import avro_table
from fencepost.connectors.files.formats.tables.table import TableFormat
from fencepost.connectors.files.formats.tables.table_file import TableFile, TablePosition
from fencepost.connectors.files.formats.tables.table_reader import open_table
from fencepost.connectors.files.task import FileSourceTask
from tests.support.table_files import WRITE, avro_file
from tests.unit.connectors.files import altering
from tests.unit.connectors.files.test_file_source import config, errors_of
from tests.unit.connectors.support import WholeOffsets, errors_in, read, read_to_end, start, start_connector

ROWS = [{"n": number, "t": f"text {number * 7919 % 10007}"} for number in range(5_000)]
formats = pytest.mark.parametrize("form", WRITE)


def task_of(path: Path, form: str, offsets: WholeOffsets | None = None, **properties: str) -> SourceTask:
    connector, given = FileSourceConnector(), config(path, format=form, **properties)
    assert not errors_in(connector, given)
    start_connector(connector, given)
    [task] = connector.task_configs(1)
    offset_reader: Any = offsets or WholeOffsets()
    return start(FileSourceTask(), task, offset_reader)


def rows_of(path: Path, form: str, **properties: str) -> list[Any]:
    return read_to_end(task_of(path, form, **properties))


def tolerated(path: Path, form: str, **properties: str) -> tuple[list[Any], list[RefusedRow]]:
    """The rows of a file, and the refused ones."""
    task, found, refused = task_of(path, form, **properties), [], []
    while not task.at_end():
        batch: Any = task.poll()
        for split in batch.splits if batch is not None else ():
            for part in batch.reader.read_tolerant(split):
                if isinstance(part, pa.RecordBatch):
                    found += part["value"].to_pylist()
                else:
                    refused += part
    return found, refused


@formats
def test_each_row_is_read_once_whatever_the_batches_and_restarts(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    for batch_bytes, restart_after in (("3000", 2), ("20000", 1), ("100000000", 1)):
        offsets, found, batches = WholeOffsets(), [], 0
        task = task_of(path, form, offsets, batch_bytes=batch_bytes)
        while not task.at_end():
            batch = task.poll()
            if batch is None:
                continue
            assert isinstance(batch, SourceBatch)
            # The split is pickled, as for an executor.
            sent = pickle.loads(pickle.dumps(batch.reader))  # noqa: S301 - our own
            found += read(SourceBatch(reader=sent, splits=batch.splits, offsets=batch.offsets))
            offsets.commit(batch)
            batches += 1
            if batches % restart_after == 0 and len(found) < len(ROWS):
                task = task_of(path, form, offsets, batch_bytes=batch_bytes)
        assert found == ROWS
        assert (batches == 1) == (batch_bytes == "100000000")
        assert task.lag() == 0


@formats
def test_a_resume_does_not_read_the_groups_before_its_position(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    offsets = WholeOffsets()
    task = task_of(path, form, offsets, batch_bytes="25000")
    read_rows = 0
    while read_rows < 3_000:
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        read_rows += len(read(batch))
        offsets.commit(batch)
    resumed = task_of(path, form, offsets).poll()
    assert isinstance(resumed, SourceBatch)
    split = resumed.splits[0]
    with open_table(str(path), TableFormat(form), ANYWHERE) as table:
        before = [group.rows for group in table.groups(table.first_key) if group.key < split.group]
    assert sum(before) + split.skip == read_rows
    assert len(before) > 1


@formats
def test_key_topic_timestamp_and_headers_come_from_columns(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS[:10]))
    task = task_of(path, form, topic="rows-${n}", key_columns="n", timestamp_column="n", headers_columns="t")
    batch = task.poll()
    assert read(batch, "key") == list(range(10))
    assert read(batch, "topic") == [f"rows-{number}" for number in range(10)]
    assert read(batch, "timestamp") == list(range(10))
    assert read(batch, "headers")[1] == [{"key": "t", "value": ROWS[1]["t"]}]


@formats
def test_a_property_that_names_no_column_of_the_file_is_refused(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS[:10]))
    with pytest.raises(ConfigError, match=r"key\.columns names 'x', which is not a column; there are: n, t"):
        task_of(path, form, key_columns="x").poll()


@formats
def test_rows_without_a_topic_are_refused_with_their_place(path: Path, form: str) -> None:
    rows = [row | {"t": "no topic" if row["n"] % 1000 == 7 else "topic"} for row in ROWS]
    path.write_bytes(WRITE[form](rows))
    task = task_of(path, form, topic_column="t", batch_bytes="30000")
    with pytest.raises(DataError, match=r"row 7 of the group \d+, makes no record: column t makes 'no topic'"):
        read(task.poll())
    found, refused = tolerated(path, form, topic_column="t", batch_bytes="30000")
    assert [row.raw.decode() for row in refused] == [
        f'{{"n": {number}, "t": "no topic"}}' for number in range(7, 5000, 1000)
    ]
    assert len(found) + len(refused) == len(ROWS)
    first = refused[0]
    assert isinstance(first, RefusedRow)
    assert first.place["row"] == "7"
    assert first.place["file"] == str(path)


@formats
def test_a_file_that_is_still_copied_is_waited_for(path: Path, form: str) -> None:
    whole = WRITE[form](ROWS)
    now, rows = 0.0, 0
    file = TableFile(FileOrigin(str(path)), TableFormat(form), TablePosition(), 1 << 20, ANYWHERE, clock=lambda: now)
    assert file.advance() == []
    for size in (2, 4, len(whole) // 3, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:size])
        while splits := file.advance():
            rows += sum(split.rows for split in splits)
        now += TRUNCATED_SECONDS - 1
        assert file.finished == (size == len(whole))
    assert rows == len(ROWS)


@formats
def test_a_file_that_stays_truncated_fails(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS)[:-1])
    with pytest.raises(DataError, match=rf"is truncated, or no {form} file: .*; the rows before are delivered"):
        rows_of(path, form)
    now = 0.0
    file = TableFile(FileOrigin(str(path)), TableFormat(form), TablePosition(), 1 << 30, ANYWHERE, clock=lambda: now)
    while file.advance():
        pass
    now = TRUNCATED_SECONDS
    with pytest.raises(DataError, match="is truncated"):
        file.advance()


@formats
@pytest.mark.parametrize("restarted", [True, False])
def test_another_file_in_its_place_is_reported(path: Path, form: str, restarted: bool) -> None:
    path.write_bytes(WRITE[form](ROWS))
    offsets = WholeOffsets()
    task = task_of(path, form, offsets)
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    offsets.commit(batch)
    # The new file has the same size.
    path.write_bytes(WRITE[form]([row | {"n": row["n"] + 1} for row in ROWS]))
    with pytest.raises(DataError, match=r"was replaced by another one: its offset, row \d+ of the group \d+, belongs"):
        (task_of(path, form, offsets) if restarted else task).poll()


@formats
def test_the_same_file_copied_to_its_place_continues(path: Path, form: str) -> None:
    whole = WRITE[form](ROWS)
    path.write_bytes(whole)
    offsets = WholeOffsets()
    batch = task_of(path, form, offsets, batch_bytes="20000").poll()
    assert isinstance(batch, SourceBatch)
    offsets.commit(batch)
    path.unlink()
    path.write_bytes(whole)
    assert [*read(batch), *read_to_end(task_of(path, form, offsets))] == ROWS


@formats
def test_a_file_of_another_format_is_reported(path: Path, form: str) -> None:
    path.write_text("id,name\n1,a\n")
    with pytest.raises(DataError, match=rf"is not a {form} file: it begins with b'id"):
        task_of(path, form).poll()


@formats
def test_a_file_without_rows_is_read(path: Path, form: str) -> None:
    sink = io.BytesIO()
    schema = pa.schema([("n", pa.int64())])
    if form == "parquet":
        parquet.write_table(schema.empty_table(), sink)
    elif form == "orc":
        orc.write_table(schema.empty_table(), sink)
    else:
        sink.write(avro_file([]))
    path.write_bytes(sink.getvalue())
    assert rows_of(path, form) == []


@formats
def test_a_file_is_deleted_after_its_rows_are_committed(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    offsets = WholeOffsets()
    task = task_of(path, form, offsets, files_after_end="delete")
    found = []
    while not task.at_end():
        batch = task.poll()
        if batch is not None:
            assert isinstance(batch, SourceBatch)
            found += read(batch)
            offsets.commit(batch)
            task.commit()
    assert found == ROWS
    assert not path.exists()
    # Another file with the same name is a new file.
    path.write_bytes(WRITE[form](ROWS[:7]))
    assert read(task.poll()) == ROWS[:7]


@formats
def test_offsets_are_checked_before_they_are_set(path: Path, form: str) -> None:
    path.write_bytes(WRITE[form](ROWS))
    given = config(path, format=form)
    connector = altering.connector(given)
    partition = {"filename": str(path)}
    with open_table(str(path), TableFormat(form), ANYWHERE) as table:
        first = table.first_key
    assert connector.alter_offsets(given, [(partition, {"group": first, "row": 5}), (partition, None)])
    for wrong in ({"position": 7}, {"group": -1}, {"group": "1"}, {"group": True}, {"group": 1, "file": 7}):
        with pytest.raises(DataError, match="is not of the form"):
            connector.alter_offsets(given, [(partition, wrong)])
    with pytest.raises(DataError, match=r"has no group of rows|has no sound block"):
        task_of(path, form, WholeOffsets({str(path): {"group": 77, "row": 0}})).poll()


def test_properties_of_texts_are_refused() -> None:
    assert "has its columns in the file" in errors_of(format="parquet", schema="n INT")["schema"]
    assert "has its columns in the file" in errors_of(format="orc", header="true")["header"]
    assert "has no encoding" in errors_of(format="avro", encoding="latin-1")["encoding"]


def test_avro_without_its_package_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(avro_table, "fastavro", None)
    assert "pip install 'fastavro[zstandard]>=" in errors_of(format="avro")["format"]


def test_rows_that_are_appended_to_an_avro_file_are_read(path: Path) -> None:
    path.write_bytes(avro_file(ROWS[:10]))
    task = task_of(path, "avro")
    assert read(task.poll()) == ROWS[:10]
    with path.open("a+b") as file:
        fastavro.writer(file, None, ROWS[10:20])  # type: ignore[arg-type]
    assert read(task.poll()) == ROWS[10:20]


def test_blocks_before_a_damaged_avro_block_are_read(path: Path) -> None:
    data = bytearray(avro_file(ROWS))
    path.write_bytes(data)
    with open_table(str(path), TableFormat.AVRO, ANYWHERE) as table:
        first, second, third = list(table.groups(table.first_key))[:3]
    data[third.next - 16 : third.next] = bytes(16)
    path.write_bytes(data)
    task = task_of(path, "avro")
    assert read(task.poll()) == ROWS[: first.rows + second.rows]
    for _ in range(2):
        with pytest.raises(
            DataError, match=f"no sound block at byte {third.key}: .*; the rows before it are delivered"
        ):
            task.poll()


@formats
def test_damaged_data_is_reported(path: Path, form: str) -> None:
    data = bytearray(WRITE[form](ROWS))
    middle = len(data) // 3
    data[middle : middle + 6_000] = bytes(6_000)
    path.write_bytes(data)
    with pytest.raises(DataError, match=rf"{path} (cannot be read|has no sound block|has a value)"):
        rows_of(path, form)
