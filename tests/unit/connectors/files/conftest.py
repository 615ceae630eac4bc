"""Fixtures of the tests of connectors."""

from __future__ import annotations

import pytest

from fencepost.connectors.files.content import growing as growing_file


@pytest.fixture
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Polls of files without new rows end at once."""
    monkeypatch.setattr(growing_file, "WAIT_SECONDS", 0.02)
    monkeypatch.setattr(growing_file, "LOOK_SECONDS", 0.01)
