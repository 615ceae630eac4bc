"""A standalone worker process that runs one connector to its source's end, and writes only to topics of the check.

    python -m fencepost.testing.conformance.tested_worker PREFIX WORKER.properties CONNECTOR.json

This worker is the same as the worker of `fencepost standalone --once`, but has no REST API, and uses another name for
each topic. SIGTERM stops it. When it has ended, no creation of a topic is in progress (see `creations`).
"""

from __future__ import annotations

import asyncio
import re
import signal
import sys
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from fencepost.api.errors import FencepostError
from fencepost.api.secrets import SECRETS
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.properties import load_connector_config, load_properties
from fencepost.config.topic_creation import TopicCreation, TopicCreationGroup
from fencepost.config.worker_config import WorkerConfig
from fencepost.engine.plugin_builder import NewPluginMetrics
from fencepost.engine.topic_gate import TopicGate
from fencepost.herder.standalone.herder import StandaloneHerder
from fencepost.kafka.admin.admin import TopicDescription
from fencepost.kafka.admin.topic_creation import BROKER_DEFAULT, NewTopic
from fencepost.kafka.admin.topic_creator import TopicCreator
from fencepost.runtime.connector.client_properties import admin_config
from fencepost.runtime.task.writes import WritePath
from fencepost.runtime.worker import Worker
from fencepost.testing.conformance.creations import AwaitedAdmin, AwaitedClients, end_process

# Records must be kept until they are compared, even if their timestamps are old.
_KEPT: Final = {"retention.ms": "-1", "retention.bytes": "-1", "min.compaction.lag.ms": str(2**63 - 1)}
# Settings that may make a broker refuse records.
_REFUSING: Final = ("cleanup.policy", "max.message.bytes")
_AS_BROKERS_DO: Final = TopicCreation(
    [TopicCreationGroup("default", [re.compile(".*", re.DOTALL)], [], BROKER_DEFAULT, BROKER_DEFAULT, {})]
)


@dataclass(frozen=True, slots=True)
class OwnTopicCreator(TopicCreator):
    """Creates the check's topics, with the settings of the original topics.

    If an original does not exist, `creation` decides.
    """

    prefix: str

    def create(self, topics: Iterable[str]) -> None:
        """Create topics of the check.

        Raises the errors of `TopicCreator.create`, and ConfigError for topics that brokers reserve.
        """
        originals = {topic: topic.removeprefix(self.prefix) for topic in sorted(topics)}
        TopicGate(None).admit(originals.values())
        with AwaitedAdmin(self.admin) as admin:
            found = {own: admin.describe_topic(original) for own, original in originals.items()}
            admin.create_topics(*(self._like(own, originals[own], model) for own, model in found.items()))

    def _like(self, own: str, original: str, model: TopicDescription | None) -> NewTopic:
        if model is None:
            created = self._new_topic(original)
            return replace(created, name=own, configs={**created.configs, **_KEPT})
        settings = {name: value for name in _REFUSING if (value := model.configs.get(name)) is not None}
        return NewTopic(own, model.partitions, model.replication_factor, {**settings, **_KEPT})


class TestedWorker(Worker):
    """A worker that adds a prefix to the names of all topics of records."""

    __test__ = False

    def __init__(self, config: WorkerConfig, prefix: str) -> None:
        super().__init__(config, AwaitedClients())
        self._prefix = prefix

    def write_path(
        self, connector: ConnectorConfig, wrote_to: Callable[[Collection[str]], None], new_metrics: NewPluginMetrics
    ) -> WritePath:
        """Return the path of records to the check's topics. Raises ConfigError."""
        path = super().write_path(connector, wrote_to, new_metrics)
        creation = connector.topic_creation or _AS_BROKERS_DO
        return replace(
            path,
            pipeline=replace(path.pipeline, topic_prefix=self._prefix),
            topic_creator=OwnTopicCreator(creation, admin_config(self.config, connector), self._prefix),
        )


async def _run(worker: Worker, connector: Mapping[str, str]) -> Sequence[str]:
    """Run a connector, and return the failures."""
    herder = StandaloneHerder(worker, [connector], "http://127.0.0.1", once=True)
    running = asyncio.ensure_future(_to_the_end(herder))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    try:
        return await running
    except asyncio.CancelledError:
        return ["SIGTERM stopped the worker"]
    finally:
        await herder.stop()


async def _to_the_end(herder: StandaloneHerder) -> Sequence[str]:
    await herder.start()
    return await herder.ended


def main(prefix: str, worker: str, connector: str) -> int:
    """Run a connector. Return 0 at the end of its source. Return 1 if it fails: then stderr ends with the reason."""
    try:
        config = WorkerConfig.from_properties(load_properties(worker), where="the worker of the check")
        failures = asyncio.run(_run(TestedWorker(config, prefix), load_connector_config(connector)))
    except FencepostError as error:
        failures = [str(error)]
    for failure in failures:
        sys.stderr.write(" ".join(SECRETS.hidden(failure).split()) + "\n")
    return 1 if failures else 0


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stderr.flush()
    # A normal exit would wait for threads that the connector has left running.
    end_process(code)
