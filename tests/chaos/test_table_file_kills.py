"""A worker that is killed at steps of its transactions: each row of Parquet, ORC and Avro files is there once."""

from __future__ import annotations

import random
import signal
from pathlib import Path

from fencepost.failpoint import VARIABLE, FailPoint
from tests.support.checker import read_topic, values
from tests.support.processes import Process
from tests.support.table_files import WRITE
from tests.support.topics import Topics, unique

# Some of the steps in each run of the test: which ones is random.
POINTS = 3
ROWS = 3_000
WORKER = """\
bootstrap.servers={bootstrap_servers}
group.id={group}
offset.storage.topic={group}-offsets
key.converter=org.apache.kafka.connect.converters.LongConverter
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
"""
CONNECTOR = """\
name={form}
connector.class=FileSource
files={file}
format={form}
topic={topic}
key.columns=n
batch.bytes={batch_bytes}
transaction.boundary={boundary}
transaction.boundary.interval.ms=5
"""


def test_each_row_is_there_once_wherever_a_worker_is_killed(
    bootstrap_servers: str, topics: Topics, tmp_path: Path
) -> None:
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    chance = random.Random(seed)
    worker = tmp_path / "worker.properties"
    worker.write_text(WORKER.format(bootstrap_servers=bootstrap_servers, group=unique("killed")))
    by_form = {form: topics.create(partitions=2) for form in WRITE}
    for form in by_form:
        rows = [{"n": number, "t": f"{form} {number}"} for number in range(ROWS)]
        (tmp_path / f"rows.{form}").write_bytes(WRITE[form](rows))

    for run, point in enumerate([*chance.sample(list(FailPoint), POINTS), None]):
        for form, topic in by_form.items():
            (tmp_path / f"{form}.properties").write_text(
                CONNECTOR.format(
                    form=form,
                    file=tmp_path / f"rows.{form}",
                    topic=topic,
                    batch_bytes=chance.randint(1_000, 6_000),
                    boundary=chance.choice(["poll", "interval"]),
                )
            )
        environment = {} if point is None else {VARIABLE: f"{point.value}:{chance.randint(1, 5)}"}
        connectors = [str(tmp_path / f"{form}.properties") for form in by_form]
        arguments = ("standalone", "--once", str(worker), *connectors)
        with Process.forked(*arguments, log_file=tmp_path / f"run-{run}.log", environment=environment) as process:
            code, output = process.wait(), process.output
        assert code == (0 if point is None else -signal.SIGKILL), f"run {run} ended with {code} at {point}\n{output}"

    for form, topic in by_form.items():
        found = sorted(value.decode() for value in values(read_topic(bootstrap_servers, topic)))
        assert found == sorted(f'{{"n":{number},"t":"{form} {number}"}}' for number in range(ROWS)), form
