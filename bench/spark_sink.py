"""The sink for Spark users beside Spark's own, in turn, in one warm session: 5 million values, and small micro-batches.

All share one machine, one broker and one Spark session; the first round of each is thrown away. CPU time is that of this
process, its JVM and its Python workers, without the broker's.

    exactly_once   foreachBatch(exactly_once(...)): one Kafka transaction a micro-batch
    sink           Spark's Kafka sink, at least once: writeStream.format("kafka"); if its jars can be had
    write_kafka    a DataFrame in one transaction
    batch sink     Spark's Kafka sink: write.format("kafka")

The values are 100 bytes, from Parquet files of one micro-batch. The small micro-batches have 100 rows; their figure is
Spark's own addBatch, in milliseconds.

Run: .venv/bin/python bench/spark_sink.py --rounds 5 --rows 5000000
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.engine import SparkEngine
from fencepost.spark import exactly_once, write_kafka
from file_to_kafka import settings, sink_jars, spread

SMALL_ROWS = 100
WARM = 5


class Bench:
    """What all contenders share."""

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
        return writer.foreachBatch(exactly_once(topic=topic, **{"bootstrap.servers": self.servers}))

    def sink(self, writer: Any, topic: str) -> Any:
        return writer.format("kafka").options(**self.kafka(topic))

    def large(self, contender: str) -> tuple[float, float]:
        """Records a second, and CPU microseconds a record."""
        with self.topic() as topic:
            spent, started = self.cpu_seconds(), time.perf_counter()
            if contender == "write_kafka":
                write_kafka(self.spark.read.parquet(self.values), **self.kafka(topic))
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
        """Transaction markers count as offsets, one for each partition that was written."""
        consumer = Consumer({"bootstrap.servers": self.servers, "group.id": "count"})
        ends = [consumer.get_watermark_offsets(TopicPartition(topic, p), 10)[1] for p in range(self.partitions)]
        consumer.close()
        assert 0 <= sum(ends) - self.rows <= self.partitions, ends

    def cpu_seconds(self) -> float:
        total = 0.0
        for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
            if process.pid not in self._broker:
                with contextlib.suppress(psutil.NoSuchProcess):
                    total += sum(process.cpu_times()[:4])
        return total


def report(title: str, results: dict[str, list[tuple[float, float]]], columns: tuple[str, str]) -> None:
    print(f"\n{title:16}{columns[0]:>28}{columns[1]:>28}")
    for contender, runs in results.items():
        print(f"{contender:16}{spread([first for first, _ in runs]):>28}{spread([second for _, second in runs]):>28}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batches", type=int, default=60)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--only", choices=["large", "small"])
    parser.add_argument("--folder", default=tempfile.gettempdir(), help="where the files and the broker's data go")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name, EmbeddedBroker(Path(name) / "broker") as broker:
        folder = Path(name)
        jars = sink_jars(folder / "jars")
        others = {process.pid for process in psutil.Process().children(recursive=True)}
        engine = SparkEngine(settings(jars) | {"spark.sql.streaming.numRecentProgressUpdates": "500"})
        bench = Bench(
            broker.bootstrap_servers,
            engine.session(),
            folder,
            others=others,
            rows=arguments.rows,
            partitions=arguments.partitions,
        )
        theirs = ["sink"] if jars else []
        kinds: dict[str, tuple[list[str], Callable[[str], tuple[float, float]], tuple[str, str]]] = {
            "large": (
                ["exactly_once", *theirs, "write_kafka", *(["batch sink"] if jars else [])],
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
        engine.stop()


if __name__ == "__main__":
    main()
