"""Values of CSV and JSON lines at and beyond the limits of their types."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.unit.connectors.files.test_bad_rows import read_tolerant
from tests.unit.connectors.files.test_file_source import rows_of

REFUSED = object()


def csv_value(path: Path, kind: str, text: str) -> Any:
    path.write_text(f"{text},x\n")
    rows, refused = read_tolerant(path, format="csv", schema=f"v {kind}, other STRING")
    assert len(rows) + len(refused) == 1
    return rows[0]["v"] if rows else REFUSED


def json_value(path: Path, kind: str, text: str) -> Any:
    path.write_text(f'{{"v":{text}}}\n')
    rows, refused = read_tolerant(path, format="jsonl", schema=f"v {kind}")
    assert len(rows) + len(refused) == 1
    return rows[0]["v"] if rows else REFUSED


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


TOO_LARGE = [
    ("DECIMAL(38,18)", "400000000000000000000"),
    ("DECIMAL(38,18)", "100000000000000000000"),
    ("DECIMAL(38,37)", "1e37"),
    ("DECIMAL(38,37)", "10"),
    ("DECIMAL(38,38)", "1"),
    ("DECIMAL(10,2)", "9999999999"),
    ("DECIMAL(10,2)", "-100000000"),
    ("DECIMAL(10,2)", "1e8"),
    ("DECIMAL(1,0)", "10"),
    ("DECIMAL(38,0)", "1" + "0" * 38),
    ("DECIMAL(38,0)", "1" * 100),
    ("DECIMAL(10,2)", "1.005"),
    ("DECIMAL(10,2)", "0.001"),
    ("DECIMAL(10,2)", "1e-400"),
    ("DECIMAL(10,2)", "0." + "0" * 40),
]


@pytest.mark.parametrize(("kind", "text"), TOO_LARGE)
def test_a_decimal_that_does_not_fit_is_refused_and_not_wrapped(path: Path, kind: str, text: str) -> None:
    assert csv_value(path, kind, text) is REFUSED
    assert json_value(path, kind, text) is REFUSED
    assert json_value(path, kind, f'"{text}"') is REFUSED
    assert json_value(path, f"STRUCT<a: ARRAY<{kind}>>", f'{{"a": [{text}]}}') is REFUSED


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("DECIMAL(38,18)", "99999999999999999999.999999999999999999"),
        ("DECIMAL(38,37)", "-9.9999999999999999999999999999999999999"),
        ("DECIMAL(38,38)", "0." + "9" * 38),
        ("DECIMAL(38,0)", "-" + "9" * 38),
        ("DECIMAL(38,0)", "1e37"),
        ("DECIMAL(10,2)", "1.000"),
        ("DECIMAL(10,2)", "100e-2"),
        ("DECIMAL(10,2)", "99999999.99"),
        ("DECIMAL(1,1)", "0.9"),
    ],
)
def test_a_decimal_at_the_edge_of_its_type_is_kept_exactly(path: Path, kind: str, text: str) -> None:
    assert csv_value(path, kind, text) == Decimal(text)
    assert json_value(path, kind, text) == Decimal(text)
    assert json_value(path, kind, f'"{text}"') == Decimal(text)


@pytest.mark.parametrize("number", ["1e-2000000000", "1\\u0065-2000000000", "0." + "0" * 100_000])
def test_a_decimal_with_many_places_does_not_end_the_process(tmp_path: Path, number: str) -> None:
    (tmp_path / "csv").write_text(number.replace("\\u0065", "e") + ",x\n")
    (tmp_path / "jsonl").write_text(f'{{"v":"{number}"}}\n')
    code = (
        "import sys; from pathlib import Path; from tests.unit.connectors.files.test_bad_rows import read_tolerant\n"
        "for form in ('csv', 'jsonl'):\n"
        "    found = read_tolerant(Path(sys.argv[1]) / form, format=form, schema='v DECIMAL(10,2), other STRING')\n"
        "    print(len(found[0]), len(found[1]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["0", "1", "0", "1"])


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("TINYINT", "127", 127),
        ("TINYINT", "128", REFUSED),
        ("TINYINT", "-129", REFUSED),
        ("BIGINT", "9223372036854775807", 2**63 - 1),
        ("BIGINT", "9223372036854775808", REFUSED),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("INT", "+5", 5),
        ("INT", "+-5", REFUSED),
        ("INT", "05", 5),
        ("INT", "+" + "0" * 50 + "7", 7),
        ("INT", " 5\t", 5),
        ("INT", "0x10", REFUSED),
        ("INT", "0XFFFFFFFF", REFUSED),
        ("INT", "1_000", REFUSED),
        ("INT", "\uff15", REFUSED),
        ("INT", "1e3", REFUSED),
        ("INT", "5.0", REFUSED),
        ("DECIMAL(10,2)", " +.5 ", Decimal("0.5")),
        ("DECIMAL(10,2)", "5.", Decimal(5)),
        ("DECIMAL(10,2)", ".", REFUSED),
        ("DECIMAL(10,2)", "NaN", REFUSED),
        ("DECIMAL(10,2)", "1_0", REFUSED),
        ("DECIMAL(10,2)", "\uff15", REFUSED),
        ("FLOAT", "3.4028235e38", 3.4028234663852886e38),
        ("FLOAT", "3.4028236e38", REFUSED),
        ("FLOAT", "16777217", 16777216.0),
        ("FLOAT", "1e-46", 0.0),
        ("DOUBLE", "1e309", REFUSED),
        ("DOUBLE", "1e-400", 0.0),
        ("DOUBLE", "-inf", -math.inf),
        ("DOUBLE", "Infinity", math.inf),
        ("DOUBLE", "nan(1)", REFUSED),
        ("DOUBLE", "0x1p3", REFUSED),
        ("DOUBLE", "1_0", REFUSED),
        ("BOOLEAN", " TRUE", True),
        ("BOOLEAN", "0", False),
        ("BOOLEAN", "tRuE", REFUSED),
        ("BOOLEAN", "yes", REFUSED),
        ("DATE", "0001-01-01", date(1, 1, 1)),
        ("DATE", "0000-12-31", REFUSED),
        ("DATE", "9999-12-31", date(9999, 12, 31)),
        ("DATE", "10000-01-01", REFUSED),
        ("DATE", "2000-02-29", date(2000, 2, 29)),
        ("DATE", "1900-02-29", REFUSED),
        ("DATE", "2024-1-1", REFUSED),
        ("TIMESTAMP", "1969-12-31T23:59:59.999999Z", datetime(1969, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("TIMESTAMP", " 2024-01-01 10:00 ", datetime(2024, 1, 1, 10, tzinfo=UTC)),
        ("TIMESTAMP", "9999-12-31T23:59:59.999999Z", datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
        ("TIMESTAMP", "9999-12-31T23:59:59-01:00", REFUSED),
        ("TIMESTAMP", "0001-01-01T00:00:00+01:00", REFUSED),
        ("TIMESTAMP", "0000-01-01T00:00:00", REFUSED),
        ("TIMESTAMP", "2024-01-01T00:00:00.1234567", REFUSED),
        ("TIMESTAMP", "2016-12-31T23:59:60Z", REFUSED),
        ("TIMESTAMP", "2024-01-01T24:00:00", REFUSED),
        ("TIMESTAMP_NTZ", "2024-01-01T00:00:00+01:00", REFUSED),
        ("STRING", "a\0b", "a\0b"),
        ("BINARY", " é", " é".encode()),
    ],
)
def test_the_grammar_of_csv_is_the_documented_one(path: Path, kind: str, text: str, value: Any) -> None:
    assert csv_value(path, kind, text) == value


@pytest.mark.parametrize("kind", ["TINYINT", "INT"])
@pytest.mark.parametrize("text", ['"0"xFF', '"0"XFF', "0\\xFF", '"0\\xFF"', "0'xFF"])
@pytest.mark.parametrize("quote", ['"', "'"])
def test_hexadecimal_numbers_are_refused_however_they_are_quoted(path: Path, kind: str, text: str, quote: str) -> None:
    path.write_text(f"{text}\n")
    assert read_tolerant(path, format="csv", schema=f"v {kind}", escape="\\", quote=quote)[0] == []


@pytest.mark.parametrize("before", [2**18 - 2, 2**18 - 1, 2**18, 2**20])
def test_hexadecimal_numbers_are_refused_behind_much_text(path: Path, before: int) -> None:
    path.write_text("x" * before + ",1\n,0xF\n")
    rows, refused = read_tolerant(path, format="csv", schema="t STRING, v INT")
    assert [row["v"] for row in rows] == [1]
    assert [row.reason for row in refused] == ["column v (number 2): '0xF' is not of type INT"]


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("TINYINT", "128", REFUSED),
        ("BIGINT", "-9223372036854775808", -(2**63)),
        ("BIGINT", "9223372036854775808", REFUSED),
        ("INT", "1.0", REFUSED),
        ("INT", '"1"', REFUSED),
        ("FLOAT", "3.4028235e38", 3.4028234663852886e38),
        ("FLOAT", "3.4028236e38", REFUSED),
        ("DOUBLE", "1.7976931348623158e308", 1.7976931348623157e308),
        ("DOUBLE", "1.8e308", REFUSED),
        ("DOUBLE", "1" * 400, REFUSED),
        ("ARRAY<DOUBLE>", "[1.8e308]", REFUSED),
        ("DOUBLE", "-Infinity", -math.inf),
        ("DOUBLE", "Inf", REFUSED),
        ("DATE", '"0000-12-31"', REFUSED),
        ("ARRAY<DATE>", '["2024-02-29"]', [date(2024, 2, 29)]),
        ("ARRAY<DATE>", '["0000-02-29"]', REFUSED),
        ("TIMESTAMP", '"9999-12-31T23:59:59-01:00"', REFUSED),
        ("TIMESTAMP", '"2024-01-01T00:00:00+01:00"', datetime(2023, 12, 31, 23, tzinfo=UTC)),
        ("TIMESTAMP", "1700000000000", REFUSED),
        ("TIMESTAMP_NTZ", '"2024-01-01T00:00:00+01:00"', REFUSED),
        ("STRUCT<a: TIMESTAMP_NTZ>", '{"a": "2024-01-01 00:00"}', {"a": datetime(2024, 1, 1)}),  # noqa: DTZ001 - local
        ("BOOLEAN", "1", REFUSED),
        ("STRING", '"\\u0000"', "\0"),
        ("STRING", '"\\ud800"', REFUSED),
    ],
)
def test_the_grammar_of_json_lines_is_the_documented_one(path: Path, kind: str, text: str, value: Any) -> None:
    assert json_value(path, kind, text) == value


def test_values_that_are_read_slowly_stand_beside_others(path: Path) -> None:
    texts = ["1", "+2", " 3", "0x4", "-5"]
    path.write_text("".join(f"{text},{text}.50,{text}\n" for text in texts))
    rows, refused = read_tolerant(path, format="csv", schema="a INT, b DECIMAL(4,2), c DOUBLE")
    assert [(row["a"], row["b"], row["c"]) for row in rows] == [
        (number, Decimal(f"{number}.50"), float(number)) for number in (1, 2, 3, -5)
    ]
    assert [row.reason for row in refused] == ["column a (number 1): '0x4' is not of type INT"]


@pytest.mark.parametrize("hour", ["T00", " 00", "T00:00", "T00:00:00.0"])
def test_times_with_and_without_zones_are_read_in_any_form_side_by_side(path: Path, hour: str) -> None:
    texts = [f"2024-01-01{hour}Z", f"2024-01-01{hour}", f"2024-01-01{hour}+0100", f"2024-01-01{hour}-01", "2024-01-01"]
    rows = rows_of(path, "".join(f"{text}\n" for text in texts), format="csv", schema="at TIMESTAMP")
    assert [(row["at"] - datetime(2024, 1, 1, tzinfo=UTC)).total_seconds() / 3600 for row in rows] == [0, 0, -1, 1, 0]


def test_a_json_row_that_does_not_fit_is_shown_as_it_is_written(path: Path) -> None:
    row = {"v": "1", "w": 1.5}
    path.write_text(json.dumps(row).replace("1.5", "1.50000000000000000000001") + "\n")
    [], [refused] = read_tolerant(path, format="jsonl", schema="v STRING, w DECIMAL(30,20)")
    assert refused.reason == "column w: 1.50000000000000000000001 is not of type DECIMAL(30,20)"


@pytest.mark.parametrize(
    "text", ["0x10", "+5", "007", "0000-01-01", "2024-01-01T00:00:00.123456789", "9999-12-31T23:59:59-01:00", "1e400"]
)
def test_values_that_would_be_written_differently_are_inferred_as_strings(path: Path, text: str) -> None:
    assert rows_of(path, f"a\n{text}\n", format="csv", header="true", schema="infer") == [{"a": text}]
