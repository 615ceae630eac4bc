"""The transactional writer alone: 100-byte values in transactions of 100,000, against confluent-kafka's produce loop.

    python bench/writer.py [--rounds 5] [--transactions 50] [--bootstrap-servers HOST:PORT]

Without a broker given it starts an embedded one, with its logs in memory where there is /dev/shm, so that the disk has no
influence. In each round every contender runs in turn on the same broker, with a new topic and new producers, and
writes a few transactions before the clock starts; the first round is not counted, because the broker's JIT compiles in it.
Contenders take turns in going first. CPU is that of the contender's processes (process_time), in
microseconds a record. Ratios are taken within a round; shown are the median and the range over the rounds.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import statistics
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.sender import Ack, RecordWriter
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.records.columns import Records

RECORDS = 100_000
SLICE = 10_000
PARTITIONS = 2
WARM_TRANSACTIONS = 10
SHARED_MEMORY = Path("/dev/shm")  # noqa: S108 - where the embedded broker's logs are
VALUES = [b"%010d" % number + b"x" * 90 for number in range(RECORDS)]


@dataclass(frozen=True)
class Result:
    """One contender in one round."""

    records_per_second: float
    cpu_us_per_record: float


class Share(NamedTuple):
    """One writer's acknowledged part of a transaction, and its process's CPU seconds so far."""

    acks: list[Ack]
    cpu: float


def write_half(config: ProducerConfig, topic: str, partitions: range, pipe: Connection) -> None:
    """Run a writer in its own process, as on an executor: reply to each Transaction with a Share, until None comes."""
    columns = Records(pa.array(VALUES, pa.binary()))
    share = RECORDS * len(partitions) // PARTITIONS
    while (transaction := pipe.recv()) is not None:
        writer = RecordWriter(config, transaction)
        for start in range(0, share, SLICE):
            partition = partitions[start * len(partitions) // share]
            writer.write(topic, partition, columns.slice(start, min(SLICE, share - start)))
        acks = writer.flush()
        writer.close()
        pipe.send(Share(acks, time.process_time()))


def fencepost(config: ProducerConfig, topic: str, transactions: int, *, writers: int) -> Result:
    """Write one transaction after the other with `writers` processes; this process begins and commits them."""
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

    writers_cpu = 0.0

    def run(count: int) -> None:
        nonlocal writers_cpu
        for _ in range(count):
            transaction = producer.begin_transaction()
            for pipe in pipes:
                pipe.send(transaction)
            shares = [pipe.recv() for pipe in pipes]
            for share in shares:
                producer.acknowledge(share.acks)
            producer.commit_transaction()
            writers_cpu = sum(share.cpu for share in shares)

    run(WARM_TRANSACTIONS)
    warm_cpu = writers_cpu
    elapsed, own_cpu = timed(lambda: run(transactions))
    for pipe in pipes:
        pipe.send(None)
    for process in processes:
        process.join()
    producer.close()
    cpu = own_cpu + writers_cpu - warm_cpu
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

    run(WARM_TRANSACTIONS)
    elapsed, cpu = timed(lambda: run(transactions))
    return Result(transactions * RECORDS / elapsed, cpu * 1e6 / (transactions * RECORDS))


def timed(work: Callable[[], None]) -> tuple[float, float]:
    """Wall-clock seconds, and CPU seconds of this process."""
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


@contextmanager
def new_topic(admin: AdminClient) -> Iterator[str]:
    """A topic that is deleted at the end, with its files."""
    name = f"bench-{uuid.uuid4().hex[:8]}"
    topic = NewTopic(name, PARTITIONS, 1, config={"file.delete.delay.ms": "0"})
    admin.create_topics([topic])[name].result(30)
    yield name
    admin.delete_topics([name])[name].result(30)


def spread(values: list[float]) -> dict[str, float]:
    return {"median": round(statistics.median(values), 3), "min": round(min(values), 3), "max": round(max(values), 3)}


def measure(servers: str, rounds: int, transactions: int) -> dict[str, Any]:
    """Run all contenders, round by round."""
    admin = AdminClient({"bootstrap.servers": servers})
    config = ProducerConfig(ClientConfig(tuple(servers.split(","))))
    contenders: dict[str, Callable[[str], Result]] = {
        "one writer": lambda topic: fencepost(config, topic, transactions, writers=1),
        "two writers": lambda topic: fencepost(config, topic, transactions, writers=2),
        "confluent-kafka": lambda topic: confluent(servers, topic, transactions),
    }
    results: dict[str, list[Result]] = {name: [] for name in contenders}
    names = list(contenders)
    for number in range(rounds + 1):
        for name in names:
            with new_topic(admin) as topic:
                result = contenders[name](topic)
            if number:
                results[name].append(result)
            rates = f"{result.records_per_second:,.0f}/s {result.cpu_us_per_record:.3f} us"
            print(f"round {number or '- (not counted)'} {name}: {rates}", flush=True)
        names.append(names.pop(0))
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
    parser.add_argument("--transactions", type=int, default=50, help="of 100,000 records, in each round")
    parser.add_argument("--bootstrap-servers", help="an existing broker")
    arguments = parser.parse_args()
    with ExitStack() as stack:
        servers = arguments.bootstrap_servers
        if servers is None:
            memory = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=memory)))
            servers = stack.enter_context(EmbeddedBroker(folder)).bootstrap_servers
        print(json.dumps(measure(servers, arguments.rounds, arguments.transactions), indent=2))


if __name__ == "__main__":
    main()
