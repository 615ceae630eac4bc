"""How the JVMs of Java connectors run: properties of the worker."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.config.validators import not_blank

_T: Final = ConfigDef.Type
_LOW: Final = ConfigDef.Importance.LOW

HEAP: Final = "fencepost.java.heap"
OPTIONS: Final = "fencepost.java.options"
_HEAP_DEFAULT: Final = "512m"


@dataclass(frozen=True, slots=True)
class JavaSettings:
    """`heap` is the largest heap of each JVM, as its option -Xmx takes it; `options` are further ones.

    `graceful_timeout_s` is how long the stop of a connector or task may take before its JVM is killed.
    """

    heap: str = _HEAP_DEFAULT
    options: tuple[str, ...] = ()
    graceful_timeout_s: float = 5.0

    @classmethod
    def from_values(cls, values: Mapping[str, Any]) -> JavaSettings:
        """Read a worker's parsed properties."""
        return cls(
            values[HEAP].strip(),
            tuple(shlex.split(values[OPTIONS] or "")),
            values["task.shutdown.graceful.timeout.ms"] / 1000,
        )


def define_java(definitions: ConfigDef) -> ConfigDef:
    """Add the properties. Returns the definitions."""
    return definitions.define(
        HEAP, _T.STRING, _HEAP_DEFAULT, _LOW,
        "The largest heap of the JVM of each Java connector, as the option -Xmx of java takes it.",
        validator=not_blank,
    ).define(
        OPTIONS, _T.STRING, "", _LOW,
        "Further options of java for the JVMs of Java connectors, separated by spaces, with quotes as in a shell. They are "
        "shown to all users of the machine: no secrets.",
        validator=_check_options,
    )  # fmt: skip


def _check_options(name: str, value: Any) -> None:
    try:
        shlex.split(value or "")
    except ValueError as error:
        raise ConfigError(f"Invalid value {value!r} for the property {name}: {error}", name=name) from error
