"""Checks the settings of a user's session before the first write. It changes no settings."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from fencepost.api.errors import ConfigError
from fencepost.engine.spark.session_settings import REQUIRED


def check_classic(frame: DataFrame) -> None:
    """Raise ConfigError for a DataFrame of Spark Connect, and for anything that is not a DataFrame."""
    if not isinstance(frame, DataFrame):
        kind = type(frame)
        raise ConfigError(
            f"A DataFrame of Spark is needed, and this is {kind.__module__}.{kind.__qualname__}: for one of pandas use "
            "spark.createDataFrame(...), for one of pyspark.pandas its to_spark()"
        )
    if not hasattr(frame, "_jdf"):
        raise ConfigError(
            "The DataFrame is one of Spark Connect, whose driver is another process: fencepost.spark needs a classic "
            "session. Build it with .master(...) in place of .remote(...), or submit the program with spark-submit, or "
            'write with df.write.format("fencepost") or df.writeStream.format("fencepost")'
        )


def check_session(session: SparkSession) -> None:
    """Raise ConfigError if Spark could run a part of a write twice. The message has the line to add."""
    # The settings come from the SparkContext, not from `session.conf`. A program can change `session.conf`, but such a
    # change does not affect the context.
    settings = session.sparkContext._jsc.sc().conf()  # noqa: SLF001 - pyspark's getConf adds the JVM's defaults
    for name, required in REQUIRED.items():
        value = settings.get(name, required.default).strip().lower()
        if value != required.value:
            raise ConfigError(
                f"The Spark session has {name}={value}, so {required.reason}. Where the session is built, add "
                f'.config("{name}", "{required.value}"), or start with --conf {name}={required.value}',
                name=name,
            )
