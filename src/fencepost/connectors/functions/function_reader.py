"""Calls a source function for one source partition, and makes records of its rows, or batches of its frames."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import unwrap
from typing import Any, Final, NamedTuple

from fencepost.api.errors import DataError, RetriableError
from fencepost.api.plain_values import why_no_json
from fencepost.api.plugin_calls import call_plugin, iterate_plugin, kind_of, refuse_answer
from fencepost.api.record import RefusedRow, SourceBatch, SourceOffset, SourcePartition, SourceRecord
from fencepost.connectors.functions.frame_reader import FrameBatches
from fencepost.connectors.functions.frames import is_frame
from fencepost.connectors.rows.python_rows import Misfit, PythonRows
from fencepost.connectors.rows.record_mapping import RecordColumns
from fencepost.connectors.rows.row_types import row_as_json

_CURSOR: Final = "cursor"
# The maximum time that a row waits for further rows, because a function may yield rows slowly.
_LONGEST_S: Final = 1.0
# Most values of rows are of these types, which are immutable.
_FIXED: Final = frozenset({str, bytes, int, float, bool, type(None)})
# Most rows are of these types, which are never frames.
_ROWS: Final = _FIXED | {dict, list, tuple, bytearray}


class _Frame(NamedTuple):
    """A frame, with the source offset after it."""

    frame: Any
    offset: dict[str, Any]


class FunctionReader:
    """Calls the function, and keeps the function's generator from one read to the next.

    After the function has yielded a frame, it is suspended until the frame is written; the next read resumes it.
    """

    def __init__(
        self,
        function: Any,
        arguments: Sequence[Any],
        partition: SourcePartition,
        position: SourceOffset | None,
        *,
        topic: str,
        limit: int,
        interval_s: float,
        record: RecordColumns,
    ) -> None:
        """`function` is a SourceFunction, which is called again `interval_s` seconds after it has ended.

        `arguments` are the configuration and, if the function has partitions, a partition; the cursor is passed between
        them.
        """
        self.ended = False
        """Whether the last call of the function yielded nothing."""
        self._function = function
        self._arguments = arguments
        self._partition = partition
        self._position = position
        self._topic = topic
        self._limit = limit
        self._interval_s = interval_s
        self._next_call = time.monotonic()
        self._columns = PythonRows(record) if record != RecordColumns() else None
        self._frames = FrameBatches(record, f"the frame that {self._what()} yielded")
        self._rows: Iterator[Any] | None = None
        self._held: _Frame | None = None
        self._yielded = False

    @property
    def seconds_to_call(self) -> float:
        """The time until the function may be called again; 0 if it may, or if it has not ended."""
        waits = self._rows is None and self._held is None
        return max(0.0, self._next_call - time.monotonic()) if waits else 0.0

    def read(self) -> list[SourceRecord] | SourceBatch | None:
        """Return the next rows, or a frame.

        None if the function has ended and yielded nothing since the last read, or may not be called again yet.
        """
        if self.seconds_to_call:
            return None
        if self._held is not None:
            held, self._held = self._held, None
            return self._batch(held)
        if self._rows is None:
            self._rows = self._called()
            self._yielded = False
        found, more = self._read_rows(self._rows)
        if not more:
            self._rows = None
            self._next_call = time.monotonic() + self._interval_s
            self.ended = not found and not self._yielded
        if isinstance(found, _Frame):
            return self._batch(found)
        return self._records(found) or None

    def _called(self) -> Iterator[Any]:
        """Call the function.

        The function's stack frames count as plugin code, as if the worker had called the function directly.
        """
        what = f"The source function {self._function.__qualname__}"
        config, *others = self._arguments
        answer: Any = call_plugin(what, self._function, config, _cursor(self._position), *others)
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            refuse_answer(what, self._function, kind_of(answer), "(row, cursor) pairs: yield each")
        return iterate_plugin(what, answer)

    def _read_rows(self, rows: Iterator[Any]) -> tuple[list[tuple[Any, dict[str, Any]]] | _Frame, bool]:
        """Return the next rows with their offsets, or a frame, and whether this call of the function may yield more."""
        pairs: list[tuple[Any, dict[str, Any]]] = []
        until = time.monotonic() + _LONGEST_S
        before = self._position
        try:
            for item in rows:
                row, offset = self._pair(item)
                if type(row) not in _ROWS and is_frame(row):
                    if not pairs:
                        return _Frame(row, offset), True
                    self._held = _Frame(row, offset)
                    return pairs, True
                pairs.append((row, offset))
                if len(pairs) == self._limit or time.monotonic() > until:
                    return pairs, True
        except RetriableError:
            # The exception has ended the generator. The next call of the function yields the rows of this read again.
            self._rows, self._position = None, before
            raise
        return pairs, False

    def _pair(self, item: Any) -> tuple[Any, dict[str, Any]]:
        """Return a row and its source offset."""
        if not isinstance(item, tuple) or len(item) != 2:
            found = f"{kind_of(item)} of {len(item)}" if isinstance(item, tuple) else kind_of(item)
            raise DataError(f"{self._what(start=True)} yielded {found}: it must yield (row, cursor after the row)")
        row, cursor = item
        if type(row) is SourceRecord:
            raise DataError(
                f"{self._what(start=True)} yielded a SourceRecord: it must yield the row alone. Properties such as "
                "key.columns map columns to the record's key, topic, timestamp and headers"
            )
        self._yielded = True
        self._position = self._offset(cursor)
        with suppress(RecursionError):
            # A row that contains itself cannot be copied; the converter refuses it later.
            row = _copied(row)
        return row, self._position

    def _batch(self, held: _Frame) -> SourceBatch:
        return self._frames.batch(held.frame, self._partition, held.offset)

    def _records(self, pairs: list[tuple[Any, dict[str, Any]]]) -> list[SourceRecord]:
        partition, topic = self._partition, self._topic
        if self._columns is None:
            return [SourceRecord(partition, offset, topic, self._value(row)) for row, offset in pairs]
        parts = self._columns.parts([row for row, _ in pairs])
        return [
            SourceRecord(partition, offset, topic, self._refused(row, part.reason))
            if isinstance(part, Misfit)
            else SourceRecord(
                partition, offset, part.topic or topic, row, part.key, timestamp=part.timestamp, headers=part.headers
            )
            for (row, offset), part in zip(pairs, parts, strict=True)
        ]

    def _value(self, row: Any) -> Any:
        """Return the row, or a RefusedRow if it is not a value that rows may have.

        Members of dicts and lists are checked when they are converted.
        """
        if type(row) in _ROWS and type(row) is not float:
            return row
        why = None if isinstance(row, Mapping | list | tuple) else why_no_json(row)
        return row if why is None else self._refused(row, why)

    def _refused(self, row: Any, reason: str) -> RefusedRow:
        return RefusedRow(row_as_json(row), f"{self._what(start=True)} yielded a row that makes no record: {reason}")

    def _offset(self, cursor: Any) -> dict[str, Any]:
        offset = dict(cursor) if isinstance(cursor, Mapping) else {_CURSOR: cursor}
        if cursor is None or (isinstance(cursor, Mapping) and set(cursor) == {_CURSOR}):
            raise DataError(
                f"{self._what(start=True)} yielded the cursor {cursor!r}: it must be a simple value, or a dict "
                f"whose only name is not {_CURSOR!r}"
            )
        if not all(isinstance(name, str) and _is_storable(value) for name, value in offset.items()):
            raise DataError(
                f"{self._what(start=True)} yielded the cursor {cursor!r}, which cannot be stored: it must be a text, a "
                "boolean or a number (whole numbers of 64 bits), or a dict of them. Give value.isoformat() for a time, "
                "value.item() for a number of NumPy, and json.dumps(value) for a list"
            )
        return offset

    def _what(self, *, start: bool = False) -> str:
        code = unwrap(self._function).__code__
        place = f"defined at {code.co_filename}:{code.co_firstlineno},"
        return f"{'The' if start else 'the'} source function {self._function.__qualname__}, {place}"


def _is_storable(value: Any) -> bool:
    """Return whether a value may be in a source offset."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    return value is None or isinstance(value, str)


def _copied(value: Any) -> Any:
    """Return a copy.

    A function may reuse one object for each row, which would change earlier rows before they are written.
    """
    # Most rows are dicts, for which this order is fast.
    if isinstance(value, dict) or isinstance(value, Mapping):  # noqa: SIM101 - see above
        copy = value.copy() if isinstance(value, dict) else dict(value)
        for name, inner in value.items():
            if type(inner) not in _FIXED:
                copy[name] = _copied(inner)
        return copy
    if isinstance(value, list | tuple):
        parts = [inner if type(inner) in _FIXED else _copied(inner) for inner in value]
        if isinstance(value, list):
            return parts
        # Only a named tuple has fields by name. Other classes of tuples, such as time.struct_time, cannot be made this way.
        return tuple.__new__(type(value), parts) if hasattr(value, "_fields") else tuple(parts)
    return bytes(value) if isinstance(value, bytearray | memoryview) else value


def _cursor(offset: SourceOffset | None) -> Any:
    if offset is None:
        return None
    return offset[_CURSOR] if set(offset) == {_CURSOR} else dict(offset)
