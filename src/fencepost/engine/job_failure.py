"""Classifies a failed Spark job by the exceptions of the JVM, and not by their text.

Spark quotes data in its messages. So the kind of failure is determined by the classes of the JVM's exceptions and their
SQLSTATE, and by the class of a Python exception. A Python trace has that class before the exception's message.
https://spark.apache.org/docs/latest/sql-error-conditions-sqlstates.html
"""

from __future__ import annotations

import errno
import os
import re
from dataclasses import dataclass
from typing import Any, Final

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

from fencepost.api.errors import FencepostError, RetriableError, describe_error
from fencepost.api.secrets import SECRETS
from fencepost.engine.errors import RetriableJobError, SparkDataError, SparkJobError, UnexplainedJobError

PYTHON_EXCEPTION: Final = "org.apache.spark.api.python.PythonException"

WITHOUT_JVM: Final = (AttributeError, AssertionError)
"""The errors that pyspark raises when its JVM is gone, because another thread has stopped Spark."""

_SPARK_THROWABLE: Final = "org.apache.spark.SparkThrowable"
# The SQL states of failures of the engine, of its machine, or of the systems that it reads from. With any other state,
# the same rows would fail again. 08 connection, 40 rollback, 53 and 82 resources, 55 and 56 state of the system, 57
# operator, 58 and F0 system, HV and HY requests to other systems, KD data source, XX internal error.
_STATES_OF_ENGINE: Final = ("08", "40", "53", "55", "56", "57", "58", "82", "F0", "HV", "HY", "KD", "XX")
_KINDS_OF_ENGINE: Final = re.compile(
    r"org\.apache\.spark\.(?!Spark\w+Exception$|sql\.).*"
    r"|java\.(io|nio|net|util\.concurrent)\..*"
    r"|java\.lang\.(IllegalStateException|InterruptedException|(?!StackOverflow)\w*Error)"
)
_RETRIABLE: Final = f"{RetriableError.__module__}.{RetriableError.__qualname__}"
_TRACE: Final = "Traceback (most recent call last):\n"
_FRAME: Final = re.compile(r'^  File "([^"\n]+)", line (\d+), in ', re.MULTILINE)
_EDGE: Final = "fencepost/api/plugin_calls.py"
_PYTHON_HEAD: Final = "An exception was thrown from the Python worker:"
_EXECUTOR_LOST: Final = re.compile(r"ExecutorLostFailure \([^)]*\)[^\n]*")
_LONGEST: Final = 400
_NO_MODULE: Final = ("ModuleNotFoundError", "ImportError")
_OTHER_VERSION: Final = "[PYTHON_VERSION_MISMATCH]"
_NO_MEMORY: Final = "java.lang.OutOfMemoryError"
_NOT_STARTED: Final = "Error from python worker:"

PYTHON_ADVICE: Final = (
    "Executors need a Python of the driver's version with fencepost and all that the query's functions import: set "
    "PYSPARK_PYTHON to it before Spark starts, or spark.pyspark.python where the session is built"
)
"""The advice if Python on an executor cannot run the code."""


@dataclass(frozen=True, slots=True)
class Throwable:
    """An exception of the JVM.

    `sql_state` is None if it has no SQLSTATE; `expression` is the SQL text that raised it.
    """

    kind: str
    message: str
    sql_state: str | None = None
    expression: str | None = None

    @property
    def is_of_data(self) -> bool:
        """Whether SQL or Python code refused rows."""
        if self.kind == PYTHON_EXCEPTION:
            return not self.is_of_python
        return bool(self.sql_state) and not self.is_of_engine

    @property
    def is_of_engine(self) -> bool:
        """Whether Spark or its machine raised the exception, and not an expression or function."""
        if self.sql_state:
            return self.sql_state.startswith(_STATES_OF_ENGINE)
        return _KINDS_OF_ENGINE.fullmatch(self.kind) is not None

    @property
    def is_of_python(self) -> bool:
        """Whether Python on an executor did not start, lacks a module, or has another version than the driver's.

        As for retriable errors, only the first exception in a trace counts.
        """
        if self.kind != PYTHON_EXCEPTION:
            return self.message.lstrip().startswith(_NOT_STARTED)
        kind, _, text = next(iter(_exceptions(self.message)), "").partition(": ")
        return kind in _NO_MODULE or text.startswith(_OTHER_VERSION)


@dataclass(frozen=True, slots=True)
class JobFailure:
    """A failed job: the JVM's exception and its causes, from outermost to innermost, and the text of the error."""

    causes: tuple[Throwable, ...]
    text: str

    @classmethod
    def of(cls, error: BaseException) -> JobFailure:
        """Read an error of Py4J or PySpark. There are no causes if the JVM has died, or if Spark was stopped."""
        return cls(tuple(_causes(error)), _text(error) or type(error).__name__)

    @property
    def is_of_data(self) -> bool:
        """Whether the same rows would fail again: SQL or Python code refused them."""
        return any(cause.is_of_data for cause in self.causes) and not self.is_of_full_memory

    @property
    def may_be_of_rows(self) -> bool:
        """Whether SQL or Python code may have refused rows: it is not known that Spark or its machine is at fault.

        Many of Spark's expressions raise Java exceptions, which have no SQLSTATE.
        """
        if self.is_of_full_memory or self.is_of_python or self.is_of_full_disk:
            return False
        return self.is_of_data or (bool(self.causes) and not self.causes[-1].is_of_engine)

    @property
    def is_of_python(self) -> bool:
        """Whether Python on an executor could not run the code, whatever the rows are. Then PYTHON_ADVICE applies."""
        return any(cause.is_of_python for cause in self.causes)

    @property
    def is_retriable(self) -> bool:
        """Whether Python code raised a RetriableError.

        Only the first exception in a trace counts, because an exception's text may imitate the exceptions that follow.
        Spark omits the cause of `raise ... from`.
        """
        raised = [_exceptions(cause.message) for cause in self.causes if cause.kind == PYTHON_EXCEPTION]
        return any(lines[0].partition(":")[0] == _RETRIABLE for lines in raised if lines)

    @property
    def is_of_full_disk(self) -> bool:
        """Whether Spark could not write its temporary files because the disk is full."""
        full = os.strerror(errno.ENOSPC)
        return not self.is_of_data and any(cause.is_of_engine and full in cause.message for cause in self.causes)

    @property
    def is_of_full_memory(self) -> bool:
        """Whether the JVM had no memory left."""
        return any(cause.kind == _NO_MEMORY for cause in self.causes)

    def as_error(self, what: str, *, code: str, afterwards: str) -> FencepostError:
        """Return the error to raise for a failed job. `what` names its task or batch.

        The result is a RetriableJobError if Python code raised a RetriableError, a SparkDataError for errors that the
        same rows would cause again, an UnexplainedJobError for errors of unknown kind, else a SparkJobError. `code` is
        advice for the case that the data is correct. `afterwards` is a sentence that says what happens to the batch.
        """
        failed = f"The Spark job of {what} failed"
        if self.is_retriable:
            return RetriableJobError(f"{failed}: {self.one_line}")
        if self.is_of_data:
            reason = self.one_line
            return SparkDataError(
                f"{failed}: {reason}. Nothing of this batch was written: correct the data, or {code}", reason=reason
            )
        if self.is_of_full_disk:
            return SparkJobError(
                f"{failed} because the disk of Spark's temporary files is full: {self.one_line}. Free some space there, or "
                "set spark.local.dir to a folder on another disk (the environment variable SPARK_LOCAL_DIRS has "
                f"precedence). {afterwards}"
            )
        if self.is_of_full_memory:
            return SparkJobError(
                f"{failed} because the JVM's memory is full: {self.one_line}. Set spark.driver.memory higher, or "
                "spark.executor.memory on a cluster, or let the source read less at once, as by the property batch.bytes of "
                f"FileSource. {afterwards}"
            )
        if self.may_be_of_rows:
            return UnexplainedJobError(f"{failed}: {self.one_line}. {afterwards}", reason=self.one_line)
        advice = f" {PYTHON_ADVICE}." if self.is_of_python else ""
        return SparkJobError(f"{failed}: {self.one_line}.{advice} {afterwards}")

    @property
    def one_line(self) -> str:
        """The message without traces of Java and Python, at most 400 characters, and the line in a plugin's code."""
        cause = next((cause for cause in self.causes if cause.is_of_data or cause.is_of_python), None)
        if cause is None:
            # A Java error, such as a StackOverflowError, may have no text. Its class still says more than Spark's text
            # around it.
            telling = (cause for cause in reversed(self.causes) if cause.message.strip() or not cause.is_of_engine)
            cause = next(telling, None)
        if cause is None:
            lines = self.text.strip().splitlines()
        elif cause.kind == PYTHON_EXCEPTION:
            lines = [_without_module(line) for line in _exceptions(cause.message)[-1:]]
        elif cause.is_of_python:
            lines = cause.message.partition(_NOT_STARTED)[2].strip().splitlines()
        else:
            lost = _EXECUTOR_LOST.search(cause.message)
            lines = [lost[0]] if lost and not cause.is_of_data else cause.message.strip().splitlines()
        without_text = self.text if cause is None else cause.kind.rpartition(".")[2]
        line = (lines[0] if lines else without_text).strip()
        if cause is not None and cause.expression:
            line = f"{line} in {' '.join(cause.expression.split())}"
        place = _place(cause.message) if cause is not None and cause.kind == PYTHON_EXCEPTION else ""
        return SECRETS.excerpt(line, _LONGEST) + place


def message_of(error: Exception) -> str:
    """Return the message of a stage's error; for an error of a Spark job, only Spark's part of it."""
    if isinstance(error, Py4JError | PySparkException):
        return JobFailure.of(error).one_line
    if isinstance(error, SparkDataError) and error.reason:
        return error.reason
    if isinstance(error, RetriableJobError) and error.__cause__ is not None:
        return JobFailure.of(error.__cause__).one_line
    return describe_error(error).removesuffix(".")


def _exceptions(message: str) -> list[str]:
    """The lines in a Python trace that name an exception with its text, in the order of the trace."""
    blocks = message.split(_TRACE)
    traces = blocks[1:] or [message.partition(_PYTHON_HEAD)[2]]
    lines = [next((line for line in trace.splitlines() if line[:1].strip()), "") for trace in traces]
    return [line for line in lines if line]


def _place(trace: str) -> str:
    """Return a plugin's file and its innermost line in a trace, in parentheses; empty for errors in other code."""
    frames = _FRAME.findall(trace.rsplit(_TRACE, maxsplit=1)[-1])
    called = max((number for number, (file, _) in enumerate(frames, 1) if file.endswith(_EDGE)), default=len(frames))
    lines = [line for file, line in frames[called:] if file == frames[called][0]]
    return f" ({frames[called][0]}:{lines[-1]})" if lines else ""


def _without_module(line: str) -> str:
    """An exception's line without the module of the exception's class."""
    kind, colon, text = line.partition(":")
    return f"{kind.rpartition('.')[2]}{colon}{text}"


def _causes(error: BaseException) -> list[Throwable]:
    found: list[Throwable] = []
    try:
        throwable = _origin(error)
        while throwable is not None:
            found.append(_throwable(throwable))
            throwable = throwable.getCause()
    except (Py4JError, OSError, *WITHOUT_JVM):
        return []
    return found


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except WITHOUT_JVM:
        # str() fails without the JVM, because pyspark asks it how detailed the message should be.
        return error._desc or "" if isinstance(error, CapturedException) else ""  # noqa: SLF001 - see above


def _origin(error: BaseException) -> Any:
    if isinstance(error, CapturedException):
        return error._origin  # noqa: SLF001 - pyspark tells the outermost exception's state only
    return error.java_exception if isinstance(error, Py4JJavaError) else None


def _throwable(throwable: Any) -> Throwable:
    of_spark = is_instance_of(SparkContext._gateway, throwable, _SPARK_THROWABLE)  # noqa: SLF001 - as pyspark itself asks
    return Throwable(
        throwable.getClass().getName(),
        throwable.getMessage() or "",
        throwable.getSqlState() if of_spark else None,
        _expression(throwable) if of_spark else None,
    )


def _expression(throwable: Any) -> str | None:
    """The SQL text that an exception refers to; None for a call of pyspark's functions."""
    for context in throwable.getQueryContext():
        if context.contextType().toString() == "SQL":
            return str(context.fragment())
    return None
