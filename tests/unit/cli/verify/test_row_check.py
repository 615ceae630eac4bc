"""Rows of files are equal to the JSON values of their records if these have the same meaning."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from fencepost import FencepostError
from fencepost.cli.verify.csv_rows import CsvRows
from fencepost.cli.verify.row_check import RowFindings, SourceFile, compare_rows, line_of_record, lines_of

CSV = "id,price,name,open\n1,1.50,NA,true\n2,100,007,false\n3,NA,,true\n"
VALUES = [
    {"id": 1, "price": 1.5, "name": None, "open": True},
    {"id": 2, "price": 1e2, "name": "007", "open": False},
    {"id": 3, "price": None, "name": "", "open": True},
]


def _compared(path: Path, values: list[object]) -> RowFindings:
    rows, source = CsvRows("NA"), SourceFile(path)
    return compare_rows((rows.of_record(json.dumps(value).encode()) for value in values), rows.of_file(source), source)


def _lines_compared(path: Path, *found: bytes) -> RowFindings:
    source = SourceFile(path)
    return compare_rows(map(line_of_record, found), lines_of(source), source)


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(CSV)
    return path


def test_numbers_nulls_and_booleans_are_equal_in_any_spelling(csv: Path) -> None:
    assert _compared(csv, list(VALUES)) == RowFindings(expected=3, found=3, lost=0, duplicates=0)


def test_the_schema_around_a_value_does_not_count(csv: Path) -> None:
    assert _compared(csv, [{"schema": {}, "payload": value} for value in VALUES]).sound


def test_a_text_of_digits_is_not_a_number(csv: Path) -> None:
    assert not _compared(csv, [VALUES[0], {**VALUES[1], "name": "7"}, VALUES[2]]).sound


def test_lost_and_duplicated_rows_are_distinguished(csv: Path) -> None:
    findings = _compared(csv, [VALUES[0], VALUES[0], VALUES[0], VALUES[2]])

    assert (findings.lost, findings.duplicates) == (1, 2)


def test_lines_are_compared_without_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(b"one\r\ntwo\nthree \xff")

    assert _lines_compared(path, b"two", b"one", b"three \xff").sound
    assert not _lines_compared(path, b"two", b"one", b"three").sound


@pytest.mark.parametrize(
    ("content", "found", "told"),
    [
        (b"one\ntwo", [b"one"], RowFindings(1, 1, lost=0, duplicates=0, unfinished=True)),
        (b"one\ntwo", [b"one", b"two"], RowFindings(2, 2, lost=0, duplicates=0)),
        (b"one\none", [b"one"], RowFindings(1, 1, lost=0, duplicates=0, unfinished=True)),
        (b"one\ntwo", [b"two"], RowFindings(2, 1, lost=1, duplicates=0)),
        (b"one\ntwo\n", [b"one"], RowFindings(2, 1, lost=1, duplicates=0)),
        (b"", [], RowFindings(0, 0, lost=0, duplicates=0)),
    ],
)
def test_a_last_line_without_an_end_need_not_be_in_the_topic(
    tmp_path: Path, content: bytes, found: list[bytes], told: RowFindings
) -> None:
    path = tmp_path / "lines.txt"
    path.write_bytes(content)

    assert _lines_compared(path, *found) == told


def test_empty_lines_of_a_csv_file_are_not_rows(csv: Path) -> None:
    csv.write_text(CSV.replace("\n2,", "\n\n2,") + "\n")

    assert _compared(csv, list(VALUES)).sound


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    packed, cut = tmp_path / "rows.csv", tmp_path / "cut.csv.gz"
    packed.write_bytes(b"\x28\xb5\x2f\xfd...")
    cut.write_bytes(gzip.compress(CSV.encode())[:-9])

    with pytest.raises(
        FencepostError, match=r"rows\.csv cannot be compared with the topic: it is compressed with zstd"
    ):
        list(CsvRows("").of_file(SourceFile(packed)))
    with pytest.raises(FencepostError, match=r"cut\.csv\.gz cannot be compared with the topic"):
        list(CsvRows("").of_file(SourceFile(cut)))
    with pytest.raises(FencepostError, match=r"gone\.txt cannot be compared with the topic: No such file"):
        list(lines_of(SourceFile(tmp_path / "gone.txt")))
