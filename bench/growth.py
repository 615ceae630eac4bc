"""What grows with the number of connectors and tasks: a cost for each that grows with their number is a wall.

    python bench/growth.py [connectors] [tasks] [partitions] [topics] [files] [--connectors 25 100] [--tasks 10 100]

connectors  connectors of one idle task, created one by one, until all run
tasks       one connector of so many idle tasks, until all run; then with one task only
partitions  a connector that committed an offset in so many source partitions: its offsets are shown, one is altered, all
            are removed
topics      a connector whose first batch has one record for each of so many new topics, until it is committed
files       a connector of so many files of one line in a directory: until all are in Kafka; then a file is added

The last column compares CPU (of the columns that its head names) with the row before, as a power of the size: 1.0 is linear,
2.0 quadratic. A row above 1.3 is marked by `<-- grows`: something is quadratic. Small sizes say little, because what a
worker costs anyway hides there.

The machine may be busy: the columns that count are CPU time of the worker's process (`CPU`, `ms each`), and what it holds
(memory, threads, connections, descriptors). `lost` counts how often the worker fell out of its group; it must be 0. All
sizes run beside a broker of their own, in a worker without Spark. The defaults are small; to find a wall, quadruple the
size again and again: `--connectors 100 400 1600 --tasks 10 100 500 2000
--partitions 10000 40000 160000 1000000 --topics 100 300 1000 --files 1000 4000 16000 100000`. `--busy 20` keeps the worker on one core, together with
so many processes that only burn CPU, all with low priority.
"""

from __future__ import annotations

import argparse
import json
import math
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


def connectors(site: Site, size: int) -> dict[str, float]:
    """Create connectors of one task one by one."""
    with site.worker() as worker:
        config = {"connector.class": "growth_connectors.IdleConnector", "tasks.max": "1"}
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        for number in range(size):
            worker.configure(f"idle-{number}", config)
        created = time.perf_counter() - started
        return {"created s": created, **run_all(worker, size, started, cpu)}


def tasks(site: Site, size: int) -> dict[str, float]:
    """Create one connector of many tasks, and leave it with one."""
    with site.worker() as worker:
        config = {"connector.class": "growth_connectors.IdleConnector", "tasks.max": str(size)}
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        worker.configure("idle", config)
        figures = run_all(worker, size, started, cpu)
        worker.configure("idle", {**config, "tasks.max": "1"})
        # The other tasks may still be stopping.
        wait_for(lambda: worker.states() == Counter(RUNNING=1) and worker.process.num_threads() < FEW_THREADS)
        return {**figures, "descriptors after": worker.figures()["descriptors"], "lost": worker.times_lost()}


def partitions(site: Site, size: int) -> dict[str, float]:
    """Show, alter one of, and remove the offsets of one connector with many source partitions."""
    with site.worker() as worker:
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
            "bytes shown": shown[2],
            "shown s": shown[0],
            "CPU ms": shown[1] * 1000,
            "one altered s": altered[0],
            "its CPU ms": altered[1] * 1000,
            "all removed s": removed[0],
            "their CPU ms": removed[1] * 1000,
        }


def topics(site: Site, size: int) -> dict[str, float]:
    """Send one record to each of so many new topics, in one batch of at most 5,000 records."""
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
    """Send so many files of one line, and then another one."""
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
        started, cpu = time.perf_counter(), worker.cpu_seconds()
        worker.configure("files", config)
        wait_for(lambda: lines.count() == size)
        figures = {
            "in Kafka s": time.perf_counter() - started,
            "CPU s": (spent := worker.cpu_seconds() - cpu),
            "ms each": spent / size * 1000,
            "MB": worker.figures()["MB"],
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


def run_all(worker: Worker, size: int, started: float, cpu: float) -> dict[str, float]:
    wait_for(lambda: worker.states() == Counter(RUNNING=size))
    seconds, spent = time.perf_counter() - started, worker.cpu_seconds() - cpu
    return {
        "running s": seconds,
        "CPU s": spent,
        "ms each": spent / size * 1000,
        **worker.figures(),
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

COMPARED = {
    "connectors": ("CPU s",),
    "tasks": ("CPU s",),
    "partitions": ("CPU ms", "their CPU ms"),
    "topics": ("CPU s",),
    "files": ("CPU s", "its CPU s"),
}
"""The columns in which a part's rows are compared."""


def powers(
    before: tuple[int, Mapping[str, float]], size: int, figures: Mapping[str, float], part: str
) -> dict[str, float]:
    """How each compared column grows with the size since the row before: as its first, second ... power."""
    former_size, former = before
    step = math.log(size / former_size)
    return {name: math.log(max(figures[name], 1e-9) / max(former[name], 1e-9)) / step for name in COMPARED[part]}


def print_row(
    part: str, size: int, figures: Mapping[str, float], before: tuple[int, Mapping[str, float]] | None
) -> None:
    widths = {name: max(len(name), 9) for name in figures}
    if before is None:
        names = ", ".join(COMPARED[part])
        print(f"\n{part:>12} " + " ".join(f"{name:>{width}}" for name, width in widths.items()) + f"  power of {names}")
    row = f"{size:>12,} " + " ".join(f"{figures[name]:>{width},.4g}" for name, width in widths.items())
    if before is not None:
        grown = powers(before, size, figures, part)
        row += "  " + ", ".join(f"{power:.1f}" for power in grown.values())
        row += "  <-- grows" if max(grown.values()) > GROWS else ""
    print(row, flush=True)


def main() -> None:
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
                print_row(part, size, figures, before)
                before = size, figures


if __name__ == "__main__":
    main()
