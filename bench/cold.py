"""A worker's first data: 2 million lines of 100 bytes, one connector after the other, in one worker process.

    python bench/cold.py [--rounds 5] [--lines 2000000] [--pause 90]

first  the first connector of a worker that has just joined its group, from PUT to the last commit
warm   the same once the worker is idle, twice; by default the second of these starts Spark, after 256 MiB
pause  the same after a pause, in which Spark ends its idle Python workers
after  the same again

Each round has a worker of its own, with the group's topics and its connectors. The workers of all rounds live to the end:
they pause together, and one works at a time. Shown are medians with the range over the rounds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

from fencepost.embedded.broker import EmbeddedBroker
from worker import Group, Worker, wait_for

STRING = "org.apache.kafka.connect.storage.StringConverter"
LINE = "x" * 90 + "{:09d}\n"


def write_lines(path: Path, count: int) -> None:
    """Write lines of 100 bytes, line ends included."""
    with path.open("w") as file:
        for number in range(count):
            file.write(LINE.format(number))


class Figures(NamedTuple):
    """Seconds from a connector's PUT to the commit of its last line; CPU time of the worker and its child processes."""

    seconds: float
    cpu: float


def send(worker: Worker, name: str, source: Path) -> Figures:
    """Send a file to Kafka with a new connector."""
    config = {
        "connector.class": "FileStreamSource",
        "file": str(source),
        "topic": name,
        "topic.creation.default.partitions": "4",
        "topic.creation.default.replication.factor": "1",
        "value.converter": STRING,
    }
    size = source.stat().st_size
    used, started = worker.cpu_seconds(), time.perf_counter()
    status, body = worker.request("PUT", f"/connectors/{name}/config", config)
    assert status == 201, body

    def committed() -> bool:
        _, answer = worker.request("GET", f"/connectors/{name}/offsets")
        return [each["offset"]["position"] for each in answer.get("offsets", ())] == [size]

    wait_for(committed)
    figures = Figures(time.perf_counter() - started, worker.cpu_seconds() - used)
    assert worker.request("DELETE", f"/connectors/{name}")[0] == 204
    return figures


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=2_000_000)
    parser.add_argument("--pause", type=float, default=90)
    asked = parser.parse_args()
    figures: defaultdict[str, list[Figures]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="fencepost-cold-") as folder:
        source = Path(folder) / "lines.txt"
        write_lines(source, asked.lines)
        with EmbeddedBroker(Path(folder) / "broker") as broker, ExitStack() as stack:
            workers = []
            for number in range(asked.rounds):
                group = Group(Path(folder), broker.bootstrap_servers, f"cold-{number}")
                worker = stack.enter_context(group.worker())
                workers.append(worker)
                figures["first"].append(send(worker, f"first-{number}", source))
                worker.settle()
                figures["warm"] += [send(worker, f"warm-{number}-{which}", source) for which in range(2)]
            time.sleep(asked.pause)
            for number, worker in enumerate(workers):
                figures["pause"].append(send(worker, f"pause-{number}", source))
                figures["after"].append(send(worker, f"after-{number}", source))
    for name, found in figures.items():
        rate = asked.lines / statistics.median(each.seconds for each in found) / 1e6
        print(
            f"{name:6} {spread(each.seconds for each in found)} s  {spread(each.cpu for each in found)} s CPU"
            f"  {rate:.2f} million records/s"
        )


def spread(figures: Iterable[float]) -> str:
    """Return the median and the range."""
    values = list(figures)
    return f"{statistics.median(values):6.2f} ({min(values):.2f}-{max(values):.2f})"


if __name__ == "__main__":
    main()
