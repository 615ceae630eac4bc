"""Tasks that find their files by a rule: which files they read, and when they list the files again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from fencepost import DataError
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.distribution import PathHashes
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.discovery.file_rule import FileRule
from fencepost.connectors.files.discovery.find import Discovery
from fencepost.connectors.files.discovery.own_listing import OwnListing


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    for number in range(50):
        (tmp_path / f"{number:02}").write_text("a line\n")
    return sorted(map(str, tmp_path.iterdir()))


@pytest.fixture
def clock() -> Clock:
    return Clock()


def listing(folder: Path, inodes: dict[str, Any], clock: Clock, settle_s: float = 0.0) -> OwnListing:
    rule = FileRule.of(0, 1, inodes, PathHashes())
    return OwnListing(rule, Discovery((f"{folder}/*",), ANYWHERE, settle_s=settle_s), 5.0, clock)


def flood(folder: Path) -> list[str]:
    """More unsettled files than a summary can list."""
    others = [folder / f"new-{number:04}" for number in range(2_000)]
    for other in others:
        other.touch()
    return list(map(str, others))


def age(*names: str) -> None:
    """Set the files' modification times to a day ago."""
    for name in names:
        now = Path(name).stat().st_mtime
        os.utime(name, (now, now - 86_400))


def seen(names: list[str]) -> dict[str, int | None]:
    return {name: inode_at(name) for name in names}


def test_files_that_the_connector_did_not_see_are_left_alone(tmp_path: Path, names: list[str], clock: Clock) -> None:
    found = listing(tmp_path, seen(names[:40]), clock)
    assert found.look() == (names[:40], seen(names[:40]))
    assert not found.missing
    clock.now = 1_000
    assert found.look() is None
    found.check_end()


def test_files_that_are_not_here_yet_are_looked_for_more_and_more_seldom(
    tmp_path: Path, names: list[str], clock: Clock
) -> None:
    inodes = seen(names)
    late = Path(names[7]).rename(tmp_path.parent / f"{tmp_path.name}-late")
    found = listing(tmp_path, inodes, clock)
    files, _ = found.look() or ([], {})
    assert files == [name for name in names if name != names[7]]
    assert found.missing == 1
    looks = 0
    for clock.now in range(1, 200):
        due = found._due
        assert found.look() is None
        looks += found._due != due
    assert looks == 5
    late.rename(names[7])
    clock.now = 400.0
    assert found.look() == ([names[7]], {names[7]: inodes[names[7]]})
    assert not found.missing


def test_a_name_with_another_file_is_not_read(tmp_path: Path, names: list[str], clock: Clock) -> None:
    inodes = seen(names)
    Path(names[3]).rename(tmp_path / "former")
    Path(names[3]).write_text("another line\n")
    found = listing(tmp_path, inodes, clock)
    assert (found.look() or ([], {}))[0] == [name for name in names if name != names[3]]
    found.check_end()
    clock.now = 1_000
    with pytest.raises(DataError, match="1 of 50 files of the task that the connector found are not there"):
        found.check_end()


def test_a_machine_that_numbers_files_otherwise_reads_them_after_a_while(
    tmp_path: Path, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(2_000):
        (tmp_path / f"{number:04}").touch()
    names = sorted(map(str, tmp_path.iterdir()))
    found = listing(tmp_path, {name: 10_000_000_000 + number for number, name in enumerate(names)}, clock)
    assert found.look() is None
    assert "Waiting for them, or for the connector's next scan" in caplog.text
    clock.now = 31.0
    assert found.look() == (names, {})
    assert "the file system numbers files for each machine" in caplog.text


def test_a_few_files_with_other_numbers_are_read_after_a_while(tmp_path: Path, names: list[str], clock: Clock) -> None:
    """The summary can list so few differences, and shows that none of the files is the same."""
    found = listing(tmp_path, {name: 10_000_000_000 + number for number, name in enumerate(names)}, clock)
    assert found.look() is None
    clock.now = 31.0
    assert found.look() == (names, {})


def test_any_number_of_files_that_have_not_settled_keeps_no_file_back(
    tmp_path: Path, names: list[str], clock: Clock
) -> None:
    age(*names[:40])
    others = flood(tmp_path)
    # The connector saw the last ten files before their change. Without files.settle.ms, the task sees too many others.
    assert listing(tmp_path, seen(names), clock).look() is None
    found = listing(tmp_path, seen(names), clock, settle_s=60.0)
    assert found.look() == (names, seen(names))
    assert not found.missing
    # Files that have settled for the connector are in its next configuration.
    age(*others[:100])
    assert listing(tmp_path, seen([*names, *others[:50]]), clock, settle_s=60.0).look() == (
        [*names, *others[:50]],
        seen([*names, *others[:50]]),
    )


def test_a_task_reads_no_file_that_has_settled_for_it_alone(tmp_path: Path, names: list[str], clock: Clock) -> None:
    age(*names)
    found = listing(tmp_path, seen(names[:40]), clock, settle_s=60.0)
    assert found.look() == (names[:40], seen(names[:40]))


def test_another_numbering_of_files_is_found_among_many_that_have_not_settled(
    tmp_path: Path, names: list[str], clock: Clock
) -> None:
    age(*names[:40])
    flood(tmp_path)
    inodes = {name: 10_000_000_000 + number for number, name in enumerate(names)}
    found = listing(tmp_path, inodes, clock, settle_s=60.0)
    assert found.look() is None
    clock.now = 31.0
    assert found.look() == (names, {})
