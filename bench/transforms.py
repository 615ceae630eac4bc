"""The cost of transforms: a file to Kafka with Sql, a Python function and the outbox router; and small polled batches.

    none       the file as it is: CSV rows of 100 bytes, as JSON
    sql        the same through Sql with a filter that keeps nine of ten rows, and two expressions
    python     the same through a function on Arrow columns that does the same
    router     change events of an outbox, a backlog, through EventRouter

Rates count rows of the source. All share one machine, one broker and one Spark session; the first round of each is thrown
away. Ratios are of one round.

With --java the file goes through Sql, and through Kafka Connect 4.1.1 in turn: FileStreamSource with HoistField, as Java's
has no source of CSV, Filter, ReplaceField and InsertField, and JSON. CPU is that of either side alone. Java has the defaults of its
producer, and then larger batches. All rounds of Sql write to one topic, as a connector's batches: its plan is kept.

Run: .venv/bin/python bench/transforms.py --rounds 5 --rows 1000000 [--polled] [--java]
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.compute as pc

from avro_to_kafka import java_connect
from fencepost import transform
from fencepost.api.ddl import parse_columns
from fencepost.api.plugin import Transformation
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.connectors.files.content.ranges import FileRange
from fencepost.connectors.files.formats.csv_reader import CsvReader
from fencepost.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.engine import SparkEngine
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.topic_creation import NewTopic
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import InsertField
from fencepost.transforms.outbox import EventRouter
from fencepost.transforms.sql import Sql

JAVA = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
    "transforms": "hoist,filter,replace,insert",
    "transforms.hoist.type": "org.apache.kafka.connect.transforms.HoistField$Value",
    "transforms.hoist.field": "line",
    "transforms.filter.type": "org.apache.kafka.connect.transforms.Filter",
    "transforms.filter.predicate": "tombstone",
    "transforms.replace.type": "org.apache.kafka.connect.transforms.ReplaceField$Value",
    "transforms.replace.renames": "line:text",
    "transforms.insert.type": "org.apache.kafka.connect.transforms.InsertField$Value",
    "transforms.insert.static.field": "source",
    "transforms.insert.static.value": "bench",
    "predicates": "tombstone",
    "predicates.tombstone.type": "org.apache.kafka.connect.transforms.predicates.RecordIsTombstone",
}
TUNED = {**JAVA, "producer.override.batch.size": "131072", "producer.override.linger.ms": "20"}
COLUMNS = "id BIGINT, customer STRING, status STRING, total DOUBLE, note STRING"
SQL = {
    "where": "value.id % 10 <> 3",
    "value": "struct(value.id, upper(value.customer) AS customer, value.status, value.total * 1.19 AS total, value.note)",
}
EVENT = "struct(CAST(id AS STRING) AS id, 'order' AS aggregatetype, CAST(id % 1000 AS STRING) AS aggregateid, 'Placed' AS type, concat('{\"order\":', id, ',\"note\":\"some more text of an order\"}') AS payload)"


@transform(schema="id BIGINT, customer STRING, status STRING, total DOUBLE, note STRING")
def in_python(rows: pa.RecordBatch) -> pa.RecordBatch:
    tenth = pc.subtract(rows["id"], pc.multiply(pc.divide(rows["id"], 10), 10))
    kept = rows.filter(pc.not_equal(tenth, 3))
    columns = {name: kept[name] for name in ("id", "status", "note", "__row")}
    return pa.RecordBatch.from_pydict(
        {**columns, "customer": pc.utf8_upper(kept["customer"]), "total": pc.multiply(kept["total"], 1.19)}
    )


def configured(plugin: Transformation, properties: dict[str, str]) -> Step:
    plugin.configure(properties)
    return Step(plugin)


CHAINS: dict[str, Sequence[Step]] = {
    "none": (),
    "sql": (configured(Sql(), SQL),),
    "python": (configured(in_python(), {}),),
}


class Bench:
    def __init__(self, servers: str, file: Path, rows: int, partitions: int) -> None:
        self._file, self._rows, self._partitions = file, rows, partitions
        self.others = {process.pid for process in psutil.Process().children(recursive=True)}
        config = ProducerConfig(ClientConfig(tuple(servers.split(","))))
        self._admin = Admin(config.client)
        self.engine = SparkEngine({"spark.driver.memory": "768m"})
        self.engine.session()
        self.producer = TransactionalProducer(config, "bench")
        self.producer.init_transactions()
        self._names = (f"transforms-{number}" for number in itertools.count())
        # A connector's batches go to one topic, too. With another topic the transforms would be planned again.
        self._topic = self.new_topic()
        schema = parse_columns(COLUMNS)
        self._reader = CsvReader(schema, file_columns=tuple(schema.names))

    def pipeline(self, steps: Sequence[Step], topic: str | None = None) -> Pipeline:
        key, value, header = StringConverter(), JsonConverter(), SimpleHeaderConverter()
        key.configure({}, is_key=True)
        value.configure({"schemas.enable": "false"}, is_key=False)
        header.configure({})
        return Pipeline(steps, key, value, header, topic)

    def file(self, steps: Sequence[Step]) -> float:
        """Rows a second from the file."""
        cuts = [0]
        with self._file.open("rb") as file:
            for _ in range(7):
                file.seek(cuts[-1] + self._file.stat().st_size // 8)
                file.readline()
                cuts.append(file.tell())
        cuts.append(self._file.stat().st_size)
        splits = [FileRange(str(self._file), start, end) for start, end in itertools.pairwise(cuts)]
        return self._rate(SourceBatch(reader=self._reader, splits=splits), steps)

    def small_file(self, steps: Sequence[Step], rows: int, batches: int, *, sized: bool) -> float:
        """Median milliseconds from read to commit of batches of this size; without a size Spark runs a job for each."""
        topic = next(self._names)
        self._admin.create_topics(NewTopic(topic, self._partitions, 1))
        with self._file.open("rb") as file:
            end = sum(len(file.readline()) for _ in range(rows))
        batch = SourceBatch(
            reader=self._reader, splits=[FileRange(str(self._file), 0, end)], bytes=end if sized else None
        )
        pipeline = self.pipeline(steps, topic)
        times = [self._rows / self._timed(batch, pipeline) * 1000 for _ in range(batches + 5)]
        return statistics.median(times[5:])

    def router(self) -> float:
        """Events a second from an outbox."""
        frame = (
            self.engine.session()
            .range(0, self._rows, numPartitions=8)
            .selectExpr(
                f"struct(CAST(NULL AS STRUCT<id: STRING>) AS before, {EVENT} AS after, struct('outbox' AS table) AS source, "
                "'c' AS op, 1700000000000 AS ts_ms) AS value"
            )
        )
        topic = next(self._names)
        self._admin.create_topics(NewTopic(topic, self._partitions, 1))
        router = configured(EventRouter(), {"route.topic.replacement": topic, "table.expand.json.payload": "true"})
        return self._timed(SourceBatch(frame, []), self.pipeline([router], topic))

    def new_topic(self) -> str:
        topic = next(self._names)
        self._admin.create_topics(NewTopic(topic, self._partitions, 1))
        return topic

    def _rate(self, batch: SourceBatch, steps: Sequence[Step]) -> float:
        return self._timed(batch, self.pipeline(steps, self._topic))

    def _timed(self, batch: SourceBatch, steps: Pipeline) -> float:
        started = time.perf_counter()
        self.producer.begin_transaction()
        self.engine.write(
            batch, steps, self.producer, task="bench", cancelled=threading.Event(), topic_gate=TopicGate(None)
        )
        self.producer.commit_transaction()
        return self._rows / (time.perf_counter() - started)

    def polled(self, steps: Sequence[Step], batches: int) -> list[float]:
        """Milliseconds from poll to commit of batches of 100 records."""
        topic, times = next(self._names), []
        self._admin.create_topics(NewTopic(topic, 1, 1))
        pipeline = self.pipeline(steps)
        for number in range(batches + 30):
            records = [
                SourceRecord(
                    {"table": "orders"}, {"id": row}, topic, key=str(row),
                    value={"id": row, "customer": f"customer {row}", "status": "new", "total": row / 7, "note": "a"},
                )
                for row in range(number * 100, number * 100 + 100)
            ]  # fmt: skip
            started = time.perf_counter()
            self.producer.begin_transaction()
            self.engine.write(
                records, pipeline, self.producer, task="bench", cancelled=threading.Event(), topic_gate=TopicGate(None)
            )
            self.producer.commit_transaction()
            times.append((time.perf_counter() - started) * 1000)
        return times[30:]


def write_file(path: Path, rows: int) -> None:
    with path.open("w") as file:
        for number in range(rows):
            file.write(
                f"{number},customer {number % 977},{('new', 'paid', 'sent')[number % 3]},{number / 7:.2f},{'x' * 60}\n"
            )


def cpu_seconds(ignored: set[int]) -> float:
    """CPU time of this process and its descendants, without the ignored processes."""
    own = psutil.Process()
    total = 0.0
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            total += 0 if process.pid in ignored else sum(process.cpu_times()[:4])
    return total


def compare_java(bench: Bench, folder: Path, servers: str, file: Path, arguments: argparse.Namespace) -> None:
    """Print the rate of Sql, and how it compares with Kafka Connect's, with its defaults and tuned."""
    contenders = {"Java's": JAVA, "tuned Java's": TUNED}
    rates: list[float] = []
    ratios: dict[str, list[float]] = {name: [] for name in contenders}
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    with java_connect(folder, servers) as java:
        ignored = {java.process.pid, *bench.others}
        for _ in range(arguments.rounds + 1):
            before = cpu_seconds(ignored)
            rates.append(bench.file(CHAINS["sql"]))
            spent = (cpu_seconds(ignored) - before) * 1e6 / arguments.rows
            for name, properties in contenders.items():
                in_java = java.run(bench.new_topic(), file, arguments.rows, arguments.partitions, properties)
                ratios[name].append(rates[-1] / in_java.rate)
                cpu[name].append(in_java.cpu / spent)
    print(f"sql: {shown(rates[1:])} rows/s")
    for name in contenders:
        print(f"{name} rate times {shown(ratios[name][1:])}; {name} CPU a row is times {shown(cpu[name][1:])}")


def compare_small(bench: Bench, rounds: int) -> None:
    """Print the times of small batches of a file: in the worker without a Spark job, and as a job."""
    for rows in (100, 1_000, 5_000, 10_000, 20_000, 40_000):
        for name in ("sql", "python"):
            by_size = {
                sized: [bench.small_file(CHAINS[name], rows, 10, sized=sized) for _ in range(rounds)]
                for sized in (True, False)
            }
            print(f"{rows} rows of a file, {name}: p50 {shown(by_size[True])} ms; as a job {shown(by_size[False])} ms")


def shown(values: Sequence[float]) -> str:
    return f"{statistics.median(values):,.2f} ({min(values):,.2f} to {max(values):,.2f})"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--partitions", type=int, default=2)
    parser.add_argument("--small", action="store_true", help="only small batches of a file")
    parser.add_argument("--java", action="store_true", help="only the comparison with Kafka Connect")
    parser.add_argument("--polled", action="store_true", help="only the small polled batches")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder) / "broker") as broker:
        file = Path(folder) / "orders.csv"
        write_file(file, arguments.rows)
        bench = Bench(broker.bootstrap_servers, file, arguments.rows, arguments.partitions)
        if arguments.java:
            compare_java(bench, Path(folder), broker.bootstrap_servers, file, arguments)
            bench.engine.stop()
            return
        if arguments.small:
            compare_small(bench, arguments.rounds)
            bench.engine.stop()
            return
        if not arguments.polled:
            rates: dict[str, list[float]] = {name: [] for name in (*CHAINS, "router")}
            for _ in range(arguments.rounds + 1):
                for name, steps in CHAINS.items():
                    rates[name].append(bench.file(steps))
                rates["router"].append(bench.router())
            rates = {name: found[1:] for name, found in rates.items()}
            for name, found in rates.items():
                print(f"{name}: {shown(found)} rows/s")
            for name in ("sql", "python"):
                ratios = [one / base for one, base in zip(rates[name], rates["none"], strict=True)]
                print(f"{name} / none: {shown(ratios)}")
        small = {
            "none": (),
            "InsertField": (configured(InsertField(), {"static.field": "source", "static.value": "bench"}),),
            "Sql": CHAINS["sql"],
            "Python": CHAINS["python"],
        }
        for name, steps in small.items():
            times = [statistics.median(bench.polled(steps, arguments.batches)) for _ in range(arguments.rounds)]
            print(f"100 polled records, {name}: p50 {shown(times)} ms")
        bench.engine.stop()


if __name__ == "__main__":
    main()
