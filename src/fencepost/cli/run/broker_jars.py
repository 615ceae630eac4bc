"""Fetches the jars of a program before its first start, and shows the progress."""

from __future__ import annotations

from contextlib import AbstractContextManager

from fencepost.cli.common.count_progress import shown_count
from fencepost.embedded.jars import BROKER, JarSet, cache_folder, class_path, fetched_kilobytes
from fencepost.embedded.java import find_java


def fetch_broker_jars() -> None:
    """Fetch the broker's jars. Raises the errors of `fetch_jars`."""
    fetch_jars(BROKER)


def fetch_jars(wanted: JarSet) -> None:
    """Fetch a program unless this user has it. Raises JarsUnavailableError and JavaNotFoundError."""
    if not (cache_folder() / wanted.folder).is_dir():
        class_path(find_java(), wanted, _shown)


def _shown(wanted: JarSet) -> AbstractContextManager[None]:
    before = fetched_kilobytes()
    # In MB/s, the rate of a slow connection would be shown as 0.0.
    total = None if wanted.megabytes is None else 1_000 * wanted.megabytes
    return shown_count(f"Fetching {wanted.title}", "kB", lambda: fetched_kilobytes() - before, total)
