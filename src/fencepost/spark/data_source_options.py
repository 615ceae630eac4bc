"""The options of `format("fencepost")`: those of a sink, without what a data source cannot do, and with Spark's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.config.error_handling import DEAD_LETTER_TOPIC, Tolerance
from fencepost.spark.sink_config import SinkConfig

RUN: Final = "run"
CHECKPOINT: Final = "checkpointlocation"
_OF_SPARK: Final = (CHECKPOINT, "queryname")
"""Options of a streaming query, which Spark passes on, in any case of letters."""


def option(options: Mapping[str, Any], name: str) -> str | None:
    """An option of Spark, whose names have no case. None if it is not set."""
    return next((value for given, value in options.items() if given.lower() == name), None)


def config_of(options: Mapping[str, Any], *, instead: str) -> SinkConfig:
    """Check the options. `instead` is what does the things that a data source cannot. Raises ConfigError."""
    for name in ("transforms", "errors.tolerance", DEAD_LETTER_TOPIC):
        if str(options.get(name, "")).strip().lower() not in ("", Tolerance.NONE):
            raise ConfigError(f'format("fencepost") has no {name}: use {instead}, or do it in the query', name=name)
    return SinkConfig.from_options(
        {name: value for name, value in options.items() if name != RUN and name.lower() not in _OF_SPARK}
    )
