"""Rows that a file source reads become a DataFrame before a transform sees them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from fencepost.api.ddl import parse_columns
from fencepost.api.record import ArrowReader
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.csv_reader import CsvReader
from fencepost.connectors.files.formats.jsonl_reader import JsonLinesReader
from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.connectors.rows.record_mapping import RecordColumns
from tests.unit.transforms.support import plain

COLUMNS = "n INT NOT NULL, b TINYINT, at TIMESTAMP, local TIMESTAMP_NTZ, day DATE, d DECIMAL(6,2), x DOUBLE, ok BOOLEAN"
CSV = b"1,2,1970-01-01T00:00:01Z,1970-01-01T00:00:01,1970-01-02,1.5,2.5,true\n"
JSON = (
    b'{"n":1,"b":2,"at":"1970-01-01T00:00:01Z","local":"1970-01-01T00:00:01","day":"1970-01-02","d":1.5,"x":2.5,'
    b'"ok":true}\n'
)
ROW = {
    "n": 1, "b": 2, "at": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC), "local": datetime(1970, 1, 1, 0, 0, 1),  # noqa: DTZ001 - local
    "day": date(1970, 1, 2), "d": Decimal("1.50"), "x": 2.5, "ok": True,
}  # fmt: skip


def read(spark: SparkSession, reader: ArrowReader, path: Path) -> dict[str, Any]:
    split = FileRange(str(path), 0, path.stat().st_size)

    def stage(given: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in given:
            yield from reader.read(split)

    frame = spark.range(1).mapInArrow(stage, reader.schema)
    [row] = frame.toArrow().to_pylist()
    return {name: plain(value) for name, value in row.items()}


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_rows_have_the_types_of_their_schema_in_spark(spark: SparkSession, tmp_path: Path, form: str) -> None:
    columns = parse_columns(COLUMNS)
    path = tmp_path / "rows"
    path.write_bytes(CSV if form == "csv" else JSON)
    reader = (
        CsvReader(columns, RecordColumns(keys=("n",)), file_columns=tuple(columns.names))
        if form == "csv"
        else JsonLinesReader(columns, RecordColumns(keys=("n",)))
    )
    assert read(spark, reader, path) == {"value": ROW, "key": 1}


def test_lines_are_texts_in_spark(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes("grün\n".encode())
    assert read(spark, LineReader(), path) == {"value": "grün"}
