"""What the tests of a single worker share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.topics import unique
from tests.support.workers import WorkerApi


@pytest.fixture
def name(worker: WorkerApi) -> Iterator[str]:
    """The name of a connector of the module's `worker`, which is deleted in the end."""
    name = unique("connector")
    yield name
    worker.request("DELETE", f"/connectors/{name}")
