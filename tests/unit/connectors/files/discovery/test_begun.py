"""A file that was read before is read on under its new name at once, also if it has not settled."""

from __future__ import annotations

import os
from pathlib import Path

from tests.unit.connectors.files.renaming import Reader, lines, text


def settle(path: Path) -> None:
    os.utime(path, (0, 0))


def test_a_renamed_file_that_is_still_written_to_is_read_on_beside_a_new_one(tmp_path: Path):
    log, rotated = tmp_path / "log", tmp_path / "log.1"
    log.write_text(text(1, 2))
    settle(log)
    reader = Reader(tmp_path / "log*", files_settle_ms="60000")
    assert reader.read_all() == lines(1, 2)
    log.rename(rotated)
    with rotated.open("a") as late:
        late.write(text(3))
    log.write_text(text(4))
    settle(log)
    reader.restart()
    assert sorted(reader.read_all()) == lines(1, 2, 3, 4)


def test_a_new_file_settles_also_if_another_one_is_read_on(tmp_path: Path):
    log, rotated, new = tmp_path / "log", tmp_path / "log.1", tmp_path / "log.2"
    log.write_text(text(1))
    settle(log)
    reader = Reader(tmp_path / "log*", files_settle_ms="60000")
    assert reader.read_all() == lines(1)
    log.rename(rotated)
    with rotated.open("a") as late:
        late.write(text(2))
    new.write_text(text(3))
    reader.restart()
    assert reader.read_all() == lines(1, 2)
    settle(new)
    reader.restart()
    assert reader.read_all() == lines(1, 2, 3)
