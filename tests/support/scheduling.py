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

# The tests of these files are long and share nothing: each may run in another process.
_SPREAD = ("test_kill_points.py", "test_topics_of_checks.py", "removed_guards.py")
# The tests of these folders share a Spark session, or a broker.
_WHOLE_FOLDERS = ("tests/unit/transforms/", "tests/broker/engine/spark/", "tests/broker/spark/sink/", "tests/hostile/")
# Brokers of which a second set would cost more than it gains: five JVMs, used now and then.
_COSTLY_BROKERS = re.compile(r"\b(three_node_broker|secured|tv1_broker|version_servers)\b")
COSTLY = "costly brokers"
"""The unit of work of all tests that use these brokers."""

FOLDERS = ("chaos", "hostile", "cluster", "broker", "unit")
"""The folders of tests, those whose tests take longest first."""


class SharingScheduling(LoadFileScheduling):
    """Files stay whole, but for those of `_SPREAD`; files that share something costly are one unit of work."""

    def __init__(self, config: pytest.Config, log: Producer) -> None:
        super().__init__(config, log)
        # Units of work are given out in the order of their tests, not by how many tests they have.
        config.option.loadscopereorder = False
        self._root = config.rootpath

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return nodeid if file.endswith(_SPREAD) else shared_unit(self._root / file) or file


def in_order(items: Iterable[pytest.Item], tests: Path) -> list[pytest.Item]:
    """The long tests first, so that at the end short ones keep all processes busy. Random within that."""

    def rank(item: pytest.Item) -> tuple[bool, int]:
        folder = item.path.relative_to(tests).parts[0]
        return shared_unit(item.path) != COSTLY, FOLDERS.index(folder) if folder in FOLDERS else -1

    return sorted(items, key=rank)


@cache
def shared_unit(file: Path) -> str | None:
    """The name of the unit of work that a file of tests belongs to; None for one of its own."""
    folder = next((folder for folder in _WHOLE_FOLDERS if folder in file.as_posix()), None)
    return folder or (COSTLY if _COSTLY_BROKERS.search(file.read_text()) else None)
