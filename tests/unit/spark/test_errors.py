"""Errors of Spark are told in one line, and errors of fencepost come through Spark as they were raised."""

from __future__ import annotations

import pytest

from fencepost.kafka.errors import RecordTooLargeError
from fencepost.spark.errors import CarriedFailureError, carried_failure, is_of_data, is_retriable, one_line_cause

PYTHON = """An exception was thrown from the Python worker:
Traceback (most recent call last):
  File "/app/reader.py", line 27, in read
    raise ValueError("not a number: x")
ValueError: not a number: x
"""
CAST = """An error occurred while calling o156.collectToPython.
: org.apache.spark.SparkNumberFormatException: [CAST_INVALID_INPUT] The value 'zz' cannot be cast. SQLSTATE: 22018
\tat org.apache.spark.sql.errors.QueryExecutionErrors$.invalidInputInCastToNumberError(QueryExecutionErrors.scala:147)
"""
LOST = """An error occurred while calling o158.collectToPython.
: org.apache.spark.SparkException: Job aborted due to stage failure: Task 1 in stage 4.0 failed 1 times, most recent \
failure: Lost task 1.0 in stage 4.0 (TID 9) (127.0.0.1 executor 0): ExecutorLostFailure (executor 0 exited caused by \
one of the running tasks) Reason: Command exited with code 137
\tat org.apache.spark.scheduler.DAGScheduler.abortStage(DAGScheduler.scala:2908)
"""


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (PYTHON, "ValueError: not a number: x"),
        (CAST, "[CAST_INVALID_INPUT] The value 'zz' cannot be cast. SQLSTATE: 22018"),
        (LOST, "ExecutorLostFailure (executor 0 exited caused by one of the running tasks) Reason: Command exited"),
        ("[UNRESOLVED_COLUMN] no column `x`;\n'Project ['x]", "[UNRESOLVED_COLUMN] no column `x`;"),
        ("", "Exception"),
    ],
)
def test_a_spark_error_is_told_in_one_line(text: str, cause: str):
    told = one_line_cause(Exception(text))
    assert told.startswith(cause)
    assert "\n" not in told


@pytest.mark.parametrize(
    ("text", "of_data"),
    [
        (PYTHON, True),
        (CAST, True),
        ("[UNRESOLVED_COLUMN] no column `x`. SQLSTATE: 42703", True),
        ("[USER_RAISED_EXCEPTION] refused SQLSTATE: P0001", True),
        (LOST, False),
        ("[INTERNAL_ERROR] the executor is gone. SQLSTATE: XX000", False),
        (f"Python worker exited unexpectedly (crashed)\n{PYTHON}", False),
    ],
)
def test_a_failure_of_the_rows_is_told_from_one_of_the_machines(text: str, of_data: bool):
    assert is_of_data(Exception(text)) is of_data


def test_a_retriable_error_of_python_code_is_told_from_others():
    assert is_retriable(Exception(PYTHON.replace("ValueError: not", "fencepost.api.errors.RetriableError: not")))
    assert not is_retriable(Exception(PYTHON))
    assert not is_retriable(Exception(CAST))


def test_a_failure_is_found_again_in_the_text_that_spark_makes_of_it():
    sent = RecordTooLargeError("orders", 5, 4, "max.request.size")
    found = carried_failure(Exception(f"Job aborted:\n\tat java\n{CarriedFailureError(sent)}\n\tat java"))
    assert isinstance(found, RecordTooLargeError)
    assert (found.topic, found.size, str(found)) == ("orders", 5, str(sent))
    assert carried_failure(Exception(PYTHON)) is None
