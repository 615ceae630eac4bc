"""Files that are written, renamed and exchanged at random: each line is read once."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from fencepost import DataError
from fencepost.connectors.files import connector, task
from fencepost.connectors.files.discovery import sketch
from fencepost.connectors.files.discovery.find import Discovery
from tests.unit.connectors.files.renaming import Reader

pytestmark = pytest.mark.usefixtures("short_waits")


class Writer:
    """Writes, renames and rotates files, and knows all lines."""

    def __init__(self, folder: Path, chance: random.Random) -> None:
        self.folder = folder
        self.chance = chance
        self.count = 0

    def act(self) -> None:
        files = sorted(self.folder.iterdir())
        action = self.chance.choice([self.append, self.append, self.rename, self.exchange, self.swap])
        if files:
            action(self.chance.choice(files))
        else:
            self.append(self._new_name())

    def append(self, path: Path) -> None:
        if self.chance.random() < 0.3:
            path = self._new_name()
        with path.open("a") as file:
            for _ in range(self.chance.randrange(1, 4)):
                # All files have the same first bytes.
                file.write(f"{'x' * self.chance.choice([1, 600])} {self.count}\n")
                self.count += 1

    def rename(self, path: Path) -> None:
        path.rename(self._new_name())

    def exchange(self, path: Path) -> None:
        """Atomically replace the file of a name."""
        path.rename(self._new_name())
        self.append(path)

    def swap(self, path: Path) -> None:
        """Exchange the files of two names."""
        other, between = self.chance.choice(sorted(self.folder.iterdir())), self._new_name()
        if other != path:
            path.rename(between)
            other.rename(path)
            between.rename(other)

    def _new_name(self) -> Path:
        free = [path for number in range(300) if not (path := self.folder / f"log {number}").exists()]
        return self.chance.choice(free)


@pytest.mark.parametrize("seed", range(60))
def test_each_line_is_read_once_through_any_renames(seed: int, tmp_path: Path) -> None:
    write_and_read(seed, tmp_path)


@pytest.mark.usefixtures("by_rule")
@pytest.mark.parametrize("seed", range(60, 100))
def test_tasks_that_list_the_files_themselves_read_each_line_once(seed: int, tmp_path: Path) -> None:
    write_and_read(seed, tmp_path)


@pytest.mark.usefixtures("by_rule")
@pytest.mark.parametrize("seed", range(100, 140))
def test_tasks_that_list_files_which_settle_read_each_line_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A summary can list few differences only."""
    monkeypatch.setattr(sketch, "PART_CELLS", 3)
    write_and_settle(seed, tmp_path, monkeypatch)


@pytest.mark.parametrize("seed", range(140, 200))
def test_files_that_settle_at_any_time_are_read_once(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_and_settle(seed, tmp_path, monkeypatch)


def write_and_settle(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each scan of the connector or a task finds a different set of settled files."""
    chance, ends = random.Random(seed), list[bool]()

    def clock() -> float:
        changed = [path.stat().st_mtime for path in sorted(tmp_path.iterdir())]
        return 60.0 + (max(changed) if ends else chance.choice(changed))

    for module in (connector, task):
        monkeypatch.setattr(module, "Discovery", partial(Discovery, clock=clock))
    write_and_read(seed, tmp_path, lambda: ends.append(True), files_settle_ms="60000")


def write_and_read(seed: int, tmp_path: Path, end: Callable[[], object] = bool, **properties: str) -> None:
    chance = random.Random(seed)
    writer = Writer(tmp_path, chance)
    writer.append(tmp_path / "log 0")
    reader = Reader(tmp_path / "*", batch_bytes=chance.choice(["700", "100000"]), **properties)
    meanwhile = [bool, writer.act, lambda: [writer.act() for _ in range(5)]]

    def look() -> None:
        """Until the next task starts, the current one may commit the rows that it has read."""
        given = [chance.choice(meanwhile), chance.choice([bool, reader.poll_before_commit()])]
        chance.choice(meanwhile)()
        reader.look(chance.randrange(1, 4), given=lambda: [act() for act in given], started=chance.choice(meanwhile))

    for _ in range(40):
        act = chance.choice(
            [writer.act, writer.act, reader.poll, look, lambda: reader.poll(commits=False) and reader.restart(2)]
        )
        try:
            act()
        except DataError:
            # A task that found a different file is restarted with the next scan.
            reader.restart()
        if chance.random() < 0.3:
            found, given, started = chance.choices(meanwhile, k=3)
            reader.restart(chance.randrange(1, 4), found=found, given=given, started=started)
    end()
    reader.restart()
    reader.read_all()
    assert sorted(int(row.split()[1]) for row in reader.rows) == list(range(writer.count))
