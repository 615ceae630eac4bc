"""FileSource with many small files in one directory: costs that grow with their number.

    python bench/many_files.py [--files 1000 4000 16000 100000] [--tasks 4] [--rounds 5] [--random]

Connector and tasks in one process, without Kafka: CPU seconds (median of the rounds) of the validation and start of the
connector, of its scan when nothing changed, of the scan and the task configurations when one file is new, of the start of
all tasks with offsets (`restart`) and without, of a second of idle polls of all tasks once everything is read; the bytes of the largest task configuration,
and how many batches (each is a transaction) the files take. With `--random` each name is a UUID, else a number.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fencepost.api.record import SourceBatch
from fencepost.connectors.files.connector import FileSourceConnector
from fencepost.connectors.files.task import FileSourceTask
from fencepost.testing.connector_start import StartedConnector
from fencepost.testing.source_offsets import SourceOffsets

IDLE_POLLS = 3


@contextmanager
def cpu(figures: dict[str, float], name: str) -> Iterator[None]:
    """Add the CPU seconds of a `with` block to the figures."""
    start = time.process_time()
    yield
    figures[name] = figures.get(name, 0.0) + time.process_time() - start


class TaskContext:
    """The task context that the worker gives to a task."""

    def __init__(self, started: StartedConnector, config: dict[str, str]) -> None:
        self.config = config
        self.allowed_paths = started.context.allowed_paths
        self.offset_reader: SourceOffsets = started.offsets

    def configs(self) -> dict[str, str]:
        """The latest configuration of the task."""
        return self.config


def tasks_of(started: StartedConnector, configs: list[dict[str, str]]) -> list[Any]:
    """Start tasks."""
    tasks: list[Any] = []
    for given in configs:
        task: Any = FileSourceTask()
        task.context = TaskContext(started, given)
        task.start(given)
        tasks.append(task)
    return tasks


def read_all(tasks: list[Any], offsets: SourceOffsets) -> tuple[int, int]:
    """Read until nothing is left; return the number of batches and of lines."""
    batches = lines = 0
    for task in tasks:
        while isinstance(batch := task.poll(), SourceBatch):
            reader: Any = batch.reader
            batches += 1
            lines += sum(part.num_rows for split in batch.splits for part in reader.read(split))
            offsets.commit(batch.offsets)
            task.commit()
    return batches, lines


def measure(folder: Path, count: int, most: int, *, random: bool) -> dict[str, float]:
    """Return the figures of one round."""
    figures: dict[str, float] = {}
    for number in range(count):
        name = uuid.uuid4() if random else f"events-{number * 7919 % 1_000_003:07}"
        (folder / f"{name}.txt").write_text("a line\nanother\n")
    config = {
        "connector.class": FileSourceConnector.__module__ + ".FileSourceConnector", "files": f"{folder}/*.txt",
        "topic": "t", "format": "text", "files.poll.interval.ms": "3600000",
    }  # fmt: skip
    with cpu(figures, "start"):
        started = StartedConnector(FileSourceConnector, config)
    with cpu(figures, "configs"):
        configs = started.task_configs(most)
    figures["config bytes"] = max(sum(map(len, given.values())) for given in configs)
    with cpu(figures, "task start"):
        tasks = tasks_of(started, configs)
    with cpu(figures, "read"):
        figures["batches"], lines = read_all(tasks, started.offsets)
    assert lines == 2 * count, (lines, count)
    with cpu(figures, "idle poll"):
        for task in tasks:
            for _ in range(IDLE_POLLS):
                assert task.poll() is None
    figures["idle poll"] /= IDLE_POLLS
    connector: Any = started.instance._connector  # noqa: SLF001 - what a scan costs
    scan: Callable[[], Any] = connector._watch._look  # noqa: SLF001 - as above
    with cpu(figures, "idle scan"):
        scan()
    (folder / "new.txt").write_text("a line\n")
    with cpu(figures, "new file"):
        scan()
        changed = started.task_configs(most)
    figures["tasks changed"] = sum(after != before for before, after in zip(configs, changed, strict=True))
    with cpu(figures, "restart"):
        tasks_of(started, changed)
    return figures


def main() -> None:
    """Measure each number of files, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[1_000, 4_000, 16_000, 100_000])
    parser.add_argument("--tasks", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--random", action="store_true", help="names without a pattern")
    arguments = parser.parse_args()
    names: list[str] = []
    for count in arguments.files:
        rounds = []
        for _ in range(arguments.rounds):
            with tempfile.TemporaryDirectory() as folder:
                rounds.append(measure(Path(folder), count, arguments.tasks, random=arguments.random))
        if not names:
            names = list(rounds[0])
            print("files".rjust(8), *(name.rjust(13) for name in names))
        print(f"{count:8}", *(f"{statistics.median(figures[name] for figures in rounds):13.3f}" for name in names))


if __name__ == "__main__":
    main()
