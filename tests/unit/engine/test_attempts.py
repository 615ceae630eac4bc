"""The name of a writer's thread contains the stage attempt to which it belongs."""

from __future__ import annotations

import pytest

from fencepost.engine.attempts import check_stage_attempt
from fencepost.engine.errors import SparkJobError, WriteRetriedError
from tests.support.refusals import refusal

THREAD = "Thread[#71,Executor task launch worker for task 1.0 in stage {} (TID 9),5,main]"


def test_the_first_attempt_of_a_stage_may_write():
    assert refusal(check_stage_attempt, THREAD.format("4.0"), stage=4, task=9) is None


def test_another_attempt_of_a_stage_may_not_write():
    with pytest.raises(WriteRetriedError, match=r"stage 4 of a write again \(attempt 2\)"):
        check_stage_attempt(THREAD.format("4.2"), stage=4, task=9)


@pytest.mark.parametrize("thread", [None, "", "stdout writer for python3", THREAD.format("5.0")])
def test_a_writer_without_a_known_attempt_may_not_write(thread: str | None):
    with pytest.raises(SparkJobError, match="does not tell which attempt of stage 4 writes"):
        check_stage_attempt(thread, stage=4, task=9)


def test_the_thread_of_another_task_gets_no_context():
    with pytest.raises(SparkJobError, match="does not tell"):
        check_stage_attempt(THREAD.format("4.0"), stage=4, task=10)
