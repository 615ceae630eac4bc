"""Fixtures: a group id, and the configuration of a standalone worker in that group."""

from __future__ import annotations

import pytest

from fencepost.config.worker_config import WorkerConfig
from tests.support.standalone import (
    standalone_properties,
)
from tests.support.topics import unique


@pytest.fixture
def group() -> str:
    return unique("group")


@pytest.fixture
def config(bootstrap_servers: str, group: str) -> WorkerConfig:
    return WorkerConfig.from_properties(standalone_properties(bootstrap_servers, group), where="test worker")
