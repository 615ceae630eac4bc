"""Drivers of Spark queries, killed at each step of a micro-batch, stopped and continued: each row is in Kafka once.

They write by the function for foreachBatch, by write_kafka, and both by format("fencepost"). `make test` kills one of them
at one step, which is another one each time. `make chaos-spark` kills each at all steps, and repeats these tests with 20
seeds. The brokers are `broker` or `tv1_broker`.
"""

from __future__ import annotations

import random
import signal
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from fencepost.embedded.broker import EmbeddedBroker
from tests.chaos.conftest import SPARK_SEEDS
from tests.support.processes import wait_for
from tests.support.spark_drivers import MID_WRITE, MODES, PATIENCE, POINTS, Drivers, processes_of

# Several sessions of Spark start one after the other in each test.
pytestmark = pytest.mark.timeout(3 * PATIENCE)


@pytest.mark.parametrize("mode", MODES if SPARK_SEEDS > 1 else [""])
def test_a_driver_killed_at_steps_of_what_it_writes(
    chance: random.Random, broker_of_a_version: EmbeddedBroker, tmp_path: Path, mode: str
):
    mode = mode or chance.choice(MODES)
    drivers = Drivers(tmp_path, broker_of_a_version.bootstrap_servers, chance, mode=mode)
    points = chance.sample(POINTS, len(POINTS) if SPARK_SEEDS > 1 else 1)
    for point in points:
        drivers.add(wait=point == MID_WRITE)
        drivers.add()
        # At a start there may be a repeated batch, which is skipped, before the new ones. Spark may run the steps of a data
        # source's next batch in other Python workers.
        number = 1 if mode.startswith("format") else chance.randint(1, 2)
        with drivers.start(dies_at=None if point == MID_WRITE else f"{point}:{number}") as driver:
            if point == MID_WRITE:
                wait_for(lambda: drivers.is_mid_write() or not driver.running, PATIENCE)
                driver.kill()
                drivers.go_on()
            code = driver.wait(PATIENCE)
        assert code == -signal.SIGKILL, f"{mode} not killed at {point} of {points}: {code}\n{driver.output[-3000:]}"
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
            # One that was resumed before may have ended its Python workers.
            with suppress(psutil.NoSuchProcess):
                process.resume()
        assert zombie.wait(PATIENCE) != 0, zombie.output
    drivers.check()
