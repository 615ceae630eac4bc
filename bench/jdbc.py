"""JdbcSource on PostgreSQL: large reads beside Spark's own JDBC, the latency of small polls, and writers that commit late.

    bulk       a table (bigint, timestamptz, text of 100 bytes, numeric(12,2)) to Kafka as JSON in one transaction, and in
               turn Spark's JDBC alone, which reads the same rows to noop; the rates, and the CPU of each part
    latency    from the commit of a row in PostgreSQL to that of its transaction in Kafka, polled every 5 ms
    copies     the large table to Arrow in one process, in COPY's binary format and in CSV in turn
    writers    six writers with slow and failing transactions: rows that each mode loses or doubles

Server, broker and Spark share the machine. Run: .venv/bin/python bench/jdbc.py [bulk] [latency] [writers] [copies] --rows 2000000
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import psutil
import psycopg
from confluent_kafka.admin import AdminClient

from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.context import SourceTaskContext
from fencepost.api.record import SourceBatch
from fencepost.connectors.jdbc.connection import PostgresAddress
from fencepost.connectors.jdbc.postgres.column_reader import ColumnReader
from fencepost.connectors.jdbc.postgres.reader import LargeRows, QuerySource
from fencepost.connectors.jdbc.postgres.row_shape import RowShape
from fencepost.connectors.jdbc.postgres.server import OpenServer
from fencepost.connectors.jdbc.postgres.snapshot_reader import SnapshotReader
from fencepost.connectors.jdbc.postgres.task import TASK_TABLES, PostgresTableTask
from fencepost.connectors.jdbc.properties import JdbcConfig, Mode
from fencepost.connectors.jdbc.tables import TableId
from fencepost.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.jars import JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.postgres import EmbeddedPostgres
from fencepost.engine.engine import SparkEngine
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.topic_creation import NewTopic
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.transactional import TransactionalProducer

DRIVER = JarSet("postgresql-42.7.4", "PostgreSQL's JDBC driver", (("org.postgresql", "postgresql", "42.7.4"),))
NEVER = threading.Event()
WARM_UP = 3
"""Rounds that are not counted, because the JVMs still compile code in them."""

DELETE_SOON = {"log.segment.delete.delay.ms": "100"}
"""file.delete.delay.ms=0: the broker removes files of deleted topics at once."""


class NoOffsets:
    """A task's context without source offsets."""

    allowed_paths = ANYWHERE

    @property
    def offset_reader(self) -> NoOffsets:
        return self

    def offsets(self, partitions: list[Mapping[str, Any]]) -> list[None]:
        return [None for _ in partitions]


def properties(server: EmbeddedPostgres, config: Mapping[str, str]) -> dict[str, str]:
    return {"connection.url": server.jdbc_url(), "connection.user": "postgres", "topic.prefix": "jdbc-", **config}


def pipeline() -> Pipeline:
    key, value, header = StringConverter(), JsonConverter(), SimpleHeaderConverter()
    key.configure({}, is_key=True)
    value.configure({"schemas.enable": "false"}, is_key=False)
    header.configure({})
    return Pipeline((), key, value, header)


class Kafka:
    """A broker, and the producers that write to it."""

    def __init__(self, broker: EmbeddedBroker, engine: SparkEngine, topic: str) -> None:
        self._config = ClientConfig(tuple(broker.bootstrap_servers.split(",")))
        self._topic = topic
        self._create_topic()
        self.producer = TransactionalProducer(ProducerConfig(self._config), f"bench-{topic}")
        self.producer.init_transactions()
        self._engine = engine

    def empty_topic(self, folder: Path) -> None:
        """Delete the topic, and create it again once the broker has deleted its files.

        The broker then writes into memory that the machine already has. A virtual machine may have to get free memory
        from its host first, which takes longer than the write itself.
        """
        client = AdminClient({"bootstrap.servers": ",".join(self._config.bootstrap_servers)})
        client.delete_topics([self._topic])[self._topic].result()
        while any(folder.glob(f"node-1/data/{self._topic}-*")):
            time.sleep(0.05)
        self._create_topic()

    def _create_topic(self) -> None:
        with Admin(self._config) as admin:
            admin.create_topics(NewTopic(self._topic, partitions=4))

    def write(self, batch: SourceBatch) -> int:
        self.producer.begin_transaction()
        gate = TopicGate(None)
        result = self._engine.write(batch, pipeline(), self.producer, task="bench", cancelled=NEVER, topic_gate=gate)
        self.producer.commit_transaction()
        return result.written


def cpu_seconds() -> dict[str, float]:
    """Return the CPU time of each part so far, with its processes that have ended."""
    spent = dict.fromkeys(("PostgreSQL", "Python workers", "Spark's JVM", "Kafka's broker", "this process"), 0.0)
    for process in psutil.Process().children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            command, times = " ".join(process.cmdline()), process.cpu_times()
            own, ended = times.user + times.system, times.children_user + times.children_system
            if "kafka.Kafka" in command:
                spent["Kafka's broker"] += own
            elif "SparkSubmit" in command:
                spent["Spark's JVM"] += own
            elif "postgres" in command.split(" ")[0]:
                spent["PostgreSQL"] += own + ended
            else:
                spent["Python workers"] += own + ended
    spent["this process"] = time.process_time()
    return spent


def large_table(server: EmbeddedPostgres, rows: int) -> None:
    """Make the large table."""
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("drop table if exists big")
        connection.execute(
            "create table big(id bigint primary key, ts timestamptz not null, txt text not null, amount numeric(12,2))"
        )
        connection.execute(
            "insert into big select i, timestamptz '2026-01-01' + i * interval '1.000123 second', "
            "rpad('row ' || i || ' ', 100, md5(i::text)), mod(i::bigint * 7919, 1000000) / 100.0 "
            "from generate_series(1, %s::int) i",
            (rows,),
        )
        connection.execute("vacuum analyze big")


class CsvShape(RowShape):
    """Has columns transferred as CSV, whatever their types."""

    forms = None


def copies(server: EmbeddedPostgres, rows: int, rounds: int) -> None:
    """Read the large table to Arrow in one process, in COPY's binary format and in CSV in turn."""
    config = JdbcConfig.parse(properties(server, {"mode": "bulk"}))
    source = QuerySource(TableId("public", "big"), config, PostgresAddress.of(config.values, ANYWHERE))
    figures: dict[str, list[float]] = {"binary": [], "CSV": []}
    for number in range(WARM_UP + rounds):
        for name, times in figures.items():
            found = source.read_in_ranges("true", {"bulk": 0})
            reader, shape = found.reader, found.reader.shape
            if name == "CSV":
                reader = replace(reader, shape=CsvShape(shape.title, shape.columns, shape.record))
            before = sum(psutil.Process().cpu_times()[:2])
            assert sum(part.num_rows for select in found.selects for part in reader.read(select)) == rows
            spent = sum(psutil.Process().cpu_times()[:2]) - before
            found.export.close()
            if number >= WARM_UP:
                times.append(spent / rows * 1e6)
    for name, times in figures.items():
        print(
            f"{name:8} {statistics.median(times):.3f} ({min(times):.3f}-{max(times):.3f}) us of the reader's CPU a row"
        )
    ratios = [csv / binary for binary, csv in zip(*figures.values(), strict=True)]
    print(f"{'ratio':8} {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")


def bulk(server: EmbeddedPostgres, broker: EmbeddedBroker, folder: Path, rows: int, rounds: int) -> None:
    large_table(server, rows)
    jar = next(path for path in class_path(find_java(), DRIVER) if path.name.startswith("postgresql"))
    engine = SparkEngine({"spark.jars": str(jar), "spark.driver.memory": "1g"})
    session = engine.session()
    config = JdbcConfig.parse(properties(server, {"mode": "bulk"}))
    source = QuerySource(TableId("public", "big"), config, PostgresAddress.of(config.values, ANYWHERE))
    kafka = Kafka(broker, engine, "jdbc-big")

    def fencepost() -> None:
        found: LargeRows = source.read_in_ranges("true", {"bulk": 0})
        assert kafka.write(found.batch({})) == rows
        found.export.close()

    def spark() -> None:
        reader = (
            session.read.format("jdbc").option("url", f"{server.jdbc_url()}?user=postgres").option("dbtable", "big")
        )
        reader = reader.option("driver", "org.postgresql.Driver").option("fetchsize", "10000")
        reader = reader.option("partitionColumn", "id").option("lowerBound", 1).option("upperBound", rows)
        reader.option("numPartitions", 8).load().write.format("noop").mode("overwrite").save()

    figures: dict[str, list[float]] = {"fencepost, to Kafka": [], "Spark's JDBC, to noop": []}
    spent: dict[str, list[dict[str, float]]] = {name: [] for name in figures}
    for number in range(WARM_UP + rounds):
        kafka.empty_topic(folder)
        for name, run in zip(figures, (fencepost, spark), strict=True):
            before, started = cpu_seconds(), time.perf_counter()
            run()
            elapsed, after = time.perf_counter() - started, cpu_seconds()
            if number >= WARM_UP:
                figures[name].append(rows / elapsed / 1e6)
                spent[name].append({part: (after[part] - before.get(part, 0)) / rows * 1e6 for part in after})
    for name, rates in figures.items():
        print(f"{name:24} {statistics.median(rates):.2f} ({min(rates):.2f}-{max(rates):.2f}) million rows/s")
        for part in spent[name][0]:
            found = [each[part] for each in spent[name]]
            print(f"    CPU of {part:17} {statistics.median(found):.2f} ({min(found):.2f}-{max(found):.2f}) us a row")
    ratios = [own / other for own, other in zip(*figures.values(), strict=True)]
    print(f"{'ratio':24} {statistics.median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})")
    kafka.producer.close()
    engine.stop()


def latency(server: EmbeddedPostgres, broker: EmbeddedBroker, count: int = 500) -> None:
    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute("create table small(id int primary key, xid xid8 not null default pg_current_xact_id())")
        connection.execute("create index on small(xid)")
        engine = SparkEngine({})
        kafka = Kafka(broker, engine, "jdbc-small")
        task = PostgresTableTask()
        task.context = cast("SourceTaskContext", NoOffsets())
        task.start(properties(server, {"poll.interval.ms": "5", TASK_TABLES: '[["public", "small"]]'}))
        committed: dict[int, float] = {}

        def insert() -> None:
            for number in range(count):
                connection.execute("insert into small values (%s)", (number,))
                committed[number] = time.perf_counter()
                time.sleep(0.02 + random.random() * 0.01)

        writer = threading.Thread(target=insert)
        writer.start()
        times: list[float] = []
        while len(times) < count:
            batch = task.poll()
            if isinstance(batch, SourceBatch):
                ids = [row["id"] for split in batch.splits for row in split["value"].to_pylist()]
                kafka.write(batch)
                now = time.perf_counter()
                times += [(now - committed.get(number, now)) * 1000 for number in ids]
        writer.join()
        task.stop()
        kafka.producer.close()
    cuts = statistics.quantiles(times, n=100)
    print(
        f"from commit to commit: min {min(times):.1f}  p50 {cuts[49]:.1f}  p90 {cuts[89]:.1f}  p99 {cuts[98]:.1f} ms, {count} rows"
    )


@contextmanager
def _reading(server: EmbeddedPostgres, config: Mapping[str, str]) -> Iterator[Any]:
    parsed = JdbcConfig.parse(properties(server, config))
    address = PostgresAddress.of(parsed.values, ANYWHERE)
    open_server = OpenServer.open(address)
    source = QuerySource(TableId("public", "many"), parsed, address)
    reader = SnapshotReader if parsed.mode is Mode.SNAPSHOT else ColumnReader
    with open_server.connection:
        yield reader(source, source.partition, None), open_server


def write_many(server: EmbeddedPostgres, seed: int, left: int) -> None:
    """Insert rows in transactions, some of which are slow and some of which fail."""
    chance = random.Random(seed)
    with psycopg.connect(server.conninfo()) as connection:
        while left > 0:
            for _ in range(chance.randrange(1, 4)):
                size = min(left, chance.choice((1, 1, 10, 1000)))
                connection.execute("insert into many(v) select %s from generate_series(1, %s)", (seed, size))
                left -= size
                time.sleep(chance.random() * (0.4 if chance.random() < 0.01 else 0.01))
            if chance.random() < 0.9:
                connection.commit()
            else:
                connection.rollback()


def writers(server: EmbeddedPostgres, rows: int) -> None:
    modes: dict[str, dict[str, str]] = {
        "snapshot, xid8 column": {},
        "incrementing": {"mode": "incrementing"},
        "timestamp+incrementing": {"mode": "timestamp+incrementing", "timestamp.column.name": "at"},
        "the same, 100 ms delay": {
            "mode": "timestamp+incrementing", "timestamp.column.name": "at", "timestamp.delay.interval.ms": "100",
        },
    }  # fmt: skip

    with psycopg.connect(server.conninfo(), autocommit=True) as connection:
        connection.execute(
            "create table many(id bigint generated always as identity primary key, v int, "
            "at timestamptz not null default clock_timestamp(), xid xid8 not null default pg_current_xact_id())"
        )
        connection.execute("create index on many(xid)")
        connection.execute("create index on many(at, id)")
        threads = [threading.Thread(target=write_many, args=(server, seed, rows // 6)) for seed in range(6)]
        for thread in threads:
            thread.start()
        found: dict[str, list[int]] = {name: [] for name in modes}

        def read(name: str) -> None:
            with _reading(server, modes[name]) as (reader, open_server):
                while True:
                    last = not any(thread.is_alive() for thread in threads)
                    time.sleep(0.2 if last else 0.02)
                    while rows := reader.read(open_server):
                        found[name] += rows.rows["value"].field("id").to_pylist()
                    if last:
                        return

        readers = [threading.Thread(target=read, args=(name,)) for name in modes]
        for thread in readers:
            thread.start()
        for thread in (*readers, *threads):
            thread.join()
        truth = {row[0] for row in connection.execute("select id from many").fetchall()}
    for name, ids in found.items():
        print(f"{name:24} {len(truth):,} rows: {len(truth - set(ids)):,} lost, {len(ids) - len(set(ids)):,} doubled")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="bulk, latency, writers, all three by default; copies")
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the large table")
    parser.add_argument("--written", type=int, default=1_000_000, help="rows that the six writers insert")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    parts = arguments.parts or ["latency", "bulk", "writers"]
    with EmbeddedPostgres() as server, tempfile.TemporaryDirectory() as folder:
        if "copies" in parts:
            large_table(server, arguments.rows)
            copies(server, arguments.rows, arguments.rounds)
        if "writers" in parts:
            writers(server, arguments.written)
        if {"latency", "bulk"} & set(parts):
            with EmbeddedBroker(Path(folder), properties=DELETE_SOON) as broker:
                if "latency" in parts:
                    latency(server, broker)
                if "bulk" in parts:
                    bulk(server, broker, Path(folder), arguments.rows, arguments.rounds)


if __name__ == "__main__":
    main()
