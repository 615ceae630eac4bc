"""Calls a source function for one source partition, and makes records of its rows, or batches of its frames."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import unwrap
from typing import Any, Final, NamedTuple

from fencepost.api.errors import DataError, RetriableError
from fencepost.api.plugin_calls import call_plugin, iterate_plugin, kind_of, refuse_answer
from fencepost.api.record import RefusedRow, SourceBatch, SourceOffset, SourcePartition, SourceRecord
from fencepost.connectors.functions.frame_reader import FrameBatches
from fencepost.connectors.functions.frames import is_frame
from fencepost.connectors.rows.python_rows import Misfit, PythonRows
from fencepost.connectors.rows.record_mapping import RecordColumns
from fencepost.connectors.rows.row_types import row_as_json

_CURSOR: Final = "cursor"
# A function may yield rows slowly: none waits longer than this for the next ones.
_LONGEST_S: Final = 1.0
# Most values of rows are of these types, which do not change.
_FIXED: Final = frozenset({str, bytes, int, float, bool, type(None)})
# Most rows are of these types, and none of them is a frame.
_ROWS: Final = _FIXED | {dict, list, tuple, bytearray}


class _Frame(NamedTuple):
    """A frame, with the source offset after it."""

    frame: Any
    offset: dict[str, Any]


class FunctionReader:
    """Calls the function, and keeps its generator from one read to the next.

    After the function has yielded a frame it is suspended until the frame is written: the next read resumes it.
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
        record: RecordColumns,
    ) -> None:
        """`function` is a SourceFunction, called with the first of `arguments`, the cursor, and the other arguments."""
        self.ended = False
        """Whether the last call of the function yielded nothing."""
        self._function = function
        self._arguments = arguments
        self._partition = partition
        self._position = position
        self._topic = topic
        self._limit = limit
        self._columns = PythonRows(record) if record != RecordColumns() else None
        self._frames = FrameBatches(record, f"the frame that {self._what()} yielded")
        self._rows: Iterator[Any] | None = None
        self._held: _Frame | None = None
        self._yielded = False

    def read(self) -> list[SourceRecord] | SourceBatch | None:
        """Return the next rows, or a frame; None once when the function has ended."""
        if self._held is not None:
            held, self._held = self._held, None
            return self._batch(held)
        if self._rows is None:
            self._rows = self._called()
            self._yielded = False
        found, more = self._some(self._rows)
        if not more:
            self._rows = None
            self.ended = not found and not self._yielded
        if isinstance(found, _Frame):
            return self._batch(found)
        return self._records(found) or None

    def _called(self) -> Iterator[Any]:
        """Call the function. Its stack frames count as a plugin's, as if the worker had called it."""
        what = f"The source function {self._function.__qualname__}"
        config, *others = self._arguments
        answer: Any = call_plugin(what, self._function, config, _cursor(self._position), *others)
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            refuse_answer(what, self._function, kind_of(answer), "(row, cursor) pairs: yield each")
        return iterate_plugin(what, answer)

    def _some(self, rows: Iterator[Any]) -> tuple[list[tuple[Any, dict[str, Any]]] | _Frame, bool]:
        """Return the next rows with their offsets, or a frame, and whether there may be more of this call."""
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
            # The exception has ended the generator. The next call yields the rows of this read again.
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
                "key.columns say what of the record its columns make; a SourceTask returns records"
            )
        self._yielded = True
        self._position = self._offset(cursor)
        with suppress(RecursionError):
            # Converters refuse a row that contains itself.
            row = _copied(row)
        return row, self._position

    def _batch(self, held: _Frame) -> SourceBatch:
        return self._frames.batch(held.frame, self._partition, held.offset)

    def _records(self, pairs: list[tuple[Any, dict[str, Any]]]) -> list[SourceRecord]:
        partition, topic = self._partition, self._topic
        if self._columns is None:
            return [SourceRecord(partition, offset, topic, row) for row, offset in pairs]
        parts = self._columns.parts([row for row, _ in pairs])
        return [
            SourceRecord(partition, offset, topic, self._refused(row, part))
            if isinstance(part, Misfit)
            else SourceRecord(
                partition, offset, part.topic or topic, row, part.key, timestamp=part.timestamp, headers=part.headers
            )
            for (row, offset), part in zip(pairs, parts, strict=True)
        ]

    def _refused(self, row: Any, misfit: Misfit) -> RefusedRow:
        return RefusedRow(
            row_as_json(row), f"{self._what(start=True)} yielded a row that makes no record: {misfit.reason}"
        )

    def _offset(self, cursor: Any) -> dict[str, Any]:
        if isinstance(cursor, Mapping) and set(cursor) != {_CURSOR}:
            return dict(cursor)
        if cursor is None or isinstance(cursor, Mapping):
            raise DataError(
                f"{self._what(start=True)} yielded the cursor {cursor!r}: it must be a simple value, or a dict with "
                f"another name than {_CURSOR!r}"
            )
        return {_CURSOR: cursor}

    def _what(self, *, start: bool = False) -> str:
        code = unwrap(self._function).__code__
        place = f"defined at {code.co_filename}:{code.co_firstlineno},"
        return f"{'The' if start else 'the'} source function {self._function.__qualname__}, {place}"


def _copied(value: Any) -> Any:
    """Return a copy: a function may reuse one object for each row, so that earlier rows would change before they are written."""
    if isinstance(value, dict):
        copy = value.copy()
        for name, inner in value.items():
            if type(inner) not in _FIXED:
                copy[name] = _copied(inner)
        return copy
    if isinstance(value, list):
        return [inner if type(inner) in _FIXED else _copied(inner) for inner in value]
    return value.copy() if isinstance(value, bytearray) else value


def _cursor(offset: SourceOffset | None) -> Any:
    if offset is None:
        return None
    return offset[_CURSOR] if set(offset) == {_CURSOR} else dict(offset)
