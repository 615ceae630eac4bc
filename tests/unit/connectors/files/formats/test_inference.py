"""`schema=infer`: the inferred schema, and that it does not change."""

from __future__ import annotations

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost import ConfigError, DataError, SourceBatch
from fencepost.connectors.files.config import TASK_SCHEMA
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.task import FileSourceTask
from tests.unit.connectors.files.test_file_source import config
from tests.unit.connectors.support import ConnectorContext, WholeOffsets, errors_in, read, read_to_end, start

INFER = {"schema": "infer"}
CSV = {"format": "csv", "header": "true", **INFER}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def task_configs(files: object, offsets: Any = None, most: int = 1, **properties: str) -> list[dict[str, str]]:
    given = config(files, **properties)
    connector, context = FileSourceConnector(), ConnectorContext(given)
    assert not errors_in(connector, given)
    context.offset_reader = offsets or WholeOffsets()
    connector.context = context
    connector.start(given)
    connector.stop()
    return connector.task_configs(most)


def schema_of(path: Path, text: str | bytes, **properties: str) -> str:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return task_configs(path, **properties)[0][TASK_SCHEMA]


def test_columns_of_csv_have_the_type_of_all_their_values(path: Path) -> None:
    text = (
        "id,zip,price,good,day,at,name,none,long,`x,clock,few\n"
        "1,00123,1.5,true,2013-02-03,2013-01-01T10:00:00Z,a,,12345678901234567890,1,10:00:00,\n"
        "2,9,2,false,2013-02-04,2013-01-02T10:00:00Z,7,,1,2,11:00:00,3\n"
    )
    assert schema_of(path, text, **CSV) == (
        "id BIGINT, zip STRING, price DOUBLE, good BOOLEAN, day DATE, at TIMESTAMP, name STRING, none STRING, "
        "long STRING, ```x` BIGINT, clock STRING, few BIGINT"
    )


@pytest.mark.parametrize("number", [0.1 + 0.2, -4.80883732466331e-07, 2.0**70, 1e300, 8.5])
def test_a_double_as_programs_write_it_is_a_double(path: Path, number: float) -> None:
    assert schema_of(path, f"x\n{number!r}\n1.5\n", **CSV) == "x DOUBLE"


@pytest.mark.parametrize("text", ["0.1000000000000000055", "1234567890.12345678", "12345678901234567891"])
def test_digits_that_a_double_would_lose_are_text(path: Path, text: str) -> None:
    assert schema_of(path, f"x\n{text}\n1.5\n", **CSV) == "x STRING"


def test_a_file_without_a_header_has_numbered_columns(path: Path) -> None:
    assert schema_of(path, "1,a\n", format="csv", **INFER) == "_c0 BIGINT, _c1 STRING"


def test_the_properties_of_csv_hold_when_columns_are_inferred(path: Path) -> None:
    text = gzip.compress("a;'b;'\nNA;\\';x\n1;é\n".encode("latin-1"))
    given = {"delimiter": ";", "quote": "'", "escape": "\\", "null_value": "NA", "encoding": "latin-1"}
    assert schema_of(path, text, **CSV, **given) == "a BIGINT, `b;` STRING"


def test_rows_that_cannot_be_read_do_not_count(path: Path) -> None:
    assert schema_of(path, "a,b\n1,2\n1,2,3\n4,5\n", **CSV) == "a BIGINT, b BIGINT"
    rows = ['{"a": 1}', "nonsense", "[1]", '{"a": 2}']
    assert schema_of(path, "\n".join(rows), format="jsonl", **INFER) == "a BIGINT"


def test_fields_of_json_have_the_types_of_json(path: Path) -> None:
    rows = [
        {"n": 1, "x": 1, "t": "2013-01-01", "in": {"a": [1, None]}, "none": None, "big": 2**70, "good": True},
        {"n": None, "x": 1.5, "in": {"a": [], "b": "c"}, "new": [[{"d": 1}]]},
    ]
    assert schema_of(path, "".join(f"{json.dumps(row)}\n" for row in rows), format="jsonl", **INFER) == (
        "n BIGINT, x DOUBLE, t STRING, in STRUCT<`a`: ARRAY<BIGINT>, `b`: STRING>, none STRING, big DECIMAL(38,0), "
        "good BOOLEAN, new ARRAY<ARRAY<STRUCT<`d`: BIGINT>>>"
    )
    assert len(read_to_end(start(FileSourceTask(), task_configs(path, format="jsonl", **INFER)[0]))) == 2


def test_a_field_of_json_with_values_of_different_types_is_reported(path: Path) -> None:
    with pytest.raises(DataError, match=r"different types in the column in\.a of the file .*: int, str"):
        schema_of(path, '{"in": {"a": 1}}\n{"in": {"a": "x"}}\n', format="jsonl", **INFER)


@pytest.mark.parametrize(
    ("numbers", "told"),
    [
        (["1.5", "9007199254740993"], "9007199254740993"),
        (["12345678901234567890", "0.5"], "12345678901234567890"),
        (["0.1234567890123456789"], "0.1234567890123456789"),
        (["-1.00000000000000000001e2"], "-100.000000000000000001"),
    ],
)
def test_a_number_of_json_that_a_double_would_change_is_reported(path: Path, numbers: list[str], told: str) -> None:
    lines = "".join(f'{{"in": [{{"x": {number}}}]}}\n' for number in numbers)
    with pytest.raises(
        DataError, match=rf"{told} in the column in\[\]\.x .*, which a DOUBLE would change.*DECIMAL or DOUBLE"
    ):
        schema_of(path, lines, format="jsonl", **INFER)


@pytest.mark.parametrize(
    "number", ["0.1", "1e22", "5e-324", "123456789012345680.0", "1.7976931348623157e308", "NaN", "1e400"]
)
def test_a_number_of_json_as_programs_write_it_is_a_double(path: Path, number: str) -> None:
    assert schema_of(path, f'{{"x": {number}}}\n{{"x": 2}}\n', format="jsonl", **INFER) == "x DOUBLE"


@pytest.mark.parametrize("line", ['{"": 1}', '{"a": [{"": 1}]}'])
def test_a_field_of_json_without_a_name_is_reported(path: Path, line: str) -> None:
    with pytest.raises(DataError, match=r"found a field without a name .*Correct the file"):
        schema_of(path, line + "\n", format="jsonl", **INFER)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_the_inferred_schema_is_in_the_offset_and_survives_a_restart(
    path: Path, form: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    lines = ["n", "1", "2"] if form == "csv" else ['{"n": 1}', '{"n": 2}']
    path.write_text("".join(f"{line}\n" for line in lines))
    given = (CSV | {"batch_bytes": "4"}) if form == "csv" else {"format": form, "batch_bytes": "12", **INFER}
    offsets: Any = WholeOffsets()
    [task_config] = task_configs(path, offsets, **given)
    assert f"Inferred from the first rows of {path}: schema=n BIGINT" in caplog.text
    batch = start(FileSourceTask(), task_config, offsets).poll()
    assert read(batch) == [{"n": 1}]
    assert isinstance(batch, SourceBatch)
    offsets.commit(batch)
    assert offsets.committed[str(path)]["schema"] == "n BIGINT"

    # Other columns would be inferred from these rows.
    path.write_text(path.read_text() + ("x\ny\n3\n" if form == "csv" else '{"n": "x"}\n{"n": "y"}\n{"n": 3}\n'))
    [again] = task_configs(path, offsets, **given)
    assert again[TASK_SCHEMA] == "n BIGINT"
    assert "The schema that was inferred before stays in use: n BIGINT" in caplog.text
    found: list[Any] = []
    refused: list[bytes] = []
    task = start(FileSourceTask(), again, offsets)
    while not task.at_end():
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        reader: Any = batch.reader
        for split in batch.splits:
            for part in reader.read_tolerant(split):
                if isinstance(part, pa.RecordBatch):
                    found += part["value"].to_pylist()
                else:
                    refused += [row.raw for row in part]
    # A row that does not fit the inferred schema is a bad row.
    assert found == [{"n": 2}, {"n": 3}]
    assert refused == ([b"x", b"y"] if form == "csv" else [b'{"n": "x"}', b'{"n": "y"}'])


def test_no_name_of_an_inferred_column_is_a_placeholder(path: Path) -> None:
    path.write_text("${env:HOME}\n1\n2\n")
    [task_config] = task_configs(path, **CSV)
    assert "$" not in task_config[TASK_SCHEMA]
    assert read(start(FileSourceTask(), task_config).poll()) == [{"${env:HOME}": 1}, {"${env:HOME}": 2}]


def test_all_tasks_have_the_columns_of_the_first_file(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / f"{number}.csv").write_text("a,b\n1,2\n" if number == 0 else "a,b\nx,y\n")
    found = task_configs(tmp_path / "*.csv", most=3, **CSV)
    assert [task[TASK_SCHEMA] for task in found] == ["a BIGINT, b BIGINT"] * 3


def test_files_of_a_pattern_wait_for_the_first_row(tmp_path: Path) -> None:
    first, second = tmp_path / "1.csv", tmp_path / "2.csv"
    first.write_text("a\n")
    second.write_text("")
    [config_of_task] = task_configs(tmp_path / "*.csv", **CSV)
    assert TASK_SCHEMA not in config_of_task
    task = start(FileSourceTask(), config_of_task)
    assert task.poll() is None
    with pytest.raises(DataError, match="No file with a row fits"):
        task.at_end()
    second.write_text("a\n1\n")
    [found] = task_configs(tmp_path / "*.csv", **CSV)
    assert found[TASK_SCHEMA] == "a BIGINT"


def test_a_file_without_a_row_is_reported(path: Path) -> None:
    for text, given in (("a,b\n", CSV), ("", {"format": "csv", **INFER}), ("\n", {"format": "jsonl", **INFER})):
        path.write_text(text)
        with pytest.raises(ConfigError, match="schema=infer needs a row, but there is none in"):
            task_configs(path, **given)


def test_a_key_column_that_was_not_inferred_is_refused(path: Path) -> None:
    path.write_text("a\n1\n")
    [task] = task_configs(path, **CSV, key_columns="b")
    with pytest.raises(ConfigError, match=r"key\.columns names 'b', which is not a column; there are: a"):
        start(FileSourceTask(), task)
