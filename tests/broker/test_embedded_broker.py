from __future__ import annotations

from tests.support.topics import Topics


def test_a_started_broker_takes_topics(topics: Topics) -> None:
    name = topics.create(partitions=3, config={"cleanup.policy": "compact"})

    assert topics.partitions(name) == 3
    assert topics.config(name)["cleanup.policy"] == "compact"
