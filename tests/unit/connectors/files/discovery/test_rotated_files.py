"""Rotated logs: renamed files are read on under their new names, and new files from their start."""

from __future__ import annotations

import json
import logging
import threading
from itertools import pairwise
from pathlib import Path

import pytest

from fencepost import DataError, SourceBatch
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.files import task as file_task
from fencepost.connectors.files.content import growing
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.discovery import seen_inodes, sketch
from fencepost.connectors.files.discovery.find import Discovery
from fencepost.connectors.files.discovery.watch import FileWatch
from fencepost.connectors.files.task import FileSourceTask
from fencepost.runtime.restart_policy import is_worth_a_restart
from tests.unit.connectors.files.renaming import Reader, lines, rotate, text
from tests.unit.connectors.support import read, start

pytestmark = pytest.mark.usefixtures("short_waits")

WAIT_SECONDS = 60


@pytest.mark.parametrize("most", [1, 3])
def test_rotated_logs_are_read_once_and_the_new_one_from_its_start(most: int, tmp_path: Path) -> None:
    reader = Reader(tmp_path / "log*")
    expected: list[str] = []
    for number in range(0, 50, 10):
        rotate(tmp_path, text(*range(number, number + 4)))
        reader.restart(most)
        reader.read_all()
        with (tmp_path / "log").open("a") as log:
            log.write(text(number + 5, number + 6))
        expected += lines(*range(number, number + 4), number + 5, number + 6)
    reader.restart(most)
    assert sorted(reader.read_all()) == sorted(expected)


def test_a_crash_right_after_the_new_name_is_committed_loses_and_doubles_nothing(tmp_path: Path) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    # As long as the part of the former file that was read, with other lines.
    rotate(tmp_path, text(3, 4, 5))
    for committed in (False, True, False, True):
        reader.restart()
        reader.poll(commits=committed)
    reader.restart()
    assert sorted(reader.read_all()) == lines(1, 2, 3, 4, 5)


@pytest.mark.usefixtures("by_rule")
def test_more_logs_are_rotated_than_a_summary_can_tell_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new name goes to the task that has the old one, although its hash belongs to another task."""
    monkeypatch.setattr(sketch, "PART_CELLS", 20)
    for number in range(300):
        (tmp_path / f"log {number}").write_text(text(number))
    reader = Reader(tmp_path / "log*")
    reader.restart(3)
    reader.read_all()
    for number in range(300):
        with (tmp_path / f"log {number}").open("a") as log:
            log.write(text(300 + number))
        (tmp_path / f"log {number}").rename(tmp_path / f"log {number}.1")
        (tmp_path / f"log {number}").write_text(text(600 + number))
    reader.restart(3)
    assert sorted(reader.read_all()) == sorted(lines(*range(900)))


def test_an_offset_of_another_file_under_an_old_name_is_not_used(tmp_path: Path) -> None:
    rotate(tmp_path, text(1))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    rotate(tmp_path, text(2, 3))
    [given] = reader.restart()
    reader.read_all()
    # The same configuration again: by now, the former name's offset is the new log's.
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert sorted(reader.read_all()) == lines(1, 2, 3)


def test_another_file_in_place_of_a_renamed_one_waits_for_a_scan(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    rotate(tmp_path, text(3))
    # The task does not know the new name yet.
    assert not reader.poll()
    assert not reader.poll()
    assert caplog.text.count("Waiting for the next scan to find out which one") == 1
    assert "in case the earlier file was renamed" not in caplog.text, "the look tells, however late it is"
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3)


def test_another_file_fails_the_task_after_some_looks_for_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_task, "LEAST_WAIT_SECONDS", 0.0)
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log", files_poll_interval_ms="1")
    reader.read_all()
    rotate(tmp_path, text(3))
    with pytest.raises(DataError, match="was truncated or replaced"):
        any(reader.poll() for _ in range(1000))


def test_another_file_fails_a_task_that_is_to_end_at_once(tmp_path: Path) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log")
    reader.read_all()
    reader.tasks[0].at_end()
    rotate(tmp_path, text(3))
    with pytest.raises(DataError, match="was truncated or replaced"):
        reader.poll()


def test_a_task_whose_machine_numbers_files_otherwise_reads_them_after_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log*", files_poll_interval_ms="1")
    [given] = reader.restart()
    inodes = {path: inode + 1_000_000 for path, inode in json.loads(given["task.inodes"]).items()}
    reader.tasks = [start(FileSourceTask(), {**given, "task.inodes": json.dumps(inodes)}, reader.offsets)]  # type: ignore[arg-type]
    assert not reader.poll()
    monkeypatch.setattr(seen_inodes, "NUMBERING_WAIT_SECONDS", 0.0)
    assert any(reader.poll() for _ in range(1000))
    assert reader.rows == lines(1, 2)
    assert caplog.text.count("the file system numbers files for each machine") == 1


@pytest.mark.parametrize("seen", [("log", "log.1", "new"), ("new",)])
def test_a_rename_that_a_scan_meets_is_left_to_the_next_scan(
    seen: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan may find a renamed file under both names, or under none."""
    rotate(tmp_path, text(1))
    watch = FileWatch(
        Discovery((str(tmp_path / "*"),), ANYWHERE), interval_s=3600, on_change=pytest.fail, on_error=pytest.fail
    )
    watch.start()
    inode = inode_at(str(tmp_path / "log"))
    (tmp_path / "log").rename(tmp_path / "log.1")
    (tmp_path / "new").write_text(text(2))
    torn = {str(tmp_path / name): inode_at(str(tmp_path / name)) or inode for name in seen}
    scan = Discovery.scan
    found = iter([torn])
    with monkeypatch.context() as patched:
        patched.setattr(Discovery, "scan", lambda *given: next(found, None) or scan(*given))
        assert watch._look() == ([str(tmp_path / "new")], [])
    assert watch._look() == ([str(tmp_path / "log.1")], [])
    assert watch.formers == {str(tmp_path / "log.1"): [str(tmp_path / "log")]}
    watch.stop()


def test_a_scan_that_finds_a_new_file_alone_is_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rotate(tmp_path, text(1))
    watch = FileWatch(
        Discovery((str(tmp_path / "*"),), ANYWHERE), interval_s=3600, on_change=pytest.fail, on_error=pytest.fail
    )
    watch.start()
    (tmp_path / "new").write_text(text(2))
    scans: list[object] = []
    scan = Discovery.scan
    monkeypatch.setattr(Discovery, "scan", lambda *given: scans.append(given) or scan(*given))
    assert watch._look() == ([str(tmp_path / "new")], [])
    assert len(scans) == 1
    (tmp_path / "link").hardlink_to(tmp_path / "log")
    assert watch._look() == ([str(tmp_path / "link")], [])
    assert len(scans) == 3
    watch.stop()


def test_many_files_that_are_gone_are_forgotten_once_no_more_vanish(tmp_path: Path) -> None:
    """Otherwise a task whose configuration still lists them would wait for another configuration, and read nothing."""
    for number in range(1_003):
        (tmp_path / f"part-{number}").touch()
    watch = FileWatch(
        Discovery((str(tmp_path / "*"),), ANYWHERE), interval_s=3600, on_change=pytest.fail, on_error=pytest.fail
    )
    watch.start()
    forgotten = []
    for until in (999, 1_001, 1_001, 1_001):
        for number in range(until):
            (tmp_path / f"part-{number}").unlink(missing_ok=True)
        assert watch._look() == ([], [])
        forgotten.append(watch._forget())
    assert forgotten == [False, False, True, False]
    assert watch.files == tuple(str(tmp_path / f"part-{number}") for number in (1_001, 1_002))
    assert watch.inodes is not None
    assert watch.inodes.keys() == set(watch.files)
    watch.stop()


def test_the_lag_does_not_count_replaced_files(tmp_path: Path) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    [given] = reader.restart()
    rotate(tmp_path, text(3))
    [reader.tasks[0]] = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    assert reader.tasks[0].lag() == 0


def test_a_watch_reports_that_known_names_have_other_known_files(tmp_path: Path) -> None:
    rotate(tmp_path, text(1))
    rotate(tmp_path, text(2))
    told = threading.Event()
    watch = FileWatch(
        Discovery((str(tmp_path / "log*"),), ANYWHERE), interval_s=0.01, on_change=told.set, on_error=pytest.fail
    )
    watch.start()
    (tmp_path / "log.1").unlink()
    (tmp_path / "log").rename(tmp_path / "log.1")
    (tmp_path / "log").write_text(text(3))
    assert told.wait(WAIT_SECONDS)
    watch.stop()


def test_a_batch_of_a_name_that_gets_another_file_before_it_is_read_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growing, "SMALL_BYTES", 0)
    path = tmp_path / "log"
    path.write_text(text(1, 2))
    reader = Reader(tmp_path / "log*")
    batch = reader.tasks[0].poll()
    assert isinstance(batch, SourceBatch)
    rotate(tmp_path, text(3, 4, 5))
    with pytest.raises(DataError, match="got another file before bytes 0 to 14 of the former one were read") as caught:
        read(batch)
    assert is_worth_a_restart(caught.value)


def test_each_rotation_of_the_same_names_changes_the_configuration(tmp_path: Path) -> None:
    seen = []
    rotate(tmp_path, text(0))
    reader = Reader(tmp_path / "log*")
    for number in range(1, 6):
        rotate(tmp_path, text(number))
        (tmp_path / "log.2").unlink(missing_ok=True)
        seen += reader.restart()
        reader.read_all()
    assert all(given != following for given, following in pairwise(seen))
    assert sorted(reader.rows) == lines(0, 1, 2, 3, 4, 5)


def test_a_new_file_with_the_same_beginning_is_not_taken_for_the_old(tmp_path: Path) -> None:
    rotate(tmp_path, text(1))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    rotate(tmp_path, text(1, 2))
    assert reader.read_all() == lines(1)
    reader.restart()
    assert sorted(reader.read_all()) == lines(1, 1, 2)


@pytest.mark.parametrize("pattern", ["log", "log*"])
def test_an_unread_file_in_the_place_of_a_read_one_is_not_taken_away(pattern: str, tmp_path: Path) -> None:
    rotate(tmp_path, text(1, 2))
    reader = Reader(tmp_path / pattern, files_after_end="delete")
    assert reader.poll()
    rotate(tmp_path, text(3, 4))
    assert not reader.poll()
    assert (tmp_path / "log").read_text() == text(3, 4)


def test_files_that_are_rotated_again_before_the_task_starts_are_read_once(tmp_path: Path) -> None:
    rotate(tmp_path, text(0))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    for number in (1, 2):
        rotate(tmp_path, text(number))
        [given] = reader.restart()
        reader.read_all()
    # The task does not know the last name yet.
    (tmp_path / "log.2").rename(tmp_path / "log.3")
    rotate(tmp_path, text(3))
    reader.tasks = [start(FileSourceTask(), given, reader.offsets)]  # type: ignore[arg-type]
    reader.read_all()
    reader.restart()
    assert sorted(reader.read_all()) == lines(0, 1, 2, 3)


def test_files_that_are_rotated_while_the_task_starts_are_read_once(tmp_path: Path) -> None:
    """At the task's start, a file has the name under which the connector saw another file."""
    rotate(tmp_path, text(0))
    reader = Reader(tmp_path / "log*")
    reader.read_all()
    for number in (1, 2):
        rotate(tmp_path, text(number))
        reader.look()
        reader.read_all()

    def rotate_again() -> None:
        (tmp_path / "log.2").rename(tmp_path / "log.3")
        rotate(tmp_path, text(3))

    reader.look(started=rotate_again)
    reader.read_all()
    reader.look()
    assert sorted(reader.read_all()) == lines(0, 1, 2, 3)


@pytest.mark.parametrize("names", [("log.1", "log.2"), ("log.1", "log"), ("log.1", "log.2", "log.3")])
def test_a_file_that_is_renamed_again_before_its_first_task_ends_is_read_once(
    names: tuple[str, ...], tmp_path: Path
) -> None:
    """The task commits rows of the first name after the connector has found the last name."""
    log = tmp_path / "log"
    log.write_text(text(1, 2))
    reader = Reader(f"{log}*")
    commit = reader.poll_before_commit()
    for name in names:
        log = log.rename(tmp_path / name)
        reader.connector._watch._look()
        configs = reader.connector.task_configs(1)
    commit()
    reader.tasks = [start(FileSourceTask(), config, reader.offsets) for config in configs]  # type: ignore[arg-type]
    with log.open("a") as file:
        file.write(text(3))
    assert reader.read_all() == lines(1, 2, 3)


def exchanged_and_renamed(folder: Path, when: str) -> Reader:
    """Two files exchange their names, and one of them gets a third name before the task starts."""
    (folder / "a").write_text(text(1, 2))
    (folder / "b").write_text(text(3, 4, 5))
    reader = Reader(folder / "*")
    reader.read_all()
    for name, new in (("a", "c"), ("b", "a"), ("c", "b")):
        (folder / name).rename(folder / new)
    reader.restart(**{when: lambda: (folder / "b").rename(folder / "d")})
    return reader


when = pytest.mark.parametrize("when", ["found", "given", "started"])


@when
def test_a_file_that_is_renamed_again_before_its_task_starts_is_read_once(when: str, tmp_path: Path) -> None:
    """The file's offset is under a name to which another file's offset moves."""
    reader = exchanged_and_renamed(tmp_path, when)
    reader.read_all()
    reader.restart()
    assert sorted(reader.read_all()) == lines(1, 2, 3, 4, 5)


@when
@pytest.mark.usefixtures("by_rule")
def test_a_listed_file_that_is_renamed_again_before_its_task_starts_is_read_once(when: str, tmp_path: Path) -> None:
    reader = exchanged_and_renamed(tmp_path, when)
    reader.read_all()
    reader.restart()
    assert sorted(reader.read_all()) == lines(1, 2, 3, 4, 5)
