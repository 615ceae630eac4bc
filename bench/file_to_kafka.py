"""A file of 100-byte lines into Kafka: fencepost, Spark's own sink, and confluent-kafka inside Spark, in turn.

All share one machine, one broker, one Spark session and one file; the first round of each is thrown away. CPU time is
that of this process, its JVM and its Python workers, without the broker's.

    fencepost    exactly once: one Kafka transaction a run, on Spark's executors
    sink         Spark's Kafka sink, at least once: read.text, to_json, write.format("kafka"); if its jars can be had
    confluent    read.text, to_json, and a transactional confluent-kafka producer for each Spark partition

Run: .venv/bin/python bench/file_to_kafka.py --rounds 5 --lines 5000000 [--memory]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pyarrow as pa
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.plugin import Converter
from fencepost.api.record import ArrowReader, SourceBatch
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.line_reader import LineReader
from fencepost.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.engine import SparkEngine
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.transactional import TransactionalProducer

LINE_BYTES = 101
SINK_JARS = (
    "org.apache.spark spark-sql-kafka-0-10_2.13 4.2.0",
    "org.apache.spark spark-token-provider-kafka-0-10_2.13 4.0.0",
    "org.apache.kafka kafka-clients 3.9.1",
    "org.apache.commons commons-pool2 2.12.1",
)
"""Spark's Kafka sink on Maven Central.

It has no release for each pyspark release, so the newest of each jar is taken.
"""

T = TypeVar("T")

HEAP = "768m"
GATHERED = 100_000


@dataclass(frozen=True)
class StructReader:
    """Reads the lines as structs of one field, which `to_json(struct(value))` makes on Spark's side."""

    schema: str = "value STRUCT<value: STRING>"

    def read(self, split: FileRange) -> Iterator[pa.RecordBatch]:
        for batch in LineReader().read(split):
            yield pa.record_batch([pa.StructArray.from_arrays([batch["value"]], ["value"])], names=["value"])


@dataclass(frozen=True)
class ConfluentLoop:
    """The loop that users write themselves: a transactional producer in each Spark partition."""

    bootstrap_servers: str
    topic: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from confluent_kafka import Producer  # noqa: PLC0415 - its class cannot be pickled with this one

        settings = {
            "bootstrap.servers": self.bootstrap_servers,
            "transactional.id": f"bench-{os.getpid()}-{time.time_ns()}",
            "batch.size": 1_000_000,
            "linger.ms": 20,
            "queue.buffering.max.messages": 500_000,
        }
        producer = Producer(settings)
        producer.init_transactions()
        producer.begin_transaction()
        count = 0
        for batch in batches:
            for value in batch.column(0).to_pylist():
                while True:
                    try:
                        producer.produce(self.topic, value)
                        break
                    except BufferError:
                        producer.poll(0.05)
            producer.poll(0)
            count += batch.num_rows
        producer.commit_transaction()
        yield pa.record_batch([pa.array([count])], names=["count"])


@dataclass(frozen=True)
class Figures:
    """One run: records a second, and CPU microseconds a record."""

    rate: float
    cpu: float


class Bench:
    """The session, file and broker that all contenders share."""

    def __init__(self, broker: EmbeddedBroker, engine: SparkEngine, file: Path, lines: int, partitions: int) -> None:
        self.servers = broker.bootstrap_servers
        self.engine = engine
        self.file = file
        self.lines = lines
        self.partitions = partitions
        self.line_bytes = LINE_BYTES
        self._broker_processes = {process.pid for process in psutil.Process().children(recursive=True)}
        self._admin = AdminClient({"bootstrap.servers": self.servers})
        self._names = (f"bench-{number}" for number in itertools.count())
        config = ProducerConfig(ClientConfig(tuple(self.servers.split(","))))
        self.producer = TransactionalProducer(config, "bench")
        self.producer.init_transactions()

    def fencepost(self, topic: str, *, as_json: bool) -> None:
        converter: Converter = JsonConverter() if as_json else StringConverter()
        converter.configure({"schemas.enable": "false"} if as_json else {}, is_key=False)
        self.write(topic, StructReader() if as_json else LineReader(), converter)

    def write(self, topic: str, reader: ArrowReader, converter: Converter) -> None:
        """Write the file in one transaction."""
        key, header = StringConverter(), SimpleHeaderConverter()
        key.configure({}, is_key=True)
        header.configure({})
        part = -(-self.lines // 8) * self.line_bytes
        size = self.lines * self.line_bytes
        splits = [FileRange(str(self.file), start, min(start + part, size)) for start in range(0, size, part)]
        batch = SourceBatch(reader=reader, splits=splits)
        self.producer.begin_transaction()
        result = self.engine.write(
            batch,
            Pipeline((), key, converter, header, topic),
            self.producer,
            task="bench",
            cancelled=threading.Event(),
            topic_gate=TopicGate(None),
        )
        self.producer.commit_transaction()
        assert result.written == self.lines

    def frame(self, *, as_json: bool) -> DataFrame:
        frame = self.engine.session().read.text(f"file://{self.file}")
        return frame.select(F.to_json(F.struct("value")).alias("value")) if as_json else frame

    def sink(self, topic: str, *, as_json: bool) -> None:
        writer = self.frame(as_json=as_json).write.format("kafka").option("kafka.bootstrap.servers", self.servers)
        writer.option("topic", topic).save()

    def confluent(self, topic: str, *, as_json: bool) -> None:
        frame = self.frame(as_json=as_json).select(F.col("value").cast("binary"))
        counts = frame.mapInArrow(ConfluentLoop(self.servers, topic), "count BIGINT").collect()
        assert sum(row[0] for row in counts) == self.lines

    def measure(self, run: Callable[..., None], *, as_json: bool) -> Figures:
        with self.topic() as topic:
            return self.timed(lambda: run(topic, as_json=as_json))

    def timed(self, run: Callable[[], None]) -> Figures:
        cpu, started = self.cpu_seconds(), time.perf_counter()
        run()
        seconds, spent = time.perf_counter() - started, self.cpu_seconds() - cpu
        return Figures(self.lines / seconds, spent * 1e6 / self.lines)

    @contextlib.contextmanager
    def topic(self) -> Iterator[str]:
        """A topic for one run."""
        topic = next(self._names)
        settings = {"file.delete.delay.ms": "1000"}
        self._admin.create_topics([NewTopic(topic, self.partitions, 1, config=settings)])[topic].result()
        yield topic
        self._admin.delete_topics([topic])[topic].result()

    def ignore(self, process: int) -> None:
        """Leave a process out of the CPU time and memory."""
        self._broker_processes.add(process)

    def cpu_seconds(self) -> float:
        """CPU time of this process and its descendants without the broker, also of descendants that have ended."""
        return sum(self._of_each(lambda process: sum(process.cpu_times()[:4])))

    def resident_bytes(self) -> int:
        """Memory of this process and its descendants without the broker; shared pages count once."""
        return sum(self._of_each(lambda process: process.memory_full_info().pss))

    def _of_each(self, measured: Callable[[psutil.Process], T]) -> Iterator[T]:
        """Measure this process and each descendant, without the broker. Skips processes that have ended."""
        own = psutil.Process()
        below = [child for child in own.children(recursive=True) if child.pid not in self._broker_processes]
        for process in [own, *below]:
            with contextlib.suppress(psutil.NoSuchProcess):
                yield measured(process)


def make_file(folder: Path, lines: int) -> Path:
    file = folder / f"lines-{lines}.txt"
    with file.open("wb") as out:
        for first in range(0, lines, 10_000):
            block = range(first, min(first + 10_000, lines))
            out.write(b"".join(b"%09d %s\n" % (number, b"abcdefghi " * 9) for number in block))
    assert file.stat().st_size == lines * LINE_BYTES
    return file


def sink_jars(folder: Path, more: tuple[str, ...] = ()) -> list[str]:
    """Spark's Kafka sink and the jars in `more`, fetched by pyspark's Ivy; empty if they cannot be fetched."""
    import pyspark  # noqa: PLC0415 - only its place is asked for

    ivy = next((Path(pyspark.__file__).parent / "jars").glob("ivy-*.jar"))
    for dependency in (*SINK_JARS, *more):
        command = ["java", "-jar", str(ivy), "-notransitive", "-confs", "default", "-types", "jar"]
        command += ["-cache", str(folder / "cache"), "-dependency", *dependency.split()]
        command += ["-retrieve", str(folder / "[artifact]-[revision].[ext]")]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            print(f"{dependency} could not be had: no comparison with Spark's sink")
            return []
    return [str(jar) for jar in sorted(folder.glob("*.jar"))]


def settings(jars: list[str]) -> dict[str, str]:
    return {"spark.driver.memory": HEAP, **({"spark.jars": ",".join(jars)} if jars else {})}


def compare(arguments: argparse.Namespace, folder: Path) -> None:
    jars = sink_jars(folder / "jars")
    file = make_file(folder, arguments.lines)
    with EmbeddedBroker(folder / "broker") as broker:
        engine = SparkEngine(settings(jars))
        bench = Bench(broker, engine, file, arguments.lines, arguments.partitions)
        contenders = {
            "fencepost": bench.fencepost,
            **({"sink": bench.sink} if jars else {}),
            "confluent": bench.confluent,
        }
        results: dict[tuple[str, str], list[Figures]] = {}
        for number in range(arguments.rounds + 1):
            for form, (name, run) in itertools.product(("String", "JSON"), contenders.items()):
                figures = bench.measure(run, as_json=form == "JSON")
                print(f"round {number} {form:6} {name:9} {figures.rate:12,.0f}/s {figures.cpu:6.3f} us", flush=True)
                if number:
                    results.setdefault((form, name), []).append(figures)
        engine.stop()
    report(results)


def report(results: dict[tuple[str, str], list[Figures]]) -> None:
    print(f"\n{'':17}{'million records/s':>24}{'CPU us a record':>24}{'rate x':>8}{'CPU x':>8}")
    print(f"{'':17}{'min    median  max':>24}{'min    median  max':>24}   (fencepost's against it, median)")
    for (form, name), runs in results.items():
        ours = results[form, "fencepost"]
        rate = statistics.median(own.rate / other.rate for own, other in zip(ours, runs, strict=True))
        cpu = statistics.median(own.cpu / other.cpu for own, other in zip(ours, runs, strict=True))
        rates = spread([figures.rate / 1e6 for figures in runs])
        print(f"{form:6} {name:10}{rates:>24}{spread([f.cpu for f in runs]):>24}{rate:8.2f}{cpu:8.2f}")


def spread(values: list[float]) -> str:
    return f"{min(values):.3f}  {statistics.median(values):.3f}  {max(values):.3f}"


def memory_of(arguments: argparse.Namespace, folder: Path) -> None:
    """Run fencepost alone in this process three times, and print its peak memory."""
    file = make_file(folder, arguments.lines)
    heap = {"spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch"}
    with EmbeddedBroker(folder / "broker") as broker:
        engine = SparkEngine({**settings([]), **heap})
        # Without a Spark session, the worker would write the first batches without Spark.
        engine.session()
        bench = Bench(broker, engine, file, arguments.lines, arguments.partitions)
        most, done = [0], threading.Event()

        def sample() -> None:
            while not done.wait(0.2):
                most[0] = max(most[0], bench.resident_bytes())

        sampler = threading.Thread(target=sample)
        sampler.start()
        for _ in range(3):
            bench.measure(bench.fencepost, as_json=False)
        done.set()
        sampler.join()
        engine.stop()
    print(json.dumps({"lines": arguments.lines, "bytes": most[0]}))


def compare_memory(arguments: argparse.Namespace) -> None:
    found: dict[int, list[int]] = {}
    counts = (arguments.lines // 10, arguments.lines)
    for _, lines in itertools.product(range(arguments.memory_rounds), counts):
        command = [sys.executable, __file__, "--lines", str(lines), "--memory-of", "--folder", arguments.folder]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        figures: dict[str, Any] = json.loads(answer.stdout.splitlines()[-1])
        found.setdefault(lines, []).append(figures["bytes"])
        print(f"memory with {lines:>10,} lines: {figures['bytes'] / 2**20:,.0f} MiB", flush=True)
    small, large = (statistics.median(found[lines]) for lines in counts)
    print(f"ratio of the medians: {large / small:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--lines", type=int, default=5_000_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the file and the broker's data go")
    parser.add_argument("--memory", action="store_true", help="compare memory with a tenth of the lines instead")
    parser.add_argument("--memory-rounds", type=int, default=5)
    parser.add_argument("--memory-of", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.memory:
        compare_memory(arguments)
        return
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        (memory_of if arguments.memory_of else compare)(arguments, Path(folder))


if __name__ == "__main__":
    main()
