r"""Signals: rows that users insert into the table of `signal.data.collection`, in Debezium's form.

The first three columns of the table, whatever their names, contain the signal's id, its type and its data as JSON:

    INSERT INTO signals VALUES ('s-1', 'execute-snapshot', '{"data-collections": ["public\\.orders"]}')

Signals arrive in the stream. So their place among the changes is known, and each signal takes effect once.

https://debezium.io/documentation/reference/stable/configuration/signalling.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fencepost.api.errors import ConfigError, DataError
from fencepost.config.validators import python_regex
from fencepost.connectors.postgres.changes.stream.decoder import INSERT, Changes

_COLUMNS: Final = 3
_COLLECTIONS: Final = "data-collections"
_CONDITIONS: Final = "additional-conditions"
# Keys of `data` that would change which rows are read, so they are refused.
_UNSUPPORTED: Final = {
    "additional-condition": f"use {_CONDITIONS}, with a filter for each table",
    "surrogate-key": "tables are read by their replica identity or primary key",
}


class SignalType(StrEnum):
    """The types of signals that have an effect."""

    EXECUTE = "execute-snapshot"
    STOP = "stop-snapshot"
    PAUSE = "pause-snapshot"
    RESUME = "resume-snapshot"
    LOG = "log"


@dataclass(frozen=True, slots=True)
class Signal:
    """A row of the signal table."""

    id: str
    type: str
    data: str | None = None

    def __str__(self) -> str:
        return f"The signal {self.id!r} of type {self.type!r}"


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """The tables that a signal names, as regular expressions, and their SQL conditions."""

    collections: Sequence[re.Pattern[str]]
    conditions: Sequence[tuple[re.Pattern[str], str]] = ()

    def names(self, table: str) -> bool:
        """Whether the signal names `schema.table`."""
        return any(pattern.fullmatch(table) for pattern in self.collections)

    def condition(self, table: str) -> str | None:
        """Return the condition for rows of `schema.table`, None for all rows."""
        return next((condition for pattern, condition in self.conditions if pattern.fullmatch(table)), None)


def signals_in(changes: Iterable[Changes], table: str) -> Iterator[Signal]:
    """Yield the signals that were inserted into `table`, in order. Rows without three columns are ignored."""
    for part in changes:
        if part.relation.name != table or len(part.new.columns) < _COLUMNS:
            continue
        columns = [column.values.to_pylist() for column in part.new.columns[:_COLUMNS]]
        for row in part.new.index[part.operation == INSERT].tolist():
            signal, kind, data = (column[row] for column in columns)
            yield Signal(signal or "", kind or "", data)


def execute_request(signal: Signal) -> SnapshotRequest:
    """Return the request in an `execute-snapshot` signal. Raises DataError."""
    data = _data(signal)
    for name in _UNSUPPORTED.keys() & data.keys():
        raise DataError(f"{signal} has {name}, which is not supported: {_UNSUPPORTED[name]}")
    conditions = data.get(_CONDITIONS) or []
    if not isinstance(conditions, list) or not all(isinstance(one, dict) for one in conditions):
        raise DataError(f"{signal} has {_CONDITIONS} that are not a list of objects")
    return SnapshotRequest(
        _collections(signal, data),
        [(_pattern(signal, one.get("data-collection")), _text(signal, one.get("filter"))) for one in conditions],
    )


def stop_request(signal: Signal) -> SnapshotRequest:
    """Return the tables that a `stop-snapshot` signal names; all tables if it names none. Raises DataError."""
    data = _data(signal)
    return SnapshotRequest(_collections(signal, data) if data.get(_COLLECTIONS) else [re.compile(".*")])


def log_message(signal: Signal, offset: Mapping[str, Any]) -> str:
    """Return the text of a `log` signal, with `{}` replaced by the source offset. Raises DataError."""
    return _text(signal, _data(signal).get("message")).replace("{}", json.dumps(offset))


def _data(signal: Signal) -> dict[str, Any]:
    try:
        data = json.loads(signal.data or "{}")
    except (ValueError, RecursionError) as error:
        raise DataError(f"{signal} has data that is not JSON: {error}") from None
    if not isinstance(data, dict):
        raise DataError(f"{signal} has data that is not a JSON object")
    kind = data.get("type") or "incremental"
    if signal.type != SignalType.LOG and str(kind).lower() != "incremental":
        raise DataError(f"{signal} has the type {kind} in its data: only incremental snapshots are supported")
    return data


def _collections(signal: Signal, data: Mapping[str, Any]) -> list[re.Pattern[str]]:
    names = data.get(_COLLECTIONS)
    if not isinstance(names, list) or not names:
        raise DataError(f"{signal} has no {_COLLECTIONS}: a list of regular expressions for SCHEMA.TABLE")
    return [_pattern(signal, name) for name in names]


def _pattern(signal: Signal, name: Any) -> re.Pattern[str]:
    text = _text(signal, name).strip()
    try:
        return python_regex(_COLLECTIONS, text, re.IGNORECASE)
    except ConfigError as error:
        raise DataError(f"{signal} names no tables. {error}") from None


def _text(signal: Signal, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DataError(f"{signal} has {value!r} where its data needs a text")
    # JSON allows these two characters as escapes, but PostgreSQL does not.
    if "\0" in value or any("\ud800" <= character <= "\udfff" for character in value):
        raise DataError(f"{signal} has a text with a character that PostgreSQL does not have: {value[:200]!r}")
    return value
