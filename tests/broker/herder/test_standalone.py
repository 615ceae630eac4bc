"""The standalone worker in the test's own process: a failure does not spread to other connectors and tasks."""

from __future__ import annotations

import asyncio
import re
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import ClassVar

import pytest

from fencepost import ConfigError, RetriableError, SourceConnector, SourceRecord, SourceTask
from fencepost.config.worker_config import WorkerConfig
from fencepost.herder.errors import NotFoundError
from fencepost.herder.standalone.herder import StandaloneHerder
from fencepost.runtime.metrics.transfers import Transfers
from fencepost.runtime.worker import Worker
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.overlapping_source import OverlappingConnector
from tests.support.processes import wait_for
from tests.support.sequence_source import SEEN, SequenceConnector, properties, seqs
from tests.support.standalone import (
    URL,
    ConnectorsFailed,
    StandaloneWorker,
    running,
)
from tests.support.topics import Topics, unique

STRING = "org.apache.kafka.connect.storage.StringConverter"


def test_connectors_run_to_the_ends_of_their_sources_and_resume_there(config: WorkerConfig, topic: str) -> None:
    first, second = unique("connector"), unique("connector")
    StandaloneWorker(config, properties(first, topic, {"limit": 250}), once=True).run()
    StandaloneWorker(
        config,
        properties(first, topic, {"limit": 400}),
        properties(second, topic, {"limit": 10, "tasks.max": 2}),
        once=True,
    ).run()

    found = values(read_topic(config.bootstrap_servers, topic))
    assert_exactly_once(seqs(found, first), range(1, 401))
    assert_exactly_once(seqs(found, second, 0) + seqs(found, second, 1), [*range(1, 11)] * 2)
    (offset,) = read_offsets(config.bootstrap_servers, config.offset_storage.name, first)
    assert offset == ({"task.id": f"{first}-0"}, {"saved": 400})


def test_a_failure_does_not_affect_others_and_is_reported_at_the_end(config: WorkerConfig, topic: str) -> None:
    failing, sound = unique("failing"), unique("sound")

    def fail(_task: SourceTask, _records: list[SourceRecord]) -> None:
        raise RuntimeError("the source is gone")

    SEEN[failing].on_poll = fail
    place = rf"\({re.escape(__file__)}:{fail.__code__.co_firstlineno + 1}\)"
    told = f"^Task {failing}-0 failed: RuntimeError: the source is gone {place}$"
    with pytest.raises(ConnectorsFailed, match=told):
        StandaloneWorker(config, properties(failing, topic), properties(sound, topic, {"limit": 300}), once=True).run()

    assert_exactly_once(seqs(values(read_topic(config.bootstrap_servers, topic)), sound), range(1, 301))


@pytest.mark.parametrize("after", [0, 300])
def test_a_source_that_stays_away_ends_a_run_to_the_end(config: WorkerConfig, topic: str, after: int) -> None:
    name = unique("away")

    def poll(_task: SourceTask, records: list[SourceRecord]) -> list[SourceRecord]:
        if SEEN[name].last_seq > after:
            raise RetriableError("no server listens")
        return records

    SEEN[name].on_poll = poll
    few = {"task.restart.max": 2, "task.restart.backoff.ms": 50, "limit": 1000}
    told = f"^Task {name}-0 failed: .*for 0.* s.*no server listens.*task.restart.max"
    with pytest.raises(ConnectorsFailed, match=told):
        StandaloneWorker(config, properties(name, topic, few), once=True).run()

    assert SEEN[name].starts == 1
    assert_exactly_once(seqs(values(read_topic(config.bootstrap_servers, topic)), name), range(1, after + 1))


class CountedConnector(SequenceConnector):
    """A connector whose instances are counted separately from other connectors' instances."""


@pytest.mark.parametrize("raised", [SystemExit(3), KeyError("url")], ids=repr)
def test_a_connector_that_cannot_be_created_does_not_affect_others(
    config: WorkerConfig, topic: str, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    broken, sound = unique("broken"), unique("sound")
    made: list[str] = []

    def make(_connector: CountedConnector) -> None:
        # The worker makes the first instances to check the configuration.
        made.append("connector")
        if breaks_from is not None and len(made) > breaks_from:
            raise raised

    breaks_from: int | None = None
    counted = {"connector.class": f"{CountedConnector.__module__}.{CountedConnector.__name__}"}
    connectors = [properties(broken, topic, counted), properties(sound, topic, {"limit": 300})]
    monkeypatch.setattr(CountedConnector, "__init__", make)
    Worker(config).checked(connectors[0])
    breaks_from = 2 * len(made)
    several = StandaloneWorker(config, *connectors, once=True)
    with pytest.raises(ConnectorsFailed, match=f"^Connector {broken} failed: .*{type(raised).__name__}"):
        several.run()

    assert_exactly_once(seqs(values(read_topic(config.bootstrap_servers, topic)), sound), range(1, 301))


class HesitantConnector(SequenceConnector):
    """Fails while it is asked for its task configurations, once for each of `failures`."""

    failures: ClassVar[list[Callable[[SourceConnector], None]]] = []

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        if self.failures:
            self.failures.pop()(self)
        return super().task_configs(max_tasks)


def _raise_a_retriable_error(_connector: SourceConnector) -> None:
    raise RetriableError("the source does not answer")


def _report_an_error_and_raise_another(connector: SourceConnector) -> None:
    connector.context.raise_error(RetriableError("the source is gone"))
    raise KeyError("the list of the source's tables")


@pytest.mark.parametrize("fail", [_raise_a_retriable_error, _report_an_error_and_raise_another])
def test_a_connector_that_fails_while_it_configures_its_tasks_restarts(
    config: WorkerConfig, topic: str, monkeypatch: pytest.MonkeyPatch, fail: Callable[[SourceConnector], None]
):
    name = unique("hesitant")
    monkeypatch.setattr(HesitantConnector, "failures", failures := [fail, fail])
    hesitant = {"connector.class": f"{HesitantConnector.__module__}.{HesitantConnector.__name__}"}
    restarts = {"limit": 50, "task.restart.backoff.ms": 300}
    StandaloneWorker(config, properties(name, topic, {**hesitant, **restarts}), once=True).run()

    assert failures == []
    assert_exactly_once(seqs(values(read_topic(config.bootstrap_servers, topic)), name), range(1, 51))


def _raise_and_ask_again(connector: SourceConnector) -> None:
    threading.Timer(0.5, connector.context.request_task_reconfiguration).start()
    raise RetriableError("the source does not answer")


async def _runs_after_its_failure(config: WorkerConfig, connector: Mapping[str, str]) -> list[str]:
    herder = StandaloneHerder(Worker(config), [connector], URL)
    states: list[str] = []
    try:
        await herder.start()
        async with asyncio.timeout(60):
            while states[-2:] != ["FAILED", "RUNNING"]:
                with suppress(NotFoundError):
                    state = (await herder.connectors.status(connector["name"])).connector.state
                    states += [state] * ([state] != states[-1:])
                await asyncio.sleep(0.01)
    finally:
        await herder.stop()
    return states


def test_a_connector_that_is_not_restarted_runs_again_with_its_next_tasks(
    config: WorkerConfig, topic: str, monkeypatch: pytest.MonkeyPatch
):
    name = unique("hesitant")
    monkeypatch.setattr(HesitantConnector, "failures", [_raise_and_ask_again])
    hesitant = {"connector.class": f"{HesitantConnector.__module__}.{HesitantConnector.__name__}"}
    more = {**hesitant, "limit": 50, "task.restart.policy": "never"}
    assert asyncio.run(_runs_after_its_failure(config, properties(name, topic, more)))[-1] == "RUNNING"


def test_a_worker_ends_when_all_that_it_runs_has_failed(
    config: WorkerConfig, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_connector: SourceConnector, _config: Mapping[str, str]) -> None:
        raise ConfigError("there is no such database: check the property database")

    name = unique("connector")
    monkeypatch.setattr(SequenceConnector, "start", refuse)
    with pytest.raises(ConnectorsFailed, match=f"^Connector {name} failed: there is no such database"):
        StandaloneWorker(config, properties(name, topic)).run()


def test_two_connectors_of_one_name_are_refused_before_anything_starts(
    config: WorkerConfig, topic: str, topics: Topics
) -> None:
    name = unique("connector")
    with pytest.raises(ConfigError, match=f"2 connectors are named {name}"):
        StandaloneWorker(config, properties(name, topic), properties(name, topic)).run()

    assert topics.partitions(config.config_storage.name) is None


def test_tasks_that_share_a_source_partition_fail_the_connector(config: WorkerConfig, topic: str) -> None:
    name = unique("connector")
    connector = {
        "name": name,
        "connector.class": f"{OverlappingConnector.__module__}.{OverlappingConnector.__qualname__}",
        "topic": topic,
        "tasks.max": "2",
    }
    with running(StandaloneWorker(config, connector)) as failures:
        wait_for(lambda: failures, what="everything failed")
    assert isinstance(failures[0], ConnectorsFailed)
    for part in (f"Connector {name} failed", f"Task {name}-0 failed", f"Task {name}-1 failed", '{"file": "shared"}'):
        assert part in str(failures[0])


async def _forgotten_after_its_deletion(config: WorkerConfig, connector: Mapping[str, str]) -> None:
    worker, transfers = Worker(config), Transfers()
    worker.metrics.on_task, worker.metrics.on_delete = transfers.watch, transfers.forget
    herder = StandaloneHerder(worker, [connector], URL)
    try:
        await herder.start()
        await asyncio.to_thread(wait_for, lambda: connector["name"] in transfers.of_connectors())
        await herder.connectors.delete(connector["name"])
        assert transfers.of_connectors() == {}
    finally:
        await herder.stop()


def test_figures_of_a_deleted_connector_are_removed(config: WorkerConfig, topic: str):
    asyncio.run(_forgotten_after_its_deletion(config, properties(unique("connector"), topic)))
