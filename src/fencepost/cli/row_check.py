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
    `unfinished` tells whether the file's last row has no line end and is not in the topic: as long as the file may
    grow, a source does not read such a row, so it is neither expected nor lost.
    """

    expected: int
    found: int
    lost: int
    duplicates: int
    unfinished: bool = False

    @property
    def sound(self) -> bool:
        """Whether the topic has every row once, and nothing else."""
        return self.lost == self.duplicates == 0


def compare_rows(found: Iterable[Row], expected: Iterable[Row], source: SourceFile) -> RowFindings:
    """Compare rows, in any order. `found` is read before `expected`, the rows of `source`, each once.

    Raises what they raise.
    """
    have = Counter(map(_digest, found))
    want: Counter[bytes] = Counter()
    last: bytes | None = None
    for last in map(_digest, expected):
        want[last] += 1
    unfinished = not source.finished and last is not None and have[last] < want[last]
    if unfinished and last is not None:
        want[last] -= 1
    return RowFindings(
        expected=want.total(),
        found=have.total(),
        lost=(want - have).total(),
        duplicates=(have - want).total(),
        unfinished=unfinished,
    )


class SourceFile:
    """A text file, or a pipe, which is read once. `finished` tells whether the last line that was read has an end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.finished = True

    def lines(self, *, newline: str | None = None, errors: str = "strict") -> Iterator[str]:
        """Yield the lines with their ends; `newline` and `errors` are those of `open`. Raises DataError."""
        try:
            with self.path.open(encoding="utf-8", newline=newline, errors=errors) as file:
                for line in file:
                    self.finished = line.endswith(("\n", "\r"))
                    yield line
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise DataError(f"{self.path} cannot be compared with the topic: {reason}") from error


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

    def of_file(self, source: SourceFile) -> Iterator[Row]:
        """Yield the rows of the file. Raises DataError if it cannot be read."""
        rows = csv.reader(source.lines(newline=""))
        try:
            next(rows, None)
            # Sources skip empty lines.
            for row in filter(None, rows):
                yield tuple(self._text(column, cell) for column, cell in enumerate(row))
        except csv.Error as error:
            raise DataError(f"{source.path} cannot be compared with the topic: {error}") from error

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


def lines_of(source: SourceFile) -> Iterator[Row]:
    """Yield the lines of a text file, each as a row of one cell. Raises DataError if it cannot be read."""
    for line in source.lines(errors="surrogateescape"):
        yield (line.removesuffix("\n"),)


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
