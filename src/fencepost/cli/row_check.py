"""Compares a topic with its source file: each row or line should appear once.

Rows are compared by digests of 16 bytes, so memory does not depend on their size.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final

from fencepost.api.errors import DataError
from fencepost.api.foreign_json import parse_json

Row = tuple[str | None, ...]

_DIGEST_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class RowFindings:
    """The comparison of a topic's rows with those of a file.

    `lost` counts the rows that appear more often in the file, `duplicates` those that appear more often in the topic.
    """

    expected: int
    found: int
    lost: int
    duplicates: int

    @property
    def sound(self) -> bool:
        """Whether the topic has every row once, and nothing else."""
        return self.lost == self.duplicates == 0


def compare_rows(found: Iterable[Row], expected: Iterable[Row]) -> RowFindings:
    """Compare rows, in any order. `found` is read before `expected`, each once."""
    have = Counter(map(_digest, found))
    want = Counter(map(_digest, expected))
    return RowFindings(
        expected=want.total(),
        found=have.total(),
        lost=(want - have).total(),
        duplicates=(have - want).total(),
    )


def _digest(row: Row) -> bytes:
    return blake2b(repr(row).encode(), digest_size=_DIGEST_BYTES).digest()


class CsvRows:
    """The rows of a CSV file with a header, and the JSON objects of the records, in comparable form.

    A column is treated as numbers or booleans if a JSON value in it is one: then 1.50 and 1.5 are equal. So read the
    topic before the file. `null_value` means null in the file.
    """

    def __init__(self, null_value: str) -> None:
        self._null_value = null_value
        self._numbers: set[int] = set()
        self._booleans: set[int] = set()

    def of_record(self, value: bytes | None) -> Row:
        """Return the row of a record's value, in the order of its fields."""
        fields = json_value(value)
        cells = list(fields.values()) if isinstance(fields, dict) else [fields]
        return tuple(self._cell(column, cell) for column, cell in enumerate(cells))

    def of_file(self, path: Path) -> Iterator[Row]:
        """Yield the rows of the file. Raises DataError if it cannot be read."""
        try:
            with path.open(newline="") as file:
                rows = csv.reader(file)
                next(rows, None)
                for row in rows:
                    yield tuple(self._text(column, cell) for column, cell in enumerate(row))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise _unreadable(path, error) from error

    def _cell(self, column: int, cell: Any) -> str | None:
        match cell:
            case None:
                return None
            case bool():
                self._booleans.add(column)
                return str(cell).lower()
            case int() | Decimal():
                self._numbers.add(column)
                return _number(str(cell))
        return str(cell)

    def _text(self, column: int, cell: str) -> str | None:
        if cell == self._null_value:
            return None
        if column in self._numbers:
            return _number(cell)
        return cell.lower() if column in self._booleans else cell


def lines_of(path: Path) -> Iterator[Row]:
    """Yield the lines of a text file, each as a row of one cell. Raises DataError if it cannot be read."""
    try:
        with path.open(errors="surrogateescape") as file:
            for line in file:
                yield (line.removesuffix("\n"),)
    except OSError as error:
        raise _unreadable(path, error) from error


def line_of_record(value: bytes | None) -> Row:
    """Return the row that `lines_of` would give for a record's value."""
    return (None if value is None else value.decode(errors="surrogateescape"),)


def json_value(data: bytes | None) -> Any:
    """Return the parsed JSON, without the schema envelope that Connect's JsonConverter may have added.

    Numbers with a fraction are Decimals. Invalid JSON is returned as text; None is None.
    """
    if data is None:
        return None
    text = data.decode(errors="surrogateescape")
    try:
        value = parse_json(text, parse_float=Decimal)
    except ValueError:
        return text
    return value["payload"] if isinstance(value, dict) and value.keys() == {"schema", "payload"} else value


def _number(text: str) -> str:
    try:
        # Normalized zeros may be 0E+3, and 100 would be 1E+2: only equality matters.
        return str(Decimal(text).normalize() + 0)
    except InvalidOperation:
        return text


def _unreadable(path: Path, error: Exception) -> DataError:
    reason = error.strerror if isinstance(error, OSError) else str(error)
    return DataError(f"{path} cannot be compared with the topic: {reason}")
