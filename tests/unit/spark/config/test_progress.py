"""How a sink treats the next batch, depending on its last committed progress."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fencepost.spark.config.progress import NextStep, Progress, SinkKey, check_topic, next_step
from fencepost.spark.errors import CheckpointMismatchError, TopicRecreatedError
from tests.support.refusals import refusal

LAST = Progress("query", 7, 1_700_000_000_000, "topic-id")


def step(batch: Progress, last: Progress | None = LAST, *, first_batch: int = 0) -> NextStep:
    return next_step("orders", last, batch, first_batch=first_batch)


def test_progress_survives_its_record():
    assert Progress.read(LAST.encoded) == LAST
    assert Progress.read(Progress().encoded) == Progress()
    assert Progress.read(b'{"batch": 3, "later": 1}') == Progress(batch=3)


def test_a_run_has_another_key_and_id_than_its_sink():
    sink, run = SinkKey("orders"), SinkKey("orders", "1")
    assert (sink.encoded, run.encoded) == (b'{"sink":"orders"}', b'{"sink":"orders","run":"1"}')
    assert sink.transactional_id != run.transactional_id


def test_no_run_has_the_transactional_id_of_another_sink_or_run():
    names = ["a", "a-b", "a-b-c", "a/run", "a/", "a="]
    runs = [None, "b", "b-c", "c", "run=b", "/run=b", "b/run=c", "=b"]
    ids = {SinkKey(name, run).transactional_id for name in names for run in runs}
    assert len(ids) == len(names) * len(runs)
    # Permissions for a sink's prefix also cover its runs.
    assert SinkKey("orders", "1").transactional_id.startswith("fencepost-sink-orders")


@pytest.mark.parametrize("number", [8, 9])
def test_a_later_batch_is_written(number: int):
    assert step(replace(LAST, batch=number, batch_timestamp_ms=1)) is NextStep.WRITE


def test_the_last_batch_is_not_written_again():
    assert step(LAST) is NextStep.SKIP


def test_a_batch_without_a_timestamp_is_identified_by_its_number():
    assert step(replace(LAST, batch_timestamp_ms=None)) is NextStep.SKIP


def test_the_last_number_with_another_timestamp_is_refused():
    with pytest.raises(CheckpointMismatchError, match="but with other rows"):
        step(replace(LAST, batch_timestamp_ms=5))


def test_an_older_batch_is_refused():
    with pytest.raises(CheckpointMismatchError, match="comes after batch 7, which is in Kafka"):
        step(replace(LAST, batch=6))


@pytest.mark.parametrize("number", [0, 7, 8])
def test_the_batches_of_another_checkpoint_are_refused(number: int):
    with pytest.raises(CheckpointMismatchError, match="holds the batches of another checkpoint"):
        step(replace(LAST, query="other", batch=number))


def test_a_new_sink_begins_with_batch_0():
    assert step(replace(LAST, batch=0), None) is NextStep.WRITE


def test_a_later_batch_of_a_sink_without_progress_is_refused():
    with pytest.raises(CheckpointMismatchError, match=r"set first\.batch=7, if it is set first\.batch=8"):
        step(LAST, None)


@pytest.mark.parametrize(("first", "expected"), [(7, NextStep.WRITE), (8, NextStep.SKIP)])
def test_the_first_batch_is_used_without_progress(first: int, expected: NextStep):
    assert step(LAST, None, first_batch=first) is expected


def test_the_first_batch_does_not_count_where_there_is_progress():
    assert step(LAST, first_batch=9) is NextStep.SKIP
    assert step(replace(LAST, batch=8), first_batch=9) is NextStep.WRITE


def test_another_topic_of_the_same_name_is_refused():
    with pytest.raises(TopicRecreatedError, match="Topic orders was deleted and created again"):
        check_topic(SinkKey("orders"), "orders", LAST, "other-id")


@pytest.mark.parametrize(
    ("last", "found"), [(None, "id"), (LAST, "topic-id"), (LAST, None), (replace(LAST, topic_id=None), "id")]
)
def test_a_topic_that_is_not_known_to_be_another_is_accepted(last: Progress | None, found: str | None):
    assert refusal(check_topic, SinkKey("orders"), "orders", last, found) is None
