"""Fetches the broker's jars before its first start, and shows how far that is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fencepost.cli.common.count_progress import shown_count
from fencepost.embedded.jars import BROKER, cache_folder, class_path
from fencepost.embedded.java import find_java


def fetch_broker_jars() -> None:
    """Fetch the jars unless this user has them. Raises JarsUnavailableError and JavaNotFoundError."""
    folder = cache_folder()
    if (folder / BROKER.folder).is_dir():
        return
    before = _megabytes(folder)
    with shown_count(f"Fetching {BROKER.title}", "MB", lambda: _megabytes(folder) - before):
        class_path(find_java(), BROKER)


def _megabytes(folder: Path) -> float:
    """The size of all files in a folder, some of which may be on their way to another name."""
    size = 0
    with suppress(OSError):
        for path in folder.rglob("*"):
            with suppress(OSError):
                size += path.lstat().st_size
    return size / 1e6
