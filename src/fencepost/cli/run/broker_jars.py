"""Fetches the jars of a program before its first start, and shows how far that is."""

from __future__ import annotations

import logging
import time
from typing import Final

from fencepost.cli.common.count_progress import shown_count
from fencepost.embedded.jars import BROKER, JarSet, cache_folder, class_path, fetched_kilobytes
from fencepost.embedded.java import find_java

_log: Final = logging.getLogger(__name__)


def fetch_broker_jars() -> None:
    """Fetch the broker's jars. Raises as `fetch_jars`."""
    fetch_jars(BROKER)


def fetch_jars(wanted: JarSet) -> None:
    """Fetch a program unless this user has it. Raises JarsUnavailableError and JavaNotFoundError."""
    if (cache_folder() / wanted.folder).is_dir():
        return
    started, before = time.monotonic(), fetched_kilobytes()
    _log.info("Fetching %s from Maven Central, once%s", wanted.title, _expected(wanted))
    # On a slow connection a rate in MB/s would be 0.0.
    total = None if wanted.megabytes is None else 1_000 * wanted.megabytes
    with shown_count(f"Fetching {wanted.title}", "kB", lambda: fetched_kilobytes() - before, total):
        class_path(find_java(), wanted)
    _log.info("Fetched %s in %.0f s", wanted.title, time.monotonic() - started)


def _expected(wanted: JarSet) -> str:
    return "" if wanted.megabytes is None else f" (about {wanted.megabytes} MB)"
