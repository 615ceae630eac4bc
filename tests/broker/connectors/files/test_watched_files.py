"""Files that appear in a watched directory are read by the running worker."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from fencepost.config.worker_config import WorkerConfig
from fencepost.connectors import distribution
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.discovery import shares
from fencepost.connectors.files.discovery.file_rule import TASK_RULE
from tests.support.checker import assert_exactly_once, read_topic, values
from tests.support.processes import wait_for
from tests.support.standalone import StandaloneWorker, running, standalone_properties
from tests.support.topics import Topics, unique

STRING = "org.apache.kafka.connect.storage.StringConverter"
JSON = "org.apache.kafka.connect.json.JsonConverter"


def worker_config(bootstrap_servers: str) -> WorkerConfig:
    return WorkerConfig.from_properties(standalone_properties(bootstrap_servers, unique("group")), where="test worker")


def test_files_that_appear_are_read_without_a_restart_each_line_once(
    bootstrap_servers: str, topics: Topics, tmp_path: Path
) -> None:
    topic, config = topics.create(partitions=2), worker_config(bootstrap_servers)
    folder = tmp_path / "incoming ü"
    folder.mkdir()
    connector = {
        "name": unique("connector"), "connector.class": "FileSource", "files": f"{folder}/*.txt", "format": "text",
        "topic": topic, "tasks.max": "2", "files.poll.interval.ms": "50", "files.after.end": "delete",
    }  # fmt: skip

    with running(StandaloneWorker(config, connector)) as failures:
        for count in range(1, 4):
            whole = tmp_path / "new"
            whole.write_text("".join(f"{count} {line}\n" for line in range(100)))
            whole.replace(folder / f"{count} é.txt")
            wait_for(
                lambda lines=100 * count: failures or len(read_topic(bootstrap_servers, topic)) >= lines,
                what=f"the lines of file {count} are committed",
            )
        wait_for(lambda: failures or not list(folder.iterdir()), what="the files are deleted")
    assert not failures
    lines = [f"{count} {line}".encode() for count in range(1, 4) for line in range(100)]
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), lines)


def test_an_inferred_schema_outlives_a_restart_and_rows_that_do_not_fit(
    bootstrap_servers: str, topics: Topics, tmp_path: Path
) -> None:
    topic, config = topics.create(), worker_config(bootstrap_servers)
    file = tmp_path / "rows.csv"
    connector = {
        "name": unique("connector"), "connector.class": "FileSource", "files": str(file), "format": "csv",
        "header": "true", "schema": "infer", "topic": topic, "errors.tolerance": "all", "value.converter": JSON,
        "value.converter.schemas.enable": "false",
    }  # fmt: skip
    for text, count in (("n,t\n1,a\n", 1), ("x,a\ny,b\n2,c\n", 2)):
        # Columns inferred from all rows together would have other types.
        with file.open("a") as end:
            end.write(text)
        with running(StandaloneWorker(config, connector)) as failures:
            wait_for(
                lambda count=count: failures or len(read_topic(bootstrap_servers, topic)) >= count,
                what=f"{count} rows are committed",
            )
        assert not failures
    assert values(read_topic(bootstrap_servers, topic)) == [b'{"n":1,"t":"a"}', b'{"n":2,"t":"c"}']


def rotate(log: Path) -> None:
    """As logrotate does: log.1 becomes log.2, and log becomes log.1."""
    for number in range(len(list(log.parent.glob("log.*"))), 0, -1):
        log.with_suffix(f".{number}").rename(log.with_suffix(f".{number + 1}"))
    log.rename(log.with_suffix(".1"))


def test_logs_that_are_rotated_and_grow_are_read_once_each_line(
    bootstrap_servers: str, topics: Topics, tmp_path: Path
) -> None:
    topic, config = topics.create(partitions=2), worker_config(bootstrap_servers)
    log = tmp_path / "log"
    connector = {
        "name": unique("connector"), "connector.class": "FileSource", "files": f"{log}*", "format": "text",
        "topic": topic, "tasks.max": "2", "files.poll.interval.ms": "50",
    }  # fmt: skip
    lines: list[bytes] = []

    def write(count: int) -> None:
        added = [f"line {len(lines) + number}" for number in range(count)]
        with log.open("a") as file:
            file.write("".join(f"{line}\n" for line in added))
        lines.extend(line.encode() for line in added)

    for _ in range(3):
        # The last rotation of each round happens while no worker runs.
        write(10)
        with running(StandaloneWorker(config, connector)) as failures:
            for _ in range(4):
                write(100)
                wait_for(
                    lambda: failures or len(read_topic(bootstrap_servers, topic)) >= len(lines),
                    what="the lines are committed",
                )
                write(50)
                rotate(log)
                write(30)
            wait_for(
                lambda: failures or len(read_topic(bootstrap_servers, topic)) >= len(lines),
                what="the lines are committed",
            )
        assert not failures
        rotate(log)
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), lines)


def test_a_file_that_is_touched_and_then_renamed_is_read_once(
    bootstrap_servers: str, topics: Topics, tmp_path: Path
) -> None:
    topic, config, log = topics.create(), worker_config(bootstrap_servers), tmp_path / "log"
    connector = {
        "name": unique("connector"), "connector.class": "FileSource", "files": f"{log}*", "format": "csv", "schema": "n INT",
        "topic": topic, "files.poll.interval.ms": "50", "value.converter": JSON, "value.converter.schemas.enable": "false",
        "transforms": "odd", "transforms.odd.type": "Sql", "transforms.odd.where": "value.n > 0",
    }  # fmt: skip
    log.write_text("1\n2\n")

    def until(place: str, count: int) -> None:
        wait_for(
            lambda: failures or len(read_topic(bootstrap_servers, place)) >= count,
            what=f"{count} records are in {place}",
        )

    with running(StandaloneWorker(config, connector)) as failures:
        until(topic, 2)
        offsets = len(read_topic(bootstrap_servers, config.offset_storage.name))
        os.utime(log, ns=(0, 0))
        until(config.offset_storage.name, offsets + 1)
        renamed = log.rename(log.with_suffix(".1"))
        # The offset is committed under the new name, and removed from the old one.
        until(config.offset_storage.name, offsets + 3)
        with renamed.open("a") as file:
            file.write("3\n")
        until(topic, 3)
    assert not failures
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), [b'{"n":1}', b'{"n":2}', b'{"n":3}'])


@pytest.fixture
def configs_of_tasks(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str]]:
    """Task configurations as for a large number of files: they have no file names."""
    monkeypatch.setattr(shares, "MOST_NAMED", 0)
    monkeypatch.setattr(shares, "MOST_CHARACTERS", 0)
    monkeypatch.setattr(distribution, "MANY", 1)
    configs: list[dict[str, str]] = []
    task_configs = FileSourceConnector.task_configs

    def noted(connector: FileSourceConnector, most: int) -> list[dict[str, str]]:
        found = task_configs(connector, most)
        configs.extend(found)
        return found

    monkeypatch.setattr(FileSourceConnector, "task_configs", noted)
    return configs


def test_tasks_that_list_the_files_themselves_read_each_line_once(
    bootstrap_servers: str, topics: Topics, tmp_path: Path, configs_of_tasks: list[dict[str, str]]
) -> None:
    """Files appear, are renamed before and after they are read, and vanish, while a worker runs and while none does."""
    topic, config, folder = topics.create(partitions=2), worker_config(bootstrap_servers), tmp_path / "in"
    folder.mkdir()
    connector = {
        "name": unique("connector"), "connector.class": "FileSource", "files": f"{folder}/*", "format": "text",
        "topic": topic, "tasks.max": "3", "files.poll.interval.ms": "50",
    }  # fmt: skip
    lines: list[bytes] = []

    def write(*names: str) -> None:
        for name in names:
            with (folder / name).open("a") as file:
                file.write(f"line {len(lines)}\n")
            lines.append(f"line {len(lines)}".encode())

    def until_read(failures: list[Exception]) -> None:
        wait_for(
            lambda: failures or len(read_topic(bootstrap_servers, topic)) >= len(lines), what="the lines are committed"
        )

    for round_ in range(2):
        write(*(f"{round_} {number}" for number in range(20)))
        with running(StandaloneWorker(config, connector)) as failures:
            until_read(failures)
            for number in range(5):
                # These files are read: some are renamed and their names used again, others are deleted.
                (folder / f"{round_} {number}").rename(folder / f"{round_} {number} renamed")
                (folder / f"{round_} {number + 10}").unlink()
                write(f"{round_} {number}", f"{round_} {number} renamed", f"{round_} {number} new")
                # This file may be renamed before it is read.
                (folder / f"{round_} {number} new").rename(folder / f"{round_} {number} newer")
            until_read(failures)
        assert not failures
        (folder / f"{round_} 19").rename(folder / f"{round_} renamed while none runs")
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), lines)
    assert any(TASK_RULE in given for given in configs_of_tasks)
    assert all(given.get("task.files", "[]") == "[]" for given in configs_of_tasks)


def test_files_are_read_once_they_have_settled_however_many_others_have_not(
    bootstrap_servers: str, topics: Topics, tmp_path: Path, configs_of_tasks: list[dict[str, str]]
) -> None:
    """Each task sees more unsettled files than its summary can list, and the files settle in random order."""
    topic, config, folder = topics.create(partitions=2), worker_config(bootstrap_servers), tmp_path / "in"
    folder.mkdir()
    connector = {
        "name": unique("connector"), "connector.class": "FileSource", "files": f"{folder}/*", "format": "text",
        "topic": topic, "tasks.max": "2", "files.poll.interval.ms": "200", "files.settle.ms": "3600000",
    }  # fmt: skip
    written = [folder / f"{number * 7919 % 10_007:05}" for number in range(6_000)]
    for path in written:
        path.write_text("a part\n")
    lines: list[bytes] = []

    def settle(count: int) -> None:
        for path in written[len(lines) : len(lines) + count]:
            path.write_text(f"{path.name}\n")
            os.utime(path, ns=(0, 0))
            lines.append(path.name.encode())

    def until_read(failures: list[Exception]) -> None:
        wait_for(
            lambda: failures or len(read_topic(bootstrap_servers, topic)) >= len(lines), what="the lines are committed"
        )

    settle(1_500)
    for _ in range(2):
        with running(StandaloneWorker(config, connector)) as failures:
            for _ in range(2):
                until_read(failures)
                settle(100)
            until_read(failures)
        assert not failures
        settle(50)
    with running(StandaloneWorker(config, connector)) as failures:
        until_read(failures)
        settle(len(written))
        until_read(failures)
    assert not failures
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), lines)
    assert any(TASK_RULE in given for given in configs_of_tasks)
    assert all(given.get("task.files", "[]") == "[]" for given in configs_of_tasks)


def test_files_under_another_spelling_are_not_read_again(
    bootstrap_servers: str, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    topic, config = topics.create(partitions=2), worker_config(bootstrap_servers)
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(f"{name} 1\n")
    connector = {
        "name": unique("connector"), "connector.class": "FileSource", "format": "text", "topic": topic, "tasks.max": "2",
        "files.poll.interval.ms": "50",
    }  # fmt: skip
    for round_, files in enumerate(("./*.txt", f"{tmp_path}/*.txt", "*.txt"), start=1):
        with running(StandaloneWorker(config, {**connector, "files": files})) as failures:
            wait_for(
                lambda count=3 * round_: failures or len(read_topic(bootstrap_servers, topic)) >= count,
                what=f"the lines of round {round_} are committed",
            )
        assert not failures
        for name in "abc":
            with (tmp_path / f"{name}.txt").open("a") as file:
                file.write(f"{name} {round_ + 1}\n")
    lines = [f"{name} {number}".encode() for name in "abc" for number in (1, 2, 3)]
    assert_exactly_once(values(read_topic(bootstrap_servers, topic)), lines)
