"""The page at /ui of a real worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaException

from tests.broker.rest.test_standalone_rest import Start, start
from tests.support.confluent import transactional_producer
from tests.support.processes import wait_for
from tests.support.topics import unique
from tests.support.workers import WorkerApi

__all__ = ["start"]

_SECONDS = 60


def _body(worker: WorkerApi, path: str) -> Any:
    answer = worker.request("GET", path)
    assert answer.status == 200, answer
    return answer.body


def test_the_page_shows_a_tasks_commits(start: Start) -> None:
    with start() as worker:
        row = wait_for(
            lambda: (
                (found := _body(worker, "/ui/api/overview")["rows"].get("filed")) and found["records"] == 1 and found
            ),
            what="the committed line is counted",
        )
        (task,) = _body(worker, "/ui/api/connectors/filed")["tasks"]

    assert (row["class"], row["state"], row["error"]) == ("FileStreamSource", "RUNNING", None)
    assert [part["state"] for part in row["tasks"]] == ["RUNNING"]
    assert (row["transactions"], row["open_records"], row["lag"]) == (1, 0, 0)
    assert [(each["records"], each["end"]) for each in task["ended"]] == [(1, "COMMITTED")]
    assert task["ended"][0]["since"] <= task["ended"][0]["until"] == task["last_commit"]


def test_a_transaction_that_hides_records_is_named_and_aborted(
    start: Start, bootstrap_servers: str, topic: str, tmp_path: Path
) -> None:
    del tmp_path
    name = unique("hiding")
    producer = transactional_producer(bootstrap_servers, name)
    producer.begin_transaction()
    producer.produce(topic, b"hidden", partition=0)
    assert producer.flush(_SECONDS) == 0
    path = f"/ui/api/topics/{topic}"
    with start(group_id=name.rpartition("-")[0]) as worker:
        before = _body(worker, path)
        aborted = worker.request("PUT", f"/ui/api/transactions/{name}/abort")
        again = worker.request("PUT", f"/ui/api/transactions/{name}/abort")
        after = wait_for(lambda: (found := _body(worker, path)) and not found["transactions"] and found)
        missing = worker.request("GET", f"/ui/api/topics/{unique('missing')}")

    (transaction,) = [each for each in before["transactions"] if each["transactional_id"] == name]
    assert (transaction["state"], transaction["partitions"], transaction["connector"]) == ("Ongoing", [0], None)
    (partition,) = before["partitions"]
    assert partition["end"] > partition["stable"]
    assert (aborted.status, again.status, missing.status) == (204, 404, 404)
    with pytest.raises(KafkaException):
        producer.commit_transaction(_SECONDS)
    assert all(each["end"] >= each["stable"] for each in after["partitions"])
