"""One broker, and one worker on which good and hostile connectors run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from tests.hostile.brokers import Kafka, running_broker
from tests.hostile.site import Site, running_site


@pytest.fixture(scope="package")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    with running_broker(tmp_path_factory.mktemp("hostile")) as kafka:
        yield kafka


@pytest.fixture(scope="module")
def worker_settings() -> dict[str, str]:
    """Further settings of the module's worker; underscores stand for dots."""
    return {}


@pytest.fixture(scope="module")
def _sites(
    kafka: Kafka, worker_settings: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[], Site]]:
    """The module's site; a new one after a failed test has ended its worker."""
    found: list[Site] = []
    with contextlib.ExitStack() as stack:

        def site() -> Site:
            if not found or not found[-1].worker.process.running:
                found.append(
                    stack.enter_context(running_site(kafka, tmp_path_factory.mktemp("site"), **worker_settings))
                )
            return found[-1]

        yield site


@pytest.fixture
def site(_sites: Callable[[], Site]) -> Site:
    return _sites()
