"""A warning says why all records of a batch are refused: otherwise a misspelt field would only fill the DLQ."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from fencepost import SourceRecord
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.runtime.state import State
from tests.support.checker import read_topic, values
from tests.support.task_runner import TaskRunner
from tests.support.topics import unique

MAILS = {
    "limit": 50,
    "messages.per.poll": 10,
    "errors.tolerance": "all",
    "transforms": "m",
    "transforms.m.type": "Sql",
    "transforms.m.value": "value.emial",
}


@pytest.fixture(scope="module")
def runner(broker: EmbeddedBroker) -> Iterator[TaskRunner]:
    with TaskRunner(broker.bootstrap_servers, {"spark.master": "local[2]"}) as runner:
        yield runner


def run(runner: TaskRunner, topic: str, config: dict[str, Any], misspelt: set[int]) -> str:
    """Run a task over five batches, some of which misspell the transform's field. Return its name."""
    name = unique("connector")
    task, seen = runner.task(name, topic, config, stop_at_end=True)

    def with_fields(_: Any, records: Sequence[SourceRecord]) -> list[SourceRecord]:
        mail = "emial" if seen.polls in misspelt else "email"
        return [replace(record, value={"id": 1, mail: f"{record.source_offset['saved']}"}) for record in records]

    seen.on_poll = with_fields
    task.start()
    assert task.join(480)
    assert task.state is State.STOPPED, task.error
    return name


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [
        one.getMessage() for one in caplog.records if one.levelno == logging.WARNING and "refused" in one.getMessage()
    ]


def test_a_misspelt_field_is_warned_of_once_until_a_batch_passes(
    runner: TaskRunner, bootstrap_servers: str, topic: str, caplog: pytest.LogCaptureFixture
):
    dead = unique("dead")
    letters = {"errors.deadletterqueue.topic.name": dead, "errors.deadletterqueue.topic.replication.factor": 1}
    name = run(runner, topic, MAILS | letters, misspelt={3})
    assert len(values(read_topic(bootstrap_servers, topic))) == 10
    assert len(values(read_topic(bootstrap_servers, dead))) == 40
    first, second = warnings(caplog)
    assert first == second
    assert first.startswith(f"Task {name}-0 wrote none of 10 records: they were refused, all for the same reason: ")
    assert "transforms.m.value: Sql needs the field value.emial" in first
    assert "there are: id, email (did you mean email?). Correct" in first
    assert f"They are in the topic {dead}." in first


def test_a_warning_says_that_refused_records_are_lost(runner: TaskRunner, topic: str, caplog: pytest.LogCaptureFixture):
    run(runner, topic, MAILS | {"limit": 20}, misspelt=set())
    (told,) = warnings(caplog)
    assert "They are lost, because errors.deadletterqueue.topic.name is not set." in told


@pytest.mark.parametrize("passing", [{2, 4}, {2}])
def test_one_refused_record_between_others_is_not_warned_of(
    runner: TaskRunner, topic: str, caplog: pytest.LogCaptureFixture, passing: set[int]
):
    """With one record a poll, a batch that has no accepted record is nothing special."""
    run(runner, topic, MAILS | {"limit": 5, "messages.per.poll": 1}, misspelt=passing)
    assert ["none of 2 records" in told for told in warnings(caplog)] == ([] if 4 in passing else [True])


def test_no_warning_is_given_of_records_that_are_refused_among_others(
    runner: TaskRunner, topic: str, caplog: pytest.LogCaptureFixture
):
    config = MAILS | {"transforms.m.value": "CAST(1 / (CAST(value.email AS INT) - 15) AS STRING)"}
    run(runner, topic, config, misspelt=set())
    assert warnings(caplog) == []
