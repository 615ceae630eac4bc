"""Which tests run together, and in which order, when the suite is spread over several processes.

What costs most is what tests share: brokers, JVMs of Spark, workers. Each process of xdist starts its own when a test
first asks for it, so tests that share something costly go to one process, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadFileScheduling

# Tests of these files take long and share nothing, so each may run in another process.
_SPREAD = ("test_kill_points.py", "test_topics_of_checks.py", "removed_guards.py")
# Tests of each of these folders share a Spark session or a broker.
_WHOLE_FOLDERS = ("tests/unit/transforms/", "tests/broker/engine/spark/", "tests/broker/spark/sink/", "tests/hostile/")
# A second set of these brokers would cost more than it saves: five JVMs that are rarely used.
_COSTLY_BROKERS = re.compile(r"\b(three_node_broker|secured|tv1_broker|version_servers)\b")
COSTLY = "costly brokers"
"""The name of the unit of work with all tests that use these brokers."""

FOLDERS = ("chaos", "hostile", "cluster", "broker", "unit")
"""The folders of tests, the slowest tests first."""


class SharingScheduling(LoadFileScheduling):
    """Files are not split, except those in `_SPREAD`; files that share something costly are one unit of work."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        # Distribute units of work in the order of their tests, not by their number of tests.
        config.option.loadscopereorder = False
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if file.endswith(_SPREAD) else shared_unit(self._root / file) or file


def in_order(items: Iterable[pytest.Item], tests: Path) -> list[pytest.Item]:
    """The slow tests first, so that short ones keep all processes busy at the end. Random within each folder."""

    def rank(item: pytest.Item) -> tuple[bool, int]:
        folder = item.path.relative_to(tests).parts[0]
        return shared_unit(item.path) != COSTLY, FOLDERS.index(folder) if folder in FOLDERS else -1

    return sorted(items, key=rank)


@cache
def shared_unit(file: Path) -> str | None:
    """The name of a test file's shared unit of work; None if the file is a unit by itself."""
    folder = next((folder for folder in _WHOLE_FOLDERS if folder in file.as_posix()), None)
    return folder or (COSTLY if _COSTLY_BROKERS.search(file.read_text()) else None)
