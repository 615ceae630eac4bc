"""What one offsets topic carries: commits a second by the number of tasks, and the time to read the topic at a start.

    python bench/offsets_topic.py [--tasks 1 4 16 64] [--rounds 5] [--seconds 5] [--records 100000]

Each task owns a transactional id, and commits transactions that hold nothing but the offset of one source partition, as
fast as brokers answer. So the rates are upper limits: a task with data writes its records in the same transactions, and
one that commits every 5 s makes 0.2 of them a second. The tasks are threads of two processes beside the broker on the
same machine; on a machine of two cores these three share the CPU, so the CPU a commit of each side says more than the
rate. A round starts new tasks, lets them warm up, and counts for `--seconds`.

The read is what a worker does when it starts: it reads the topic's records from the beginning, and keeps the offset of
each source partition. The topic has `--records` records of as many source partitions.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from fencepost.config.internal_topics import InternalTopic
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore
from fencepost.storage.offsets.topic import OffsetStore
from fencepost.storage.offsets.uncommitted import OffsetRecords

PROCESSES = 2
PARTITIONS = 25
WARM_UP_SECONDS = 3.0
OFFSETS_A_BATCH = 5_000


@dataclass(frozen=True)
class Rate:
    """The commits a second of all tasks, and the CPU a commit of their processes and of the broker, in ms."""

    commits: float
    tasks_cpu: float
    broker_cpu: float


def store_of(servers: str, topic: str) -> OffsetStore:
    client = ClientConfig((servers,))
    return OffsetStore(InternalTopic(topic, PARTITIONS), clients=KafkaClients(), consumer=client, admin=client)


def commit(producer: TransactionalProducer, topic: str, records: OffsetRecords) -> None:
    """Write the offsets in a transaction of their own."""
    producer.begin_transaction()
    with closing(producer.writer()) as writer:
        for partition, columns in records.by_partition(writer.partitions(topic)):
            writer.write(topic, partition, columns)
        producer.acknowledge(writer.flush())
    records.written()
    producer.commit_transaction()
    records.committed()


def opened(servers: str) -> TransactionalProducer:
    producer = TransactionalProducer(ProducerConfig(client=ClientConfig((servers,))), f"task-{uuid.uuid4().hex}")
    producer.init_transactions()
    return producer


def run_tasks(servers: str, topic: str, tasks: range, pipe: Connection) -> None:
    """Run tasks until the pipe says to stop; at each message before, answer with the commits and CPU seconds so far."""
    ending = threading.Event()
    counts = [0] * len(tasks)

    def task(index: int) -> None:
        with store_of(servers, topic) as store, closing(opened(servers)) as producer:
            records = ConnectorOffsetStore(f"connector-{tasks[index]}", store).records()
            while not ending.is_set():
                records.put({"filename": f"/data/in/{tasks[index]:07}.csv"}, {"position": counts[index], "row": 1})
                commit(producer, topic, records)
                counts[index] += 1

    threads = [threading.Thread(target=task, args=(index,)) for index in range(len(tasks))]
    for thread in threads:
        thread.start()
    while pipe.recv():
        pipe.send((sum(counts), time.process_time(), min(counts)))
    ending.set()
    for thread in threads:
        thread.join()


def rate(broker: EmbeddedBroker, topic: str, tasks: int, seconds: float) -> Rate:
    """Measure so many tasks."""
    context = multiprocessing.get_context("spawn")
    pipes: list[Connection] = []
    processes = []
    for number in range(min(PROCESSES, tasks)):
        ours, theirs = context.Pipe()
        mine = range(number, tasks, PROCESSES)
        processes.append(context.Process(target=run_tasks, args=(broker.bootstrap_servers, topic, mine, theirs)))
        processes[-1].start()
        pipes.append(ours)
    node = psutil.Process(broker.nodes[0].pid)

    def figures() -> tuple[float, int, float, float, int]:
        for pipe in pipes:
            pipe.send(True)
        counts, spent, least = zip(*(pipe.recv() for pipe in pipes), strict=True)
        server = node.cpu_times()
        return time.perf_counter(), sum(counts), sum(spent), server.user + server.system, min(least)

    while figures()[-1] == 0:
        time.sleep(0.1)
    time.sleep(WARM_UP_SECONDS)
    before = figures()
    time.sleep(seconds)
    after = figures()
    for pipe in pipes:
        pipe.send(False)
    for process in processes:
        process.join()
    took, commits, tasks_cpu, broker_cpu = (late - early for late, early in zip(after[:4], before[:4], strict=True))
    return Rate(commits / took, tasks_cpu / commits * 1000, broker_cpu / commits * 1000)


def fill(servers: str, topic: str, records: int) -> None:
    """Commit the offsets of so many source partitions, in a few transactions."""
    with store_of(servers, topic) as store, closing(opened(servers)) as producer:
        offsets = ConnectorOffsetStore("files", store).records()
        for start in range(0, records, OFFSETS_A_BATCH):
            for number in range(start, min(start + OFFSETS_A_BATCH, records)):
                offsets.put({"filename": f"/data/in/{number:07}.csv"}, {"position": number, "row": 1})
            commit(producer, topic, offsets)


def read(servers: str, topic: str) -> tuple[float, float]:
    """Read the topic as a worker that starts. Returns microseconds a record: elapsed, and of this process's CPU."""
    with store_of(servers, topic) as store:
        start, spent = time.perf_counter(), time.process_time()
        store.refresh()
        took, cpu = time.perf_counter() - start, time.process_time() - spent
        found = len(store.table.stored_of("files"))
    return took * 1e6 / found, cpu * 1e6 / found


def shown(figures: Sequence[float], digits: int) -> str:
    middle, least, most = statistics.median(figures), min(figures), max(figures)
    return f"{middle:.{digits}f} ({least:.{digits}f} to {most:.{digits}f})"


def main() -> None:
    """Measure, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--records", type=int, default=100_000)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder)) as broker:
        servers = broker.bootstrap_servers

        def topic(name: str) -> str:
            with store_of(servers, name) as store:
                store.ensure_topic()
            return name

        busy = topic("offsets")
        rounds = [
            {tasks: rate(broker, busy, tasks, asked.seconds) for tasks in asked.tasks} for _ in range(asked.rounds)
        ]
        print(f"{'tasks':>6} {'commits/s':>24} {'ms of CPU, tasks':>24} {'ms of CPU, broker':>24}")
        columns: list[tuple[Callable[[Rate], float], int]] = [
            (lambda one: one.commits, 0),
            (lambda one: one.tasks_cpu, 2),
            (lambda one: one.broker_cpu, 2),
        ]
        for tasks in asked.tasks:
            cells = [shown([figure(each[tasks]) for each in rounds], digits) for figure, digits in columns]
            print(f"{tasks:>6} " + " ".join(f"{cell:>24}" for cell in cells))
        full = topic("read")
        fill(servers, full, asked.records)
        elapsed, cpu = zip(*(read(servers, full) for _ in range(asked.rounds)), strict=True)
        print(f"read of {asked.records} offsets, us a record: {shown(elapsed, 1)}, of CPU: {shown(cpu, 1)}")


if __name__ == "__main__":
    main()
