"""The errors of the work that fencepost does with Spark.

    SparkJobError           a batch's Spark job failed
    ├── SparkStartError     the session cannot be started
    ├── WriteRetriedError   Spark ran a part of a write a second time, which is refused
    ├── UnexplainedJobError the cause may be a row: only trying rows separately can show that
    └── BatchCancelledError the batch was cancelled while it was written
    SparkDataError          a DataError: the transforms or converters cannot process the rows, and never will
    RecordRefusedError      a DataError: a transform or converter refused a record, which is not tolerated
    └── RecordWaitsError    also a RetriableError: the record may be accepted later
    ConverterContractError  a PluginError: a converter violated its contract, independent of the record
    RetriableJobError       a RetriableError that the Python code of a transform raised
    PreparationWaitsError   a RetriableError of a converter that cannot decide yet how to write a batch

After each of these errors the caller aborts the transaction. Then late writers on executors have an outdated epoch.
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
    """A batch's Spark job failed, and it is not known that Spark or the machine is at fault.

    If only a transform can have raised the error, a row is the cause. `reason` is Spark's message alone.
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

    `tally` has the errors of the same batch up to that record; `record` says which record was refused, and why.
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
    """A converter raised RetriableError from `prepare`. Nothing in the batch was written."""


class AllRowsRefusedError(Exception):
    """A stage refuses all given rows for the same `reason`. No row needs an attempt of its own."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


def is_of_records(error: Exception) -> bool:
    """Return whether an error was caused by the records that were processed.

    Records did not cause these errors: a wrong configuration, a plugin that violates its contract, a lost or cancelled
    Spark job, and errors of Kafka.
    """
    return not isinstance(error, ConfigError | PluginError | SparkJobError | KafkaError | MemoryError)
