"""What tests of source tasks share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.task_runner import TaskRunner
from tests.support.topics import unique


@pytest.fixture
def runner(bootstrap_servers: str) -> Iterator[TaskRunner]:
    """A worker with an offsets topic of its own, on `broker`."""
    with TaskRunner(bootstrap_servers) as runner:
        yield runner


@pytest.fixture
def name() -> str:
    """A new connector's name."""
    return unique("connector")
