"""Small ranges in memory are read in groups, with the same rows and positions as alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from fencepost import DataError, RefusedRow, SourceBatch
from fencepost.connectors.files.content import held
from fencepost.connectors.files.content.held import HeldGroup, HeldRange, grouped
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.engine.row_origin import origin_in_split
from tests.unit.connectors.files.test_file_source import config, tasks

pytestmark = pytest.mark.usefixtures("short_waits")


def _held(path: str, data: bytes) -> HeldRange:
    return HeldRange(path, 0, len(data), data)


def _lines(split: Any) -> list[str]:
    return [line for batch in LineReader().read(split) for line in batch["value"].to_pylist()]


def test_lines_of_a_group_are_those_of_its_parts() -> None:
    contents = [
        b"a\n",
        b"b",
        b"c\r",
        b"\nd\n",
        b"\n\n",
        b"e\r\n",
        "\u20ac\n\u2028x".encode(),
        b"\xff\n",
        b"f" * 5_000 + b"\ng\rh",
    ]
    parts = [_held(str(number), content) for number, content in enumerate(contents)]
    (group,) = grouped(parts)
    assert isinstance(group, HeldGroup)
    assert _lines(group) == [line for part in parts for line in _lines(part)]
    assert len(list(LineReader().read(group))) == 1


def test_splits_keep_their_order_and_groups_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held, "GROUP_BYTES", 10)
    one, two, three, large = (_held(name, b"x" * size) for name, size in (("1", 4), ("2", 6), ("3", 1), ("4", 11)))
    other = FileRange("other", 0, 7)
    assert list(grouped([one, two, three, other, three, large, one, other])) == [
        HeldGroup((one, two)),
        three,
        other,
        three,
        large,
        one,
        other,
    ]
    assert list(grouped([])) == []


def _batch(folder: Path, **properties: str) -> SourceBatch:
    [task] = tasks(config(folder / "*", **properties))
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    assert [type(split) for split in batch.splits] == [HeldGroup]
    return batch


@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_rows_of_a_group_are_those_of_its_files(tmp_path: Path, form: str) -> None:
    for number in range(4):
        row = f'{{"id": {number}}}\n' if form == "jsonl" else f"id\n{number}\n"
        (tmp_path / str(number)).write_text(row * (1 if form == "csv" else 2))
    header = {"header": "true"} if form == "csv" else {}
    batch = _batch(tmp_path, format=form, schema="id INT", **header)
    reader: Any = batch.reader
    [rows] = reader.read(batch.splits[0])
    expected = list(range(4)) if form == "csv" else [0, 0, 1, 1, 2, 2, 3, 3]
    assert [row["id"] for row in rows["value"].to_pylist()] == expected
    assert f"file {tmp_path / '2'}" in origin_in_split(reader, batch.splits[0], expected.index(2))


def test_bad_rows_of_a_group_are_refused_with_the_place_in_their_file(tmp_path: Path) -> None:
    for number in range(4):
        (tmp_path / str(number)).write_text(f'{{"id": {number}}}\n{{"id": "x{number}"}}\n' if number % 2 else "{}\n")
    batch = _batch(tmp_path, format="jsonl", schema="id INT")
    reader: Any = batch.reader
    found = list(reader.read_tolerant(batch.splits[0]))
    refused = [row for part in found if isinstance(part, list) for row in part]
    assert refused == [
        RefusedRow(
            f'{{"id": "x{number}"}}'.encode(),
            refused[index].reason,
            {"file": str(tmp_path / str(number)), "position": "10", "line": "2"},
        )
        for index, number in enumerate([1, 3])
    ]
    rows = [row["id"] for part in found if isinstance(part, pa.RecordBatch) for row in part["value"].to_pylist()]
    assert rows == [None, 1, None, 3]
    with pytest.raises(DataError, match=r"line 2, does not fit"):
        list(reader.read(batch.splits[0]))


def test_the_place_of_a_line_of_a_group_is_in_its_file() -> None:
    (group,) = grouped([_held("a", b"1\n2\n"), _held("b", b"3\n4\n5\n")])
    assert LineReader().place(group, 3) == {"file": "b", "position": "2", "line": "2"}
    with pytest.raises(DataError, match="fewer rows than before"):
        LineReader().place(group, 5)
