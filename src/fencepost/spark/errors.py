"""What can go wrong between fencepost and Spark.

    SparkJobError           a batch's Spark job failed
    ├── SparkStartError     the session cannot be started
    ├── WriteRetriedError   Spark ran a part of a write a second time, which is refused
    └── BatchCancelledError the batch was cancelled while it was written
    SparkDataError          a DataError: what is done with the rows does not fit them, and never will
    RecordRefusedError      a DataError: a transform or converter refused a record, which is not tolerated
    └── RecordWaitsError    a RetriableError too: it may take the record later
    ConverterContractError  a DataError: a converter broke its contract, whatever the record
    RetriableJobError       a RetriableError, raised by the Python code of a transform

After any of them the caller aborts the transaction: stray writers on executors then hold a dead epoch.
"""

from __future__ import annotations

import base64
import pickle
import re

from fencepost.api.errors import DataError, FencepostError, RetriableError
from fencepost.spark.refused import Tally


class SparkJobError(FencepostError):
    """A batch's Spark job failed."""


class SparkStartError(SparkJobError):
    """The Spark session cannot be started."""


class WriteRetriedError(SparkJobError):
    """Spark ran a part of a write again. The first attempt may have written records, so the batch is given up."""


class BatchCancelledError(SparkJobError):
    """The batch was cancelled while it was written."""


class SparkDataError(DataError):
    """What a transform, or a source's DataFrame, does with the rows does not fit them, or raised. It would again."""


class RecordRefusedError(DataError):
    """A transform or converter refused a record, and the connector does not tolerate that.

    `tally` is what went wrong with records of the same batch up to then.
    """

    def __init__(self, message: str, *, tally: Tally | None = None) -> None:
        super().__init__(message)
        self.tally = tally or Tally()


class RecordWaitsError(RecordRefusedError, RetriableError):
    """A transform or converter raised RetriableError for a record, for as long as it was tried again."""


class ConverterContractError(DataError):
    """A converter did not return one value for each that it was given. No record is to blame for that."""


class RetriableJobError(RetriableError):
    """The Python code of a transform raised RetriableError while Spark ran it."""


class AllRowsRefusedError(Exception):
    """Tells that a stage refuses each row that it was given for the same `reason`, so that none need be tried alone."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


_PYTHON_CAUSE = re.compile(
    r"^(?:[\w.]+\.)?(?!Traceback)(\w*(?:Error|Exception|Warning|Exit|Interrupt)\b.*)$", re.MULTILINE
)
_JVM_CAUSE = re.compile(r"^: (?:[\w.$]+: )?(.+)$", re.MULTILINE)
_LOST = re.compile(
    r"ExecutorLostFailure \([^)]*\)[^\n]*|Python worker exited unexpectedly[^\n]*|[^\n]*TaskKilled[^\n]*"
)
_LONGEST = 400
_PYTHON_TRACE = "Traceback (most recent call last)"
# Classes of SQL's conditions: 22 is a data exception, 42 a syntax error or the name of something that is not there, P0
# what SQL itself raises by raise_error or assert_true.
_OF_DATA = re.compile(r"SQLSTATE: (?:22|42|P0)\w{3}")


def is_of_data(error: BaseException) -> bool:
    """Whether a Py4J or PySpark error would come again with the same rows: SQL or Python code refused them."""
    text = str(error)
    return _LOST.search(text) is None and (_PYTHON_TRACE in text or _OF_DATA.search(text) is not None)


def is_retriable(error: BaseException) -> bool:
    """Whether a Py4J or PySpark error is a RetriableError that Python code raised in a job."""
    return is_of_data(error) and one_line_cause(error).startswith(f"{RetriableError.__name__}:")


def one_line_cause(error: BaseException) -> str:
    """The part of a Py4J or PySpark error that says what happened, without the traces of either side."""
    text = str(error)
    if lost := _LOST.search(text):
        return lost[0].strip()[:_LONGEST]
    head, found, trace = text.partition(_PYTHON_TRACE)
    causes = _PYTHON_CAUSE.findall(trace.partition("\n\tat ")[0]) if found else []
    lines = [
        line.strip() for line in (causes[-1:] or _JVM_CAUSE.findall(head)[:1] or head.splitlines()) if line.strip()
    ]
    return (lines[0] if lines else type(error).__name__)[:_LONGEST]


_CARRIED = re.compile(r"fencepost-failure:([A-Za-z0-9+/=]+):")


class CarriedFailureError(Exception):
    """Takes a FencepostError out of a stage whose rows are not fencepost's own; `carried_failure` finds it again.

    The text that Spark makes of a Python exception is all that reaches the driver, so the error is in the text.
    """

    def __init__(self, failure: FencepostError) -> None:
        super().__init__(f"{failure} fencepost-failure:{base64.b64encode(pickle.dumps(failure)).decode()}:")


def carried_failure(error: BaseException) -> FencepostError | None:
    """The failure that an executor sent along in a Spark error, None if there is none."""
    match = _CARRIED.search(str(error))
    if match is None:
        return None
    failure = pickle.loads(base64.b64decode(match[1]))  # noqa: S301 - written by a stage of the same job
    return failure if isinstance(failure, FencepostError) else None
