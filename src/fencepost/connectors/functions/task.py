"""The task of a function source: reads the source partitions of the task in turn."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.record import PollResult
from fencepost.api.source import Config, SourceTask
from fencepost.config.validators import at_least
from fencepost.connectors.functions.declared import source_partition
from fencepost.connectors.functions.function_reader import FunctionReader
from fencepost.connectors.rows.record_mapping import TOPIC, RecordColumns, define_record_columns

PARTITIONS: Final = "source.partitions"
"""The property of a task that contains the task's share of the source partitions, as JSON."""

_ROWS: Final = "batch.rows"
_INTERVAL: Final = "poll.interval.ms"
_LONGEST_WAIT_S: Final = 1.0


def definitions(key: str | None, own: ConfigDef | None) -> ConfigDef:
    """Return the definitions of the properties of a function source; `key` and `own` come from the decorator.

    Raises ConfigError if the function declares a property that every function source has.
    """
    integer, long, low = ConfigDef.Type.INT, ConfigDef.Type.LONG, ConfigDef.Importance.LOW
    common = (
        define_record_columns(ConfigDef(others_allowed=own is None), keys=() if key is None else (key,))
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
    for definition in () if own is None else own.keys().values():
        common.add(definition)
    return common


def function_config(parsed: Mapping[str, Any], config: Mapping[str, str], own: ConfigDef | None) -> dict[str, Any]:
    """Return the configuration for a function: all properties as texts, but typed values for declared properties."""
    return {**config, **{name: parsed[name] for name in (() if own is None else own.keys())}}


class FunctionSourceTask(SourceTask):
    """Calls the function for each of its source partitions."""

    # A SourceFunction, stored as a static method.
    function: ClassVar[Any]
    key: ClassVar[str | None]
    own: ClassVar[ConfigDef | None]

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._readers: deque[FunctionReader] = deque()

    def start(self, config: Config) -> None:
        """Start after the committed cursors. Raises ConfigError for properties that contradict each other."""
        parsed = definitions(self.key, self.own).parse(config)
        record = RecordColumns.from_values(parsed)
        given: list[list[Any]] = [[part] for part in json.loads(config[PARTITIONS])] if PARTITIONS in config else [[]]
        properties = {name: text for name, text in config.items() if name != PARTITIONS}
        partitions = [source_partition(self.function.__qualname__, *(part or [None])) for part in given]
        committed = self.context.offset_reader.offsets(partitions)
        for part, partition, position in zip(given, partitions, committed, strict=True):
            self._readers.append(
                FunctionReader(
                    self.function,
                    [function_config(parsed, properties, self.own), *part],
                    partition,
                    position,
                    topic=parsed[TOPIC],
                    limit=parsed[_ROWS],
                    interval_s=parsed[_INTERVAL] / 1000,
                    record=record,
                )
            )

    def poll(self) -> PollResult:
        """Return the next rows or frame; None if the function has ended for all partitions and yielded nothing.

        Waits first if every function has ended, until one may be called again, or for at most a second: the rows of the
        previous poll may be in an open transaction, which the worker commits after this poll.
        """
        wait = min((reader.seconds_to_call for reader in self._readers), default=0.0)
        if self._stopping.wait(min(wait, _LONGEST_WAIT_S)):
            return None
        for _ in range(len(self._readers)):
            reader = self._readers[0]
            self._readers.rotate(-1)
            found = reader.read()
            if found is not None:
                return found
        return None

    def at_end(self) -> bool:
        """Return whether, for every partition, the last call of the function yielded nothing."""
        return all(reader.ended for reader in self._readers)

    def stop(self) -> None:
        """Wake a poll that waits."""
        self._stopping.set()
