from __future__ import annotations

import csv
import gzip
import io
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import ConfigError, DataError, SourceBatch
from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.ddl import parse_columns
from fencepost.api.source import SourceTask
from fencepost.config.properties import parse_properties
from fencepost.connectors.file_source import FileSourceConnector, FileSourceTask
from fencepost.connectors.file_stream import FileStreamSourceConnector
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


def test_csv_rows_are_typed_by_the_schema(path: Path) -> None:
    schema = (
        "n INT, name STRING, at TIMESTAMP, day DATE, price DECIMAL(6,2), good BOOLEAN, x DOUBLE, local TIMESTAMP_NTZ"
    )
    [row, empty] = rows_of(
        path,
        '7,"a ""b"", c",2013-01-01T10:00:00+02:00,2013-02-03,12.5,true,1e3,2013-01-01 10:00:00\n,"",,,,,,\n',
        format="csv",
        schema=schema,
    )
    assert row == {
        "n": 7, "name": 'a "b", c', "at": datetime(2013, 1, 1, 8, tzinfo=UTC), "day": date(2013, 2, 3),
        "price": Decimal("12.50"), "good": True, "x": 1000.0, "local": datetime(2013, 1, 1, 10),  # noqa: DTZ001 - local
    }  # fmt: skip
    assert empty == dict.fromkeys(row) | {"name": ""}


def test_timestamps_without_a_zone_are_utc_and_may_be_mixed_with_zoned_ones(path: Path) -> None:
    text = "2013-01-01 10:00:00\n2013-01-01T10:00:00-01:00\n2013-01-02\n"
    found = rows_of(path, text, format="csv", schema="at TIMESTAMP")
    assert [row["at"] for row in found] == [
        datetime(2013, 1, 1, 10, tzinfo=UTC), datetime(2013, 1, 1, 11, tzinfo=UTC), datetime(2013, 1, 2, tzinfo=UTC),
    ]  # fmt: skip


def test_a_header_names_the_columns_in_the_files_own_order(path: Path) -> None:
    assert rows_of(path, "b,a\n1,x\nNA,\n", format="csv", header="true", schema="a STRING, b INT", null_value="NA") == [
        {"a": "x", "b": 1},
        {"a": "", "b": None},
    ]


def test_several_fields_may_mean_null(path: Path) -> None:
    text = 'NA\n"NA"\nNULL\n""\nx\n'
    found = rows_of(path, text, format="csv", schema="a STRING", null_value="NA,NULL")
    assert [row["a"] for row in found] == [None, "NA", None, "", "x"]
    found = rows_of(path, "1,\nNA,2\n", format="csv", schema="a INT, b STRING", null_value=",NA")
    assert found == [{"a": 1, "b": None}, {"a": None, "b": "2"}]


def test_extra_columns_and_other_cases_of_names_are_accepted_if_asked_for(path: Path) -> None:
    text = "NAME,more,Id,a\nx,?,1,z\n"
    schema = {"format": "csv", "header": "true", "schema": "id INT, name STRING"}
    found = rows_of(path, text, **schema, header_extra_columns="ignore", header_case_sensitive="false")
    assert found == [{"id": 1, "name": "x"}]
    with pytest.raises(DataError, match="the file's more, a missing in the schema"):
        rows_of(path, text, **schema, header_case_sensitive="false")
    with pytest.raises(DataError, match="the schema's id, name missing in the file"):
        rows_of(path, text, **schema, header_extra_columns="ignore")
    with pytest.raises(DataError, match="id twice in the file"):
        rows_of(path, "id,ID,name\n1,2,x\n", **schema, header_case_sensitive="false")


def test_an_extra_column_with_the_name_of_a_column_in_another_case_is_left_out(path: Path) -> None:
    schema = {"format": "csv", "header": "true", "schema": "id INT"}
    assert rows_of(path, "ID,id\n1,2\n", **schema, header_extra_columns="ignore") == [{"id": 2}]


def test_a_header_alone_makes_columns_of_texts(path: Path) -> None:
    found = rows_of(path, "\ufeffa\tb c\n1\t2\n", format="csv", header="true", delimiter="\\t")
    assert found == [{"a": "1", "b c": "2"}]


def test_a_file_of_a_header_alone_has_no_rows(path: Path) -> None:
    assert rows_of(path, "a,b\n", format="csv", header="true") == []


def test_a_header_is_left_out_once_and_known_again_after_a_restart(path: Path) -> None:
    path.write_text("b,a\n1,2\n3,4\n5,6\n")
    properties = config(path, format="csv", header="true", schema="a INT, b INT", batch_bytes="9")
    offsets, found = CommittedOffsets(), []
    for _ in range(2):
        [task] = tasks(properties, offsets=offsets)
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        offsets.commit(batch)
        found += read(batch)
    assert found == [{"a": 2, "b": 1}, {"a": 4, "b": 3}, {"a": 6, "b": 5}]


FIELDS = st.text(st.sampled_from('a,"\n\ré '), max_size=6)


@settings(max_examples=60)
@given(rows=st.lists(st.tuples(FIELDS, FIELDS), min_size=1, max_size=12), batch_bytes=st.integers(60, 200))
def test_quoted_fields_hold_line_ends_delimiters_and_quotes_wherever_a_batch_ends(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], batch_bytes: int
) -> None:
    out = io.StringIO()
    csv.writer(out, quoting=csv.QUOTE_ALL).writerows(rows)
    found = rows_of(
        tmp_path_factory.mktemp("csv") / "data", out.getvalue(), format="csv", schema="a STRING, b STRING",
        batch_bytes=str(batch_bytes),
    )  # fmt: skip
    assert found == [{"a": a, "b": b} for a, b in rows]


CHARACTERS = st.text(st.sampled_from("a,|'\"\\\n\ré "), max_size=6)


@settings(max_examples=80)
@given(
    rows=st.lists(st.tuples(CHARACTERS, CHARACTERS), min_size=1, max_size=12), batch_bytes=st.integers(60, 200),
    quote=st.sampled_from(['"', "'", ""]), escape=st.sampled_from(["\\", "|"]),
)  # fmt: skip
def test_escaped_characters_are_part_of_a_field_wherever_a_batch_ends(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, str]], batch_bytes: int, quote: str, escape: str
) -> None:  # fmt: skip
    out = io.StringIO()
    # The escape character does it all, or the quote most of it.
    quoting = csv.QUOTE_ALL if quote and batch_bytes % 2 else csv.QUOTE_NONE
    csv.writer(out, quotechar=quote or None, escapechar=escape, doublequote=False, quoting=quoting).writerows(rows)
    found = rows_of(
        tmp_path_factory.mktemp("csv") / "data", out.getvalue(), format="csv", schema="a STRING, b STRING", quote=quote,
        escape=escape, null_value="NA", batch_bytes=str(batch_bytes),
    )  # fmt: skip
    assert found == [{"a": a, "b": b} for a, b in rows]


def test_quotes_and_escapes_hold_in_headers_and_messages_too(path: Path) -> None:
    properties = {"format": "csv", "header": "true", "quote": "'", "escape": "\\"}
    assert rows_of(path, "'a, b',c\\,d\n'it''s',\\'x\n", **properties) == [{"a, b": "it's", "c,d": "'x"}]
    with pytest.raises(DataError, match=r"column n \(number 2\): \"it's\" is not of type INT"):
        rows_of(path, "'a, b',n\n1,'it\\'s'\n", **properties, schema="`a, b` INT, n INT")


def test_without_a_quote_a_quote_is_a_character_of_the_field(path: Path) -> None:
    found = rows_of(path, 'a"\n"b\n', format="csv", schema="a STRING", quote="")
    assert found == [{"a": 'a"'}, {"a": '"b'}]


def test_quotes_of_compressed_files_are_those_of_the_properties(path: Path) -> None:
    found = rows_of(path, gzip.compress(b"'a\nb'\n\"c\n"), format="csv", schema="a STRING", quote="'")
    assert found == [{"a": "a\nb"}, {"a": '"c'}]


def test_a_quote_that_is_its_own_escape_is_doubled(path: Path) -> None:
    assert rows_of(path, '"a""b"\n', format="csv", schema="a STRING", escape='"') == [{"a": 'a"b'}]


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
    ("properties", "text", "message"),
    [
        ({"schema": "a INT, b STRING"}, '1,"x\ny"\n2,y\n\nzwei,z\n3,a\n', r"line 5.*column a \(number 1\): 'zwei' is not of type INT"),
        ({"schema": "a INT, b STRING"}, "1,x\n2\n", r"line 2.*it has 1 column, where 2 are expected \(a, b\)"),
        ({"schema": "a INT, b STRING"}, "1,x\n2,y,z\n", "line 2.*it has 3 columns, where 2 are expected"),
        ({"schema": "a INT NOT NULL, b STRING"}, "1,x\n,y\n", "line 2.*column a.*'' is not of type INT NOT NULL"),
        ({"schema": "b STRING, a TINYINT", "header": "true"}, "a,b\n1,x\n300,y\n", "line 3.*column a.*'300'"),
        ({"schema": "a TIMESTAMP, b STRING"}, "2013-01-01,x\nsoon,y\n", "line 2.*column a.*'soon' is not of type TIMESTAMP"),
        ({"schema": "a STRING, b STRING"}, b"1,x\n2,\xff\n", "line 2.*column b"),
    ],
)  # fmt: skip
def test_a_csv_row_that_does_not_fit_is_named_with_file_line_and_column(
    path: Path, properties: dict[str, str], text: str | bytes, message: str
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        rows_of(path, text, format="csv", **properties)
    assert str(path) in str(caught.value)
    assert "nothing of this batch was written" in str(caught.value)


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


def test_the_row_that_does_not_fit_is_found_in_a_large_file(path: Path) -> None:
    lines = [f"{number},x" for number in range(300_000)]
    lines[234_567] = "none,x"
    with pytest.raises(DataError, match=r"line 234568.*column a.*'none'"):
        rows_of(path, "\n".join(lines), format="csv", schema="a INT, b STRING")


@pytest.mark.parametrize(
    ("header", "message"),
    [("a,c", "the schema's b missing in the file; the file's c missing in the schema"), ("a,a", "a name twice")],
)
def test_a_header_that_does_not_fit_is_an_error(path: Path, header: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        rows_of(path, f"{header}\n1,2\n", format="csv", header="true", schema="a INT, b INT")


def test_a_quote_that_is_never_closed_is_an_error(path: Path) -> None:
    with pytest.raises(DataError, match="Is a quote not closed"):
        rows_of(path, '1,"x\n' + "2,y\n" * 100, format="csv", schema="a INT, b STRING", batch_bytes="100")


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
    """So the connector may promise that source partitions follow them."""
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
        assert all(task.keys() == {"files", "topic", "format", "task.files"} for task in configs[-1])
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
    with pytest.raises(ConfigError, match=f"{path}, but there is no such file"):
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
def test_properties_that_will_not_do_are_blamed(properties: dict[str, str], blamed: str, message: str) -> None:
    errors = errors_of(**properties)
    assert list(errors) == [blamed]
    with pytest.raises(ConfigError, match=message):
        raise ConfigError(errors[blamed])


def test_a_directory_is_no_file(tmp_path: Path) -> None:
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


@pytest.mark.parametrize(("separator", "value"), [(";", ";"), ("\t", r"\t"), ("|", "|")])
@pytest.mark.parametrize("schema", [{"schema": "id INT, name STRING"}, {}])
def test_a_header_with_another_delimiter_names_the_property(
    path: Path, separator: str, value: str, schema: dict[str, str]
) -> None:
    with pytest.raises(DataError) as caught:
        rows_of(path, f"id{separator}name\n1{separator}x\n", format="csv", header="true", **schema)

    assert f"separates its columns, set the property delimiter={value}" in str(caught.value)


@pytest.mark.parametrize(("blank", "name"), [("\t", r"\t"), (" ", r"\u0020")])
def test_a_blank_is_a_delimiter_however_a_file_or_json_has_it(path: Path, blank: str, name: str) -> None:
    [from_properties] = parse_properties(f"delimiter={name}", where="c.properties").values()
    assert from_properties == json.loads(f'"{name}"') == blank
    for value in (blank, name):
        text = f"a{blank}b\n1{blank}\n"
        assert rows_of(path, text, format="csv", header="true", delimiter=value) == [{"a": "1", "b": None}]


def test_a_row_with_another_delimiter_names_the_property(path: Path) -> None:
    with pytest.raises(
        DataError, match=r"1 column, .*\(id, name\). If ; separates its columns, set the property delimiter=;"
    ):
        rows_of(path, "1;x\n", format="csv", schema="id INT, name STRING")


def test_a_column_may_have_a_semicolon_in_its_name_if_the_schema_says_so(path: Path) -> None:
    assert rows_of(path, "a;b\nx\n", format="csv", header="true", schema="`a;b` STRING") == [{"a;b": "x"}]


def test_a_pattern_that_fits_no_file_has_no_end_unless_files_are_taken_away(tmp_path: Path) -> None:
    properties = config(tmp_path / "*.csv", format="csv", schema="a INT")
    [task] = tasks(properties)
    with pytest.raises(
        DataError, match=r"No file fits .*\*\.csv, so there is nothing to read: correct the property files"
    ):
        task.at_end()

    [task] = tasks({**properties, "files.after.end": "delete"})
    assert task.at_end()


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
def test_a_line_feed_after_a_return_that_was_the_last_byte_is_no_row(
    path: Path, encoding: str, *, restarted: bool
) -> None:
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
    assert task.poll() is None
    with path.open("ab") as file:
        file.write("b\r\nc\n".encode(encoding))
    assert read(task.poll()) == ["b", "c"]


def test_a_return_within_quotes_at_the_end_of_a_file_ends_no_row(path: Path) -> None:
    path.write_bytes(b'1\n"a\r')
    [task] = tasks(config(path, format="csv", schema="value STRING"))
    assert [row["value"] for row in read(task.poll())] == ["1"]
    assert task.poll() is None
    with path.open("ab") as file:
        file.write(b'\nb"\n')
    assert [row["value"] for row in read(task.poll())] == ["a\r\nb"]
