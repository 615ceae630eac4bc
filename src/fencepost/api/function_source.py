"""A source that is one function: it yields rows, each with the cursor after it.

    @source(key="id")
    def issues(config, cursor):
        for issue in fetch(config["url"], after=cursor or 0):
            yield issue, issue["id"]

The decorated name is a connector's class: `connector.class=my_module.issues`. The function is called with the last
committed cursor, None at first, and again with the last yielded one after it has ended and `poll.interval.ms` is over.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from inspect import isasyncgenfunction, iscoroutinefunction, isfunction, signature, unwrap
from typing import Any, ClassVar, Final, overload

from fencepost.api.config_def import ConfigDef
from fencepost.api.context import ExactlyOnceSupport
from fencepost.api.errors import DataError
from fencepost.api.plugin_calls import call_plugin, iterate_plugin, kind_of, refuse_answer
from fencepost.api.record import PollResult, SourceOffset, SourceRecord
from fencepost.api.source import Config, SourceConnector, SourceTask
from fencepost.api.topic_names import topic_name

Cursor = str | int | float | bool | Mapping[str, Any]
"""A position in the source: a simple value, or a dict of them."""

SourceFunction = Callable[[Config, Any], Iterable[tuple[Any, Cursor]]]
"""`function(config, cursor)` yields `(row, cursor after the row)` pairs."""

_TOPIC: Final = "topic"
_ROWS: Final = "batch.rows"
_INTERVAL: Final = "poll.interval.ms"
_CURSOR: Final = "cursor"
# A function may yield rows as they come about: none waits longer for the next ones.
_LONGEST_S: Final = 1.0

_CONFIG: Final = (
    ConfigDef()
    .define(
        _TOPIC, ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, ConfigDef.Importance.HIGH, "The topic to write to.",
        validator=topic_name,
    )
    .define(_ROWS, ConfigDef.Type.INT, 1000, ConfigDef.Importance.LOW, "The most rows of one transaction.")
    .define(
        _INTERVAL, ConfigDef.Type.LONG, 1000, ConfigDef.Importance.LOW,
        "How long to wait, in milliseconds, before the function is called again after it has ended.",
    )
)  # fmt: skip


@overload
def source(function: SourceFunction, /) -> type[SourceConnector]: ...
@overload
def source(*, key: str | None = None) -> Callable[[SourceFunction], type[SourceConnector]]: ...
def source(function: Any = None, /, *, key: str | None = None) -> Any:
    """Make a connector of a function `function(config, cursor)` that yields `(row, cursor)` pairs.

    A row is the record's value, in any form that `SourceRecord.value` may have. The cursor is the position after the row:
    called with it, the function yields the next row first. `key` is the name of a field of the rows, for the records' key.
    Without a key, `@source` needs no parentheses. The configuration has the properties `topic`, `batch.rows` and
    `poll.interval.ms`, and any others for the function. The connector has one task.

    Raises TypeError for what is no such function.
    """

    def made(function: SourceFunction) -> type[SourceConnector]:
        _check_function(function)
        attributes = {
            "__module__": function.__module__,
            "__qualname__": function.__qualname__,
            "__doc__": function.__doc__,
            "function": staticmethod(function),
            "made_of": staticmethod(function),
            "key": key,
        }
        return type(function.__name__, (FunctionSourceConnector,), attributes)

    return made if function is None else made(function)


def _check_function(function: Any) -> None:
    expected = "it takes a function(config, cursor) that yields (row, cursor) pairs"
    if isinstance(function, str):
        raise TypeError(f"source({function!r}): {expected}. The key is given by its name: source(key={function!r})")
    if not isfunction(function):
        raise TypeError(f"source() was given {kind_of(function)}: {expected}")
    if iscoroutinefunction(function) or isasyncgenfunction(function):
        raise TypeError(f"source() was given the async function {function.__qualname__}: {expected}, without async")
    try:
        signature(function).bind({}, None)
    except TypeError as error:
        raise TypeError(
            f"source() was given {function.__qualname__}{signature(function)}: {expected} ({error})"
        ) from None


class FunctionSourceConnector(SourceConnector):
    """The base of the connectors that `source` makes."""

    # A SourceFunction, as a static method.
    function: ClassVar[Any]
    key: ClassVar[str | None]

    def task_class(self) -> type[SourceTask]:
        """Return a task that calls the function."""
        function = staticmethod(self.function)
        attributes = {"__module__": __name__, "function": function, "made_of": function, "key": self.key}
        return type(f"{type(self).__name__}Task", (FunctionSourceTask,), attributes)

    def validate(self, config: Config) -> list[Any]:
        """Check the properties of every function's source; the others are the function's own."""
        return _CONFIG.validate(config)

    def exactly_once_support(self, config: Config) -> ExactlyOnceSupport:
        """Say yes: the function resumes at its cursor."""
        del config
        return ExactlyOnceSupport.SUPPORTED


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
        """Start after the committed cursor."""
        parsed = _CONFIG.parse(config)
        self._topic, self._limit = parsed[_TOPIC], parsed[_ROWS]
        self._interval_s = parsed[_INTERVAL] / 1000
        self._config = dict(config)
        self._partition = {"source": self.function.__qualname__}
        self._cursor = _cursor(self.context.offset_reader.offset(self._partition))

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
        answer: Any = call_plugin(what, self.function, self._config, self._cursor)
        if isinstance(answer, str | bytes | Mapping) or not isinstance(answer, Iterable):
            refuse_answer(what, self.function, kind_of(answer), "(row, cursor) pairs: yield each")
        return iterate_plugin(what, answer)

    def _some(self, rows: Iterator[Any]) -> tuple[list[SourceRecord], bool]:
        """Return the next records, and whether there may be more of this call."""
        records: list[SourceRecord] = []
        until = time.monotonic() + _LONGEST_S
        for item in rows:
            records.append(self._record(item))
            if len(records) == self._limit or time.monotonic() > until:
                return records, True
        return records, False

    def _record(self, item: Any) -> SourceRecord:
        if not isinstance(item, tuple) or len(item) != 2:
            found = f"{kind_of(item)} of {len(item)}" if isinstance(item, tuple) else kind_of(item)
            raise DataError(f"{self._what()} yielded {found}: it must yield (row, cursor after the row)")
        row, self._cursor = item
        self._yielded = True
        return SourceRecord(self._partition, self._offset(), self._topic, value=row, key=self._key(row))

    def _offset(self) -> dict[str, Any]:
        if isinstance(self._cursor, Mapping) and set(self._cursor) != {_CURSOR}:
            return dict(self._cursor)
        if self._cursor is None or isinstance(self._cursor, Mapping):
            raise DataError(
                f"{self._what()} yielded the cursor {self._cursor!r}: it must be a simple value, or a dict with another "
                f"name than {_CURSOR!r}"
            )
        return {_CURSOR: self._cursor}

    def _key(self, row: Any) -> Any:
        if self.key is None:
            return None
        if not isinstance(row, Mapping) or self.key not in row:
            raise DataError(f"{self._what()} yielded a row without the field {self.key!r}, which is to be its key")
        return row[self.key]

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
