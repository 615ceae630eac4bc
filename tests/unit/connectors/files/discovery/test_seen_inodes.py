"""A task compares its files' inodes with the inodes that the connector saw."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.connectors.files.content.identity import inode_at
from fencepost.connectors.files.discovery import seen_inodes
from fencepost.connectors.files.discovery.seen_inodes import SeenInodes


def test_a_file_that_came_back_is_waited_for_again_from_the_beginning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seen_inodes, "NUMBERING_WAIT_SECONDS", 0.0)
    path, away, other = tmp_path / "a", tmp_path / "away", tmp_path / "other"
    path.touch()
    other.touch()
    seen = SeenInodes({str(path): inode_at(str(path))}, 0.0)
    for _ in range(2):
        path.rename(away)
        other.rename(path)
        assert seen.has_another(str(path))
        path.rename(other)
        away.rename(path)
        assert not seen.has_another(str(path))
