"""What FileSource does for each file does not grow with their number: it is counted for files, and for four times as many."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fencepost.api.source import TASK_ADDITIONS
from fencepost.connectors import distribution
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.discovery import find
from fencepost.connectors.files.discovery.directories import Listing, directories_of
from tests.support.counting import CountedText, work_of
from tests.unit.connectors.files.test_file_source import config
from tests.unit.connectors.support import ConnectorContext

_FEW = 200
_TASKS = 4
_LINEAR = 5.0
"""Four times as many files do at most so many times as much: a search in a list for each file does 16 times as much."""


@dataclass
class Folder:
    """A connector of many files, which scans when it is asked."""

    folder: Path
    connector: FileSourceConnector

    @classmethod
    def of(cls, folder: Path, files: int) -> Folder:
        folder.mkdir()
        for number in range(files):
            (folder / f"{number:05}").touch()
        connector = FileSourceConnector()
        connector.context = ConnectorContext()
        return cls(folder, connector)

    def begin(self) -> None:
        self.connector.start(config(f"{self.folder}/*", format="text", files_poll_interval_ms="3600000"))
        self.connector.stop()
        self.connector.task_configs(_TASKS)

    def look(self) -> None:
        self.connector._watch._look()
        self.connector.task_configs(_TASKS)

    def add(self) -> None:
        (self.folder / "new").touch()
        self.look()

    def rename(self) -> None:
        (self.folder / "00007").rename(self.folder / "renamed")
        self.look()


@pytest.fixture(autouse=True)
def _counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths are texts whose comparisons are counted."""

    def listed(pattern: str) -> Iterator[Listing]:
        for listing in directories_of(pattern):
            yield replace(listing, files={CountedText(path): inode for path, inode in listing.files.items()})

    monkeypatch.setattr(find, "directories_of", listed)


@pytest.fixture(params=["equal shares", "by preference"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How files are distributed: see `distribute`."""
    if request.param == "by preference":
        monkeypatch.setattr(distribution, "MANY", 1)
    return str(request.param)


def _both(tmp_path: Path, prepare: Callable[[Folder], object], action: Callable[[Folder], object]) -> list[int]:
    found = []
    for number in (_FEW, 4 * _FEW):
        folder = Folder.of(tmp_path / str(number), number)
        prepare(folder)
        found.append(work_of(lambda folder=folder: action(folder)))  # type: ignore[misc]
    return found


@pytest.mark.usefixtures("kind")
@pytest.mark.parametrize("action", [Folder.look, Folder.add, Folder.rename], ids=["idle", "new file", "renamed file"])
def test_a_scan_of_four_times_the_files_does_four_times_as_much(
    tmp_path: Path, action: Callable[[Folder], object]
) -> None:
    few, many = _both(tmp_path, Folder.begin, action)
    assert many < _LINEAR * few


@pytest.mark.usefixtures("kind")
def test_the_start_with_four_times_the_files_does_four_times_as_much(tmp_path: Path) -> None:
    few, many = _both(tmp_path, lambda _: None, Folder.begin)
    assert many < _LINEAR * few


@pytest.mark.usefixtures("kind")
def test_a_new_file_has_as_many_system_calls_whatever_the_number_of_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []
    for name in ("stat", "lstat", "open", "scandir"):
        real = getattr(os, name)
        monkeypatch.setattr(os, name, lambda *given, real=real, **more: asked.append(given) or real(*given, **more))
    counts = []
    for number in (_FEW, 4 * _FEW):
        folder = Folder.of(tmp_path / str(number), number)
        folder.begin()
        asked.clear()
        folder.add()
        counts.append(len(asked))
    assert counts[0] == counts[1]
    assert 0 < counts[0] < 50


def test_a_new_file_among_many_adds_its_name_to_one_task_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distribution, "MANY", 1)
    folder = Folder.of(tmp_path / "in", _FEW)
    folder.begin()
    before = folder.connector.task_configs(_TASKS)
    folder.add()
    after = folder.connector.task_configs(_TASKS)
    [(former, now)] = [pair for pair in zip(before, after, strict=True) if pair[0] != pair[1]]
    assert now.items() - former.items() == {(TASK_ADDITIONS, now[TASK_ADDITIONS])}
    assert former.items() <= now.items()
    assert len(now[TASK_ADDITIONS]) < len(str(folder.folder / "new")) + 40
