"""PostgreSQL's changes to Kafka.

    backlog    the rate at which a backlog is read, and the worker's CPU
    outbox     the same of events of an outbox, which EventRouter routes to four topics
    latency    from a commit in PostgreSQL to a record that a reader of committed records has, at a steady load
    memory     the worker's largest size, for backlogs of several lengths and for one large transaction
    chunks     the rate of an incremental snapshot, and the worker's CPU, with quiet tables and with a steady load

    python bench/cdc.py [backlog] [outbox] [latency] [memory] [chunks] --rounds 5 --transactions 50000 --rows 200000

Server, broker and worker share the machine. A transaction has 8 updates, 8 inserts and 4 deletes in two tables, as
pgbench's, with deletes added. The worker writes JSON without schemas. Its start and end are measured by a run with
nothing to read, and subtracted.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
from confluent_kafka import Consumer, TopicPartition

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.postgres import EmbeddedPostgres

WORKER = """\
bootstrap.servers={bootstrap}
group.id=bench
offset.storage.topic=bench-offsets
listeners=http://127.0.0.1:0
key.converter=org.apache.kafka.connect.json.JsonConverter
key.converter.schemas.enable=false
value.converter=org.apache.kafka.connect.json.JsonConverter
value.converter.schemas.enable=false
"""
CONNECTOR = """\
name={name}
connector.class=PostgresSource
database.hostname=127.0.0.1
database.port={port}
database.user=postgres
database.dbname=postgres
topic.prefix={name}
slot.name={name}
snapshot.mode=no_data
exactly.once.support=required
topic.creation.default.partitions=4
topic.creation.default.replication.factor=1
"""
TABLES = """
create table accounts(aid int primary key, bid int not null, abalance int not null, filler char(84));
create table history(hid bigint primary key, tid int, bid int, aid int, delta int, mtime timestamptz,
                     amount numeric(12,2), note text);
insert into accounts select i, mod(i, 10), 0, 'filler ' || i from generate_series(1, 100000) i;
create sequence h;
create procedure churn(n int) language plpgsql as $$
declare a int; x bigint;
begin
  for i in 1..n loop
    for j in 1..8 loop
      a := 1 + (random() * 99999)::int;
      update accounts set abalance = abalance + j where aid = a;
      x := nextval('h');
      insert into history values (x, j, a % 10, a, j * 13 - 50, clock_timestamp(), (x % 100000) / 100.0, 'note ' || x);
    end loop;
    delete from history where hid in (x - 1, x - 3, x - 5, x - 7);
    commit;
  end loop;
end $$;
create function fill_one(n int) returns void language sql as $$
insert into history select nextval('h'), 1, 1, i, 1, clock_timestamp(), 1, 'note ' || i from generate_series(1, n) i $$;
create procedure fill(n int) language plpgsql as $$
begin
  for i in 1..n loop
    perform fill_one(200);
    commit;
  end loop;
end $$;
"""
# Rows are as wide as in bench/jdbc.py: a bigint, a timestamptz, a text of 100 bytes, a numeric.
ITEMS = """
create table signals(id text primary key, type text not null, data text);
create table items(id bigint primary key, at timestamptz, note text, amount numeric(12,2));
insert into items select i, now(), repeat('x', 100), (i % 100000) / 100.0 from generate_series(1, {rows}) i;
analyze items;
"""
SIGNAL = """insert into signals values ('{name}', 'execute-snapshot', '{{"data-collections": ["public.items"]}}')"""
OUTBOX = """
create table outbox(id bigint primary key, aggregatetype text not null, aggregateid text not null, type text not null,
                    payload text not null);
create sequence e;
create procedure order_all(n int) language plpgsql as $$
begin
  for i in 1..n loop
    insert into outbox select nextval('e'), 'kind' || j % 4, 'order-' || i, 'placed', '{"order": ' || i || ', "sum": 12.5}'
    from generate_series(1, 20) j;
    commit;
  end loop;
end $$;
"""
CHANGES = 20
FILLED = 200


class Run(NamedTuple):
    """One run of a worker: wall-clock seconds, CPU seconds, and the peak resident memory in MB."""

    seconds: float
    cpu: float
    size: float


class Bench:
    """One PostgreSQL server and one broker. Each connector starts reading at the log position of its creation."""

    def __init__(self, folder: Path, postgres: EmbeddedPostgres, bootstrap: str) -> None:
        self.postgres, self.bootstrap, self._folder = postgres, bootstrap, folder
        self._worker = folder / "worker.properties"
        self._worker.write_text(WORKER.format(bootstrap=bootstrap))

    def connector(self, **more: str) -> Path:
        """Write a new connector's file, and run it once to create its slot. `more` are properties, with _ for dots."""
        name = f"b{uuid.uuid4().hex[:8]}"
        file = self._folder / f"{name}.properties"
        own = "".join(f"{key.replace('_', '.')}={value}\n" for key, value in more.items())
        file.write_text(CONNECTOR.format(name=name, port=self.postgres.port) + own)
        self.run(file)
        return file

    def run(self, connector: Path, *, load: int = 0, until: str = "") -> Run:
        """Run a worker to the end of the log. The load goes on until the worker's output contains `until`."""
        started = time.monotonic()
        worker = self.start(connector, "--once")
        with steady_load(self, load):
            while until not in (self._folder / "worker.log").read_text():
                time.sleep(0.05)
        _, status, used = os.wait4(worker.pid, 0)
        worker.returncode = os.waitstatus_to_exitcode(status)
        if worker.returncode != 0:
            raise SystemExit((self._folder / "worker.log").read_text()[-3000:])
        return Run(time.monotonic() - started, used.ru_utime + used.ru_stime, used.ru_maxrss / 1000)

    def start(self, connector: Path, *options: str) -> subprocess.Popen[bytes]:
        """Start a worker."""
        with (self._folder / "worker.log").open("ab") as log:
            command = [sys.executable, "-m", "fencepost", "standalone", *options, str(self._worker), str(connector)]
            return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)

    def execute(self, statement: str) -> None:
        """Run a statement on the server."""
        with psycopg.connect(self.postgres.conninfo(), autocommit=True) as connection:
            connection.execute(statement.encode())


def backlog(bench: Bench, rounds: int, transactions: int, what: str, procedure: str, **config: str) -> None:
    """Print the rate at which a backlog is read, and the worker's CPU time for each change.

    `procedure` makes transactions; `config` is as in `Bench.connector`.
    """
    rates, costs = [], []
    for number in range(rounds):
        connector = bench.connector(**config)
        # A worker with transforms starts Spark for the first change.
        bench.execute(f"call {procedure}(1)")
        idle = bench.run(connector)
        bench.execute(f"call {procedure}({transactions})")
        run = bench.run(connector)
        changes = transactions * CHANGES
        rates.append(changes / (run.seconds - idle.seconds))
        costs.append((run.cpu - idle.cpu) / changes * 1e6)
        print(f"round {number + 1}: {rates[-1]:,.0f} changes/s, {costs[-1]:.2f} us CPU a change", flush=True)
        bench.execute(f"select pg_drop_replication_slot('{connector.stem}')")
    print(f"{what}: {_spread(rates, ',.0f')} changes/s, {_spread(costs, '.2f')} us CPU a change", flush=True)


def memory(bench: Bench, transactions: int) -> None:
    """Print the worker's memory for a short backlog, for one ten times as long, and for one large transaction."""
    rows = transactions * CHANGES
    loads = {
        "nothing": "select 1",
        f"{rows:,} changes": f"call fill({rows // FILLED})",
        f"{rows * 10:,} changes": f"call fill({rows * 10 // FILLED})",
        f"one transaction of {rows:,} changes": f"select fill_one({rows})",
    }
    connector = bench.connector()
    for name, statement in loads.items():
        bench.execute(statement)
        run = bench.run(connector)
        print(f"{name:40} {run.size:,.0f} MB at most, {run.seconds:.0f} s", flush=True)
    bench.execute(f"select pg_drop_replication_slot('{connector.stem}')")


@contextmanager
def steady_load(bench: Bench, per_second: int) -> Iterator[None]:
    """Insert `per_second` rows a second, ten in each transaction; none if it is 0."""
    stopping = threading.Event()

    def write() -> None:
        with psycopg.connect(bench.postgres.conninfo(), autocommit=True) as connection:
            due = time.monotonic()
            while per_second and not stopping.is_set():
                connection.execute(
                    b"insert into history select nextval('h'), 1, 1, 1, 1, now(), 1, 'x' from generate_series(1, 10)"
                )
                due += 10 / per_second
                time.sleep(max(0.0, due - time.monotonic()))

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield
    finally:
        stopping.set()
        writer.join()


def chunks(bench: Bench, rounds: int, rows: int, sizes: Sequence[int], per_second: int) -> None:
    """Print the rate of incremental snapshots and the worker's CPU time for each row, without and with a steady load.

    With the load, the CPU time includes the load's own change events.
    """
    bench.execute(ITEMS.format(rows=rows))
    found: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for number in range(rounds):
        for size in sizes:
            connector = bench.connector(
                signal_data_collection="public.signals", incremental_snapshot_chunk_size=str(size)
            )
            idle = bench.run(connector)
            for load in (0, per_second):
                bench.execute(SIGNAL.format(name=f"{connector.stem}-{load}"))
                run = bench.run(connector, load=load, until=f"end for the signal '{connector.stem}-{load}'")
                seconds, cpu = run.seconds - idle.seconds, run.cpu - idle.cpu
                found.setdefault((size, load), []).append((rows / seconds, cpu / rows * 1e6))
                print(f"round {number + 1}: {_chunks_line(size, load, found[size, load][-1:])}", flush=True)
            bench.execute(f"select pg_drop_replication_slot('{connector.stem}')")
    for (size, load), figures in found.items():
        print(_chunks_line(size, load, figures), flush=True)


def _chunks_line(size: int, load: int, figures: Sequence[tuple[float, float]]) -> str:
    rates, costs = ([figure[part] for figure in figures] for part in (0, 1))
    return (
        f"chunks of {size:,} at {load:,} changes/s: {_spread(rates, ',.0f')} rows/s, "
        f"{_spread(costs, '.1f')} us CPU a row"
    )


def latency(bench: Bench, seconds: float, per_second: int) -> None:
    """Print the time from a commit in PostgreSQL until a read_committed consumer has the record, at a steady load."""
    connector = bench.connector()
    with bench.start(connector) as worker, steady_load(bench, per_second):
        try:
            times = _consume(bench.bootstrap, f"{connector.stem}.public.history", seconds)
        finally:
            worker.kill()
    times.sort()
    p50, p99 = times[len(times) // 2], times[len(times) * 99 // 100]
    print(
        f"latency at {per_second:,} changes/s: p50 {p50:.0f} ms, p99 {p99:.0f} ms, {len(times):,} changes", flush=True
    )


def _consume(bootstrap: str, topic: str, seconds: float) -> list[float]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "bench", "isolation.level": "read_committed",
                         "fetch.wait.max.ms": 5, "topic.metadata.refresh.interval.ms": 200})  # fmt: skip
    while (
        len(
            partitions := consumer.list_topics(timeout=10).topics[topic].partitions
            if topic in consumer.list_topics(timeout=10).topics
            else {}
        )
        < 4
    ):
        time.sleep(0.1)
    consumer.assign([TopicPartition(topic, partition) for partition in partitions])
    times: list[float] = []
    warm, end = time.monotonic() + 5, time.monotonic() + 5 + seconds
    while time.monotonic() < end:
        for message in consumer.consume(1000, 0.005):
            if message.error() is None and time.monotonic() > warm:
                committed_us = json.loads(message.value() or b"{}")["source"]["ts_us"]
                times.append(time.time() * 1000 - committed_us / 1000)
    consumer.close()
    return times


def _spread(values: list[float], form: str) -> str:
    return f"{statistics.median(values):{form}} ({min(values):{form}}-{max(values):{form}})"


def main() -> None:
    """Run the benchmarks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="backlog, outbox, latency, memory, chunks; the first two by default")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transactions", type=int, default=50_000)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--chunk", type=int, nargs="+", default=[1024, 8192])
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--per-second", type=int, default=1_000)
    arguments = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        EmbeddedPostgres() as postgres,
        EmbeddedBroker(Path(folder) / "broker") as broker,
    ):
        bench = Bench(Path(folder), postgres, broker.bootstrap_servers)
        bench.execute(TABLES)
        parts = arguments.parts or ["backlog", "latency"]
        if "backlog" in parts:
            backlog(bench, arguments.rounds, arguments.transactions, "backlog", "churn")
        if "outbox" in parts:
            bench.execute(OUTBOX)
            backlog(
                bench, arguments.rounds, arguments.transactions, "outbox", "order_all",
                table_include_list="public.outbox", transforms="outbox",
                transforms_outbox_type="io.debezium.transforms.outbox.EventRouter",
            )  # fmt: skip
        for _ in range(arguments.rounds if "latency" in parts else 0):
            latency(bench, arguments.seconds, arguments.per_second)
        if "memory" in parts:
            memory(bench, arguments.transactions)
        if "chunks" in parts:
            chunks(bench, arguments.rounds, arguments.rows, arguments.chunk, arguments.per_second)


if __name__ == "__main__":
    main()
