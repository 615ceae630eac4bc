"""Drivers of Spark queries, killed at each step of a micro-batch, suspended and resumed: each row is in Kafka once.

They write by the function for foreachBatch, by write_kafka, and both by format("fencepost"). A driver has several
sinks: one SIGKILL hits each of them at a different step, and the next driver recovers them all. `make test` kills one
driver at three random steps of one of these ways of writing. `make chaos-spark` kills 20 drivers, each at all of the
seven steps of all ways. The brokers are `broker` or `tv1_broker`.
"""

from __future__ import annotations

import math
import random
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.chaos.conftest import SPARK_SEEDS
from tests.support.processes import wait_for
from tests.support.spark_drivers import MODES, PATIENCE, Drivers, processes_of
from tests.support.spark_kills import KilledDrivers
from tests.support.spark_visits import POINTS

# Each test starts several Spark sessions, one after the other.
pytestmark = pytest.mark.timeout(3 * PATIENCE)

_CHAINS = math.ceil(SPARK_SEEDS / 5)
_ROUNDS = math.ceil(SPARK_SEEDS / _CHAINS)
"""There is a driver for each seed; drivers of one chain run one after the other with the same sinks."""


@pytest.mark.timeout((1 + _ROUNDS) * 2 * PATIENCE)
@pytest.mark.parametrize("chance", range(_CHAINS), indirect=True, ids=lambda number: f"chain {number}")
def test_drivers_killed_at_each_step_of_a_write_write_each_row_once(
    chance: random.Random,
    broker_of_a_version: EmbeddedBroker,
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
):
    many = SPARK_SEEDS > 1
    drivers = KilledDrivers(
        tmp_path,
        broker_of_a_version.bootstrap_servers,
        chance,
        modes=MODES if many else [chance.choice(MODES)],
        points=POINTS if many else chance.sample(POINTS, 3),
    )
    for _ in range(_ROUNDS):
        drivers.kill()
        with capfd.disabled():
            print(f"\n{drivers.kills} kills, 0 lost, 0 doubled", end="", flush=True)  # noqa: T201 - minutes pass
    drivers.finish()


@pytest.mark.parametrize("mode", ["query", "format query"] if SPARK_SEEDS > 1 else ["query"])
def test_a_driver_that_was_stopped_in_mid_write_is_fenced_by_the_next(
    chance: random.Random, broker_of_a_version: EmbeddedBroker, tmp_path: Path, mode: str
):
    drivers = Drivers(tmp_path, broker_of_a_version.bootstrap_servers, chance, mode=mode)
    drivers.add(wait=True)
    drivers.add()
    with drivers.start() as zombie:
        wait_for(lambda: drivers.is_mid_write() or not zombie.running, PATIENCE)
        stopped = processes_of(zombie)
        for process in stopped:
            process.suspend()
        drivers.go_on()
        drivers.finish()
        for process in stopped:
            # A process that was resumed before may have ended its Python workers.
            with suppress(psutil.NoSuchProcess):
                process.resume()
        assert zombie.wait(PATIENCE) != 0, zombie.output
    drivers.check()
