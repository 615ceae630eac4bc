"""Small polled batches: the time from poll returning to the commit, and the time that a transform (Spark) adds.

Run: .venv/bin/python bench/polled_batches.py --batches 300 --records 100 [--transforms]

Batches take turns: the source offsets of one are sent with its records, as in transactions of one poll; the offsets of
the next follow its records, as at the end of a transaction of several polls.

With --frames: the CPU time, without the broker's, of rows of ten columns to the commit as JSON. A source function yields
them as a table of pyarrow, a data frame of pandas or polars, or row by row; confluent-kafka's transactional loop writes
json.dumps() of each. Each writes the rows in transactions of the same size, in alternating rounds.

Run: .venv/bin/python bench/polled_batches.py --frames [--rounds 5] [--rows 100000]
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
from confluent_kafka import Producer

from fencepost.api.record import SourceRecord
from fencepost.config.ids import ConnectorTaskId
from fencepost.connectors.functions.function_reader import FunctionReader
from fencepost.connectors.rows.record_mapping import RecordColumns
from fencepost.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.engine import SparkEngine
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.topic_creation import NewTopic
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.task.transactional_writes import TaskTransaction
from fencepost.runtime.task.writes import WritePath, WritesContext
from fencepost.storage.offsets.table import OffsetTable
from fencepost.storage.offsets.uncommitted import OffsetRecords
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import InsertField

TOPIC = "polled"
OFFSETS_TOPIC = "offsets"
WARM_UP = 30


def pipeline(*, transforms: bool) -> Pipeline:
    key, value, header, insert = StringConverter(), JsonConverter(), SimpleHeaderConverter(), InsertField()
    key.configure({}, is_key=True)
    value.configure({"schemas.enable": "false"}, is_key=False)
    header.configure({})
    insert.configure({"static.field": "source", "static.value": "bench"})
    return Pipeline([Step(insert)] if transforms else (), key, value, header)


def polled(count: int, number: int) -> list[SourceRecord]:
    first = count * number
    return [
        SourceRecord(
            {"table": "orders"},
            {"id": row},
            TOPIC,
            {"id": row, "name": f"customer {row}", "total": row / 7},
            key=str(row),
        )
        for row in range(first, first + count)
    ]


def measure(
    engine: SparkEngine, producer: TransactionalProducer, arguments: argparse.Namespace, steps: Pipeline
) -> None:
    context = WritesContext(
        ConnectorTaskId("bench", 0),
        WritePath(engine, steps, None, OFFSETS_TOPIC, lambda _: None),
        OffsetRecords("bench", OffsetTable()),
        TaskMetrics(),
        threading.Event(),
        keeps_records=False,
        keeps_batches=False,
        on_commit=lambda: None,
    )
    writes = TaskTransaction(context, producer, flush_interval_s=60.0)
    times: dict[bool, list[float]] = {True: [], False: []}
    spent: dict[bool, list[float]] = {True: [], False: []}
    for number in range(2 * (arguments.batches + WARM_UP)):
        together = number % 2 == 0
        records = polled(arguments.records, number)
        started, cpu = time.perf_counter(), time.thread_time()
        writes.write(records, ends=together)
        writes.commit()
        if number >= 2 * WARM_UP:
            times[together].append((time.perf_counter() - started) * 1000)
            spent[together].append((time.thread_time() - cpu) * 1000)
    name = "with a transform" if steps.transforms else "without transforms"
    for together, found in times.items():
        cuts = statistics.quantiles(found, n=100)
        print(
            f"{arguments.records} records {name}, offsets {'with' if together else 'after'} them: min {min(found):.2f}  "
            f"p50 {cuts[49]:.2f}  p90 {cuts[89]:.2f}  p99 {cuts[98]:.2f}  max {max(found):.2f} ms, "
            f"CPU p50 {statistics.median(spent[together]):.2f} ms; "
            f"Spark {'runs' if engine.started else 'was never started'}"
        )


def table(count: int) -> pa.Table:
    """Rows of ten columns: three integers, three strings, two floats, a boolean and a timestamp."""
    numbers = range(count)
    return pa.table(
        {
            "id": numbers,
            "customer": [number % 977 for number in numbers],
            "quantity": [number % 13 for number in numbers],
            "name": [f"customer {number}" for number in numbers],
            "city": [f"city {number % 50}" for number in numbers],
            "status": [("new", "paid", "sent")[number % 3] for number in numbers],
            "total": [number / 7 for number in numbers],
            "discount": [number % 10 / 100 for number in numbers],
            "express": [number % 2 == 0 for number in numbers],
            "at": [1_700_000_000_000 + number for number in numbers],
        }
    )


def yielded(items: list[Any]) -> Callable[[Any, Any], Iterator[tuple[Any, int]]]:
    """A source function that yields the items."""

    def function(config: Any, cursor: Any) -> Iterator[tuple[Any, int]]:
        del config, cursor
        for number, item in enumerate(items):
            yield item, number

    return function


def written(engine: SparkEngine, producer: TransactionalProducer, items: list[Any], rows: int) -> None:
    reader = FunctionReader(
        yielded(items), [{}], {"source": "bench"}, None, topic=TOPIC, limit=rows, interval_s=0, record=RecordColumns()
    )
    steps, gate = pipeline(transforms=False), TopicGate(None)
    batch = reader.read()
    assert batch
    producer.begin_transaction()
    engine.write(
        batch,
        replace(steps, default_topic=TOPIC),
        producer,
        task="bench-0",
        cancelled=threading.Event(),
        topic_gate=gate,
    )
    producer.commit_transaction()


def looped(producer: Producer, rows: list[dict[str, Any]]) -> None:
    producer.begin_transaction()
    for row in rows:
        while True:
            try:
                producer.produce(TOPIC, json.dumps(row))
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
    producer.commit_transaction()


def compare(engine: SparkEngine, producer: TransactionalProducer, servers: str, arguments: argparse.Namespace) -> None:
    arrow = table(arguments.rows)
    rows = arrow.to_pylist()
    other = Producer({"bootstrap.servers": servers, "transactional.id": "bench-loop", "linger.ms": 5})
    other.init_transactions()
    ways: dict[str, Callable[[], None]] = {
        "pyarrow": partial(written, engine, producer, [arrow], arguments.rows),
        "pandas": partial(written, engine, producer, [arrow.to_pandas()], arguments.rows),
        "polars": partial(written, engine, producer, [pl.DataFrame(arrow)], arguments.rows),
        "rows": partial(written, engine, producer, rows, arguments.rows),
        "confluent-kafka": partial(looped, other, rows),
    }
    spent: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(arguments.rounds + 1):
        for name, way in ways.items():
            started = time.process_time()
            way()
            # The first round warms up.
            if number:
                spent[name].append((time.process_time() - started) / arguments.rows * 1e6)
    for name, times in spent.items():
        ratios = [mine / its for mine, its in zip(times, spent["confluent-kafka"], strict=True)]
        print(
            f"{name}: {statistics.median(times):.2f} us CPU a row ({min(times):.2f} to {max(times):.2f}), "
            f"{statistics.median(ratios):.3f} of confluent-kafka's ({min(ratios):.3f} to {max(ratios):.3f})"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--transforms", action="store_true", help="measure with a transform as well")
    parser.add_argument("--frames", action="store_true", help="compare frames with rows and with confluent-kafka")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--rows", type=int, default=100_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder)) as broker:
        config = ClientConfig(tuple(broker.bootstrap_servers.split(",")))
        admin = Admin(config)
        admin.create_topics(NewTopic(TOPIC, partitions=3), NewTopic(OFFSETS_TOPIC, partitions=25))
        admin.close()
        producer = TransactionalProducer(ProducerConfig(config), "bench")
        producer.init_transactions()
        engine = SparkEngine({})
        # As in a worker: without gc.freeze, each full collection also traverses all imported modules.
        gc.collect()
        gc.freeze()
        if arguments.frames:
            compare(engine, producer, broker.bootstrap_servers, arguments)
        else:
            measure(engine, producer, arguments, pipeline(transforms=False))
        if arguments.transforms:
            measure(engine, producer, arguments, pipeline(transforms=True))
        producer.close()
        engine.stop()


if __name__ == "__main__":
    main()
