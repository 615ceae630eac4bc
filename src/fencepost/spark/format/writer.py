"""One write of a DataFrame by `format("fencepost")`. Spark passes the pickled writer from process to process."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from fencepost.api.errors import ConfigError
from fencepost.spark.config.progress import NextStep, Progress, SinkKey
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.format.open_write import OpenWrite, TaskDone, task_spec, this_task
from fencepost.spark.format.options import RUN, config_of
from fencepost.spark.format.short_errors import with_short_errors
from fencepost.spark.format.task_write import TaskSpec
from fencepost.spark.frame.wording import in_kafka

_log: Final = logging.getLogger(__name__)


class FencepostWriter(DataSourceArrowWriter):
    """Writes one DataFrame. `open_write` is None if the run is already committed."""

    def __init__(self, key: SinkKey, config: SinkConfig, spec: TaskSpec, open_write: OpenWrite | None) -> None:
        self._key = key
        self._config = config
        self._spec = spec
        self._open = open_write

    @with_short_errors
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskDone:
        """Write the rows of a Spark partition. Raises a FencepostError, after which the write can only be aborted."""
        if self._open is None:
            return TaskDone(this_task()[0])
        return self._open.write(self._spec, iterator)

    @with_short_errors
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the transaction if exactly the records in `messages` were written.

        Otherwise raises a FencepostError.
        """
        if self._open is None:
            _log.warning(in_kafka(self._key))
            return
        done = [message for message in messages if isinstance(message, TaskDone)]
        self._open.commit(self._config, done, Progress())

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the transaction. Its tasks may still be alive.

        Never raises, because Spark should report the first error.
        """
        del messages
        if self._open is not None:
            self._open.abort(self._config)


def begin_write(options: Mapping[str, Any], schema: StructType, *, overwrite: bool) -> FencepostWriter:
    """Begin the write of a DataFrame with these columns.

    Raises ConfigError or DataError for data that cannot be written, and the errors of Kafka's clients.
    """
    if overwrite:
        raise ConfigError('Kafka cannot overwrite: use mode("append")')
    run = options.get(RUN)
    config = config_of(options, instead="fencepost.spark.write_kafka")
    key = config.key_of(run)
    spec = task_spec(config, key, schema)

    def decide(last: Progress | None) -> NextStep:
        return NextStep.WRITE if last is None else NextStep.SKIP

    return FencepostWriter(key, config, spec, OpenWrite.begin(config, key, decide, keeps_progress=run is not None))
