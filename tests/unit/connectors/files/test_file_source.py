from __future__ import annotations

import errno
import json
import os
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fencepost import ConfigError, DataError, SourceBatch
from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.ddl import parse_columns
from fencepost.api.source import SourceTask
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.stream_source import FileStreamSourceConnector
from fencepost.connectors.files.task import FileSourceTask
from tests.unit.connectors.support import CommittedOffsets, errors_in, read, read_to_end, start, start_connector


def config(files: object, **properties: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in properties.items()}
    return {"files": str(files), "topic": "rows", **named}


def tasks(properties: dict[str, str], most: int = 1, offsets: CommittedOffsets | None = None) -> list[SourceTask]:
    connector = FileSourceConnector()
    assert not errors_in(connector, properties)
    start_connector(connector, properties)
    return [start(FileSourceTask(), task, offsets) for task in connector.task_configs(most)]


def rows_of(path: Path, text: str | bytes, **properties: str) -> list[Any]:
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    [task] = tasks(config(path, **properties))
    return read_to_end(task)


def errors_of(**properties: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in properties.items()}
    found = errors_in(FileSourceConnector(), {"files": __file__, "topic": "rows", **given})
    return {name: errors[0] for name, errors in found.items()}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def test_json_lines_are_typed_by_the_schema(path: Path) -> None:
    rows = [
        {"n": 1, "day": "2013-02-03", "in": {"at": "2013-01-01T10:00:00Z", "tags": ["a", "b"]}, "d": "1.5"},
        {"n": None, "in": {"tags": []}},
    ]
    text = "\n".join(json.dumps(row) for row in rows) + "\n\n  \n"
    schema = "n BIGINT, day DATE, `in` STRUCT<at: TIMESTAMP NOT NULL, tags: ARRAY<STRING>>, d DECIMAL(4,2)"
    assert rows_of(path, text, format="jsonl", schema=schema) == [
        {
            "n": 1, "day": date(2013, 2, 3), "d": Decimal("1.50"),
            "in": {"at": datetime(2013, 1, 1, 10, tzinfo=UTC), "tags": ["a", "b"]},
        },
        {"n": None, "day": None, "in": {"at": None, "tags": []}, "d": None},
    ]  # fmt: skip


def test_text_is_passed_on_line_by_line(path: Path) -> None:
    assert rows_of(path, '{"a": 1}\n"\nlast', format="text") == ['{"a": 1}', '"', "last"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": 1}\n{"a": "x"}\n', "line 2.*column a: 'x' is not of type INT NOT NULL"),
        ('{"a": 1}\n{"a": 1, "c": 2}\n', r"line 2.*column c is not in the schema \(a, b\)"),
        ('{"a": 1}\n{"b": 2}\n', "line 2.*column a: None is not of type INT NOT NULL"),
        ('{"a": 1}\n\n{"a": 1\n', "line 3.*is not one JSON value"),
        ('{"a": 1}{"a": 1}\n', "line 1.*is not one JSON value"),
        ('{"a":\n1}\n', "line 1.*is not one JSON value"),
        ("[1]\n", r"line 1.*\[1\] is not a JSON object"),
        (b'{"a": 1}\n{"a": 1, "b": "\xff"}\n', "line 2"),
    ],
)
def test_a_json_line_that_does_not_fit_is_named_with_file_line_and_column(
    path: Path, text: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        rows_of(path, text, format="jsonl", schema="a INT NOT NULL, b STRING")
    assert str(path) in str(caught.value)


def test_one_key_column_is_the_key_and_several_are_a_struct(path: Path) -> None:
    path.write_text("1,x\n")
    keys = []
    for columns in ("b", "b,a"):
        [task] = tasks(config(path, format="csv", schema="a INT, b STRING", key_columns=columns))
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        assert batch.reader is not None
        keys.append((read(batch, "key"), parse_columns(batch.reader.schema)["key"].dataType.simpleString()))
    assert keys == [(["x"], "string"), ([{"b": "x", "a": 1}], "struct<b:string,a:int>")]


def test_readers_can_be_sent_to_executors(path: Path) -> None:
    for properties in ({"format": "csv"}, {"format": "jsonl"}):
        path.write_text("7\n" if properties["format"] == "csv" else '{"a": 7}\n')
        [task] = tasks(config(path, schema="a INT", **properties))
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        copy = SourceBatch(reader=pickle.loads(pickle.dumps(batch.reader)), splits=batch.splits)  # noqa: S301 - our own
        assert read(copy) == [{"a": 7}]


def test_files_of_a_pattern_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for name in ("c.txt", "a.txt", "b.txt"):
        (tmp_path / name).write_text(name)
    [task] = tasks(config(f"{tmp_path}/c*, {tmp_path}/*.txt", format="text"))
    assert read_to_end(task) == ["c.txt", "a.txt", "b.txt"]


def test_files_are_distributed_to_tasks_and_each_resumes_from_its_position(tmp_path: Path) -> None:
    for number in range(5):
        (tmp_path / str(number)).write_text(f"old {number}\nnew {number}\n")
    offsets = CommittedOffsets({str(tmp_path / str(number)): 6 for number in range(5)})
    found = [read_to_end(task) for task in tasks(config(tmp_path / "*", format="text"), most=3, offsets=offsets)]
    assert sorted(map(len, found)) == [1, 2, 2]
    assert sorted(row for rows in found for row in rows) == [f"new {number}" for number in range(5)]
    assert len(tasks(config(tmp_path / "*", format="text"), most=50)) == 5


def test_task_configs_name_the_files_and_do_not_change_with_tasks_max(tmp_path: Path) -> None:
    """The connector may therefore promise that source partitions follow task configurations."""
    for number in range(12):
        (tmp_path / str(number)).write_text("")
    connector = FileSourceConnector()
    configs = []
    for most in (5, 6):
        properties = {**config(tmp_path / "*", format="text"), "tasks.max": str(most), "name": "files"}
        start_connector(connector, properties)
        configs.append(connector.task_configs(most))
        files = [json.loads(task["task.files"]) for task in configs[-1]]
        assert sorted(file for task in files for file in task) == sorted(str(file) for file in tmp_path.iterdir())
        assert all(task.keys() == {"files", "topic", "format", "task.files", "task.inodes"} for task in configs[-1])
    assert connector.partitions_follow_task_configs(properties)


def test_a_last_record_without_a_line_end_waits_unless_the_file_is_complete(path: Path) -> None:
    path.write_text("1\n2")
    [task] = tasks(config(path, format="csv", schema="a INT"))
    assert read(task.poll()) == [{"a": 1}]
    assert task.poll() is None
    assert not task.at_end()
    assert read(task.poll()) == [{"a": 2}]
    assert task.at_end()


def test_a_file_that_does_not_exist_is_an_error_at_the_start(path: Path) -> None:
    with pytest.raises(ConfigError, match=f"{path}, but the file does not exist"):
        start_connector(FileSourceConnector(), config(path, format="text"))


@pytest.mark.parametrize(
    ("properties", "blamed", "message"),
    [
        ({}, "format", "is required"),
        ({"format": "xml"}, "format", "must be one of csv, jsonl, text"),
        ({"format": "csv"}, "schema", "format=csv without a header needs the property schema"),
        ({"format": "jsonl"}, "schema", "format=jsonl needs the property schema"),
        ({"format": "jsonl", "schema": "a INT", "header": "true"}, "header", "has no header"),
        ({"format": "csv", "schema": "a INTT"}, "schema", "expected a type such as"),
        ({"format": "csv", "schema": "INT"}, "schema", "is a type, not columns"),
        ({"format": "csv", "schema": "a ARRAY<INT>"}, "schema", "which a CSV field cannot hold"),
        ({"format": "jsonl", "schema": "a STRUCT<b: BINARY>"}, "schema", r"a\.b the type binary"),
        ({"format": "text", "schema": "a INT"}, "schema", "format=text has no columns"),
        ({"format": "csv", "schema": "a INT", "key_columns": "b"}, "key.columns", "'b', which is not a column"),
        ({"format": "csv", "schema": "a INT", "delimiter": "||"}, "delimiter", "one ASCII character"),
        ({"format": "csv", "schema": "a INT", "quote": "''"}, "quote", "one ASCII character, or empty"),
        ({"format": "csv", "schema": "a INT", "escape": "é"}, "escape", "one ASCII character, or empty"),
        ({"format": "csv", "schema": "a INT", "escape": ","}, "escape", "same character as delimiter"),
        ({"format": "csv", "schema": "a INT", "quote": ";", "delimiter": ";"}, "quote", "same character as delimiter"),
        ({"format": "text", "files": ""}, "files", "name a file"),
        ({"format": "text", "topic": "two words"}, "topic", "'two words' .*: the name of a topic has 1 to 249 letters"),
        (
            {"format": "csv", "schema": "a INT", "topic": "o-${a}?"},
            "topic",
            r"a column is a part .* orders-\$\{region\}",
        ),
        ({"format": "csv", "schema": "a INT", "topic": "o-${a"}, "topic", "the name of a topic"),
        ({"format": "text", "topic": ".."}, "topic", "is not '.' or '..'"),
    ],
)
def test_invalid_properties_are_named_in_errors(properties: dict[str, str], blamed: str, message: str) -> None:
    errors = errors_of(**properties)
    assert list(errors) == [blamed]
    with pytest.raises(ConfigError, match=message):
        raise ConfigError(errors[blamed])


def test_a_directory_is_refused_as_a_file(tmp_path: Path) -> None:
    errors = errors_of(files=str(tmp_path), format="text")

    assert f"names {tmp_path}, which is a directory: name files in it, for example {tmp_path}/*.csv" in errors["files"]
    errors = errors_in(FileStreamSourceConnector(), {"file": str(tmp_path), "topic": "lines"})
    assert "which is a directory: name a file" in errors["file"][0]


def test_the_errors_of_all_properties_are_found_at_once(tmp_path: Path) -> None:
    (tmp_path / "shut").touch()
    properties = {"files": str(tmp_path / "shut"), "topic": "not a topic", "files.after.end": "move"}

    errors = errors_in(FileSourceConnector(), properties, AllowedPaths.of([str(tmp_path / "open")]))

    assert list(errors) == ["topic", "files", "files.move.to", "format"]
    assert "is required" in errors["format"][0]
    assert "The property files is refused" in errors["files"][0]


def test_a_pattern_that_fits_no_file_has_no_end_unless_files_are_taken_away(tmp_path: Path) -> None:
    properties = config(tmp_path / "*.csv", format="csv", schema="a INT")
    [task] = tasks(properties)
    with pytest.raises(
        DataError, match=r"No file fits .*\*\.csv, so there is nothing to read: correct the property files"
    ):
        task.at_end()

    [task] = tasks({**properties, "files.after.end": "delete"})
    assert task.at_end()


def test_rows_that_a_file_passed_before_an_error_are_not_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in (first, second):
        path.write_text("1\n")
    [task] = tasks(config(tmp_path / "*.txt", format="text"))
    assert read(task.poll()) == ["1", "1"]
    for path in (first, second):
        path.write_text("1\n2\n")
    opens, system_open = count(), os.open

    def short_of_descriptors(path: Any, *args: Any, **options: Any) -> int:
        # Its rows were found before the check that it is still the same file.
        if path == str(second) and next(opens) == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        return system_open(path, *args, **options)

    monkeypatch.setattr(os, "open", short_of_descriptors)
    assert read(task.poll()) == ["2"]
    with pytest.raises(DataError, match=r"b\.txt cannot be read: Too many open files"):
        task.poll()


def test_a_file_may_grow_while_it_is_read(path: Path) -> None:
    path.write_text("1\n")
    [task] = tasks(config(path, format="csv", schema="a INT"))
    assert read(task.poll()) == [{"a": 1}]
    with path.open("a") as file:
        file.write("2\n")
    assert read(task.poll()) == [{"a": 2}]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
@pytest.mark.parametrize("form", [{"format": "text"}, {"format": "csv", "schema": "value STRING"}])
def test_a_last_row_that_ends_by_a_return_alone_is_read(path: Path, form: dict[str, str], encoding: str) -> None:
    path.write_bytes("a\rb\r".encode(encoding))
    properties, offsets = config(path, **form, encoding=encoding), CommittedOffsets()
    [task] = tasks(properties, offsets=offsets)
    found = []
    while (batch := task.poll()) is not None:
        assert isinstance(batch, SourceBatch)
        offsets.commit(batch)
        found += [row if isinstance(row, str) else row["value"] for row in read(batch)]
    assert found == ["a", "b"]
    assert task.at_end()


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le"])
def test_a_line_feed_after_a_final_return_is_not_a_row(path: Path, encoding: str, *, restarted: bool) -> None:
    path.write_bytes("a\r".encode(encoding))
    properties, offsets = config(path, format="text", encoding=encoding), CommittedOffsets()
    [task] = tasks(properties, offsets=offsets)
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    assert read(batch) == ["a"]
    offsets.commit(batch)
    if restarted:
        [task] = tasks(properties, offsets=offsets)
    with path.open("ab") as file:
        file.write("\n".encode(encoding))
    found = task.poll()
    # The stored offset has no identity, so a restarted task commits one, without a row.
    assert read(found) == [] if restarted else found is None
    with path.open("ab") as file:
        file.write("b\r\nc\n".encode(encoding))
    assert read(task.poll()) == ["b", "c"]
