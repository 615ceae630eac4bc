"""The task of a source that is a function: it calls the function, and makes records of the rows."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from inspect import unwrap
from typing import Any, ClassVar, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import DataError, RetriableError
from fencepost.api.plugin_calls import call_plugin, iterate_plugin, kind_of, refuse_answer
from fencepost.api.record import PollResult, RefusedRow, SourceOffset, SourceRecord
from fencepost.api.source import Config, SourceTask
from fencepost.config.validators import at_least
from fencepost.connectors.rows.python_rows import Misfit, PythonRows
from fencepost.connectors.rows.record_mapping import TOPIC, RecordColumns, define_record_columns
from fencepost.connectors.rows.row_types import row_as_json

_ROWS: Final = "batch.rows"
_INTERVAL: Final = "poll.interval.ms"
_CURSOR: Final = "cursor"
# A function may yield rows as they come about: none waits longer for the next ones.
_LONGEST_S: Final = 1.0
# A function may fill one object again for each row, so that earlier rows would change before they are written.
_REUSABLE: Final = (dict, list, bytearray)


def definitions(key: str | None) -> ConfigDef:
    """Return the definitions of the properties of a function's source; `key` is the decorator's."""
    integer, long, low = ConfigDef.Type.INT, ConfigDef.Type.LONG, ConfigDef.Importance.LOW
    return (
        define_record_columns(ConfigDef(others_allowed=True), keys=() if key is None else (key,))
        .define(_ROWS, integer, 1000, low, "The most rows of one transaction.", validator=at_least(1, nullable=False))
        .define(
            _INTERVAL, long, 1000, low,
            "How long to wait, in milliseconds, before the function is called again after it has ended.",
            validator=at_least(0, nullable=False),
        )
    )  # fmt: skip


class FunctionSourceTask(SourceTask):
    """Calls the function, and keeps its generator from one poll to the next."""

    # A SourceFunction, as a static method.
    function: ClassVar[Any]
    key: ClassVar[str | None]

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._rows: Iterator[Any] | None = None
        self._ended = False

    def start(self, config: Config) -> None:
        """Start after the committed cursor. Raises ConfigError for properties that contradict each other."""
        parsed = definitions(self.key).parse(config)
        self._topic, self._limit = parsed[TOPIC], parsed[_ROWS]
        columns = RecordColumns.from_values(parsed)
        self._columns = PythonRows(columns) if columns != RecordColumns() else None
        self._interval_s = parsed[_INTERVAL] / 1000
        self._config = dict(config)
        self._partition = {"source": self.function.__qualname__}
        # The function's own cursor may change after it was yielded.
        self._position = self.context.offset_reader.offset(self._partition)

    def poll(self) -> PollResult:
        """Return the next rows; None when the function has ended, after the interval."""
        if self._rows is None:
            self._rows = self._called()
            self._ended = False
            self._yielded = False
        records, more = self._some(self._rows)
        if more:
            return records
        self._rows = None
        if not records:
            self._ended = not self._yielded
            self._stopping.wait(self._interval_s)
        return records or None

    def _called(self) -> Iterator[Any]:
        """Call the function. Its frames are those of a plugin, as if the worker had called it."""
        what = f"The source function {self.function.__qualname__}"
        answer: Any = call_plugin(what, self.function, self._config, _cursor(self._position))
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            refuse_answer(what, self.function, kind_of(answer), "(row, cursor) pairs: yield each")
        return iterate_plugin(what, answer)

    def _some(self, rows: Iterator[Any]) -> tuple[list[SourceRecord], bool]:
        """Return the next records, and whether there may be more of this call."""
        pairs: list[tuple[Any, dict[str, Any]]] = []
        until = time.monotonic() + _LONGEST_S
        before = self._position
        try:
            for item in rows:
                pairs.append(self._pair(item))
                if len(pairs) == self._limit or time.monotonic() > until:
                    return self._records(pairs), True
        except RetriableError:
            # The generator has ended with it. The next call yields the rows of this poll again.
            self._rows, self._position = None, before
            raise
        return self._records(pairs), False

    def _pair(self, item: Any) -> tuple[Any, dict[str, Any]]:
        """Return a row and its source offset."""
        if not isinstance(item, tuple) or len(item) != 2:
            found = f"{kind_of(item)} of {len(item)}" if isinstance(item, tuple) else kind_of(item)
            raise DataError(f"{self._what()} yielded {found}: it must yield (row, cursor after the row)")
        row, cursor = item
        if isinstance(row, _REUSABLE):
            row = row.copy()
        elif type(row) is SourceRecord:
            raise DataError(
                f"{self._what()} yielded a SourceRecord: it must yield the row alone. Properties such as key.columns say "
                "what of the record its columns make; a SourceTask returns records"
            )
        self._yielded = True
        self._position = self._offset(cursor)
        return row, self._position

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
        return RefusedRow(row_as_json(row), f"{self._what()} yielded a row that makes no record: {misfit.reason}")

    def _offset(self, cursor: Any) -> dict[str, Any]:
        if isinstance(cursor, Mapping) and set(cursor) != {_CURSOR}:
            return dict(cursor)
        if cursor is None or isinstance(cursor, Mapping):
            raise DataError(
                f"{self._what()} yielded the cursor {cursor!r}: it must be a simple value, or a dict with another "
                f"name than {_CURSOR!r}"
            )
        return {_CURSOR: cursor}

    def _what(self) -> str:
        code = unwrap(self.function).__code__
        return f"The source function {self.function.__qualname__}, defined at {code.co_filename}:{code.co_firstlineno},"

    def at_end(self) -> bool:
        """Return whether the last call of the function yielded nothing."""
        return self._ended

    def stop(self) -> None:
        """Wake a poll that waits."""
        self._stopping.set()


def _cursor(offset: SourceOffset | None) -> Any:
    if offset is None:
        return None
    return offset[_CURSOR] if set(offset) == {_CURSOR} else dict(offset)
