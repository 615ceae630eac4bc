"""The error of a refused row names its file, position and line, although source rows have no record of their own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fencepost.api.ddl import parse_columns
from fencepost.api.record import SourceBatch
from fencepost.config.error_handling import ErrorHandling
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.csv_reader import CsvReader
from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.connectors.files.formats.tables.parquet_table import ParquetTable
from fencepost.connectors.files.formats.tables.table import TableFormat
from fencepost.connectors.files.formats.tables.table_reader import RowRange, TableReader
from fencepost.engine.engine import SparkEngine
from fencepost.engine.errors import RecordRefusedError
from fencepost.engine.row_origin import origin_in_split, origin_in_splits
from fencepost.transforms.chain import Step
from fencepost.transforms.sql import Sql
from tests.support.checker import read_topic
from tests.support.engine import NumberReader, json_converter, pipeline, producer, splits, write

TEXT = '1,a\n\n2,b\n3,"c\nc"\n\nx4,d\n5,e\n'
HALF = TEXT.index("3,")
PLACE = f"position {TEXT.index('x4')}, line 7."


def cast(**more: str) -> Step:
    transform = Sql()
    transform.configure({"value": "named_struct('n', CAST(value.n AS INT))", **more})
    return Step(transform)


def of_csv(path: Path) -> SourceBatch:
    path.write_text(TEXT)
    reader = CsvReader(parse_columns("n STRING, t STRING"), file_columns=("n", "t"))
    parts = [FileRange(str(path), 0, HALF), FileRange(str(path), HALF, len(TEXT))]
    return SourceBatch.of_reader(reader, parts)


@pytest.mark.parametrize("size", [len(TEXT), None])
@pytest.mark.parametrize("retry_ms", [0, 1_000])
def test_the_row_of_a_file_that_a_transform_refuses_is_named(
    engine: SparkEngine, bootstrap_servers: str, topic: str, tmp_path: Path, *, size: int | None, retry_ms: int
):
    """Both the worker and executors name the row."""
    given = of_csv(tmp_path / "rows.csv")
    batch = SourceBatch.of_reader(given.reader, given.splits, bytes=size)  # type: ignore[arg-type]
    steps = pipeline(
        topic, value=json_converter(), transforms=[cast()], errors=ErrorHandling(retry_timeout_ms=retry_ms)
    )
    named = rf"stage TRANSFORMATION \(Sql\): .*'x4'.* It is at file {tmp_path}/rows\.csv, {PLACE}"
    with producer(bootstrap_servers) as owner, pytest.raises(RecordRefusedError, match=named):
        write(engine, owner, batch, steps)
    assert read_topic(bootstrap_servers, topic) == []


def test_the_row_of_a_frame_is_refused_with_its_reason(engine: SparkEngine, bootstrap_servers: str, topic: str):
    frame = engine.session().createDataFrame([(("1",),), (("x",),)], "value STRUCT<n: STRING>")
    with (
        producer(bootstrap_servers) as owner,
        pytest.raises(RecordRefusedError, match=r"TRANSFORMATION \(Sql\): .*'x'"),
    ):
        write(engine, owner, SourceBatch.of_dataframe(frame), pipeline(topic, transforms=[cast()]))


def test_a_dataframe_that_fails_itself_keeps_its_error(engine: SparkEngine, bootstrap_servers: str, topic: str):
    frame = engine.session().range(3).selectExpr("named_struct('n', CAST(concat('y', id) AS INT)) AS value")
    with producer(bootstrap_servers) as owner, pytest.raises(RecordRefusedError, match="'y0'"):
        write(engine, owner, SourceBatch.of_dataframe(frame), pipeline(topic, transforms=[cast()]))


@pytest.mark.parametrize("find", [origin_in_splits, lambda reader, parts, row: origin_in_split(reader, parts[0], row)])
def test_a_reader_without_positions_gives_no_position(find: Callable[..., str]):
    assert find(NumberReader(), splits(10, 2), 7) == ""


def test_a_row_that_no_longer_exists_gets_no_position(tmp_path: Path):
    batch = of_csv(tmp_path / "rows.csv")
    assert batch.reader is not None
    assert origin_in_splits(batch.reader, batch.splits, 3).endswith(PLACE)
    assert origin_in_split(batch.reader, batch.splits[1], 1).endswith(PLACE)
    (tmp_path / "rows.csv").unlink()
    assert origin_in_splits(batch.reader, batch.splits, 3) == ""
    assert origin_in_split(batch.reader, batch.splits[1], 1) == ""


def test_lines_and_rows_of_tables_have_positions(tmp_path: Path):
    path = tmp_path / "lines"
    path.write_text("a\n\nc\n")
    assert LineReader().place(FileRange(str(path), 2, 5), 1) == {"file": str(path), "position": "3", "line": "3"}
    table = tmp_path / "t.parquet"
    pq.write_table(pa.table({"n": ["1", "2", "x"]}), table)
    with table.open("rb", buffering=0) as file:
        identity = ParquetTable(str(table), file).identity
    part = RowRange(str(table), 0, 1, 2, 10, identity)
    reader = TableReader(TableFormat.PARQUET, parse_columns("n STRING"))
    assert origin_in_splits(reader, [part], 1) == f" It is at file {table}, group 0, row 2."
