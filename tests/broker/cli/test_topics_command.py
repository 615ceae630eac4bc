"""`fencepost topics create`, and workers that create no internal topics (KIP-1209)."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fencepost.api.errors import ConfigError
from fencepost.cli import main
from fencepost.cli.common.exit_codes import ExitCode
from fencepost.config.internal_topics import AUTOMATIC_CREATION, InternalTopic
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.topic_creation import NewTopic
from tests.support.task_runner import TaskRunner
from tests.support.topics import Topics, unique
from tests.support.writing import producer_config

Run = Callable[..., tuple[int, Any, str]]

CREATE_NONE = {AUTOMATIC_CREATION: "false"}


class Files:
    """The file of a distributed worker with topics of its own."""

    def __init__(self, folder: Path, bootstrap_servers: str) -> None:
        self.group = unique("group")
        self.names = [f"{self.group}-{store}" for store in ("offsets", "configs", "status")]
        self.worker = folder / "worker.properties"
        self.folder = folder
        self.properties = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": self.group,
            "exactly.once.source.support": "enabled",
            "key.converter": "org.apache.kafka.connect.storage.StringConverter",
            "value.converter": "org.apache.kafka.connect.storage.StringConverter",
            "offset.storage.topic": self.names[0],
            "offset.storage.partitions": "3",
            "offset.storage.segment.ms": "99999",
            "config.storage.topic": self.names[1],
            "status.storage.topic": self.names[2],
            "status.storage.partitions": "2",
            **CREATE_NONE,
        }
        self.write()

    def write(self) -> None:
        self.worker.write_text("".join(f"{name}={value}\n" for name, value in self.properties.items()))

    def connector(self, **properties: str) -> Path:
        path = self.folder / "connector.json"
        path.write_text(json.dumps({"name": unique("c"), "connector.class": "FileStreamSource", **properties}))
        return path


@pytest.fixture
def files(tmp_path: Path, bootstrap_servers: str) -> Files:
    return Files(tmp_path, bootstrap_servers)


@pytest.fixture
def run(files: Files, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `fencepost topics create` and return its exit code, its output as JSON, and stderr."""

    def run(*arguments: object) -> tuple[int, Any, str]:
        capsys.readouterr()
        code = main.run(["topics", "create", "-o", "json", str(files.worker), *map(str, arguments)])
        printed = capsys.readouterr()
        return code, json.loads(printed.out) if code == ExitCode.DONE else None, printed.err

    return run


def states(rows: Any) -> dict[str, str]:
    return {row["topic"]: row["state"] for row in rows}


def test_the_topics_of_a_worker_are_created_as_its_file_says(run: Run, files: Files, bootstrap_servers: str) -> None:
    code, rows, _ = run()

    assert code == ExitCode.DONE
    assert states(rows) == dict.fromkeys(files.names, "created")
    with Admin(producer_config(bootstrap_servers).client) as admin:
        found = [admin.describe_topic(name) for name in files.names]
    assert [topic.partitions for topic in found if topic is not None] == [3, 1, 2]
    assert {topic.configs["cleanup.policy"] for topic in found if topic is not None} == {"compact"}
    assert found[0] is not None
    assert found[0].configs["segment.ms"] == "99999"
    assert states(run()[1]) == dict.fromkeys(files.names, "exists")


def test_a_dry_run_creates_nothing(run: Run, files: Files) -> None:
    assert states(run("--dry-run")[1]) == dict.fromkeys(files.names, "missing")
    assert states(run("--dry-run")[1]) == dict.fromkeys(files.names, "missing")


def test_no_status_topic_is_created_for_a_standalone_worker(run: Run, files: Files) -> None:
    assert states(run("--standalone")[1]) == dict.fromkeys(files.names[:2], "created")


def test_the_offsets_topic_that_a_connector_names_is_created(run: Run, files: Files) -> None:
    own = unique("own-offsets")

    assert states(run(files.connector(**{"offsets.storage.topic": own}))[1])[own] == "created"


def test_topics_that_would_lose_state_are_refused(run: Run, files: Files, bootstrap_servers: str) -> None:
    with Admin(producer_config(bootstrap_servers).client) as admin:
        admin.create_topics(NewTopic(files.names[0], configs={"cleanup.policy": "delete"}))

    code, _, told = run()

    assert code == ExitCode.WRONG_USAGE
    assert f"Topic {files.names[0]} exists with cleanup.policy=delete" in told


def test_a_config_topic_with_several_partitions_is_refused(run: Run, files: Files, bootstrap_servers: str) -> None:
    with Admin(producer_config(bootstrap_servers).client) as admin:
        admin.create_topics(NewTopic(files.names[1], 2, configs={"cleanup.policy": "compact"}))

    code, _, told = run()

    assert code == ExitCode.WRONG_USAGE
    assert "has 2 partitions and must have exactly 1" in told


@pytest.mark.parametrize("command", ["worker", "standalone"])
def test_a_worker_that_may_create_no_topics_names_all_that_are_missing(
    files: Files, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    files.properties["listeners"] = "http://127.0.0.1:0"
    files.write()
    connectors = [str(files.connector(topic="t", file="f"))] if command == "standalone" else []

    code = main.run([command, str(files.worker), *connectors])

    told = capsys.readouterr().err
    assert code == ExitCode.WRONG_USAGE
    assert "fencepost topics create" in told
    for name in files.names if command == "worker" else files.names[:2]:
        assert name in told


def test_a_connector_s_missing_offsets_topic_is_not_created(bootstrap_servers: str, topic: str) -> None:
    group, own = unique("group"), unique("own-offsets")
    for name in (f"{group}-offsets", f"{group}-configs"):
        with Admin(producer_config(bootstrap_servers).client) as admin:
            admin.ensure_compacted_topic(InternalTopic(name, 1))
    with TaskRunner(bootstrap_servers, CREATE_NONE, group=group) as runner:
        with pytest.raises(ConfigError, match=f"Topic {own} does not exist"):
            runner.task(unique("connector"), topic, {"offsets.storage.topic": own})
        assert Topics(bootstrap_servers).partitions(own) is None


@pytest.mark.usefixtures("brief_learning")
def test_a_deleted_offsets_topic_is_not_created_again(bootstrap_servers: str, topic: str) -> None:
    group = unique("group")
    offsets = f"{group}-offsets"
    topics = Topics(bootstrap_servers)
    # Topics that this process just created are waited for, as brokers learn of them late. So another client creates
    # this one.
    topics.create(offsets, config={"cleanup.policy": "compact"})
    with TaskRunner(bootstrap_servers, CREATE_NONE, group=group) as runner:
        task, _ = runner.task(unique("connector"), topic)
        topics.delete(offsets)
        task.start()
        assert task.join(150)
        assert isinstance(task.error, ConfigError)
        assert offsets in str(task.error)
        assert topics.partitions(offsets) is None
