"""Writes a DataFrame to Kafka in one transaction: all of it, or nothing."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import closing
from typing import Any, Final

from pyspark.sql import DataFrame

from fencepost.api.errors import ConfigError
from fencepost.spark.config.progress import NextStep, Progress
from fencepost.spark.config.sink_config import SinkConfig, merged_options
from fencepost.spark.frame.rows import pipeline_for, record_columns
from fencepost.spark.frame.wording import in_kafka
from fencepost.spark.sink.session_check import check_classic, check_session
from fencepost.spark.sink.sink import Sink
from fencepost.spark.written import Written

_log: Final = logging.getLogger(__name__)


def write_kafka(
    frame: DataFrame,
    *,
    topic: str | None = None,
    run: str | None = None,
    name: str | None = None,
    bootstrap_servers: str | None = None,
    options: Mapping[str, Any] | None = None,
    **more_options: Any,
) -> Written:
    """Write a DataFrame to Kafka in one transaction, and return when it is committed.

    `topic` is for rows without a column `topic`. A `run`, such as a date, is written only once: the same run of the
    same sink adds nothing the second time. `name` names the sink; by default it is the topic. Different jobs that write
    runs to the same topic need different names. `bootstrap_servers` and `options` are as for `exactly_once`. Raises
    ConfigError, and the errors of the write. After an error, nothing is visible.
    """
    given = {"topic": topic, "name": name, "bootstrap.servers": bootstrap_servers}
    config = SinkConfig.from_options(merged_options(given, options, more_options))
    check_classic(frame)
    if frame.isStreaming:
        raise ConfigError(
            "write_kafka writes a DataFrame whose end is known, and this one is a stream: use "
            "frame.writeStream.foreachBatch(exactly_once(...))"
        )
    columns = record_columns(frame, config)
    pipeline = pipeline_for(columns.schema, config)
    check_session(frame.sparkSession)
    with closing(Sink(config, config.key_of(run), keeps_progress=run is not None)) as sink:
        sink.own()

        def decide(last: Progress | None) -> NextStep:
            return NextStep.WRITE if run is None or last is None else NextStep.SKIP

        written = sink.write(columns, pipeline, Progress(), decide)
    if written.skipped:
        _log.warning(in_kafka(sink.key))
    return written
