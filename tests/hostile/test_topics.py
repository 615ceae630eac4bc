"""Other clients change topics and brokers while connectors write to them."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile import strangers
from tests.hostile.brokers import Kafka
from tests.hostile.programs import unique, wait_for
from tests.hostile.site import Site, running_site
from tests.hostile.workers import Worker, good, running_worker


@pytest.fixture(scope="module")
def worker_settings() -> dict[str, str]:
    """The shortest session timeout that brokers allow: other workers soon take over a killed worker's tasks."""
    return {"session_timeout_ms": "6000"}


@pytest.fixture
def own_site(kafka: Kafka, tmp_path: Path) -> Iterator[Site]:
    """A site whose topics no other test uses, because their changes persist."""
    with running_site(kafka, tmp_path) as site:
        yield site


def test_malformed_records_in_the_workers_topics_are_ignored(own_site: Site) -> None:
    kafka, topics = own_site.kafka, own_site.topics
    for name, config in own_site.goods.items():
        tasks = int(config["tasks.max"])
        strangers.write_nonsense(kafka, topics, connector=name, tasks=tasks)
        strangers.write_aborted_lies(kafka, topics["offsets"], connector=name, tasks=tasks)
    own_site.check()

    own_site.worker.restart()

    own_site.check()


def test_the_workers_topics_may_grow(site: Site) -> None:
    for topic in (site.topics["offsets"], site.topics["status"]):
        site.kafka.grow(topic, site.kafka.partitions(topic) + 3)
    site.check()
    for _ in range(2):
        site.worker.restart()
        site.check()


def test_compaction_leaves_the_valid_records(own_site: Site) -> None:
    kafka = own_site.kafka
    kafka.set_broker(log_cleaner_backoff_ms="200")
    kept = {topic: len(kafka.read(topic)) for topic in own_site.topics.values()}
    for topic in kept:
        kafka.set(topic, segment_ms="100", min_cleanable_dirty_ratio="0", max_compaction_lag_ms="100")
    offsets = own_site.topics["offsets"]
    # The topic has few keys; without compaction it would have thousands of records by then.
    wait_for(lambda: kafka.end(offsets) > 20 * max(1, len(kafka.read(offsets))), f"{offsets} is compacted")

    own_site.worker.restart()

    own_site.check()


@pytest.mark.parametrize("change", ["grown", "emptied", "made anew"])
def test_changes_of_a_topic_of_records_do_not_affect_others(site: Site, change: str) -> None:
    name = unique("data")
    site.kafka.create(name)
    site.worker.create(name, good(name, tasks="1"))
    site.worker.wait_for_states(name, "RUNNING", "RUNNING")
    site.worker.wait_for_progress(name)

    match change:
        case "grown":
            site.kafka.grow(name, 4)
        case "emptied":
            site.kafka.set(name, retention_ms="1", segment_ms="100")
        case "made anew":
            site.kafka.delete(name)
            wait_for(lambda: site.kafka.partitions(name) == 0, f"{name} is gone")
            with contextlib.suppress(AssertionError):
                site.kafka.create(name, 2)

    _runs_or_says_why(site.worker, name)
    site.worker.wait_for_progress(name)
    site.worker.delete(name)
    site.check()


def test_a_running_connectors_own_offsets_topic_may_be_deleted(site: Site) -> None:
    kafka = site.kafka
    # A topic that fencepost just created would be waited for, as brokers learn of it late. So another client creates
    # this one.
    own = kafka.create(unique("own-offsets"), cleanup_policy="compact")
    name = site.add_good(tasks="1", offsets_storage_topic=own)

    kafka.delete(own)
    wait_for(lambda: kafka.partitions(own) == 0, f"{own} is gone")

    wait_for(lambda: kafka.partitions(own) > 0, f"{own} is there again")
    assert kafka.setting(own, "cleanup.policy") == "compact"
    site.worker.wait_for_states(name, "RUNNING", "RUNNING")
    site.check()
    site.worker.restart()
    site.check()


def test_an_offsets_topic_with_retention_is_named(kafka: Kafka, tmp_path: Path) -> None:
    with running_worker(tmp_path, kafka) as worker:
        site = Site(tmp_path, kafka, worker)
        site.add_good()
        offsets = site.topics["offsets"]
        kafka.set(offsets, cleanup_policy="delete")
        site.check()
        worker.process.send(signal.SIGTERM)
        assert worker.process.wait() == 0

        worker.start()
        assert worker.process.wait() == 2
        assert offsets in worker.process.output
        assert "cleanup.policy" in worker.process.output

        kafka.set(offsets, cleanup_policy="compact")
        worker.start()
        worker.wait_until_healthy()
        site.check()
        site.verify()


@pytest.mark.parametrize("which", ["config", "status", "offset"])
def test_a_deleted_topic_of_the_worker_is_named_or_recreated(kafka: Kafka, tmp_path: Path, which: str) -> None:
    # A topic that fencepost just created would be waited for, as brokers learn of it late. So another client creates
    # this one.
    topic = kafka.create(unique(which), cleanup_policy="compact")
    with running_worker(tmp_path, kafka, **{f"{which}_storage_topic": topic}) as worker:
        name = Site(tmp_path, kafka, worker).add_good()

        kafka.delete(topic)

        if which == "config":
            answer = worker.request("PUT", f"/connectors/{name}/config", good(name, tasks="1"))
            assert answer.status >= 500
            assert topic in answer.message
            wait_for(lambda: topic in str(worker.request("GET", "/health").body), f"/health names {topic}")
        else:
            _runs_or_says_why(worker, name)
        assert worker.process.running


def test_the_transaction_version_may_change_under_a_running_worker(site: Site) -> None:
    kafka = site.kafka
    try:
        for version, verification in ((1, "false"), (2, "true")):
            kafka.set_broker(transaction_partition_verification_enable=verification)
            kafka.set_transaction_version(version)
            site.check()
            site.worker.process.end()
            site.worker.revive()
            site.check()
    finally:
        kafka.set_broker(transaction_partition_verification_enable="true")
        kafka.set_transaction_version(2)


def _runs_or_says_why(worker: Worker, name: str) -> None:
    """Wait until a connector commits. If it is FAILED instead, it must have a trace, and a restart must mend it."""

    def settled() -> bool:
        status = worker.status(name)
        failed = [task for task in status["tasks"] if task["state"] == "FAILED"]
        if failed:
            assert all(task["trace"] for task in failed), status
            worker.carried_out("POST", f"/connectors/{name}/restart?includeTasks=true&onlyFailed=true")
        return not failed and set(worker.states(name)) == {"RUNNING"}

    wait_for(settled, lambda: f"{name} runs: {worker.status(name)}")
