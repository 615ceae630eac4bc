"""Rows for a sink's internal topics are refused."""

from __future__ import annotations

import pickle

import pytest

from fencepost.api.errors import ConfigError
from fencepost.spark.config.sink_config import SinkConfig


@pytest.mark.parametrize("topic", ["records", "records-tasks"])
def test_a_row_for_a_topic_of_the_sinks_is_refused(topic: str):
    config = SinkConfig.from_options({"bootstrap.servers": "127.0.0.1:9092", "sink.storage.topic": "records"})
    gate = pickle.loads(pickle.dumps(config.topic_gate("s")))  # noqa: S301 - executors get it so
    gate.admit({"orders"})
    with pytest.raises(ConfigError, match=f"is for topic {topic}, which holds the progress of sinks"):
        gate.admit({"orders", topic})


@pytest.mark.parametrize("topic", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_a_row_for_a_topic_of_the_brokers_is_refused(topic: str):
    config = SinkConfig.from_options({"bootstrap.servers": "127.0.0.1:9092"})
    with pytest.raises(ConfigError, match=f"is for topic {topic}, in which brokers keep .*: send it to another topic"):
        config.topic_gate("s").admit({"orders", topic})
