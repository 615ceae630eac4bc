"""The bridge alone: what a record costs from the poll of a Java task to bytes in Python, without Kafka.

FileStreamSourceTask 4.1.1 reads 100-byte lines in a JVM of its own; StringConverter makes bytes of them. Each round has a new
file and a new task in the same, warm JVM; the first round is thrown away. CPU is counted for the JVM, in which the connector
also reads the file, and for the Python process, which polls.

Run: .venv/bin/python bench/java_bridge.py --records 1000000 --rounds 5
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import psutil

from fencepost.api.record import SourceBatch
from fencepost.api.source import SourceTask
from fencepost.config.connector_config import TransactionBoundary
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.embedded.jars import class_path
from fencepost.embedded.java import find_java
from fencepost.java.connector import java_connector_class
from fencepost.java.task import JavaTask, JavaTaskSetting
from java_sources import FILE_STREAM, PLUGINS

NAME = "lines"
BATCHES = (2_000, 20_000)


class NoOffsets:
    """The stored offsets of a connector that has none."""

    def offset(self, _: Any) -> None:
        return None

    def offsets(self, partitions: Sequence[Any]) -> list[None]:
        return [None] * len(partitions)


class NoMetrics:
    def add_collector(self, _: Callable[..., Any]) -> None:
        """Nobody reads the metrics."""


@dataclass
class Context:
    """What a connector and a task ask of a worker."""

    config: Mapping[str, str]
    offset_reader = NoOffsets()
    plugin_metrics = NoMetrics()
    transaction_context = None

    def configs(self) -> Mapping[str, str]:
        return self.config


def part(name: str) -> dict[str, Any]:
    return {"class": f"org.apache.kafka.connect.storage.{name}", "jars": [], "properties": {}}


PIPELINE = {
    "converters": {
        "key.converter": part("StringConverter"),
        "value.converter": part("StringConverter"),
        "header.converter": part("SimpleHeaderConverter"),
    },
    "transforms": [],
    "errors": {"tolerates": False, "letters": False, "contents": False, "retry.timeout.ms": 0, "retry.delay.max.ms": 0},
}


def jvms() -> dict[int, float]:
    """The CPU seconds of each JVM so far. One runs the task, another one answers questions about classes."""
    return {
        one.pid: sum(one.cpu_times()[:2])
        for one in psutil.Process().children(recursive=True)
        if one.name() == "java" and one.status() != psutil.STATUS_ZOMBIE
    }


def polled(task: SourceTask, records: int) -> None:
    got = 0
    while got < records:
        batch = task.poll()
        if batch is not None:
            assert isinstance(batch, SourceBatch)
            assert batch.columns is not None
            got += batch.columns.num_rows
            task.commit()
    assert got == records


def measure(folder: Path, plugin: JavaPlugin, batch: int, records: int, rounds: int) -> None:
    file = folder / "lines.txt"
    config = {"name": NAME, "topic": "t", "file": str(file), "batch.size": str(batch)}
    connector = java_connector_class(plugin, JavaSettings())()
    connector.context = cast("Any", Context(config))
    connector.start(config)
    [task_config] = connector.task_configs(1)
    task_class = cast("type[JavaTask]", connector.task_class())
    figures: dict[str, list[float]] = {"elapsed": [], "CPU of the JVM": [], "CPU of Python": []}
    for number in range(rounds + 1):
        file.write_text("".join(f"{line:0100d}\n" for line in range(records)))
        task = task_class(JavaTaskSetting(ConnectorTaskId(NAME, 0), TransactionBoundary.POLL, PIPELINE))
        task.context = cast("Any", Context(task_config))
        task.start(task_config)
        elapsed, python, before = time.monotonic(), time.process_time(), jvms()
        polled(task, records)
        after = jvms()
        elapsed, python = time.monotonic() - elapsed, time.process_time() - python
        task.stop()
        task.close()
        if number:
            java = max(after[pid] - before[pid] for pid in after.keys() & before.keys())
            for found, seconds in zip(figures.values(), (elapsed, java, python), strict=True):
                found.append(seconds * 1e6 / records)
    connector.stop()
    figures["CPU of both"] = [
        java + python for java, python in zip(figures["CPU of the JVM"], figures["CPU of Python"], strict=True)
    ]
    texts = [
        f"{name} {statistics.median(each):.2f} ({min(each):.2f} to {max(each):.2f})" for name, each in figures.items()
    ]
    print(f"batches of {batch}, us a record: {', '.join(texts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000, help="the lines of each round (1000000)")
    parser.add_argument("--rounds", type=int, default=5, help="the measured rounds (5)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fencepost-bridge-") as name:
        folder = Path(name)
        jars = tuple(class_path(find_java(), PLUGINS["file"]))
        plugin = JavaPlugin(FILE_STREAM, jars[0].parent, jars)
        for batch in BATCHES:
            measure(folder, plugin, batch, options.records, options.rounds)


if __name__ == "__main__":
    main()
