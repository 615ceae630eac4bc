"""A worker that is killed at each step of its transactions: good rows and dead letters together are the file, once."""

from __future__ import annotations

import random
import signal
from pathlib import Path

from fencepost.failpoint import FailPoint, of_task
from tests.support.checker import read_topic, values
from tests.support.processes import Process
from tests.support.topics import Topics, unique

LINES = 4_000
WORKER = """\
bootstrap.servers={bootstrap_servers}
group.id={group}
offset.storage.topic={group}-offsets
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
"""
CONNECTOR = """\
name=rows
connector.class=FileSource
files={file}
format=csv
schema=n BIGINT
topic={topic}
batch.bytes={batch_bytes}
transaction.boundary={boundary}
transaction.boundary.interval.ms=5
errors.tolerance=all
errors.deadletterqueue.topic.name={dead}
"""


def test_good_rows_and_dead_letters_are_all_rows_wherever_a_worker_is_killed(
    bootstrap_servers: str, topics: Topics, tmp_path: Path
):
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    topic, dead = topics.create(partitions=2), topics.create()
    lines = [f"bad {n}" if chance.random() < 0.1 else str(n) for n in range(LINES)]
    file = tmp_path / "rows.csv"
    file.write_text("".join(f"{line}\n" for line in lines))
    worker, connector = tmp_path / "worker.properties", tmp_path / "rows.properties"
    worker.write_text(WORKER.format(bootstrap_servers=bootstrap_servers, group=unique("killed")))

    for run, point in enumerate([*chance.sample(list(FailPoint), len(FailPoint)), None]):
        connector.write_text(
            CONNECTOR.format(
                file=file,
                topic=topic,
                dead=dead,
                batch_bytes=chance.randint(150, 900),
                boundary=chance.choice(["poll", "interval"]),
            )
        )
        environment = {} if point is None else of_task(point, chance.randint(1, 5))
        arguments = ("standalone", "--once", str(worker), str(connector))
        with Process.forked(*arguments, log_file=tmp_path / f"run-{run}.log", environment=environment) as process:
            code, output = process.wait(), process.output
        assert code == (0 if point is None else -signal.SIGKILL), f"run {run} ended with {code} at {point}\n{output}"

    good = [value.decode() for value in values(read_topic(bootstrap_servers, topic))]
    bad = [value.decode() for value in values(read_topic(bootstrap_servers, dead))]
    assert sorted([*(value.removeprefix('{"n":').removesuffix("}") for value in good), *bad]) == sorted(lines)
