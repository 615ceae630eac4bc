"""A running task of many files gets additional files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost import DataError, RetriableError, SourceBatch
from fencepost.api.source import TASK_ADDITIONS
from fencepost.connectors import distribution
from fencepost.connectors.files import task as file_task
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.discovery import additions
from fencepost.connectors.files.discovery.additions import additions_in, with_additions
from fencepost.connectors.files.discovery.shares import Share
from fencepost.connectors.files.task import FileSourceTask
from tests.unit.connectors.files.discovery.test_ended import Committed
from tests.unit.connectors.files.test_file_source import config
from tests.unit.connectors.support import ConnectorContext, Context, read

pytestmark = pytest.mark.usefixtures("short_waits")


class Watching:
    """A connector, and its tasks: a task goes on if only its additions are longer; otherwise a new task starts."""

    def __init__(self, folder: Path | str, most: int = 2, **properties: str) -> None:
        self.offsets = Committed()
        self.rows: list[str] = []
        self._most = most
        self._connector = FileSourceConnector()
        context = ConnectorContext()
        context.offset_reader = self.offsets  # type: ignore[assignment]
        self._connector.context = context
        self._connector.start(
            config(f"{folder}/*", **{"format": "text", "files_poll_interval_ms": "3600000", **properties})
        )
        self._connector.stop()
        self.configs: list[dict[str, str]] = []
        self.tasks: list[FileSourceTask] = []
        self.restarted: list[int] = []

    def look(self) -> None:
        """Scan the files, and give the tasks their new configurations."""
        if self.configs:
            self._connector._watch._look()
        before, self.configs = self.configs, self._connector.task_configs(self._most)
        for number, properties in enumerate(self.configs):
            if number < len(before) and _goes_on(before[number], properties):
                self.tasks[number].context.configs().update(properties)  # type: ignore[attr-defined]
                continue
            self.restarted.append(number)
            task = FileSourceTask()
            task.context = Context(self.offsets, properties)
            task.start(properties)
            self.tasks[number : number + 1] = [task]

    def read(self) -> list[str]:
        """Read and commit all available rows."""
        for task in self.tasks:
            while isinstance(batch := task.poll(), SourceBatch):
                self.rows += read(batch) if batch.splits else []
                self.offsets.commit(task, batch)
        return self.rows


def _goes_on(before: dict[str, str], given: dict[str, str]) -> bool:
    former = before.get(TASK_ADDITIONS, "")
    return given.get(TASK_ADDITIONS, "").startswith(former) and {**given, TASK_ADDITIONS: former} == {
        TASK_ADDITIONS: "", **before,
    }  # fmt: skip


@pytest.fixture(autouse=True)
def _few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "MANY", 1)


@given(
    st.dictionaries(st.text(min_size=1), st.none() | st.integers(1, 2**63), max_size=5),
    st.dictionaries(st.text(min_size=1), st.none() | st.integers(1, 2**63), max_size=5),
)
def test_additions_are_read_as_they_were_written(first: dict[str, int | None], second: dict[str, int | None]) -> None:
    once = with_additions({"a": "b"}, first)
    assert once is not None
    twice = with_additions(once, second)
    assert twice is not None
    assert twice["a"] == "b"
    assert additions_in(once[TASK_ADDITIONS]) == first
    assert additions_in(twice[TASK_ADDITIONS].removeprefix(once[TASK_ADDITIONS])) == second


def test_no_name_of_an_added_file_is_a_placeholder() -> None:
    given = with_additions({}, {"/in/${env:HOME}": 1})
    assert given is not None
    assert "$" not in given[TASK_ADDITIONS]
    assert additions_in(given[TASK_ADDITIONS]) == {"/in/${env:HOME}": 1}


def test_additions_that_no_connector_wrote_are_an_error() -> None:
    with pytest.raises(DataError, match="is not what FileSource wrote"):
        additions_in("/in/a")


@pytest.mark.parametrize(
    ("share", "added"),
    [
        (Share(["a", "b"], {"a": 1, "b": 2}), {"b": 2}),
        (Share(["a"], {"a": 1}), {}),
        (Share(["a", "b"], {"a": 9, "b": 2}), None),
        (Share(["b"], {"b": 2}), None),
        (Share(["b", "a"], {"a": 1, "b": 2}), None),
        (Share(["a", "b"], {"a": 1}), None),
        (Share(["a", "b"], {"a": 1, "b": 2}, {"b": ["c"]}), None),
        (Share(["a", "s3://in/b"], {"a": 1}), {"s3://in/b": None}),
    ],
)
def test_only_more_files_are_additions(share: Share, added: dict[str, int | None] | None) -> None:
    assert share.added_to(Share(["a"], {"a": 1})) == added


def test_a_file_under_a_former_name_of_another_one_is_no_addition() -> None:
    former = Share(["a"], {"a": 1}, {"a": ["b"]})
    assert Share(["a", "b"], {"a": 1, "b": 2}, {"a": ["b"]}).added_to(former) is None


def test_a_running_task_reads_each_new_file_once(tmp_path: Path) -> None:
    for number in range(20):
        (tmp_path / f"{number:02}").write_text(f"{number}\n")
    watching = Watching(tmp_path)
    watching.look()
    assert sorted(watching.read()) == sorted(map(str, range(20)))
    for number in range(20, 25):
        (tmp_path / f"{number}").write_text(f"{number}\n")
        watching.look()
        watching.look()
        watching.read()
    (tmp_path / "00").write_text("0\nmore\n")
    (tmp_path / "22").write_text("22\nmore\n")
    assert sorted(watching.read()) == sorted([*map(str, range(25)), "more", "more"])
    assert watching.restarted == [0, 1]


def test_a_task_that_starts_later_reads_its_additions_from_their_offsets(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n")
    watching = Watching(tmp_path, most=1)
    watching.look()
    for name in "bc":
        (tmp_path / name).write_text(f"{name}\n")
        watching.look()
        if name == "b":
            watching.read()
    assert list(additions_in(watching.configs[0][TASK_ADDITIONS])) == [str(tmp_path / "b"), str(tmp_path / "c")]
    [watching.tasks[0]] = [FileSourceTask()]
    watching.tasks[0].context = Context(watching.offsets, watching.configs[0])
    watching.tasks[0].start(watching.configs[0])
    assert watching.read() == ["a", "b", "c"]


def test_a_new_file_is_read_once_after_its_offset_could_not_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a").write_text("a\n")
    watching = Watching(tmp_path, most=1)
    watching.look()
    watching.read()
    (tmp_path / "b").write_text("b\n")
    watching.look()

    def refuse(_: object) -> None:
        raise RetriableError("no broker answers")

    with monkeypatch.context() as patched:
        patched.setattr(watching.offsets, "offsets", refuse)
        with pytest.raises(RetriableError):
            watching.read()
    assert watching.read() == ["a", "b"]


@pytest.mark.parametrize("read_before", [True, False])
def test_a_renamed_addition_is_read_once(tmp_path: Path, *, read_before: bool) -> None:
    for number in range(10):
        (tmp_path / f"{number}").write_text(f"{number}\n")
    watching = Watching(tmp_path)
    watching.look()
    watching.read()
    for number in range(10, 20):
        (tmp_path / f"{number}").write_text(f"{number}\n")
        watching.look()
        if read_before:
            watching.read()
        (tmp_path / f"{number}").rename(tmp_path / f"renamed-{number}")
        watching.look()
    assert sorted(watching.read()) == sorted(map(str, range(20)))
    assert len(watching.restarted) > 2


def test_a_task_restarts_once_its_additions_are_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(additions, "MOST_CHARACTERS", 3 * (len(str(tmp_path)) + 25))
    (tmp_path / "a").write_text("a\n")
    watching = Watching(tmp_path, most=1)
    watching.look()
    for number in range(8):
        (tmp_path / f"{number}").write_text(f"{number}\n")
        watching.look()
        watching.read()
    assert watching.rows == ["a", *map(str, range(8))]
    assert 2 <= len(watching.restarted) <= 4


def test_a_new_file_has_the_next_turn_among_many_idle_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for number in range(50):
        (tmp_path / f"{number:02}").write_text("row\n")
    watching = Watching(tmp_path, most=1)
    watching.look()
    watching.read()
    monkeypatch.setattr(file_task, "CHECKED_FILES", 1)
    (tmp_path / "new").write_text("new\n")
    watching.look()
    task: Any = watching.tasks[0]
    task._take_additions(watching.configs[0])
    [batch] = task._next_batch()
    assert list(batch.files) == [str(tmp_path / "new")]


def test_an_addition_counts_in_the_lag_once_it_was_checked(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("a\n")
    watching = Watching(tmp_path, most=1)
    watching.look()
    watching.read()
    assert watching.tasks[0].lag() == 0
    (tmp_path / "b").write_text("b\nopen")
    watching.look()
    watching.read()
    assert watching.tasks[0].lag() == len("open")


def test_tasks_of_few_files_get_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "MANY", 3)
    (tmp_path / "a").write_text("a\n")
    watching = Watching(tmp_path, most=1)
    watching.look()
    (tmp_path / "b").write_text("b\n")
    watching.look()
    assert json.loads(watching.configs[0]["task.files"]) == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert TASK_ADDITIONS not in watching.configs[0]
