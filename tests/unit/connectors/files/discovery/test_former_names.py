"""When the connector reads the committed offsets of all files again to find former names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.files.discovery import former_names
from fencepost.connectors.files.discovery.find import Discovery
from fencepost.connectors.files.discovery.former_names import FormerNames
from fencepost.connectors.files.discovery.watch import FileWatch
from tests.unit.connectors.files.renaming import Reader, lines, text

pytestmark = pytest.mark.usefixtures("short_waits")


class Watched:
    """The names of a folder's files, and the number of times that all offsets were read for them."""

    def __init__(self, folder: Path, reader: Reader) -> None:
        self.reads = 0
        self._offsets = reader.offsets
        self._names = FormerNames(self, ANYWHERE)  # type: ignore[arg-type]
        self._watch = FileWatch(
            Discovery((f"{folder}/**/*.txt",), ANYWHERE),
            interval_s=3600,
            on_change=pytest.fail,
            on_error=pytest.fail,
        )
        self._watch.start()

    def items(self) -> list[Any]:
        self.reads += 1
        return self._offsets.items()

    def formers(self) -> dict[str, list[str]]:
        self._watch._look()
        self._names.update(self._watch, self._watch.files, self._watch.inodes)
        return self._names.formers

    @property
    def remembered(self) -> int:
        return len(self._names._seen) + len(self._names._seen_before)

    def objects(self, count: int) -> None:
        self._names.update(self._watch, [f"s3://bucket/{number}.txt" for number in range(count)], {})


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(text(1, 2))
    reader = Reader(tmp_path / "*")
    reader.read_all()
    return reader


@pytest.fixture
def watched(tmp_path: Path, reader: Reader) -> Watched:
    return Watched(tmp_path, reader)


def test_a_new_file_needs_no_offsets_of_others(tmp_path: Path, watched: Watched) -> None:
    assert watched.formers() == {}
    (tmp_path / "d.txt").write_text(text(3))
    assert watched.formers() == {}
    assert watched.formers() == {}
    assert watched.reads == 1


def test_new_objects_need_no_offsets_of_others(watched: Watched) -> None:
    for count in (1, 2, 3):
        watched.objects(count)
    assert watched.reads == 1


def test_a_file_of_a_new_directory_may_have_another_spelling(tmp_path: Path, watched: Watched) -> None:
    watched.formers()
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "d.txt").write_text(text(3))
    watched.formers()
    assert watched.reads == 2


def test_a_file_that_was_away_is_found_under_its_new_name(tmp_path: Path, watched: Watched) -> None:
    """The connector forgot the file's earlier name when it found another file there."""
    watched.formers()
    away = (tmp_path / "a.txt").rename(tmp_path / "away")
    (tmp_path / "d.txt").write_text(text(3))
    assert watched.formers() == {}
    away.rename(tmp_path / "e.txt")
    assert watched.formers() == {str(tmp_path / "e.txt"): [str(tmp_path / "a.txt")]}


def test_a_file_that_was_away_at_the_start_is_found_by_its_offset(tmp_path: Path, reader: Reader) -> None:
    away = (tmp_path / "a.txt").rename(tmp_path / "away")
    watched = Watched(tmp_path, reader)
    assert watched.formers() == {}
    away.rename(tmp_path / "e.txt")
    assert watched.formers() == {str(tmp_path / "e.txt"): [str(tmp_path / "a.txt")]}


def test_a_file_that_was_read_while_the_connector_ran_and_went_away_is_found(tmp_path: Path, reader: Reader) -> None:
    watched = Watched(tmp_path, reader)
    watched.formers()
    (tmp_path / "d.txt").write_text(text(3))
    watched.formers()
    reader.restart()
    assert sorted(reader.read_all()) == lines(1, 1, 1, 2, 2, 2, 3)
    away = (tmp_path / "d.txt").rename(tmp_path / "away")
    (tmp_path / "f.txt").write_text(text(4))
    watched.formers()
    away.rename(tmp_path / "e.txt")
    assert watched.formers() == {str(tmp_path / "e.txt"): [str(tmp_path / "d.txt")]}


def test_the_former_names_of_a_file_that_is_gone_are_forgotten(tmp_path: Path, watched: Watched) -> None:
    watched.formers()
    (tmp_path / "a.txt").rename(tmp_path / "d.txt")
    assert watched.formers() == {str(tmp_path / "d.txt"): [str(tmp_path / "a.txt")]}
    (tmp_path / "e.txt").write_text(text(3))
    (tmp_path / "d.txt").unlink()
    assert watched.formers() == {}


def test_files_that_come_and_go_without_end_are_forgotten_but_for_their_offsets(
    tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(former_names, "MOST_SEEN", 10)
    watched = Watched(tmp_path, reader)
    watched.formers()
    away = (tmp_path / "a.txt").rename(tmp_path / "away")
    for number in range(50):
        new = tmp_path / f"{number}.txt"
        new.write_text(text(3))
        assert watched.formers() == {}
        new.rename(tmp_path / f"gone {number}")
    assert watched.remembered <= 40
    away.rename(tmp_path / "e.txt")
    assert watched.formers() == {str(tmp_path / "e.txt"): [str(tmp_path / "a.txt")]}
    assert watched.reads < 10


def test_many_offsets_of_former_files_are_not_read_for_each_new_one(
    tmp_path: Path, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(former_names, "MOST_SEEN", 4)
    for number in range(20):
        (tmp_path / f"{number}.txt").write_text(text(3))
    reader.restart()
    reader.read_all()
    for number in range(20):
        (tmp_path / f"{number}.txt").rename(tmp_path / f"gone {number}")
    watched = Watched(tmp_path, reader)
    watched.formers()
    before = watched.reads
    for name in "def":
        (tmp_path / f"{name}.txt").write_text(text(4))
        watched.formers()
    assert watched.reads == before
