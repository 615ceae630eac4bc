"""Fixtures for tests of functions: tasks whose values are JSON without a schema."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.task_runner import TaskRunner


@pytest.fixture(scope="module")
def runner(broker: EmbeddedBroker) -> Iterator[TaskRunner]:
    values = {
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
    }
    with TaskRunner(broker.bootstrap_servers, values) as runner:
        yield runner
