"""The rows of a CSV file, and the JSON objects made from them, in comparable form.

The types of the columns are not known; the JSON values show them. A column is numeric if a JSON value in it is a
number, and then 1.50 and 1.5 are equal. JsonConverter writes a DATE as days and a TIMESTAMP as milliseconds since 1970:
if a column has whole numbers, a date or time in the file is compared as such a number.
"""

from __future__ import annotations

import base64
import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from fencepost.api.decimals import scaled
from fencepost.api.errors import DataError
from fencepost.api.foreign_json import parse_json
from fencepost.cli.verify.row_check import Row, SourceFile, json_value

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
# A column of times with a larger number counts milliseconds, not days since 1970: this number of days is the year
# 29,349, but this number of milliseconds is less than three hours.
_MOST_DAYS: Final = 10_000_000
_DATE_LENGTH: Final = len("2026-01-31")


class CsvRows:
    """Makes comparable rows. Read the records before the file: they show the names and types of the columns.

    `null_value` is the text for null in the file.
    """

    def __init__(self, null_value: str, delimiter: str = ",") -> None:
        self._null_value = null_value
        self._delimiter = delimiter
        self._names: tuple[str, ...] = ()
        self._numbers: dict[int, Decimal] = {}
        """The largest number in each column that has numbers, by the column's index."""
        self._booleans: set[int] = set()
        self._places: Sequence[int] = ()

    def of_record(self, value: bytes | None) -> Row:
        """Return the row of a record's value, in the order of its fields."""
        fields = _fields(value)
        if not isinstance(fields, dict):
            return (self._cell(0, fields),)
        self._names = self._names or tuple(fields)
        return tuple(self._cell(column, cell) for column, cell in enumerate(fields.values()))

    def of_file(self, source: SourceFile) -> Iterator[Row]:
        """Yield the rows of the file. Raises DataError if it cannot be read."""
        rows = csv.reader(source.lines(newline="", errors="surrogateescape"), delimiter=self._delimiter)
        try:
            self._places = self._found_places(next(rows, []))
            # Sources skip empty lines.
            for row in filter(None, rows):
                yield self._of_texts(row, self._places)
        except csv.Error as error:
            raise DataError(f"{source.path} cannot be compared with the topic: {error}") from error

    def of_dead_letter(self, value: bytes | None) -> Row:
        """Return the row of a dead letter, whose value is a row of the file as text, or the JSON object made from it.

        Read the records and the file before calling this.
        """
        fields = _fields(value)
        if isinstance(fields, dict):
            cells = [self._null_value if cell is None else str(cell) for cell in fields.values()]
            return self._of_texts(cells, range(len(cells)))
        text = (value or b"").decode(errors="surrogateescape")
        return self._of_texts(next(csv.reader([text.rstrip("\r\n")], delimiter=self._delimiter), []), self._places)

    def _found_places(self, header: Sequence[str]) -> Sequence[int]:
        """The indexes of the records' fields in a row of the file, found by name.

        If the file lacks one of the names, fields are matched by their order.
        """
        by_name = {name.casefold(): place for place, name in reversed(list(enumerate(header)))}
        found = [by_name.get(name.casefold()) for name in self._names]
        places = [place for place in found if place is not None]
        return places if places and len(places) == len(found) else range(len(header))

    def _of_texts(self, row: Sequence[str], places: Sequence[int]) -> Row:
        # A row with too few or too many fields was not sent. Its result only has to differ from the results of the sent rows.
        whole = len(row) > max(places, default=0) and len(row) >= len(places)
        cells = [row[place] for place in places] if whole else row
        return tuple(self._text(column, cell) for column, cell in enumerate(cells))

    def _cell(self, column: int, cell: Any) -> str | None:
        match cell:
            case None:
                return None
            case bool():
                self._booleans.add(column)
                return str(cell).lower()
            case int() | Decimal():
                number = abs(Decimal(cell))
                self._numbers[column] = max(number, self._numbers.get(column, number))
                return _number(str(cell))
        # Quotes in the file distinguish such a text from a null, but the parser of the file does not report them.
        return None if cell == self._null_value else str(cell)

    def _text(self, column: int, cell: str) -> str | None:
        if cell == self._null_value:
            return None
        if column in self._numbers:
            return _number(_since_epoch(cell, days=self._numbers[column] < _MOST_DAYS))
        return cell.lower() if column in self._booleans else cell


def _fields(value: bytes | None) -> Any:
    """Parse the JSON of a value. Decimals in a schema envelope, which are bytes in base64, become numbers."""
    fields = json_value(value)
    if value is None or not isinstance(fields, dict) or not value.startswith(b'{"schema"'):
        return fields
    schema = parse_json(value.decode(errors="surrogateescape"))["schema"]
    known = {field["field"]: field for field in schema.get("fields", ())} if isinstance(schema, dict) else {}
    return {name: _plain_decimal(known.get(name, {}), cell) for name, cell in fields.items()}


def _plain_decimal(schema: Mapping[str, Any], cell: Any) -> Any:
    if schema.get("name") != _DECIMAL or not isinstance(cell, str):
        return cell
    scale = int(schema.get("parameters", {}).get("scale", 0))
    return scaled(base64.b64decode(cell), scale)


def _since_epoch(text: str, *, days: bool) -> str:
    """Convert a date or time of ISO 8601 to days or milliseconds since 1970. Any other text is returned unchanged."""
    # Most cells are numbers, and this check recognises them quickly.
    if "-" not in text[1:]:
        return text
    try:
        if days:
            return str((date.fromisoformat(text[:_DATE_LENGTH]) - _EPOCH.date()).days)
        moment = datetime.fromisoformat(text)
    except ValueError:
        return text
    return str(((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1))


def _number(text: str) -> str:
    try:
        # Decimal normalizes 100 to 1E+2, and a zero may become 0E+3. This does no harm, because only equality matters.
        return str(Decimal(text).normalize() + 0)
    except InvalidOperation:
        return text
