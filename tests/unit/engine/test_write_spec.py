"""The specification that the writers of a batch get."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import pytest

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.plugin import Transformation
from fencepost.engine.topic_gate import RefusedTopic, TopicGate
from fencepost.engine.write_spec import WriteSpec
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.transaction import Transaction, TransactionVersion
from fencepost.transforms.chain import Step
from tests.support.engine import pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Unpicklable(Transformation):
    """An author's transform that has an unpicklable object of the worker's process."""

    def __init__(self) -> None:
        self.held: Callable[[], None] = lambda: None

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        """There is nothing to configure."""

    def apply(self, records: DataFrame) -> DataFrame:
        return records


def test_a_spec_reaches_executors_by_pickle_without_the_transforms():
    gate = TopicGate(None, {"offsets": RefusedTopic("they are kept there", "offsets.storage.topic")})
    gate.admit({"orders"})
    spec = WriteSpec(
        pipeline=pipeline("orders", transforms=[Step(Unpicklable())]),
        config=ProducerConfig(ClientConfig(("127.0.0.1:9092",))),
        transaction=Transaction("shop-0", 7, 3, TransactionVersion.V2, {("orders", 1): 40}),
        topic_gate=gate,
        start=5,
    )
    sent = spec.for_executors({"orders": 4})
    found: WriteSpec = pickle.loads(pickle.dumps(sent))  # noqa: S301 - just pickled here
    assert not found.pipeline.transforms
    assert found.pipeline.default_topic == "orders"
    assert (found.config, found.transaction, found.start) == (spec.config, spec.transaction, 5)
    assert found.partitions == {"orders": 4}
    with pytest.raises(ConfigError, match="they are kept there"):
        found.topic_gate.admit({"offsets"})
