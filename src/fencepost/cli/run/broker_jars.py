"""Fetches the jars of a program before its first start, and shows how far that is."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from fencepost.cli.common.count_progress import shown_count
from fencepost.embedded.jars import BROKER, JarSet, cache_folder, class_path
from fencepost.embedded.java import find_java


def fetch_broker_jars() -> None:
    """Fetch the broker's jars. Raises as `fetch_jars`."""
    fetch_jars(BROKER)


def fetch_jars(wanted: JarSet) -> None:
    """Fetch a program unless this user has it. Raises JarsUnavailableError and JavaNotFoundError."""
    folder = cache_folder()
    if (folder / wanted.folder).is_dir():
        return
    before = _megabytes(folder)
    with shown_count(f"Fetching {wanted.title}", "MB", lambda: _megabytes(folder) - before):
        class_path(find_java(), wanted)


def _megabytes(folder: Path) -> float:
    """The size of all files in a folder, some of which may be renamed meanwhile."""
    size = 0
    with suppress(OSError):
        for path in folder.rglob("*"):
            with suppress(OSError):
                size += path.lstat().st_size
    return size / 1e6
