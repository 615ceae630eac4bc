"""The worker's properties that say how the JVMs of Java connectors run."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.config.validators import one_of

_T: Final = ConfigDef.Type
_LOW: Final = ConfigDef.Importance.LOW

HEAP: Final = "fencepost.java.heap"
OPTIONS: Final = "fencepost.java.options"
ISOLATION: Final = "fencepost.java.isolation"
DIRECTORY: Final = "fencepost.java.directory"
_HEAP_DEFAULT: Final = "512m"

_SIZE: Final = re.compile(r"(\d+)([kmgt]?)", re.IGNORECASE)
_MIB: Final = 1024**2
_POWERS: Final = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_MIN_SIZED_HEAP_MIB: Final = 512
"""The initial sizes of the heap are set only if its largest size is at least this, in MiB."""
_MAX_SIZED_HEAP_MIB: Final = 1024
"""The initial sizes grow with the heap's largest size up to this one, in MiB."""
_OF_HEAP: Final = re.compile(r"-Xm[nsx].+|-XX:((Max)?New(Size|Ratio)|(Initial|Max|Min)(HeapSize|RAMPercentage))=.+")
"""Options that set a size of the heap.

Such options, combined with other sizes, may prevent the JVM from starting, or cause a warning.
"""
_COLLECTOR: Final = re.compile(r"-XX:\+Use\w+GC")
"""Options that choose a collector. Java does not start with two collectors."""


class Isolation(Enum):
    """The owners of a JVM."""

    CONNECTOR = "connector"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """`heap` is the largest heap of each JVM, in the form of the option -Xmx; `options` are further options of java.

    `directory` is the working directory; None stands for the worker's. `graceful_timeout_s` is how long the stop of a
    connector or task may take before its JVM is killed.
    """

    heap: str = _HEAP_DEFAULT
    options: tuple[str, ...] = ()
    isolation: Isolation = Isolation.CONNECTOR
    directory: str | None = None
    graceful_timeout_s: float = 5.0

    @property
    def memory_options(self) -> tuple[str, ...]:
        """The options of java for the heap and its collector, unless the owner's own options set these.

        By default, Java begins with a 64th of the machine's memory as heap, and uses a third of that for new objects.
        Each time this part is full, Java copies the records that wait in a connector's queue or for a commit: with
        little room, Mirror wrote at half the rate. Memory that is not used is not taken from the machine: a small
        connector fills the part for new objects, and almost nothing of the rest. So this part is 80 MiB in a heap of
        512 MiB, and up to 256 MiB in one of 1 GiB.
        """
        size = _SIZE.fullmatch(self.heap)
        most = int(size[1]) * 1024 ** _POWERS[size[2].lower()] // _MIB if size is not None else 0
        part = min(most, _MAX_SIZED_HEAP_MIB) // 32
        first: tuple[str, ...] = ()
        if most >= _MIN_SIZED_HEAP_MIB and not self._has(_OF_HEAP):
            first = (f"-Xms{24 * part}m", f"-XX:NewSize={11 * part - 96}m")
        return (f"-Xmx{self.heap}", *first, *(() if self._has(_COLLECTOR) else ("-XX:+UseSerialGC",)))

    def _has(self, options: re.Pattern[str]) -> bool:
        return any(options.fullmatch(option) for option in self.options)

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> JavaSettings:
        """Read a worker's parsed properties."""
        return cls(
            values[HEAP].strip(),
            tuple(shlex.split(values[OPTIONS] or "")),
            Isolation(values[ISOLATION]),
            values[DIRECTORY] or None,
            values["task.shutdown.graceful.timeout.ms"] / 1000,
        )


def define_java(definitions: ConfigDef) -> ConfigDef:
    """Add the properties. Returns the definitions."""
    return definitions.define(
        HEAP, _T.STRING, _HEAP_DEFAULT, _LOW,
        "The largest heap of the JVM of each Java connector, as the option -Xmx of java takes it.",
        validator=_check_heap,
    ).define(
        OPTIONS, _T.STRING, "", _LOW,
        "Further options of java for the JVMs of Java connectors, separated by spaces, with quotes as in a shell. They are "
        "shown to all users of the machine: no secrets.",
        validator=_check_options,
    ).define(
        ISOLATION, _T.STRING, Isolation.CONNECTOR.value, _LOW,
        "Which Java connectors share a JVM. connector: each has its own, which also runs its tasks; if it ends, no "
        "other connector is affected. worker: all share one JVM, which takes less memory; if one connector makes it "
        "exit, hang or run out of memory, all restart.",
        validator=one_of([one.value for one in Isolation]),
    ).define(
        DIRECTORY, _T.STRING, "", _LOW,
        "The working directory of the JVMs of Java connectors, where relative paths in their configurations begin. "
        "Unset: the worker's working directory.",
        validator=_check_directory,
    )  # fmt: skip


def _check_heap(name: str, value: Any) -> None:
    if _SIZE.fullmatch(str(value).strip()) is None:
        raise ConfigError(
            f"Invalid value {value} for the property {name}: give a number of bytes, or with one of the letters k, m, g and t, "
            f"such as {_HEAP_DEFAULT}",
            name=name,
        )


def _check_directory(name: str, value: Any) -> None:
    if value and not Path(value).is_dir():
        raise ConfigError(f"Invalid value {value} for the property {name}: the directory does not exist", name=name)


def _check_options(name: str, value: Any) -> None:
    try:
        shlex.split(value or "")
    except ValueError as error:
        raise ConfigError(f"Invalid value {value!r} for the property {name}: {error}", name=name) from error
