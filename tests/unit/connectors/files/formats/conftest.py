"""Fixtures for tests of formats."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.connectors.files.content import growing as growing_file


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data.x"


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten the wait of a poll at the end of its files."""
    monkeypatch.setattr(growing_file, "WAIT_SECONDS", 0.1)
