"""What tests of random faults share."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.spark_drivers import Drivers

SPARK_SEEDS = int(os.environ.get("FENCEPOST_TEST_SPARK_SEEDS", "1"))
"""How many drivers of the Spark sink are killed, with other random choices each."""

_FEW_SEEDS = 3
"""How often at most tests of the other faults repeat their random choices."""


@pytest.fixture(params=range(min(SPARK_SEEDS, _FEW_SEEDS)), ids=lambda number: f"seed {number}")
def repetition(request: pytest.FixtureRequest) -> int:
    """The number of a test's run with other random choices."""
    return int(request.param)


@pytest.fixture
def broker_of_a_version(chance: random.Random, repetition: int, request: pytest.FixtureRequest) -> EmbeddedBroker:
    """A broker of either transaction version."""
    del repetition
    broker: EmbeddedBroker = request.getfixturevalue(chance.choice(["broker", "tv1_broker"]))
    return broker


@pytest.fixture
def drivers(chance: random.Random, broker_of_a_version: EmbeddedBroker, tmp_path: Path) -> Drivers:
    """Drivers of a streaming query."""
    return Drivers(tmp_path, broker_of_a_version.bootstrap_servers, chance)
