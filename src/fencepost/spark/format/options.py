"""The options of `format("fencepost")`: Spark's own options, and those options of a sink that it can support."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.config.error_handling import DEAD_LETTER_TOPIC, Tolerance
from fencepost.spark.config.sink_config import SinkConfig

RUN: Final = "run"
CHECKPOINT: Final = "checkpointlocation"
_OF_SPARK: Final = (CHECKPOINT, "queryname")
"""Options of a streaming query, in lower case. Spark passes on their names in upper or lower case."""

_PRIVATE_KEY: Final = "ssl.keystore.key"
"""The end of the name of a secret that the default of `spark.redaction.regex` does not match."""


def option(options: Mapping[str, Any], name: str) -> str | None:
    """Return an option of Spark, whose names are not case-sensitive; None if it is not set."""
    return next((value for given, value in options.items() if given.lower() == name), None)


def config_of(options: Mapping[str, Any], *, instead: str) -> SinkConfig:
    """Check the options.

    `instead` names the alternatives for options that a data source cannot have. Raises ConfigError.
    """
    for name in options:
        if name.lower().endswith(_PRIVATE_KEY):
            raise ConfigError(
                f'{name} is a private key, and Spark may show the options of format("fencepost") in plans, its UI and its '
                "event log: put the key and its certificates in a PEM file where the driver and the executors run, and set "
                f"ssl.keystore.location to it, or use {instead}. If others can read these, replace the key",
                name=name,
            )
    for name in ("transforms", "errors.tolerance", DEAD_LETTER_TOPIC):
        if str(options.get(name, "")).strip().lower() not in ("", Tolerance.NONE):
            raise ConfigError(f'format("fencepost") has no {name}: use {instead}, or do it in the query', name=name)
    return SinkConfig.from_options(
        {name: value for name, value in options.items() if name != RUN and name.lower() not in _OF_SPARK}
    )
