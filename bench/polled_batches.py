"""Small polled batches: the time from poll returning to the commit, and what a transform (Spark) adds to it.

Run: .venv/bin/python bench/polled_batches.py --batches 300 --records 100 [--transforms]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import threading
import time
from pathlib import Path

from fencepost.api.record import SourceRecord
from fencepost.converters import JsonConverter, SimpleHeaderConverter, StringConverter
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.engine.engine import SparkEngine
from fencepost.engine.pipeline import Pipeline
from fencepost.engine.topic_gate import TopicGate
from fencepost.kafka.admin.admin import Admin, NewTopic
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.transforms.chain import Step
from fencepost.transforms.fields import InsertField

TOPIC = "polled"
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
    times, never, gate = [], threading.Event(), TopicGate(None)
    for number in range(arguments.batches + WARM_UP):
        records = polled(arguments.records, number)
        started = time.perf_counter()
        producer.begin_transaction()
        engine.write(records, steps, producer, task="bench-0", cancelled=never, topic_gate=gate)
        producer.commit_transaction()
        if number >= WARM_UP:
            times.append((time.perf_counter() - started) * 1000)
    cuts = statistics.quantiles(times, n=100)
    name = "with a transform" if steps.transforms else "without transforms"
    print(
        f"{arguments.records} records {name}: min {min(times):.2f}  p50 {cuts[49]:.2f}  p90 {cuts[89]:.2f}  "
        f"p99 {cuts[98]:.2f}  max {max(times):.2f} ms; Spark {'runs' if engine.started else 'was never started'}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", type=int, default=300)
    parser.add_argument("--records", type=int, default=100)
    parser.add_argument("--transforms", action="store_true", help="measure with a transform as well")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder)) as broker:
        config = ClientConfig(tuple(broker.bootstrap_servers.split(",")))
        admin = Admin(config)
        admin.create_topics(NewTopic(TOPIC, partitions=3))
        admin.close()
        producer = TransactionalProducer(ProducerConfig(config), "bench")
        producer.init_transactions()
        engine = SparkEngine({})
        measure(engine, producer, arguments, pipeline(transforms=False))
        if arguments.transforms:
            measure(engine, producer, arguments, pipeline(transforms=True))
        producer.close()
        engine.stop()


if __name__ == "__main__":
    main()
