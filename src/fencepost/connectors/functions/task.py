"""The task of a source that is a function: it reads the source partitions of the task in turn."""

from __future__ import annotations

import threading
from collections import deque
from typing import Any, ClassVar, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.record import PollResult
from fencepost.api.source import Config, SourceTask
from fencepost.config.validators import at_least
from fencepost.connectors.functions.function_reader import FunctionReader
from fencepost.connectors.rows.record_mapping import TOPIC, RecordColumns, define_record_columns

_ROWS: Final = "batch.rows"
_INTERVAL: Final = "poll.interval.ms"


def definitions(key: str | None) -> ConfigDef:
    """Return the definitions of the properties of a function's source; `key` is the decorator's."""
    integer, long, low = ConfigDef.Type.INT, ConfigDef.Type.LONG, ConfigDef.Importance.LOW
    return (
        define_record_columns(ConfigDef(others_allowed=True), keys=() if key is None else (key,))
        .define(
            _ROWS, integer, 1000, low,
            "The most rows of one transaction. A frame is one transaction, whatever its rows.",
            validator=at_least(1, nullable=False),
        )
        .define(
            _INTERVAL, long, 1000, low,
            "How long to wait, in milliseconds, before the function is called again after it has ended.",
            validator=at_least(0, nullable=False),
        )
    )  # fmt: skip


class FunctionSourceTask(SourceTask):
    """Calls the function for each of its source partitions."""

    # A SourceFunction, as a static method.
    function: ClassVar[Any]
    key: ClassVar[str | None]

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._readers: deque[FunctionReader] = deque()

    def start(self, config: Config) -> None:
        """Start after the committed cursors. Raises ConfigError for properties that contradict each other."""
        parsed = definitions(self.key).parse(config)
        self._interval_s = parsed[_INTERVAL] / 1000
        partition = {"source": self.function.__qualname__}
        self._readers.append(
            FunctionReader(
                self.function,
                [dict(config)],
                partition,
                self.context.offset_reader.offset(partition),
                topic=parsed[TOPIC],
                limit=parsed[_ROWS],
                record=RecordColumns.from_values(parsed),
            )
        )

    def poll(self) -> PollResult:
        """Return the next rows or frame; None when the function has ended for all partitions, after the interval."""
        for _ in range(len(self._readers)):
            reader = self._readers[0]
            self._readers.rotate(-1)
            found = reader.read()
            if found is not None:
                return found
        self._stopping.wait(self._interval_s)
        return None

    def at_end(self) -> bool:
        """Return whether the last call of the function yielded nothing, for all partitions."""
        return all(reader.ended for reader in self._readers)

    def stop(self) -> None:
        """Wake a poll that waits."""
        self._stopping.set()
