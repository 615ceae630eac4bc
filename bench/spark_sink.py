"""The sink for Spark users beside Spark's own, in turn, in one warm session: 5 million values, and small micro-batches.

All share one machine, one broker and one Spark session; the first round of each is thrown away. CPU time is that of this
process, its JVM and its Python workers, without the broker's.

    exactly_once   foreachBatch(exactly_once(...)): one Kafka transaction a micro-batch
    outside        the same writer, in foreachBatch, outside of a transaction
    sink           Spark's Kafka sink, at least once: writeStream.format("kafka"); if its jars can be had
    write_kafka    a DataFrame in one transaction
    batch sink     Spark's Kafka sink: write.format("kafka")

The values are 100 bytes, from Parquet files of one micro-batch. The small micro-batches have 100 rows; their figure is
Spark's own addBatch, in milliseconds.

`--pairs` compares exactly_once with `outside` alone: pairs one after the other, in which each is the first by turns, so
that what a run leaves to the next one weighs on both alike. The figure is the median of the pairs' ratios; its error is
that of the median, from resampled pairs.

Run: .venv/bin/python bench/spark_sink.py --rounds 5 --rows 5000000 [--memory | --pairs 30]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.engine import SparkEngine
from fencepost.kafka.producer.idempotent import IdempotentProducer
from fencepost.spark import exactly_once, write_kafka
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.frame.batch_sizes import BatchSizes
from fencepost.spark.frame.frame_write import FrameWrite
from fencepost.spark.frame.rows import pipeline_for
from file_to_kafka import HEAP, settings, sink_jars, spread

SMALL_ROWS = 100
WARM = 5
WARM_PAIRS = 2

T = TypeVar("T")


class Bench:
    """The session, files and broker that all contenders share."""

    def __init__(
        self, servers: str, spark: SparkSession, folder: Path, *, others: set[int], rows: int, partitions: int
    ) -> None:
        """`others` are the processes whose CPU time does not count."""
        self.servers = servers
        self.spark = spark
        self.folder = folder
        self.rows = rows
        self.partitions = partitions
        self.names = (f"bench-{number}" for number in itertools.count())
        self.values = str(folder / "values.parquet")
        self._broker = others
        self._admin = AdminClient({"bootstrap.servers": self.servers})
        value = F.concat(F.lpad(F.col("id").cast("string"), 9, "0"), F.lit(" " + "abcdefghi " * 9))
        spark.range(0, rows, 1, 8).select(value.alias("value")).write.parquet(self.values)

    @contextlib.contextmanager
    def topic(self) -> Iterator[str]:
        name = next(self.names)
        created = NewTopic(name, self.partitions, 1, config={"file.delete.delay.ms": "1000"})
        self._admin.create_topics([created])[name].result()
        yield name
        self._admin.delete_topics([name])[name].result()

    def kafka(self, topic: str) -> dict[str, str]:
        return {"kafka.bootstrap.servers": self.servers, "topic": topic}

    def exactly_once(self, writer: Any, topic: str) -> Any:
        return writer.foreachBatch(exactly_once(topic=topic, bootstrap_servers=self.servers))

    def sink(self, writer: Any, topic: str) -> Any:
        return writer.format("kafka").options(**self.kafka(topic))

    def outside(self, writer: Any, topic: str) -> Any:
        config = SinkConfig.from_options({"topic": topic, "bootstrap.servers": self.servers})

        def write(frame: DataFrame, batch: int) -> None:
            FrameWrite(
                pipeline=pipeline_for(frame.schema, config),
                producer=IdempotentProducer(config.producer),
                sink=topic,
                batch=f"batch {batch}",
                gate=config.topic_gate(topic),
                start=batch,
                sizes=BatchSizes(),
            ).write(frame)

        return writer.foreachBatch(write)

    def large(self, contender: str) -> tuple[float, float]:
        """Records a second, and CPU microseconds a record."""
        with self.topic() as topic:
            # Flush the previous run's dirty pages to disk first, so that this run is not slowed by them.
            os.sync()
            spent, started = self.cpu_seconds(), time.perf_counter()
            if contender == "write_kafka":
                write_kafka(self.spark.read.parquet(self.values), topic=topic, bootstrap_servers=self.servers)
            elif contender == "batch sink":
                self.spark.read.parquet(self.values).write.format("kafka").options(**self.kafka(topic)).save()
            else:
                frame = self.spark.readStream.schema("value STRING").parquet(self.values)
                self.run(getattr(self, contender), frame, topic, available_now=True)
            seconds, spent = time.perf_counter() - started, self.cpu_seconds() - spent
            self.check(topic)
        return self.rows / seconds / 1e6, spent * 1e6 / self.rows

    def small(self, contender: str, batches: int) -> tuple[float, float]:
        """The median and the 95th percentile of addBatch, in milliseconds."""
        with self.topic() as topic:
            source = self.spark.readStream.format("rate-micro-batch").option("rowsPerBatch", SMALL_ROWS)
            frame = source.option("numPartitions", 2).load()
            frame = frame.select(F.lpad(F.col("value").cast("string"), 100, "0").alias("value"))
            progress = self.run(getattr(self, contender), frame, topic, batches=batches)
        times = [found["durationMs"]["addBatch"] for found in progress if WARM <= found["batchId"] < batches]
        return statistics.median(times), statistics.quantiles(times, n=20)[-1]

    def run(
        self,
        write: Callable[[Any, str], Any],
        frame: DataFrame,
        topic: str,
        *,
        available_now: bool = False,
        batches: int = 1,
    ) -> list[Any]:
        checkpoint = self.folder / f"checkpoint-{topic}"
        writer = frame.writeStream.option("checkpointLocation", str(checkpoint))
        if available_now:
            writer = writer.trigger(availableNow=True)
        query = write(writer, topic).start()
        while query.isActive and (
            available_now or query.lastProgress is None or query.lastProgress["batchId"] < batches
        ):
            time.sleep(0.01)
        failure, progress = query.exception(), query.recentProgress
        query.stop()
        shutil.rmtree(checkpoint)
        if failure is not None:
            raise failure
        return list(progress)

    def check(self, topic: str) -> None:
        """Check the end offsets. Each written partition has a transaction marker, which counts as an offset."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "count"})
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), 10)[1] for p in range(self.partitions)]
        consumer.close()
        assert 0 <= sum(ends) - self.rows <= self.partitions, ends

    def cpu_seconds(self) -> float:
        return sum(self._of_each(lambda process: sum(process.cpu_times()[:4])))

    def resident_bytes(self) -> int:
        """Memory of this process and its descendants without the broker; shared pages count once."""
        return sum(self._of_each(lambda process: process.memory_full_info().pss))

    def _of_each(self, measured: Callable[[psutil.Process], T]) -> Iterator[T]:
        own = psutil.Process()
        for process in [own, *(child for child in own.children(recursive=True) if child.pid not in self._broker)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                yield measured(process)


def report(title: str, results: dict[str, list[tuple[float, float]]], columns: tuple[str, str]) -> None:
    ours = results["exactly_once"]
    print(f"\n{title:16}{columns[0]:>28}{columns[1]:>28}   (exactly_once against it, medians)")
    for contender, runs in results.items():
        pairs = list(zip(ours, runs, strict=True))
        ratios = [statistics.median(own[n] / other[n] for own, other in pairs) for n in range(2)]
        figures = f"{spread([first for first, _ in runs]):>28}{spread([second for _, second in runs]):>28}"
        print(f"{contender:16}{figures}{ratios[0]:8.3f}{ratios[1]:8.3f}")


@contextlib.contextmanager
def benches(arguments: argparse.Namespace, extra: dict[str, str], *, jars: bool) -> Iterator[tuple[Bench, bool]]:
    """Yield a Bench with the `extra` Spark settings, and whether Spark's own sink is available."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name, EmbeddedBroker(Path(name) / "broker") as broker:
        folder = Path(name)
        found = sink_jars(folder / "jars") if jars else []
        others = {process.pid for process in psutil.Process().children(recursive=True)}
        engine = SparkEngine(settings(found) | extra)
        bench = Bench(
            broker.bootstrap_servers,
            engine.session(),
            folder,
            others=others,
            rows=arguments.rows,
            partitions=arguments.partitions,
        )
        yield bench, bool(found)
        engine.stop()


def compare(arguments: argparse.Namespace) -> None:
    progress = {"spark.sql.streaming.numRecentProgressUpdates": "500"}
    with benches(arguments, progress, jars=True) as (bench, has_sink):
        theirs, batches = (["sink"], ["batch sink"]) if has_sink else ([], [])
        kinds: dict[str, tuple[list[str], Callable[[str], tuple[float, float]], tuple[str, str]]] = {
            "large": (
                ["exactly_once", "outside", *theirs, "write_kafka", *batches],
                bench.large,
                ("million records/s", "CPU us a record"),
            ),
            "small": (
                ["exactly_once", *theirs],
                lambda contender: bench.small(contender, arguments.batches),
                ("addBatch ms, median", "95th percentile"),
            ),
        }
        for kind, (contenders, measure, columns) in kinds.items():
            if arguments.only in (None, kind):
                results: dict[str, list[tuple[float, float]]] = {}
                for number in range(arguments.rounds + 1):
                    for contender in contenders:
                        figures = measure(contender)
                        print(f"round {number} {kind} {contender:12} {figures[0]:10.3f} {figures[1]:10.3f}", flush=True)
                        if number:
                            results.setdefault(contender, []).append(figures)
                report(kind, results, columns)


def compare_pairs(arguments: argparse.Namespace) -> None:
    """Print by how much exactly_once is slower than the same writer outside of a transaction."""
    with benches(arguments, {}, jars=False) as (bench, _):
        found: list[dict[str, tuple[float, float]]] = []
        for number in range(-WARM_PAIRS, arguments.pairs):
            order = ("exactly_once", "outside") if number % 2 else ("outside", "exactly_once")
            pair = {contender: bench.large(contender) for contender in order}
            told = "  ".join(f"{name} {rate:6.3f} {cpu:6.3f}" for name, (rate, cpu) in sorted(pair.items()))
            print(f"pair {number:3} {told}", flush=True)
            if number >= 0:
                found.append(pair)
    for place, what in enumerate(("records/s", "CPU a record")):
        ratios = [pair["exactly_once"][place] / pair["outside"][place] for pair in found]
        resampled = sorted(statistics.median(random.choices(ratios, k=len(ratios))) for _ in range(2_000))
        low, high = resampled[50], resampled[-51]
        first = statistics.median(ratios[1::2]), statistics.median(ratios[::2])
        print(
            f"{what}: exactly_once / outside {statistics.median(ratios):.3f} (95 %: {low:.3f} to {high:.3f}; "
            f"as the first {first[0]:.3f}, as the second {first[1]:.3f}; {len(ratios)} pairs)"
        )


def memory_of(arguments: argparse.Namespace) -> None:
    """Write three micro-batches of all rows in this process, and print its peak memory."""
    heap = {"spark.driver.extraJavaOptions": f"-Xms{HEAP} -XX:+AlwaysPreTouch"}
    with benches(arguments, heap, jars=False) as (bench, _):
        most, done = [0], threading.Event()

        def sample() -> None:
            while not done.wait(0.2):
                most[0] = max(most[0], bench.resident_bytes())

        sampler = threading.Thread(target=sample)
        sampler.start()
        for _ in range(3):
            bench.large("exactly_once")
        done.set()
        sampler.join()
    print(json.dumps({"rows": arguments.rows, "bytes": most[0]}))


def compare_memory(arguments: argparse.Namespace) -> None:
    found: dict[int, list[int]] = {}
    counts = (arguments.rows // 10, arguments.rows)
    for _, rows in itertools.product(range(arguments.rounds), counts):
        command = [sys.executable, __file__, "--rows", str(rows), "--memory-of", "--folder", arguments.folder]
        answer = subprocess.run(command, capture_output=True, text=True, check=True)
        figures = json.loads(answer.stdout.splitlines()[-1])
        found.setdefault(rows, []).append(figures["bytes"])
        print(f"memory with {rows:>10,} rows: {figures['bytes'] / 2**20:,.0f} MiB", flush=True)
    small, large = (statistics.median(found[rows]) for rows in counts)
    print(f"ratio of the medians: {large / small:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--only", choices=["large", "small"])
    parser.add_argument(
        "--pairs", type=int, default=0, help="compare this many pairs of exactly_once and outside instead"
    )
    parser.add_argument("--memory", action="store_true", help="compare memory with a tenth of the rows instead")
    parser.add_argument("--memory-of", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the files and the broker's data go")
    arguments = parser.parse_args()
    if arguments.pairs:
        compare_pairs(arguments)
    else:
        (compare_memory if arguments.memory else memory_of if arguments.memory_of else compare)(arguments)


if __name__ == "__main__":
    main()
