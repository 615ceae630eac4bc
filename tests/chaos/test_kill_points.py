"""A worker that is killed at each step of a transaction, again and again, loses nothing and doubles nothing.

`make chaos` kills 20 times at each step.
"""

from __future__ import annotations

import os
import random
import signal
from pathlib import Path

import pytest

from fencepost.failpoint import FailPoint, of_task
from tests.support.checker import assert_exactly_once, read_offsets, read_topic, values
from tests.support.processes import Process
from tests.support.topics import Topics, unique

KILLS = int(os.environ.get("FENCEPOST_TEST_KILLS", "4"))
LINES = 16_000
WORKER = """\
bootstrap.servers={bootstrap_servers}
group.id={group}
offset.storage.topic={group}-offsets
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
"""
CONNECTOR = """\
name=lines
connector.class=FileStreamSource
file={file}
topic={topic}
batch.size={batch_size}
transaction.boundary={boundary}
transaction.boundary.interval.ms=5
"""


class KilledWorker:
    """One connector over one file, run by one worker process after the other."""

    def __init__(self, folder: Path, bootstrap_servers: str, topic: str, chance: random.Random) -> None:
        self.file = folder / "in.txt"
        self.group = unique("killed")
        self._folder = folder
        self._topic = topic
        self._chance = chance
        self.file.write_text("".join(f"line {number}\n" for number in range(LINES)))
        worker = WORKER.format(bootstrap_servers=bootstrap_servers, group=self.group)
        (folder / "worker.properties").write_text(worker)

    def run(self, run: int, environment: dict[str, str]) -> tuple[int, str]:
        """Run to the file's end, or to wherever it dies; return the exit code and what it wrote."""
        connector = self._folder / "lines.properties"
        connector.write_text(
            CONNECTOR.format(
                file=self.file,
                topic=self._topic,
                # The last run has most of the lines.
                batch_size=self._chance.randint(20, 150) if environment else 2_000,
                boundary=self._chance.choice(["poll", "interval"]),
            )
        )
        arguments = ("standalone", "--once", str(self._folder / "worker.properties"), str(connector))
        log_file = self._folder / f"run-{run}.log"
        with Process.forked(*arguments, log_file=log_file, environment=environment) as process:
            return process.wait(), process.output


@pytest.mark.parametrize("point", FailPoint)
def test_a_worker_killed_at_a_step_of_its_transactions_delivers_exactly_once(
    point: FailPoint, bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    topic = topics.create(partitions=chance.choice([1, 3]))
    worker = KilledWorker(tmp_path, bootstrap_servers, topic, chance)

    for run in range(KILLS):
        code, output = worker.run(run, of_task(point, chance.randint(1, 5)))
        assert code == -signal.SIGKILL, f"run {run} was not killed at {point}: it ended with {code}\n{output}"
        assert "Task lines-0 is RUNNING" in output, f"run {run} was killed before its task came to {point}"
    code, output = worker.run(KILLS, {})
    assert code == 0, output

    records = read_topic(bootstrap_servers, topic)
    assert_exactly_once(values(records), [f"line {number}".encode() for number in range(LINES)])
    for partition in {record.partition for record in records}:
        numbers = [int((record.value or b"")[5:]) for record in records if record.partition == partition]
        assert numbers == sorted(numbers), f"partition {partition} is out of order"
    offsets = read_offsets(bootstrap_servers, f"{worker.group}-offsets", "lines")
    assert offsets == [({"filename": str(worker.file)}, {"position": worker.file.stat().st_size})]
