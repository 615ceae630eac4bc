"""What grows with the number of connectors and tasks: a cost for each that grows with their number is a wall.

    python bench/growth.py [connectors] [tasks] [partitions] [topics] [files] [--connectors 25 100] [--tasks 10 100]

connectors  connectors of one idle task, created one by one, until all run
tasks       one connector of so many idle tasks, until all run; then with one task only
partitions  a connector that committed an offset in so many source partitions: its offsets are shown, one is altered, all
            are removed
topics      a connector whose first batch has one record for each of so many new topics, until it is committed
files       a connector of so many files of one line in a directory: until all are in Kafka; then a file is added

The last columns compare those that the head names with the row before, as a power of the size: 1.0 is linear, 2.0
quadratic. A row above 1.3 is marked by `<-- grows`: something is quadratic. So is a row in which one of the costs that must not grow
with the size (altering one offset, the descriptors after many tasks became one) is above 0.5. `lost` counts how often the
worker fell out of its group; a row above 0 is marked by `<-- lost`. The last lines count these rows, and the exit code is 1 if there
are any, so `make bench` tells of them. Small sizes say little, because what a worker costs anyway hides there.

The machine may be busy: what is compared is CPU time of the worker's process (`CPU`, `idle cores`), what it holds (memory
added since its start, threads, connections, descriptors), and bytes. Figures that a busy machine changes by chance are compared only above a least value. All
sizes run beside a broker of their own, in a worker without Spark. The defaults are small, `make bench` takes larger ones (bench/run.py); to find a wall, quadruple the
size again and again: `--connectors 100 400 1600 --tasks 10 100 500 2000
--partitions 10000 40000 160000 1000000 --topics 100 300 1000 --files 1000 4000 16000 100000`. `--busy 20` keeps the worker on one core, together with
so many processes that only burn CPU, all with low priority and each in a session of its own, as Linux shares a core between sessions first.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from pathlib import Path

from fencepost.embedded.broker import EmbeddedBroker
from growth_worker import Site, Worker, burner, wait_for

FILE_TASKS = 4
FEW_THREADS = 50
GROWS = 1.3
STEADY_GROWS = 0.5


def connectors(site: Site, size: int) -> dict[str, float]:
    """Create connectors of one task one by one."""
    with site.worker() as worker:
        config = {"connector.class": "growth_connectors.IdleConnector", "tasks.max": "1"}
        empty = worker.figures()["MB"]
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        for number in range(size):
            worker.configure(f"idle-{number}", config)
        created = time.perf_counter() - started
        return {"created s": created, **run_all(worker, size, started, cpu, empty)}


def tasks(site: Site, size: int) -> dict[str, float]:
    """Create one connector of many tasks, and leave it with one."""
    with site.worker() as worker:
        config = {"connector.class": "growth_connectors.IdleConnector", "tasks.max": str(size)}
        empty = worker.figures()["MB"]
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        worker.configure("idle", config)
        figures = run_all(worker, size, started, cpu, empty)
        worker.configure("idle", {**config, "tasks.max": "1"})
        # The other tasks may still be stopping.
        wait_for(lambda: worker.states() == Counter(RUNNING=1) and worker.process.num_threads() < FEW_THREADS)
        return {**figures, "descriptors after": worker.figures()["descriptors"], "lost": worker.times_lost()}


def partitions(site: Site, size: int) -> dict[str, float]:
    """Show, alter one of, and remove the offsets of one connector with many source partitions."""
    with site.worker() as worker:
        empty = worker.figures()["MB"]
        commit_offsets(worker, partitions=size, topics=1)
        before = worker.figures()["MB"]
        shown = worker.measured("GET", "/connectors/p/offsets")
        worker.request("PUT", "/connectors/p/stop")
        wait_for(lambda: worker.states() == Counter())
        one = {"offsets": [{"partition": {"table": "t0"}, "offset": {"position": 1}}]}
        altered = worker.measured("PATCH", "/connectors/p/offsets", one)
        removed = worker.measured("DELETE", "/connectors/p/offsets")
        return {
            "MB": before,
            "MB added": before - empty,
            "bytes shown": shown[2],
            "shown s": shown[0],
            "CPU ms": shown[1] * 1000,
            "one altered s": altered[0],
            "its CPU ms": altered[1] * 1000,
            "all removed s": removed[0],
            "their CPU ms": removed[1] * 1000,
            "lost": worker.times_lost(),
        }


def topics(site: Site, size: int) -> dict[str, float]:
    """Send one record to each of so many new topics, in batches of at most 5,000 records."""
    with site.worker() as worker:
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        commit_offsets(worker, partitions=size, topics=size)
        spent = worker.cpu_seconds() - cpu
        return {
            "committed s": time.perf_counter() - started,
            "CPU s": spent,
            "ms each": spent / size * 1000,
            "lost": worker.times_lost(),
        }


def commit_offsets(worker: Worker, *, partitions: int, topics: int) -> None:
    """Create the connector `p`, and return when the offset of each source partition is committed."""
    config = {
        "connector.class": "growth_connectors.PartitionsConnector",
        "partitions": str(partitions),
        "topics": str(topics),
    }
    creation = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    worker.configure("p", config | creation)
    wait_for(lambda: worker.request("GET", "/connectors/p/offsets")[1].count(b'"position"') == partitions)


def files(site: Site, size: int) -> dict[str, float]:
    """Send so many files of one line each, and then one more file."""
    with site.worker() as worker, closing(site.lines(f"lines-{size}")) as lines:
        folder = site.folder / f"files-{size}"
        folder.mkdir()
        for number in range(size):
            (folder / f"{number:07}.txt").write_text("line\n")
        config = {
            "connector.class": "FileSource",
            "files": f"{folder}/*.txt",
            "format": "text",
            "topic": f"lines-{size}",
            "tasks.max": str(FILE_TASKS),
            "files.poll.interval.ms": "1000",
        }
        empty = worker.figures()["MB"]
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        worker.configure("files", config)
        wait_for(lambda: lines.count() == size)
        figures = {
            "in Kafka s": time.perf_counter() - started,
            "CPU s": (spent := worker.cpu_seconds() - cpu),
            "ms each": spent / size * 1000,
            "MB": (held := worker.figures()["MB"]),
            "MB added": held - empty,
            "idle cores": (idle := worker.idle_cores()),
        }
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        (folder / "one-more.txt").write_text("line\n")
        wait_for(lambda: lines.count() == size + 1)
        seconds, spent = time.perf_counter() - started, worker.cpu_seconds() - cpu
        sizes = (
            len(json.dumps(task["config"])) for task in json.loads(worker.request("GET", "/connectors/files/tasks")[1])
        )
        return {
            **figures,
            "new file s": seconds,
            "its CPU s": spent - idle * seconds,
            "config bytes": max(sizes),
            "lost": worker.times_lost(),
        }


def run_all(worker: Worker, size: int, started: float, cpu: float, empty: float) -> dict[str, float]:
    """Wait until all tasks run. `empty` is the memory of the worker without tasks, in MB."""
    wait_for(lambda: worker.states() == Counter(RUNNING=size))
    seconds, spent = time.perf_counter() - started, worker.cpu_seconds() - cpu
    held = worker.figures()
    return {
        "running s": seconds,
        "CPU s": spent,
        "ms each": spent / size * 1000,
        **held,
        "MB added": held["MB"] - empty,
        "idle cores": worker.idle_cores(),
        "lost": worker.times_lost(),
    }


PARTS: dict[str, Callable[[Site, int], dict[str, float]]] = {
    "connectors": connectors,
    "tasks": tasks,
    "partitions": partitions,
    "topics": topics,
    "files": files,
}

HELD = ("MB added", "threads", "connections", "descriptors", "idle cores")
COMPARED = {
    "connectors": ("CPU s", *HELD),
    "tasks": ("CPU s", *HELD, "descriptors after"),
    "partitions": ("MB added", "bytes shown", "CPU ms", "its CPU ms", "their CPU ms"),
    "topics": ("CPU s",),
    "files": ("CPU s", "MB added", "idle cores", "its CPU s", "config bytes"),
}
"""The columns in which rows of one part are compared."""

STEADY = ("its CPU ms", "descriptors after")
"""The columns that must not grow with the size."""

LEAST = {
    "CPU s": 0.2,
    "its CPU s": 0.2,
    "CPU ms": 20.0,
    "its CPU ms": 50.0,
    "their CPU ms": 20.0,
    "idle cores": 0.02,
    "MB added": 20.0,
}
"""Smaller figures count as this one: Linux counts CPU in steps of 10 ms, and a worker's own costs vary. Else it is 1."""


def powers(
    before: tuple[int, Mapping[str, float]], size: int, figures: Mapping[str, float], part: str
) -> dict[str, float]:
    """The growth of each compared column since the previous row, as a power of the size: 1 is linear, 2 quadratic."""
    former_size, former = before
    step = math.log(size / former_size)

    def logarithm(row: Mapping[str, float], name: str) -> float:
        return math.log(max(row[name], LEAST.get(name, 1.0)))

    return {name: (logarithm(figures, name) - logarithm(former, name)) / step for name in COMPARED[part]}


def grows(powers: Mapping[str, float]) -> bool:
    """Whether one of the columns grows faster than it may."""
    return any(power > (STEADY_GROWS if name in STEADY else GROWS) for name, power in powers.items())


def print_row(
    part: str, size: int, figures: Mapping[str, float], before: tuple[int, Mapping[str, float]] | None
) -> bool:
    """Print a row. Return whether it grows too fast."""
    marked = False
    widths = {name: max(len(name), 9) for name in figures}
    if before is None:
        names = ", ".join(COMPARED[part])
        print(f"\n{part:>12} " + " ".join(f"{name:>{width}}" for name, width in widths.items()) + f"  power of {names}")
    row = f"{size:>12,} " + " ".join(f"{figures[name]:>{width},.4g}" for name, width in widths.items())
    if before is not None:
        found = powers(before, size, figures, part)
        row += "  " + ", ".join(f"{power:.1f}" for power in found.values())
        marked = grows(found)
        row += "  <-- grows" * marked
    print(row + "  <-- lost" * (figures["lost"] > 0), flush=True)
    return marked


def main() -> int:
    """Run the parts that the command line names; return 1 if a row grows too fast, or if a worker was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}; all if none is named")
    parser.add_argument("--connectors", type=int, nargs="+", default=[25, 100])
    parser.add_argument("--tasks", type=int, nargs="+", default=[10, 100])
    parser.add_argument("--partitions", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--topics", type=int, nargs="+", default=[25, 100])
    parser.add_argument("--files", type=int, nargs="+", default=[250, 1_000])
    parser.add_argument("--busy", type=int, default=0)
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"there is no part {', '.join(sorted(unknown))}")
    marked = lost = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        broker = stack.enter_context(EmbeddedBroker(folder / "broker"))
        site = Site(folder, broker.bootstrap_servers, arguments.busy)
        for _ in range(arguments.busy):
            stack.callback(burner().kill)
        for part in arguments.parts or PARTS:
            before = None
            for size in getattr(arguments, part):
                figures = PARTS[part](site, size)
                marked += print_row(part, size, figures, before)
                lost += figures["lost"] > 0
                before = size, figures
    print(f"\nRows that grow faster than their size: {marked}")
    print(f"Rows whose worker fell out of its group: {lost}")
    return int(marked + lost > 0)


if __name__ == "__main__":
    sys.exit(main())
