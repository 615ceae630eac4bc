"""Unreadable rows with `errors.tolerance=all`: the accepted rows, the refused ones, and their positions."""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fencepost import RefusedRow, SourceBatch
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.files.content import growing as growing_file
from fencepost.connectors.files.content import restart_point
from fencepost.connectors.files.content.line_numbers import line_number
from tests.unit.connectors.files.test_file_source import config, tasks
from tests.unit.connectors.support import CommittedOffsets, read


def read_tolerant(path: Path, **properties: str) -> tuple[list[Any], list[RefusedRow]]:
    """The rows of a file, and its refused rows, as the engine would read them."""
    [task] = tasks(config(path, **properties))
    rows: list[Any] = []
    refused: list[RefusedRow] = []
    while not task.at_end():
        batch = task.poll()
        assert isinstance(batch, SourceBatch)
        reader: Any = batch.reader
        for split in batch.splits:
            for part in reader.read_tolerant(split):
                if isinstance(part, pa.RecordBatch):
                    rows += part.column("value").to_pylist()
                else:
                    refused += part
    return rows, refused


def test_bad_csv_rows_are_refused_with_their_bytes_and_place(tmp_path: Path) -> None:
    path = tmp_path / "data"
    text = b'id,name\n1,a\nx,b\n\n2,c,d\n3,"e\r\nf"\n4,\xff\n5,g'
    path.write_bytes(text)
    rows, refused = read_tolerant(path, format="csv", header="true", schema="id INT NOT NULL, name STRING")
    assert rows == [{"id": 1, "name": "a"}, {"id": 3, "name": "e\r\nf"}, {"id": 5, "name": "g"}]
    assert [row.raw for row in refused] == [b"x,b", b"2,c,d", b"4,\xff"]
    for row, line in zip(refused, ["3", "5", "8"], strict=True):
        position = int(row.place["position"])
        assert row.place == {"file": str(path), "position": str(position), "line": line}
        assert text[position:].startswith(row.raw)
    assert refused[0].reason == "column id (number 1): 'x' is not of type INT NOT NULL"
    assert refused[1].reason == "it has 3 columns, where 2 are expected (id, name)"


@pytest.mark.parametrize("delimiter", [",", ";"])
@pytest.mark.parametrize(("quote", "line_end"), [('"', "\n"), ("'", "\r"), ('"', "\r\n")])
def test_an_empty_last_field_after_a_quoted_one_is_null_beside_bad_rows(
    tmp_path: Path, delimiter: str, quote: str, line_end: str
) -> None:
    rows = ["1,~a~,", "x,~b~,", "2,~c,~,", "x,~~,", "3,~~,", "4,~d~,~~", "5,~e~,"]
    text = line_end.join(rows).replace(",", delimiter).replace("~", quote)
    path = tmp_path / "data"
    path.write_text(text, newline="")
    options = {"format": "csv", "delimiter": delimiter, "quote": quote}
    texts, refused = read_tolerant(path, schema="id INT NOT NULL, name STRING, note STRING", **options)
    assert [(row["id"], row["note"]) for row in texts] == [(1, None), (2, None), (3, None), (4, ""), (5, None)]
    assert len(refused) == 2
    numbers, refused = read_tolerant(path, schema="id INT NOT NULL, name STRING, note DOUBLE", **options)
    assert [(row["id"], row["note"]) for row in numbers] == [(1, None), (2, None), (3, None), (5, None)]
    assert len(refused) == 3


@pytest.mark.parametrize(
    ("text", "extra", "good", "problem"),
    [
        ('1,"open\n2,b\n', {}, [], "quote that opens on line 1 is not closed before the end of the file, so lines 1 to 2 are one row"),
        ('1,a\n2,"\n', {}, [{"id": 1, "name": "a"}], "quote that opens on line 2 is not closed before the end of the file"),
        ("1,'it''s'\n2,'open\n", {"quote": "'"}, [{"id": 1, "name": "it's"}], "quote that opens on line 2"),
        ('1,"a\\"\n', {"escape": "\\"}, [], "quote that opens on line 1"),
        ('1,"a\n"\n2,"b', {}, [{"id": 1, "name": "a\n"}], "quote that opens on line 3"),
        ('1,a\n"2\n2","b"" \n\n', {}, [{"id": 1, "name": "a"}], "quote that opens on line 3 .* so lines 2 to 4 are one row"),
        ('\ufeff"1', {}, [], "quote that opens on line 1"),
        ("1,a\n2,b\\", {"escape": "\\"}, [{"id": 1, "name": "a"}], "file ends right after an escape character"),
        ('1,a\n2,"b\\', {"escape": "\\"}, [{"id": 1, "name": "a"}], "file ends right after an escape character"),
    ],
    ids=["all", "last", "other", "escaped", "lines", "doubled", "mark", "escape", "escape-in-quotes"],
)  # fmt: skip
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_text_after_a_quote_that_is_not_closed_is_not_a_value(  # noqa: PLR0917 - one case each
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    text: str,
    extra: dict[str, str],
    good: list[Any],
    problem: str,
    compress: Callable[[bytes], bytes],
) -> None:
    path = tmp_path / "data"
    path.write_bytes(compress(text.encode()))
    rows, [refused] = read_tolerant(path, format="csv", schema="id INT, name STRING", **extra)
    assert rows == good
    assert re.match(f"the {problem}", refused.reason)
    assert text.encode().endswith(refused.raw)
    assert f"The last row of the file {path} does not fit: {refused.reason}" in caplog.messages


def test_bad_json_lines_are_refused_with_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "data"
    bad = ['{"a": "x"}', "nonsense", '{"a": 1', '{"a": 1, "b": 2}', '{"a":1}{"a":2}', "[1]"]
    path.write_text("\n".join(['{"a": 1}', *bad, "", '{"a": 2}\n']))
    rows, refused = read_tolerant(path, format="jsonl", schema="a INT")
    assert rows == [{"a": 1}, {"a": 2}]
    assert [row.raw.decode() for row in refused] == bad
    assert [row.place["line"] for row in refused] == ["2", "3", "4", "5", "6", "7"]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_a_line_that_is_not_utf_8_is_refused_alone(tmp_path: Path, form: str) -> None:
    path = tmp_path / "data"
    good, bad = (b"x", b"\xff") if form == "csv" else (b'{"a": "x"}', b'{"a": "\xff"}')
    path.write_bytes(b"\n".join([good, bad, good, good, bad, good, b""]))
    rows, refused = read_tolerant(path, format=form, schema="a STRING")
    assert rows == [{"a": "x"}] * 4
    assert [(row.raw, row.place["line"]) for row in refused] == [(bad, "2"), (bad, "5")]


@pytest.mark.parametrize("line", ["null", " null", "\tnull x", "nullx", "null null", "\ufeffnull"])
@pytest.mark.parametrize("first", [True, False])
def test_a_line_that_is_null_is_not_an_object(tmp_path: Path, line: str, *, first: bool) -> None:
    path = tmp_path / "data"
    path.write_text(f'{line}\n{{"a": 1}}\n' if first else f'{{"a": 1}}\n{line}\n')
    rows, refused = read_tolerant(path, format="jsonl", schema="a INT")
    assert rows == [{"a": 1}]
    assert [row.raw.decode().removeprefix("\ufeff") for row in refused] == [line.removeprefix("\ufeff")]


@settings(max_examples=40, deadline=None)
@given(
    kinds=st.lists(st.booleans(), min_size=1, max_size=60), form=st.sampled_from(["csv", "jsonl"]),
    batch_bytes=st.integers(20, 300),
)  # fmt: skip
def test_each_row_is_read_or_refused_once_and_in_order(
    tmp_path_factory: pytest.TempPathFactory, kinds: list[bool], form: str, batch_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("rows") / "data"
    lines = [
        (json.dumps({"n": n}) if form == "jsonl" else str(n)) if good else f"bad {n}" for n, good in enumerate(kinds)
    ]
    path.write_text("\n".join(lines) + "\n")
    rows, refused = read_tolerant(path, format=form, schema="n INT", batch_bytes=str(batch_bytes))
    assert [row["n"] for row in rows] == [n for n, good in enumerate(kinds) if good]
    assert [(row.raw.decode(), row.place["line"]) for row in refused] == [
        (f"bad {n}", str(n + 1)) for n, good in enumerate(kinds) if not good
    ]


def test_a_part_with_no_good_row_has_the_columns_of_the_schema(tmp_path: Path) -> None:
    path = tmp_path / "data"
    path.write_text("x\ny\n")
    [task] = tasks(config(path, format="csv", schema="n INT", key_columns="n"))
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    reader: Any = batch.reader
    refused, rows = reader.read_tolerant(batch.splits[0])
    assert [row.raw for row in refused] == [b"x", b"y"]
    assert (rows.num_rows, rows.schema.names) == (0, ["value", "key"])


LINES = st.lists(
    st.tuples(st.sampled_from(["a", "bb"]), st.sampled_from(["\n", "\r", "\r\n"])), min_size=1, max_size=20
)


@settings(max_examples=40, deadline=None)
@given(lines=LINES, data=st.data())
def test_lines_are_counted_from_any_position_that_was_counted_before(
    tmp_path_factory: pytest.TempPathFactory, lines: list[tuple[str, str]], data: st.DataObject
) -> None:
    path = tmp_path_factory.mktemp("lines") / "data"
    path.write_bytes("".join(text + end for text, end in lines).encode())
    begins = [sum(len(text + end) for text, end in lines[:number]) for number in range(len(lines))]
    for number in data.draw(st.permutations(range(len(lines)))):
        assert line_number(str(path), begins[number], ANYWHERE) == number + 1


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("restart_bytes", [1, restart_point.RESTART_BYTES])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_a_line_end_that_is_written_in_two_parts_is_one(
    tmp_path: Path,
    compress: Callable[[bytes], bytes],
    restart_bytes: int,
    monkeypatch: pytest.MonkeyPatch,
    *,
    restarted: bool,
) -> None:
    monkeypatch.setattr(restart_point, "RESTART_BYTES", restart_bytes)
    monkeypatch.setattr(growing_file, "WAIT_SECONDS", growing_file.CHECK_SECONDS)

    def read_in_parts(**properties: str) -> list[Any]:
        path = tmp_path / properties["format"]
        path.write_bytes(b"")
        offsets, task, found = CommittedOffsets(), None, list[Any]()
        for part in (b"0\r", b"\nx\r", b"\n1\r", b"y\r", b"\n", b"z\r\n"):
            with path.open("ab") as file:
                file.write(compress(part))
            if task is None or restarted:
                [task] = tasks(config(path, **properties), offsets=offsets)
            while isinstance(batch := task.poll(), SourceBatch):
                offsets.commit(batch)
                reader: Any = batch.reader
                for split in batch.splits:
                    found += reader.read_tolerant(split) if "schema" in properties else read(batch)
        return found

    parts = read_in_parts(format="csv", schema="value INT")
    refused = [row for part in parts if isinstance(part, list) for row in part]
    assert [(row.raw, row.place["line"]) for row in refused] == [(b"x", "2"), (b"y", "4"), (b"z", "5")]
    assert read_in_parts(format="text") == ["0", "x", "1", "y", "z"]


@pytest.mark.parametrize(
    ("line", "told"),
    [
        (b'{"n": 1, "n": 2}', "an object has the name 'n' twice"),
        (b'{"s": {"x": 1, "\\u0078": 2}}', "an object has the name 'x' twice"),
        (b'{"n": 1, "t": "\xed\xa0\x80"}', "it is not UTF-8: set the property encoding to the file's"),
    ],
)
def test_the_reason_of_a_bad_line_of_json_names_the_error(tmp_path: Path, line: bytes, told: str) -> None:
    path = tmp_path / "rows"
    path.write_bytes(line + b"\n")
    _, [refused] = read_tolerant(path, format="jsonl", schema="n INT, t STRING, s STRUCT<x: INT>")
    assert refused.reason == told


def test_a_text_of_csv_that_is_not_utf_8_is_reported_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"1,\xe9\n")
    _, [refused] = read_tolerant(path, format="csv", schema="n INT, t STRING")
    assert refused.reason.endswith("is not of type STRING: it is not UTF-8: set the property encoding to the file's")
