"""Random values at and beyond the edges of their types, in all formats of files, against Python's own parsers.

A case is one file: a few rows of a column of one type, in one format. Each row is accepted with the exact value that Python
reads, or refused. A file of accepted rows alone is also read at once, as a batch is.
"""

from __future__ import annotations

import math
import random
import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.ddl import parse_columns
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.csv_reader import CsvReader
from fencepost.connectors.files.formats.jsonl_reader import JsonLinesReader
from fencepost.connectors.files.formats.tables.table import TableFormat
from fencepost.connectors.files.formats.tables.table_reader import RowRange, TableReader, open_table
from fencepost.connectors.rows.arrow_columns import spark_columns
from tests.support.python_values import BITS, BOOLEANS, MOST, REFUSED, TEXTS, csv_value, json_value, numbers_of
from tests.support.value_tables import table_file

PRINT_EVERY: Final = 10_000
_JSON_NUMBER: Final = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
_JSON_WORDS: Final = ("NaN", "Infinity", "-Infinity", "true", "false", "null")


@dataclass(frozen=True)
class Case:
    """The rows of one column as in a file, and the expected value of each: a value, or REFUSED."""

    form: str
    kind: str
    texts: Sequence[Any]
    expected: Sequence[Any]
    data: bytes


def run(cases: int, seed: int) -> int:
    """Check `cases` random files. Returns their number; raises AssertionError with the seed of a failed case."""
    with tempfile.TemporaryDirectory(prefix="fencepost-values-") as directory:
        path = Path(directory) / "data"
        for number in range(cases):
            check(seed + number, path)
            if (number + 1) % PRINT_EVERY == 0:
                print(f"values: {number + 1:,} of {cases:,} files are read as Python reads them", flush=True)  # noqa: T201 - a script that prints
    return cases


def check(seed: int, path: Path) -> None:
    """Check the case of one seed. `path` is a file to write."""
    case = make(random.Random(seed))
    path.write_bytes(case.data)
    told = f"seed {seed}: {case.form}, {case.kind}, {case.texts!r}"
    try:
        found = list(_rows(case, path))
    except Exception as error:
        raise AssertionError(f"{told}: {type(error).__name__}: {error}") from error
    wanted = [value for value in case.expected if value is not REFUSED]
    assert len(found) == len(wanted), f"{told}: {found!r} is read, where {case.expected!r} is expected"
    for value, expected in zip(found, wanted, strict=True):
        assert _same(value, expected), f"{told}: {value!r} is read, where {expected!r} is expected"


def make(chance: random.Random) -> Case:
    """Return a random case."""
    form = chance.choice(["csv", "jsonl", "csv", "jsonl", "parquet", "orc", "avro"])
    return _text_case(chance, form) if form in ("csv", "jsonl") else Case(form, *table_file(chance, form))


def _rows(case: Case, path: Path) -> Iterator[Any]:
    """Yield the values of accepted rows; if all are accepted, they are read as one batch."""
    everything = REFUSED not in case.expected
    split: Any = FileRange(str(path), 0, len(case.data))
    reader: Any
    if case.form in ("csv", "jsonl"):
        columns = parse_columns(f"v {case.kind}, z STRING")
        csv = CsvReader(columns, file_columns=("v", "z"), null_values=("@",))
        reader = csv if case.form == "csv" else JsonLinesReader(columns)
    else:
        form = TableFormat(case.form)
        with open_table(str(path), form, ANYWHERE) as table:
            reader = TableReader(form, spark_columns(table.schema, f"the file {path}"))
            [group] = list(table.groups(table.first_key))
            split = RowRange(str(path), group.key, 0, group.rows, 0, table.identity)
    for part in reader.read(split) if everything else reader.read_tolerant(split):
        if isinstance(part, pa.RecordBatch):
            yield from (_plain(value) for value in part["value"].field(0))


def _plain(value: pa.Scalar) -> Any:
    if pa.types.is_timestamp(value.type) or pa.types.is_date(value.type):
        # Python's datetime has no years beyond 9999.
        return value.value
    return value.as_py()


def _same(value: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(value, float):
        return (value == expected and math.copysign(1, value) == math.copysign(1, expected)) or (
            math.isnan(value) and math.isnan(expected)
        )
    return type(value) is type(expected) and bool(value == expected)


def _text_case(chance: random.Random, form: str) -> Case:
    kind = _kind(chance)
    is_json = form == "jsonl"
    if is_json and kind == "BINARY":
        kind = "STRING"
    texts = [_text(chance, kind) for _ in range(chance.choice([1, 2, 5]))]
    if is_json:
        texts = [_in_json(chance, kind, text) for text in texts]
        expected = [json_value(kind, text) for text in texts]
        data = "".join(f'{{"v": {text}, "z": "z"}}\n' for text in texts)
    else:
        expected = [csv_value(kind, text) for text in texts]
        data = "".join(f"{text},z\n" for text in texts)
    if chance.random() < 0.5:
        # This is how a batch without refused rows is read.
        good = [n for n, value in enumerate(expected) if value is not REFUSED]
        texts, expected = [texts[n] for n in good], [expected[n] for n in good]
        data = "".join(f'{{"v": {text}, "z": "z"}}\n' if is_json else f"{text},z\n" for text in texts)
    return Case(form, kind, texts, expected, data.encode("utf-8", "surrogatepass"))


def _kind(chance: random.Random) -> str:
    simple = [*BITS, "FLOAT", "DOUBLE", "BOOLEAN", "DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING", "BINARY"]
    if chance.random() < 0.4:
        precision = chance.choice([1, 2, 9, 10, 18, 19, 37, 38, chance.randint(1, MOST)])
        return f"DECIMAL({precision},{chance.choice([0, precision, precision // 2, chance.randint(0, precision)])})"
    return chance.choice(simple)


def _text(chance: random.Random, kind: str) -> str:
    if chance.random() < 0.05:
        return chance.choice(["", "x", "-", "+", ".", "e5", "0x10", "0XfF", "1_000", "\uff15", "nan", "null", "true"])
    if kind in ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ"):
        text = _time_text(chance, kind)
    elif kind == "BOOLEAN":
        text = chance.choice([*BOOLEANS, "yes", "t", "tRuE", "2"])
    elif kind in ("STRING", "BINARY"):
        text = "".join(chance.choice("ab \0é\u20ac\U0001f600'5") for _ in range(chance.randint(1, 6)))
    else:
        text = _number_text(chance, kind)
    return chance.choice(["", "", "", " ", "\t", " \t"]) + text + chance.choice(["", "", "", " "])


def _number_text(chance: random.Random, kind: str) -> str:
    if kind in BITS:
        edge = 1 << (BITS[kind] - chance.choice([0, 1, 1, 1]))
        number = (
            chance.choice([-1, 1]) * edge + chance.randint(-2, 2)
            if chance.random() < 0.7
            else chance.randint(-300, 300)
        )
        text = chance.choice(["", "0", "000", "0" * 30]) + str(abs(number))
        return (
            chance.choice(["-", "-", "+"] if number < 0 else ["", "", "+"])
            + text
            + chance.choice(["", "", "", "", ".", ".0", "e0"])
        )
    if kind.startswith("DECIMAL"):
        return _decimal_text(chance, kind)
    sign = chance.choice(["", "-", "+"])
    if chance.random() < 0.1:
        return sign + chance.choice(["inf", "nan", "Infinity", "NaN", "INF", "infinity", "nan(1)", "in", "Inf"])
    digits = "".join(chance.choice("0123456789") for _ in range(chance.choice([1, 3, 9, 17, 25, 60])))
    cut = chance.randint(0, len(digits))
    text = chance.choice([digits, f"{digits[:cut]}.{digits[cut:]}"])
    edges = ["3.4028235e38", "3.40282357e38", "1.17549435e-38", "7e-46", "7.1e-46", "1.7976931348623157e308",
             "1.7976931348623159e308", "4.9e-324", "2.4e-324", "2.5e-324", "9007199254740993", "16777217"]  # fmt: skip
    text = chance.choice([text, text, chance.choice(edges)])
    return (
        sign
        + text
        + (
            ""
            if "e" in text
            else chance.choice(
                [
                    "",
                    f"e{chance.randint(-400, 400)}",
                    f"E+{chance.randint(0, 50)}",
                    "e-5",
                    "e",
                    f"e-{10 ** chance.randint(3, 30)}",
                    f"e{10 ** chance.randint(3, 30)}",
                ]
            )
        )
    )


def _decimal_text(chance: random.Random, kind: str) -> str:
    precision, scale = numbers_of(kind)
    edge = 10**precision
    unscaled = chance.choice(
        [edge - 1, edge, edge + 1, edge * 10, 2**127, 2**128 + 5, 10**38, chance.randrange(2 * edge), 0, 7]
    )
    places = max(0, scale + chance.choice([0, 0, 0, 0, -1, 1, 2, chance.randint(-40, 40)]))
    digits = str(unscaled).rjust(places + 1, "0")
    text = digits if places == 0 else f"{digits[:-places]}.{digits[-places:]}"
    text = (
        chance.choice(["", "", "", "0", "0" * 40])
        + text
        + (chance.choice(["", "", "0", "0" * 39]) if "." in text else "")
    )
    shift = chance.choice([0, 0, 0, chance.randint(-45, 45), chance.choice([-1, 1]) * 10 ** chance.randint(1, 30)])
    text += f"{chance.choice('eE')}{shift}" if shift else chance.choice(["", "", "", "e0", "."])
    return chance.choice(["", "", "-", "+"]) + text


def _time_text(chance: random.Random, kind: str) -> str:
    year = chance.choice(
        [0, 1, 2, 1582, 1899, 1900, 1969, 1970, 2000, 2023, 2024, 9998, 9999, 10000, chance.randint(1, 9999)]
    )
    month, day = (
        chance.choice([1, 2, 2, 12, 12, 0, 13, chance.randint(1, 12)]),
        chance.choice([1, 28, 29, 30, 31, 31, 0, 32]),
    )
    text = f"{year:04}-{month:02}-{day:02}"
    if chance.random() < (0.95 if kind == "DATE" else 0.15):
        return text if chance.random() < 0.95 else text.replace("-0", "-")
    hour, minute, second = (
        chance.choice([0, 1, 23, 23, 24]),
        chance.choice([0, 59, 59, 60]),
        chance.choice([0, 59, 59, 60]),
    )
    fraction = "".join(chance.choice("0099123456789") for _ in range(chance.choice([1, 3, 6, 6, 7, 9])))
    time = f"{hour:02}:{minute:02}:{second:02}.{fraction}"
    text += chance.choice("TTT  t") + chance.choice([time, time, time[:8], time[:8], time[:5], time[:2]])
    zones = [
        "",
        "",
        "",
        "",
        "Z",
        "Z",
        "z",
        "+01:00",
        "-01:00",
        "+0530",
        "-23",
        "+23:59",
        "-23:59",
        "+24:00",
        " +01:00",
        "+01:60",
        "-00:00",
    ]
    return text + chance.choice(zones)


def _in_json(chance: random.Random, kind: str, text: str) -> str:
    """Write a value as JSON: as a number, or in quotes."""
    if kind in TEXTS or (kind.startswith("DECIMAL") and chance.random() < 0.4):
        return '"' + "".join(f"\\u{ord(c):04x}" if c in '"\\' or c < " " else c for c in text) + '"'
    number = text.strip(" \t")
    return number if _JSON_NUMBER.fullmatch(number) or number in _JSON_WORDS else f'"{number}"'
