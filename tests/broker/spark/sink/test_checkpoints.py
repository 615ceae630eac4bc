"""Repeated batches, and checkpoints and topics that do not match the sink's progress."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException

from fencepost.spark import exactly_once
from tests.support.processes import wait_for
from tests.support.spark_queries import FileQuery, texts
from tests.support.topics import Topics, unique


def test_a_repeated_batch_is_not_written_again(query: FileQuery, name: str, bootstrap_servers: str):
    query.run()
    query.forget_commit(0)
    query.add("3")
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]


def test_a_repeated_batch_of_a_stateful_query_is_executed(query: FileQuery, name: str, bootstrap_servers: str):
    query.shape = lambda frame: frame.dropDuplicates(["value"])
    query.run()
    query.add("2", "3")
    query.run()
    query.forget_commit(1)
    query.add("3", "4")
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3", "4"]


def test_an_older_state_of_the_checkpoint_is_refused(query: FileQuery, name: str, bootstrap_servers: str):
    query.run()
    saved = query.save()
    query.add("3")
    query.run()
    query.add("4")
    query.run()
    query.restore(saved)
    # After the restore of an older checkpoint, batch 1 has a row more than before.
    assert "with other rows" in query.refusal() or "older state" in query.refusal()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3", "4"]


def test_a_batch_with_a_known_number_but_other_rows_is_refused(query: FileQuery, name: str, bootstrap_servers: str):
    query.run()
    saved = query.save()
    query.add("3")
    query.run()
    query.restore(saved)
    query.add("a", name="0000a.txt")
    assert "is in Kafka, but with other rows" in query.refusal()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]


def test_a_deleted_checkpoint_is_refused(query: FileQuery, name: str, bootstrap_servers: str):
    query.run()
    query.checkpoint.rename(query.folder / "gone")
    assert "holds the batches of another checkpoint" in query.refusal()
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]


def test_lost_progress_is_refused_until_the_first_batch_is_given(
    query: FileQuery, name: str, bootstrap_servers: str, topics: Topics
):
    query.run()
    query.add("3")
    other = unique("sinks")
    options = {"bootstrap.servers": bootstrap_servers, "sink.storage.topic": other}
    query.function = exactly_once(topic=name, name=name, **options)
    assert "set first.batch=1" in query.refusal()
    query.function = exactly_once(topic=name, name=name, **options, **{"first.batch": 1})
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]
    assert topics.config(other)["cleanup.policy"] == "compact"


def test_a_topic_that_was_created_again_is_refused(query: FileQuery, name: str, bootstrap_servers: str, topics: Topics):
    query.run()
    topics.delete(name)
    wait_for(lambda: topics.partitions(name) is None)
    topics.create(name)
    query.add("3")
    assert f"Topic {name} was deleted and created again" in query.refusal()
    assert texts(bootstrap_servers, name) == []


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_topic_that_is_created_again_under_a_running_query_is_refused(
    query: FileQuery, name: str, bootstrap_servers: str, topics: Topics, partitions: int
):
    running = query.start(available_now=False)
    try:
        wait_for(lambda: texts(bootstrap_servers, name) == ["0", "1", "2"], what="the first batch")
        assert topics.partitions(name) == 2
        topics.delete(name)
        wait_for(lambda: topics.partitions(name) is None)
        topics.create(name, partitions=partitions)
        query.add("3", "4", "5")
        with pytest.raises(StreamingQueryException, match=f"Topic {name} was deleted and created again"):
            assert running.awaitTermination(500), "the query goes on"
    finally:
        running.stop()
    assert texts(bootstrap_servers, name) == []
