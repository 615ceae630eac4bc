"""The connector's scans while files appear, disappear and are renamed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from queue import Queue
from typing import Any

import pytest

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.discovery.find import Discovery
from fencepost.connectors.files.discovery.watch import FileWatch, settled
from tests.unit.connectors.files.renaming import text


def watch_of(folder: Path, interval_s: float = 3600, pattern: str = "*") -> FileWatch:
    watch = FileWatch(
        Discovery((str(folder / pattern),), ANYWHERE),
        interval_s=interval_s,
        on_change=pytest.fail,
        on_error=pytest.fail,
    )
    watch.start()
    return watch


def after_each_scan(monkeypatch: pytest.MonkeyPatch, action: Callable[[], object]) -> None:
    scan = Discovery.scan

    def then(*given: Any) -> Any:
        found = scan(*given)
        action()
        return found

    monkeypatch.setattr(Discovery, "scan", then)


def test_a_file_that_was_away_at_its_stat_is_found_when_it_is_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, away = tmp_path / "in", tmp_path / "away"
    folder.mkdir()
    watch = watch_of(folder)
    new = folder / "new"
    new.write_text(text(1))
    stat = os.stat

    def moved_first(path: Any, **options: Any) -> os.stat_result:
        if path == str(new) and new.exists():
            new.rename(away)
        return stat(path, **options)

    with monkeypatch.context() as patched:
        patched.setattr(os, "stat", moved_first)
        assert watch._look() == ([str(new)], [])
    away.rename(new)
    assert watch._look() == ([], [str(new)])
    assert watch.inodes == {str(new): inode_at(str(new))}
    watch.stop()


def test_new_files_are_found_where_files_vanish_all_the_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old = [tmp_path / f"old {number}" for number in range(20)]
    for path in old:
        path.write_text(text(1))
    watch = watch_of(tmp_path)
    # Their inodes differ from the inodes of the files that are deleted meanwhile.
    new = [tmp_path / f"new {number}" for number in range(3)]
    for path in new:
        path.write_text(text(2))
    left = iter(old)
    after_each_scan(monkeypatch, lambda: next(left).unlink())
    old[-1].unlink()
    assert watch._look() == (sorted(map(str, new)), [])
    watch.stop()


def test_a_file_keeps_the_names_that_it_had_while_a_task_may_take_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threading.Thread, "start", lambda _: None)
    file = tmp_path / "0"
    file.write_text(text(1))
    watch = watch_of(tmp_path, interval_s=2)
    for number in range(1, 20):
        file = file.rename(tmp_path / str(number))
        watch._look()
    names = [str(tmp_path / str(number)) for number in range(18, 3, -1)]
    assert watch.formers == {str(file): names}


def test_all_names_of_a_rotation_wait_if_the_scans_differ_on_one() -> None:
    known = {"log": 1, "log.1": 2, "old": 5, "gone": 6}
    rotated = {"log.1": 1, "log.2": 2}
    found = {**rotated, "new": 9, "old": 5}
    assert settled(known, known, found, {**found, "log": 3}) == {"new": 9, "old": 5, "log": 1, "log.1": 2}


def test_a_known_file_that_vanishes_between_two_scans_stays_known() -> None:
    known = {"old": 5}
    assert settled(known, known, {"new": 9, "old": 5}, {"new": 9}) == {"new": 9, "old": 5}


def test_a_new_file_that_has_the_number_of_one_that_vanished_waits() -> None:
    known = {"old": 5, "gone": 6}
    found = {"old": 5, "new": 9}
    assert settled(known, known, found, {**found, "another": 6}) == {**found, "gone": 6}


@pytest.mark.parametrize("number", [errno.ESTALE, errno.EIO, errno.ETIMEDOUT])
def test_a_file_system_that_fails_for_a_while_is_scanned_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, number: int
) -> None:
    link, errors = tmp_path / "link", [number] * 3
    link.symlink_to(tmp_path)
    told: Queue[Exception | None] = Queue()
    watch = FileWatch(
        Discovery((str(tmp_path / "*"),), ANYWHERE),
        interval_s=0.01,
        on_change=lambda: told.put(None),
        on_error=told.put,
    )
    stat = os.stat

    def failing(path: Any, **options: Any) -> os.stat_result:
        if path == str(link) and threading.current_thread() is watch._thread and errors:
            raise OSError(errors.pop(), "of a network", path)
        return stat(path, **options)

    monkeypatch.setattr(os, "stat", failing)
    watch.start()
    new = tmp_path / "new"
    new.write_text(text(1))
    assert told.get(timeout=60) is None
    assert errors == []
    assert caplog.text.count("of a network") == caplog.text.count(repr(str(link))) == 1
    assert watch.files == (str(new),)
    watch.stop()


@pytest.mark.parametrize("pattern", ["*/*", "**"])
def test_a_directory_that_fails_is_warned_about_once_and_others_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, pattern: str
) -> None:
    folders = [tmp_path / name for name in ("bad", "good")]
    for folder in folders:
        folder.mkdir()
    watch = watch_of(tmp_path, pattern=pattern)
    scandir = os.scandir

    def failing(directory: str) -> Any:
        if directory == str(folders[0]):
            raise OSError(errno.EIO, os.strerror(errno.EIO), directory)
        return scandir(directory)

    monkeypatch.setattr(os, "scandir", failing)
    for name in ("1", "2"):
        for folder in folders:
            (folder / name).write_text(text(1))
        assert watch._look() == ([str(folders[1] / name)], [])
    assert caplog.text.count(f"The directory {folders[0]} cannot be listed") == 1
    assert os.strerror(errno.EIO) in caplog.text
    watch.stop()
