"""JsonConverter's JSON of typed columns is equal to the texts of the file."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from fencepost.cli.verify.csv_rows import CsvRows
from fencepost.cli.verify.row_check import RowFindings, SourceFile, compare_rows

_DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}


def _compared(
    path: Path, values: Sequence[object], letters: Sequence[bytes] = (), *, delimiter: str = ","
) -> RowFindings:
    rows, source = CsvRows("", delimiter), SourceFile(path)
    found = (rows.of_record(json.dumps(value).encode()) for value in values)
    return compare_rows(found, rows.of_file(source), source, refused=map(rows.of_dead_letter, letters))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "rows.csv"


def test_dates_and_times_are_the_numbers_since_1970(file: Path) -> None:
    file.write_text(
        "id,day,at\n"
        "1,2024-02-29,2024-02-29 12:00:00\n"
        "2,1969-12-31,2024-02-29T12:00:00.123456Z\n"
        "3,1970-01-01,2024-02-29T13:00:00+01:00\n"
        "4,,\n"
    )
    noon = 1_709_208_000_000
    values = [
        {"id": 1, "day": 19_782, "at": noon},
        {"id": 2, "day": -1, "at": noon + 123},
        {"id": 3, "day": 0, "at": noon},
        {"id": 4, "day": None, "at": None},
    ]

    assert _compared(file, values) == RowFindings(expected=4, found=4, lost=0, duplicates=0)
    assert _compared(file, [*values[:3], {**values[3], "at": noon}]).lost == 1
    assert _compared(file, [{**values[0], "at": noon + 1}, *values[1:]]).lost == 1


def test_a_date_in_a_column_of_times_is_its_midnight(file: Path) -> None:
    file.write_text("at\n2024-02-29\n2024-03-01 00:00:00\n")

    assert _compared(file, [{"at": 1_709_164_800_000}, {"at": 1_709_251_200_000}]).sound


def test_decimals_of_a_schema_envelope_are_numbers(file: Path) -> None:
    file.write_text("id,price\n1,1.50\n2,-0.01\n")
    schema = {"type": "struct", "fields": [{"field": "id", "type": "int64"}, {"field": "price", **_DECIMAL}]}

    payloads = [{"id": 1, "price": "AJY="}, {"id": 2, "price": "/w=="}]

    assert _compared(file, [{"schema": schema, "payload": payload} for payload in payloads]).sound


def test_a_quoted_empty_field_is_an_empty_text_or_null(file: Path) -> None:
    file.write_text('id,name,note\n1,"",a\n2,,b\n3,"",c\n')
    letters = [b'3,"",c\n']

    values = [{"id": 1, "name": "", "note": "a"}, {"id": 2, "name": None, "note": "b"}]
    assert _compared(file, values, letters).sound
    assert _compared(file, [values[0], {**values[1], "name": " "}], letters).lost == 1


def test_columns_are_found_by_their_names(file: Path) -> None:
    file.write_text("extra,NAME,id\nx,a,1\ny,b,2\n")

    assert _compared(file, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]).sound
    assert _compared(file, [{"id": 1, "name": "b"}, {"id": 2, "name": "a"}]).lost == 2


def test_columns_with_other_names_are_compared_in_order(file: Path) -> None:
    file.write_text("nr,title\n1,a\n")

    assert _compared(file, [{"id": 1, "name": "a"}]).sound


def test_the_delimiter_may_be_another(file: Path) -> None:
    file.write_text("id;name\n1;a,b\n")

    assert _compared(file, [{"id": 1, "name": "a,b"}], delimiter=";").sound


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress])
def test_a_compressed_file_is_decompressed(file: Path, compress: object) -> None:
    assert callable(compress)
    file.write_bytes(compress(b"id\n1\n2\n"))

    assert _compared(file, [{"id": 1}, {"id": 2}]).sound


def test_good_rows_and_dead_letters_are_together_the_rows_of_the_file(file: Path) -> None:
    file.write_bytes(b'id,at\n1,2024-02-29\nx,2024-02-29\n3\n4,"not, a\ntime"\n5,\xff\n')
    values = [{"id": 1, "at": 1_709_164_800_000}]
    letters = [b"x,2024-02-29", b"3", b'4,"not, a\ntime"\n', b"5,\xff"]

    assert _compared(file, values, letters) == RowFindings(expected=5, found=5, lost=0, duplicates=0, refused=4)
    assert _compared(file, values, letters[1:]).lost == 1
    assert _compared(file, values, [*letters, b"3"]).duplicates == 1


def test_a_refused_record_is_the_row_that_it_was(file: Path) -> None:
    file.write_text("id,open\n1,true\n2,false\n")

    assert _compared(file, [{"id": 1, "open": True}], [b'{"id":2,"open":false}']).sound


def test_rows_that_nothing_is_equal_to_are_shown(file: Path) -> None:
    file.write_text("id,at\n1,29/02/2024\n")

    findings = _compared(file, [{"id": 1, "at": 1_709_164_800_000}])

    assert findings.unlike == (("1", "1709164800000"), ("1", "29/02/2024"))
