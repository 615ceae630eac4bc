"""The start and the memory of Java connectors: Apache's FileStreamSourceConnector 4.1.1 in a worker of a group.

    start   from PUT to the first lines that a reader at read_committed sees, for the first connector of a worker and for
            later ones, with a JVM for each; then the memory of such a JVM once its 100,000 lines are in Kafka
    many    --connectors in one worker with fencepost.java.isolation=worker: until all are RUNNING and each line is in Kafka,
            then memory and threads of the worker and the JVM, and idle CPU

Each round has a worker and topics of its own. Shown are medians with the range over the rounds. Resident memory counts what
processes share, such as Java's own classes, for each of them.

Run: .venv/bin/python bench/java_starts.py start many --rounds 5 --connectors 50
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.jars import class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import host_class_path
from java_sources import PLUGINS
from worker import Figures, Group, Worker, wait_for

LINES = 100_000
LINES_OF_MANY = 1_000
LATER = 3
MIB = 2**20


class Bench:
    """Measures the parts `start` and `many`, and collects their figures."""

    def __init__(self, folder: Path, broker: EmbeddedBroker, *, rounds: int, connectors: int) -> None:
        self.figures: Figures = defaultdict(list)
        self._folder, self._broker, self._rounds, self._connectors = folder, broker, rounds, connectors
        plugin = folder / "plugins" / "file"
        plugin.mkdir(parents=True)
        # A user's first start downloads Connect's API, and compiles the JVM host in a clone. Neither is measured.
        host_class_path(find_java())
        for jar in class_path(find_java(), PLUGINS["file"]):
            (plugin / jar.name).symlink_to(jar)
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        self._reader = Consumer({**servers, "group.id": "bench", "isolation.level": "read_committed"})

    def start(self) -> None:
        for number in range(self._rounds):
            with self._group(f"start-{number}", "connector").worker() as worker:
                for which in range(1 + LATER):
                    name = f"start-{number}-{which}"
                    before = set(worker.tree())
                    started = time.perf_counter()
                    self._create(worker, name, LINES)
                    wait_for(partial(self._all_seen, [name], 1))
                    kind = "later ones" if which else "the first connector"
                    self._add(f"start: {kind}, PUT to the first lines, s", time.perf_counter() - started)
                    wait_for(partial(self._all_seen, [name], LINES))
                    if which:
                        # The first connector's start also started the JVM for validation, so only this connector's JVM
                        # is new.
                        (jvm,) = set(worker.tree()) - before
                        memory = jvm.memory_full_info()
                        self._add("start: resident memory of the JVM, MiB", memory.rss / MIB)
                        self._add("start: of that not shared, MiB", memory.uss / MIB)

    def many(self) -> None:
        for number in range(self._rounds):
            group = self._group(f"many-{number}", "worker")
            with group.worker() as worker:
                started, cpu = time.perf_counter(), worker.cpu_seconds()
                names = [f"many-{number}-{which}" for which in range(self._connectors)]
                for name in names:
                    self._create(worker, name, LINES_OF_MANY)
                self._add("many: created, s", time.perf_counter() - started)
                wait_for(lambda: Counter(state for state, _ in worker.task_places())["RUNNING"] == self._connectors)
                self._add("many: created and RUNNING, s", time.perf_counter() - started)
                wait_for(partial(self._all_seen, names, LINES_OF_MANY))
                self._add("many: all lines in Kafka, s", time.perf_counter() - started)
                self._add("many: CPU for that, s", worker.cpu_seconds() - cpu)
                worker.settle()
                python, *jvms = worker.tree()
                self._add("many: JVMs", len(jvms))
                self._add("many: resident memory of the worker, MiB", python.memory_info().rss / MIB)
                self._add("many: and of the JVM, MiB", sum(one.memory_info().rss for one in jvms) / MIB)
                self._add("many: threads of the worker", python.num_threads())
                self._add("many: and of the JVM", sum(one.num_threads() for one in jvms))
                self._add("many: idle CPU, cores", worker.idle_cores())

    def _group(self, name: str, isolation: str) -> Group:
        settings = {"plugin.path": str(self._folder / "plugins"), "fencepost.java.isolation": isolation}
        return Group(self._folder, self._broker.bootstrap_servers, name, settings)

    def _create(self, worker: Worker, name: str, lines: int) -> None:
        file = self._folder / f"{lines}.txt"
        if not file.exists():
            file.write_bytes(b"".join(b"%09d %s\n" % (number, b"abcdefghi " * 9) for number in range(lines)))
        config = {
            "connector.class": "java:org.apache.kafka.connect.file.FileStreamSourceConnector",
            "file": str(file),
            "topic": name,
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        }
        status, body = worker.request("PUT", f"/connectors/{name}/config", config)
        assert status == 201, body

    def _seen(self, topic: str) -> int:
        """The last stable offset: the end for a read_committed consumer, transaction markers included."""
        if topic not in self._reader.list_topics(timeout=60).topics:
            return 0
        return int(self._reader.get_watermark_offsets(TopicPartition(topic, 0), timeout=60)[1])

    def _all_seen(self, topics: Sequence[str], lines: int) -> bool:
        return all(self._seen(topic) >= lines for topic in topics)

    def _add(self, name: str, figure: float) -> None:
        self.figures[name].append(figure)


def main() -> None:
    """Measure, and print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=["start", "many"])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--connectors", type=int, default=50)
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(prefix="fencepost-bench-") as folder,
        EmbeddedBroker(Path(folder) / "broker") as broker,
    ):
        bench = Bench(Path(folder), broker, rounds=asked.rounds, connectors=asked.connectors)
        for part in asked.parts:
            getattr(bench, part)()
        for name, found in bench.figures.items():
            print(f"{name:60} {statistics.median(found):8.2f} ({min(found):.2f}-{max(found):.2f})")


if __name__ == "__main__":
    main()
