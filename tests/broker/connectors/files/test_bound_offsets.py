"""An offset that a user sets without an identity belongs to the file that is there at that time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fencepost.config.connector_config import ConnectorConfig
from fencepost.runtime.connector_offsets import alter_offsets, committed_offsets
from fencepost.runtime.state import State
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.task_runner import TaskRunner
from tests.support.topics import Topics, unique
from tests.unit.connectors.files.renaming import as_parquet, forms, lines, text


def _confirm() -> None:
    """Nothing else changes the connector."""


def _set(runner: TaskRunner, config: dict[str, str], path: Path, offset: dict[str, Any]) -> None:
    checked = ConnectorConfig.from_properties(config)
    assert alter_offsets(runner.worker, checked, [({"filename": str(path)}, offset)], confirm=_confirm)


def _connector(path: Path, topic: str, **properties: str) -> dict[str, str]:
    known = {"name": unique("connector"), "connector.class": "FileSource", "files": f"{path}*", "topic": topic}
    return known | {"format": "text", **properties}


@forms
def test_a_file_that_is_renamed_after_its_offset_was_set_is_read_on(
    write: Any, bootstrap_servers: str, topics: Topics, tmp_path: Path
) -> None:
    """The worker that stored the offset is gone before any task starts."""
    log, topic = tmp_path / "log", topics.create()
    config = _connector(log, topic, **write(log))
    with TaskRunner(bootstrap_servers) as runner:
        _set(runner, config, log, {"group": 0, "row": 1} if write is as_parquet else {"position": len("line 1\n")})
    log.rename(tmp_path / "log.1")
    with TaskRunner(bootstrap_servers, group=runner.worker.config.group_id) as later:
        task = later.run_to_end(config)
        assert task.state is State.STOPPED, task.error
        [(partition, _)] = committed_offsets(later.worker, ConnectorConfig.from_properties(config))
    assert partition == {"filename": f"{log}.1"}
    [row] = values(read_topic(bootstrap_servers, topic))
    assert b"line 2" in (row or b"")


def test_a_new_file_under_the_name_of_a_set_offset_is_read_from_its_start(
    bootstrap_servers: str, topics: Topics, tmp_path: Path
) -> None:
    log, topic = tmp_path / "log", topics.create()
    log.write_text(text(1, 2))
    config = _connector(log, topic)
    with TaskRunner(bootstrap_servers) as runner:
        _set(runner, config, log, {"position": len(text(1))})
        log.rename(tmp_path / "log.1")
        log.write_text(text(3, 4, 5))
        task = runner.run_to_end(config)
        assert task.state is State.STOPPED, task.error
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), [line.encode() for line in lines(2, 3, 4, 5)])


def test_a_file_that_replaces_the_one_of_a_set_offset_is_not_read_on(
    bootstrap_servers: str, topics: Topics, tmp_path: Path
) -> None:
    path, topic = tmp_path / "rows", topics.create()
    path.write_text(text(1, 2))
    config = _connector(path, topic)
    with TaskRunner(bootstrap_servers) as runner:
        _set(runner, config, path, {"position": len(text(1))})
        (tmp_path / "new").write_text("line 7\nline 8\n")
        (tmp_path / "new").replace(path)
        task = runner.run_to_end(config)
        assert task.state is State.FAILED
        former = f"{path} was replaced by another one: its offset belongs to the former file, up to byte {len(text(1))}"
        assert former in str(task.error)
    assert read_topic(bootstrap_servers, topic) == []
