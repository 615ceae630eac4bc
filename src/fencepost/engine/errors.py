"""The errors between fencepost and Spark.

    SparkJobError           a batch's Spark job failed
    ├── SparkStartError     the session cannot be started
    ├── WriteRetriedError   Spark ran a part of a write a second time, which is refused
    ├── UnexplainedJobError it may be an error of a row: only trying rows apart can say so
    └── BatchCancelledError the batch was cancelled while it was written
    SparkDataError          a DataError: the transforms or converters cannot process the rows, and never will
    RecordRefusedError      a DataError: a transform or converter refused a record, which is not tolerated
    └── RecordWaitsError    a RetriableError too: it may take the record later
    ConverterContractError  a PluginError: a converter broke its contract, whatever the record
    RetriableJobError       a RetriableError, raised by the Python code of a transform
    PreparationWaitsError   a RetriableError of a converter that could not decide how to write a batch yet

After any of them the caller aborts the transaction: late writers on executors then have an outdated epoch.
"""

from __future__ import annotations

from fencepost.api.errors import ConfigError, DataError, FencepostError, PluginError, RetriableError
from fencepost.engine.refused_records import Tally
from fencepost.kafka.errors import KafkaError


class SparkJobError(FencepostError):
    """A batch's Spark job failed."""


class SparkStartError(SparkJobError):
    """The Spark session cannot be started."""


class WriteRetriedError(SparkJobError):
    """Spark ran a part of a write again. The first attempt may have written records, so the batch is aborted."""


class UnexplainedJobError(SparkJobError):
    """A batch's Spark job failed, and neither Spark nor the machine is known to be at fault.

    It is an error of a row if only a transform can have raised it. `reason` is Spark's message alone.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class BatchCancelledError(SparkJobError):
    """The batch was cancelled while it was written."""


class SparkDataError(DataError):
    """A transform, or a source's DataFrame, failed for the given rows. A retry would fail again.

    `reason` is Spark's message alone.
    """

    def __init__(self, message: str, *, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason


class RecordRefusedError(DataError):
    """A transform or converter refused a record, and the connector does not tolerate that.

    `tally` has the errors of the same batch up to then, `record` says which record was refused, and why.
    """

    def __init__(self, message: str, *, tally: Tally | None = None, record: str = "") -> None:
        super().__init__(message)
        self.tally = tally or Tally()
        self.record = record


class RecordWaitsError(RecordRefusedError, RetriableError):
    """A transform or converter raised RetriableError for a record in every retry."""


class ConverterContractError(PluginError):
    """A converter did not return one value for each given value. This is not an error of a record."""


class RetriableJobError(RetriableError):
    """The Python code of a transform raised RetriableError while Spark ran it."""


class PreparationWaitsError(RetriableError):
    """A converter raised RetriableError from `prepare`. Nothing of the batch is written."""


class AllRowsRefusedError(Exception):
    """A stage refuses all given rows for the same `reason`, so that none needs a separate attempt."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


def is_of_records(error: Exception) -> bool:
    """Return whether an error was caused by the processed records.

    A wrong configuration, a plugin that violates its contract, a lost or cancelled Spark job, and errors of Kafka are not.
    """
    return not isinstance(error, ConfigError | PluginError | SparkJobError | KafkaError | MemoryError)
