"""Fixtures for the file connectors' tests."""

from __future__ import annotations

import pytest

from fencepost.connectors import distribution
from fencepost.connectors.files.content import growing as growing_file
from fencepost.connectors.files.discovery import shares


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls of files without new rows return at once."""
    monkeypatch.setattr(growing_file, "WAIT_SECONDS", 0.02)
    monkeypatch.setattr(growing_file, "CHECK_SECONDS", 0.01)


@pytest.fixture
def by_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks get a rule in place of file names, however few files they have."""
    monkeypatch.setattr(shares, "MOST_NAMED", 0)
    monkeypatch.setattr(shares, "MOST_CHARACTERS", 0)
    monkeypatch.setattr(distribution, "MANY", 1)
