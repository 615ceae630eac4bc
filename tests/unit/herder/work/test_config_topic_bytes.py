"""How much a new file among many writes to the config topic."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig
from fencepost.connectors import distribution
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.discovery import shares
from fencepost.connectors.files.discovery.file_rule import TASK_RULE
from fencepost.herder.work.worker_clients import config_topic_producer
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.records.compression import Compression
from fencepost.storage.configs.codec import CommitRecord, TaskRecord, encode
from fencepost.storage.configs.leader_writer import TransactionalLeaderWriter
from tests.support.scripted_broker import ScriptedBroker
from tests.support.topics import unique
from tests.unit.connectors.files.test_file_source import config
from tests.unit.connectors.support import ConnectorContext

_TASKS = 4
_MOST_BYTES = 100_000
"""The promise for the configuration of a task."""


@pytest.fixture
def broker() -> Iterator[ScriptedBroker]:
    with ScriptedBroker() as broker:
        yield broker


def _worker(broker: ScriptedBroker, **more: str) -> WorkerConfig:
    properties = {
        "bootstrap.servers": broker.address,
        "group.id": "g",
        **dict.fromkeys(("key.converter", "value.converter"), "org.apache.kafka.connect.storage.StringConverter"),
        **{f"{name}.storage.topic": unique(name) for name in ("config", "offset", "status")},
        **{name.replace("_", "."): value for name, value in more.items()},
    }
    return WorkerConfig.from_properties(properties, where="w")


def _configs_with_a_new_file(folder: Path, files: int) -> list[dict[str, str]]:
    """The configurations of all tasks after a file was added to so many others."""
    folder.mkdir()
    for number in range(files):
        (folder / f"events-2026-11-03-{number:06}.csv").touch()
    connector = FileSourceConnector()
    connector.context = ConnectorContext()
    connector.start(config(f"{folder}/*.csv", format="text", files_poll_interval_ms="3600000"))
    connector.stop()
    connector.task_configs(_TASKS)
    (folder / "new.csv").touch()
    connector._watch._look()
    return connector.task_configs(_TASKS)


def _written(broker: ScriptedBroker, worker: WorkerConfig, configs: list[dict[str, str]]) -> int:
    """The bytes of the batches that a leader writes for the configurations of a connector's tasks."""
    writer = TransactionalLeaderWriter(
        partial(TransactionalProducer, config_topic_producer(worker), unique("leader")), worker.config_storage.name
    )
    writer.claim()
    tasks = [TaskRecord(ConnectorTaskId("c", number), given) for number, given in enumerate(configs)]
    writer.write("The tasks of c", [encode(record) for record in (*tasks, CommitRecord("c", len(tasks)))])
    writer.close()
    return sum(batch.size for request in broker.produced for batch in request)


def test_a_new_file_among_a_thousand_writes_a_tenth_of_the_lists(broker: ScriptedBroker, tmp_path: Path) -> None:
    """Kafka Connect's protocol has each commit come with the configurations of all tasks."""
    configs = _configs_with_a_new_file(tmp_path / "in", 1_000)
    whole = sum(len(value) for given in configs for value in given.values())
    assert _written(broker, _worker(broker), configs) < whole / 10


def test_the_workers_own_compression_counts(broker: ScriptedBroker, tmp_path: Path) -> None:
    configs = _configs_with_a_new_file(tmp_path / "in", 200)
    whole = sum(len(value) for given in configs for value in given.values())
    assert _written(broker, _worker(broker, producer_compression_type="none"), configs) > whole
    assert config_topic_producer(_worker(broker, producer_compression_type="lz4")).compression is Compression.LZ4


def test_the_workers_own_level_of_gzip_counts(broker: ScriptedBroker) -> None:
    producer = config_topic_producer(_worker(broker, producer_compression_gzip_level="9"))
    assert (producer.compression, producer.compression_level) == (Compression.GZIP, 9)


@pytest.mark.parametrize("form", ["named", "packed", "by a rule"])
def test_no_configuration_with_a_new_file_is_above_100_kb(
    tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"named": 4 * shares.MOST_NAMED - 1, "packed": 4 * shares.MOST_NAMED + 4_000, "by a rule": 3_000}[form]
    if form == "by a rule":
        monkeypatch.setattr(distribution, "MANY", 1)
        monkeypatch.setattr(shares, "MOST_NAMED", 0)
        monkeypatch.setattr(shares, "MOST_CHARACTERS", 0)
    configs = _configs_with_a_new_file(tmp_path / "in", files)
    assert any(TASK_RULE in given for given in configs) == (form == "by a rule")
    assert max(sum(map(len, given.values())) for given in configs) < _MOST_BYTES
