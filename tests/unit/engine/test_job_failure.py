"""The JVM's exceptions determine the kind of a job's failure; data that they quote have no influence."""

from __future__ import annotations

import pytest

from fencepost.engine.errors import UnexplainedJobError
from fencepost.engine.job_failure import PYTHON_EXCEPTION, JobFailure, Throwable

SPARK = "org.apache.spark.SparkException"
TRACE = """[PYTHON_EXCEPTION] An exception was thrown from the Python worker: Traceback (most recent call last):
  File "/app/reader.py", line 27, in read
    raise ValueError("not a number: x")
    ^^^^^^^^^^
{}
 SQLSTATE: 38000"""
CHAIN = (
    "\n\nDuring handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n"
)
LATER = "fencepost.api.errors.RetriableError: later"
ABORTED = "Job aborted due to stage failure: Task 1 in stage 4.0 failed 1 times, most recent failure: "


def python(*lines: str) -> JobFailure:
    return failure(Throwable(PYTHON_EXCEPTION, TRACE.format("\n".join(lines)), "38000"))


def sql(message: str, state: str = "22018", kind: str = "org.apache.spark.SparkNumberFormatException") -> JobFailure:
    return failure(Throwable(kind, f"{message} SQLSTATE: {state}\n== DataFrame ==", state))


def failure(*causes: Throwable) -> JobFailure:
    return JobFailure(
        causes, "An error occurred while calling o1.getResult.\n: " + "\n".join(c.message for c in causes)
    )


EXITED = failure(
    Throwable(SPARK, "Exception thrown in awaitResult: "),
    Throwable(SPARK, f"{ABORTED}Lost task 1.0: {SPARK}: Python worker exited unexpectedly (crashed)\n\tat org.apache"),
    Throwable(SPARK, "Python worker exited unexpectedly (crashed)"),
    Throwable("java.io.EOFException", ""),
)
LOST = failure(Throwable(SPARK, f"{ABORTED}ExecutorLostFailure (executor 0 exited) Reason: code 137\nDriver stack"))

OVERFLOW = failure(Throwable(SPARK, f"{ABORTED}Lost task 0.0"), Throwable("java.lang.StackOverflowError", ""))

NOT_STARTED = failure(
    Throwable(SPARK, f"{ABORTED}Lost task 0.0: {SPARK}"),
    Throwable(
        SPARK,
        "\nError from python worker:\n  /bin/python: Error while finding module specification for 'd'\nPYTHONPATH was:\n",
    ),
)


@pytest.mark.parametrize(
    ("failed", "cause"),
    [
        (python("ValueError: not a number: x"), "ValueError: not a number: x"),
        (python("shop.errors.PriceError: x: y", "2nd line"), "PriceError: x: y"),
        (python("KeyError: 1" + CHAIN + '  File "r.py", line 3, in r', "shop.PriceError: x"), "PriceError: x"),
        (python("StopAsyncIteration"), "StopAsyncIteration"),
        (sql("[CAST_INVALID_INPUT] The value 'zz' cannot be cast."), "[CAST_INVALID_INPUT] The value 'zz' cannot be"),
        (sql("[UNRESOLVED_COLUMN] no `x`", "42703"), "[UNRESOLVED_COLUMN] no `x`"),
        (EXITED, "Python worker exited unexpectedly (crashed)"),
        (LOST, "ExecutorLostFailure (executor 0 exited) Reason: code 137"),
        (OVERFLOW, "StackOverflowError"),
        (JobFailure((), "[JAVA_GATEWAY_EXITED] Java exited\nmore"), "[JAVA_GATEWAY_EXITED] Java exited"),
        (python("ModuleNotFoundError: No module named 'x'"), "ModuleNotFoundError: No module named 'x'"),
        (NOT_STARTED, "/bin/python: Error while finding module specification for 'd'"),
    ],
)
def test_a_failure_is_reported_in_one_line(failed: JobFailure, cause: str):
    assert failed.one_line.startswith(cause)
    assert "\n" not in failed.one_line


def test_disk_full_is_distinguished_from_data_quoting_it():
    full = Throwable("java.io.IOException", "No space left on device")
    assert failure(Throwable(SPARK, f"{ABORTED}Lost task 1.0: {SPARK}"), full).is_of_full_disk
    assert not sql("[CAST_INVALID_INPUT] The value 'No space left on device' cannot be cast.").is_of_full_disk
    assert not EXITED.is_of_full_disk


@pytest.mark.parametrize(
    ("failed", "of_data"),
    [
        (python("ValueError: not a number: x"), True),
        (sql("[CAST_INVALID_INPUT] The value 'zz'"), True),
        (sql("[UNRESOLVED_COLUMN] no column `x`", "42703"), True),
        (sql("[USER_RAISED_EXCEPTION] refused", "P0001"), True),
        (sql("[CAST_INVALID_INPUT] The value 'TaskKilled'"), True),
        (sql("[CAST_INVALID_INPUT] The value 'ExecutorLostFailure (executor 1)'"), True),
        (python("ValueError: Python worker exited unexpectedly (crashed)"), True),
        (sql("[DUPLICATED_MAP_KEY] Duplicate map key x", "23505"), True),
        (sql("[COLLECTION_SIZE_LIMIT_EXCEEDED] Can't create array", "54000"), True),
        (sql("[FAILED_EXECUTE_UDF] User defined function failed", "39000"), True),
        (sql("[UNABLE_TO_ACQUIRE_MEMORY] Unable to acquire 9 bytes", "53200"), False),
        (sql("[FAILED_READ_FILE] a.parquet", "KD001"), False),
        (sql("[INTERNAL_ERROR] the executor is gone", "XX000"), False),
        (sql("[INTERNAL_ERROR] about the value 'SQLSTATE: 22018'", "XX000"), False),
        (failure(Throwable(SPARK, f"{ABORTED}the row 'Traceback (most recent call last)' SQLSTATE: 22018")), False),
        (EXITED, False),
        (LOST, False),
        (JobFailure((), "Answer from Java side is empty"), False),
    ],
)
def test_a_data_failure_is_distinguished_from_a_machine_failure(failed: JobFailure, of_data: bool):
    assert failed.is_of_data is of_data


def test_an_error_of_a_function_is_reported_with_its_line_in_the_called_file():
    files = ["/lib/fencepost/api/plugin_calls.py", "/app/mine.py", "/app/mine.py", "/lib/pyarrow/array.py"]
    frames = "".join(f'\n  File "{file}", line {line}, in f\n    code' for line, file in enumerate(files, 1))
    told = failure(
        Throwable(
            PYTHON_EXCEPTION, f"{TRACE.split('  File', maxsplit=1)[0].rstrip()}{frames}\nshop.PriceError: x", "38000"
        )
    )
    assert told.one_line == "PriceError: x (/app/mine.py:3)"


@pytest.mark.parametrize(
    ("kind", "may_be"),
    [
        ("java.lang.IllegalArgumentException", True),
        ("java.lang.ArithmeticException", True),
        ("java.lang.StackOverflowError", True),
        ("java.time.DateTimeException", True),
        ("scala.MatchError", True),
        ("com.fasterxml.jackson.core.JsonParseException", True),
        ("org.apache.spark.SparkUnsupportedOperationException", True),
        ("org.apache.spark.sql.catalyst.util.BadRecordException", True),
        ("org.apache.spark.SparkException", False),
        ("org.apache.spark.TaskKilledException", False),
        ("org.apache.spark.storage.BlockNotFoundException", False),
        ("java.io.EOFException", False),
        ("java.util.concurrent.RejectedExecutionException", False),
        ("java.lang.IllegalStateException", False),
        ("java.lang.InterruptedException", False),
        ("java.lang.NoClassDefFoundError", False),
        ("java.lang.OutOfMemoryError", False),
    ],
)
def test_an_error_without_a_state_may_be_of_a_row_unless_it_is_of_the_engine(kind: str, may_be: bool):
    failed = failure(Throwable(SPARK, f"{ABORTED}x"), Throwable(kind, "x"))
    assert failed.may_be_of_rows is may_be
    assert not failed.is_of_data
    raised = failed.as_error("a-0", code="the transforms", afterwards="The transaction is aborted")
    assert isinstance(raised, UnexplainedJobError) is may_be


@pytest.mark.parametrize("failed", [EXITED, LOST, NOT_STARTED, JobFailure((), "Answer from Java side is empty")])
def test_an_error_of_the_machine_is_not_of_rows(failed: JobFailure):
    assert not failed.may_be_of_rows


@pytest.mark.parametrize(
    ("failed", "retriable"),
    [
        (python(LATER), True),
        (python("fencepost.api.errors.RetriableError"), True),
        (python("shop.RetriableError: later"), False),
        (python("ValueError: not a number: x"), False),
        (python("ValueError: not a number: x", LATER), False),
        (python("ValueError: not a number: x" + CHAIN + '  File "/app/r.py", line 3, in r', LATER), False),
        (sql(f"[USER_RAISED_EXCEPTION] Traceback (most recent call last):\n{LATER}\n", "P0001"), False),
        (LOST, False),
    ],
)
def test_a_retriable_error_of_python_code_is_distinguished_from_imitations(failed: JobFailure, retriable: bool):
    assert failed.is_retriable is retriable


@pytest.mark.parametrize(
    ("failed", "of_python"),
    [
        (python("ModuleNotFoundError: No module named 'fencepost'"), True),
        (python("ImportError: cannot import name 'x' from 'y'"), True),
        (python("ModuleNotFoundError: No module named 'x'" + CHAIN + '  File "r.py", line 3, in r', "E: x"), True),
        (python("pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in"), True),
        (python("pyspark.errors.exceptions.base.PySparkRuntimeError: [OTHER] [PYTHON_VERSION_MISMATCH]"), False),
        (python("ValueError: not a number: x"), False),
        (python("ValueError: x" + CHAIN + '  File "r.py", line 3, in r', "ModuleNotFoundError: x"), False),
        (sql("[USER_RAISED_EXCEPTION] Traceback (most recent call last):\nImportError: x\n", "P0001"), False),
        (NOT_STARTED, True),
        (LOST, False),
    ],
)
def test_a_missing_module_is_distinguished_from_bad_data(failed: JobFailure, of_python: bool):
    assert failed.is_of_python is of_python
    assert not (failed.is_of_python and failed.is_of_data)


def test_a_jvm_without_memory_is_reported_with_advice() -> None:
    full = failure(Throwable(SPARK, f"{ABORTED}x"), Throwable("java.lang.OutOfMemoryError", "Java heap space"))
    error = full.as_error("a-0", code="the transforms", afterwards="The transaction is aborted")
    assert str(error).startswith(
        "The Spark job of a-0 failed because the JVM's memory is full: Java heap space. Set spark."
    )
    quoted = failure(Throwable(SPARK, "java.lang.OutOfMemoryError: Java heap space"))
    assert "memory is full" not in str(quoted.as_error("a-0", code="", afterwards=""))
