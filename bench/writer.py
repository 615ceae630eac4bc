"""The transactional writer alone: 100-byte values in transactions of 100,000, against confluent-kafka's produce loop.

    python bench/writer.py [--rounds 5] [--transactions 5] [--bootstrap-servers HOST:PORT]

Without a broker given it starts an embedded one. In each round every contender runs in turn on the same broker, in
processes of its own that are warm before the clock starts. CPU is the contender's own (process_time), in microseconds
a record. Ratios are taken within a round; shown are the median and the range over the rounds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer import TransactionalProducer
from fencepost.kafka.records import Records
from fencepost.kafka.writer import RecordWriter

RECORDS = 100_000
SLICE = 10_000
PARTITIONS = 2
VALUES = [b"%010d" % number + b"x" * 90 for number in range(RECORDS)]


@dataclass(frozen=True)
class Result:
    """One contender in one round."""

    records_per_second: float
    cpu_us_per_record: float


def write_half(config: ProducerConfig, topic: str, partitions: range, pipe: Connection) -> None:
    """A writer in a process of its own, as on an executor: answers each Transaction with its acks, None with its CPU."""
    columns = Records(pa.array(VALUES, pa.binary()))
    share = RECORDS * len(partitions) // PARTITIONS
    cpu = 0.0
    while (transaction := pipe.recv()) is not None:
        started = time.process_time()
        writer = RecordWriter(config, transaction)
        for start in range(0, share, SLICE):
            partition = partitions[start * len(partitions) // share]
            writer.write(topic, partition, columns.slice(start, min(SLICE, share - start)))
        acks = writer.flush()
        writer.close()
        cpu += time.process_time() - started
        pipe.send(acks)
    pipe.send(cpu)


def fencepost(config: ProducerConfig, topic: str, transactions: int, *, writers: int) -> Result:
    """`writers` processes in one transaction after the other, held by this process."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for index in range(writers):
        ours, theirs = context.Pipe()
        width = PARTITIONS // writers
        partitions = range(index * width, (index + 1) * width)
        process = context.Process(target=write_half, args=(config, topic, partitions, theirs))
        process.start()
        pipes.append(ours)
        processes.append(process)
    producer = TransactionalProducer(config, f"bench-{uuid.uuid4().hex[:8]}")
    producer.init_transactions()

    def run(count: int) -> None:
        for _ in range(count):
            transaction = producer.begin_transaction()
            for pipe in pipes:
                pipe.send(transaction)
            for pipe in pipes:
                producer.acknowledge(pipe.recv())
            producer.commit_transaction()

    run(2)
    elapsed, own_cpu = timed(lambda: run(transactions))
    for pipe in pipes:
        pipe.send(None)
    # The writers' share of the two warm transactions is taken out pro rata.
    cpu = own_cpu + sum(pipe.recv() for pipe in pipes) * transactions / (transactions + 2)
    for process in processes:
        process.join()
    producer.close()
    return Result(transactions * RECORDS / elapsed, cpu * 1e6 / (transactions * RECORDS))


def confluent(servers: str, topic: str, transactions: int) -> Result:
    """The loop that a user of librdkafka writes, with its queue and linger widened for throughput."""
    producer = Producer(
        {
            "bootstrap.servers": servers,
            "transactional.id": f"bench-{uuid.uuid4().hex[:8]}",
            "linger.ms": 5,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 2 * RECORDS,
        }
    )
    producer.init_transactions(60)

    def run(count: int) -> None:
        for _ in range(count):
            producer.begin_transaction()
            for number, value in enumerate(VALUES):
                producer.produce(topic, value, partition=number * PARTITIONS // RECORDS)
            producer.commit_transaction(60)

    run(2)
    elapsed, cpu = timed(lambda: run(transactions))
    return Result(transactions * RECORDS / elapsed, cpu * 1e6 / (transactions * RECORDS))


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Seconds on the wall and of this process's CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def spread(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def measure(servers: str, rounds: int, transactions: int) -> dict[str, Any]:
    """All contenders, round by round."""
    topic = f"bench-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(30)
    config = ProducerConfig(ClientConfig(tuple(servers.split(","))))
    contenders: dict[str, Callable[[], Result]] = {
        "one writer": lambda: fencepost(config, topic, transactions, writers=1),
        "two writers": lambda: fencepost(config, topic, transactions, writers=2),
        "confluent-kafka": lambda: confluent(servers, topic, transactions),
    }
    results: dict[str, list[Result]] = {name: [] for name in contenders}
    for number in range(rounds):
        for name, contender in contenders.items():
            result = contender()
            results[name].append(result)
            print(f"round {number + 1} {name}: {result.records_per_second:,.0f}/s {result.cpu_us_per_record:.3f} us")
    one, two, theirs = results.values()
    return {
        "results": {
            name: {field: spread([asdict(result)[field] for result in of_name]) for field in asdict(of_name[0])}
            for name, of_name in results.items()
        },
        "confluent-kafka CPU / ours": spread(
            [b.cpu_us_per_record / a.cpu_us_per_record for a, b in zip(one, theirs, strict=True)]
        ),
        "two writers / one, records a second": spread(
            [b.records_per_second / a.records_per_second for a, b in zip(one, two, strict=True)]
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--transactions", type=int, default=10, help="of 100,000 records, in each round")
    parser.add_argument("--bootstrap-servers", help="an existing broker")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        servers = arguments.bootstrap_servers
        if servers is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            servers = stack.enter_context(EmbeddedBroker(folder)).bootstrap_servers
        print(json.dumps(measure(servers, arguments.rounds, arguments.transactions), indent=2))


if __name__ == "__main__":
    main()
