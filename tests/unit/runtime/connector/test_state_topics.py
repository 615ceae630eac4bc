"""Topics with workers' state are refused as dead letter topics."""

from __future__ import annotations

import pytest

from fencepost.config.config_transformer import TransformedConfig
from fencepost.config.worker_config import WorkerConfig, WorkerMode
from fencepost.runtime.connector.state_topics import state_topics
from fencepost.runtime.connector.validation import validate

_STORES = {"offset": "g-offsets", "config": "g-configs", "status": "g-status"}
_LETTERS = "errors.deadletterqueue.topic.name"


def _worker(mode: WorkerMode = WorkerMode.DISTRIBUTED) -> WorkerConfig:
    converters = {f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")}
    topics = {f"{store}.storage.topic": topic for store, topic in _STORES.items()}
    common = {"bootstrap.servers": "127.0.0.1:1,127.0.0.1:2", "group.id": "g", **converters, **topics}
    policy = {"connector.client.config.override.policy": "All"}
    return WorkerConfig.from_properties({**common, **policy}, where="worker", mode=mode)


def _errors(**more: str) -> list[str]:
    own = {"name": "c", "connector.class": "FileStreamSource", "topic": "t", "file": "pyproject.toml"}
    given = {name.replace("_", "."): text for name, text in more.items()}
    return validate(_worker(), TransformedConfig({**own, "errors.tolerance": "all", **given})).errors


@pytest.mark.parametrize("store", _STORES)
def test_dead_letters_for_a_topic_with_workers_state_are_refused(store: str):
    (error,) = _errors(errors_deadletterqueue_topic_name=_STORES[store])
    assert f"{_LETTERS} names {_STORES[store]}" in error
    assert f"{store}.storage.topic" in error


def test_dead_letters_for_the_connectors_own_offsets_topic_are_refused():
    (error,) = _errors(errors_deadletterqueue_topic_name="own", offsets_storage_topic="own")
    assert "offsets.storage.topic" in error


@pytest.mark.parametrize(("brokers", "count"), [("127.0.0.1:2,127.0.0.1:1", 1), ("elsewhere:9092", 0)])
def test_a_topic_of_that_name_in_another_cluster_takes_dead_letters(brokers: str, count: int):
    given = {"producer_override_bootstrap_servers": brokers, "errors_deadletterqueue_topic_name": "g-configs"}
    assert len(_errors(**given)) == count


def test_other_topics_take_dead_letters():
    assert _errors(errors_deadletterqueue_topic_name="letters") == []


def test_each_topic_is_named_with_its_property():
    assert {topic: refused.property_name for topic, refused in state_topics(_worker()).items()} == {
        topic: f"{store}.storage.topic" for store, topic in _STORES.items()
    }
    assert _STORES["status"] not in state_topics(_worker(WorkerMode.STANDALONE))
