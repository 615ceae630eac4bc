"""Fixtures for tests of random faults."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.support.spark_drivers import Drivers

SPARK_SEEDS = int(os.environ.get("FENCEPOST_TEST_SPARK_SEEDS", "1"))
"""How many drivers of the Spark sink are killed, each with different random choices."""

_FEW_SEEDS = 3
"""The most repetitions of the other tests, each with different random choices."""


@pytest.fixture(params=range(min(SPARK_SEEDS, _FEW_SEEDS)), ids=lambda number: f"seed {number}")
def repetition(request: pytest.FixtureRequest) -> int:
    """The number of the repetition, each of which makes different random choices."""
    return int(request.param)


@pytest.fixture
def broker_of_a_version(chance: random.Random, repetition: int, request: pytest.FixtureRequest) -> EmbeddedBroker:
    """A broker, of each transaction version in turn."""
    del repetition
    broker: EmbeddedBroker = request.getfixturevalue(chance.choice(["broker", "tv1_broker"]))
    return broker


@pytest.fixture
def drivers(chance: random.Random, broker_of_a_version: EmbeddedBroker, tmp_path: Path) -> Drivers:
    """Starts drivers of a streaming query, one after the other."""
    return Drivers(tmp_path, broker_of_a_version.bootstrap_servers, chance)
