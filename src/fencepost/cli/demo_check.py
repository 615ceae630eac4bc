"""The demo's independent judge: confluent-kafka at read_committed, compared with the CSV file row by row."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from confluent_kafka import OFFSET_BEGINNING, Consumer, Message, TopicPartition
from rich.console import Console
from rich.table import Table

from fencepost.kafka.client_config import ClientConfig
from fencepost.kafka.transaction_markers import read_transaction_markers

NULL: Final = "NA"


@dataclass(frozen=True, slots=True)
class Findings:
    """What the check of the topic against the file found."""

    expected: int
    found: int
    duplicates: int
    lost: int
    committed: int
    aborted: int
    kills: int
    seconds: float

    @property
    def exactly_once(self) -> bool:
        """Whether every row is there once."""
        return self.lost == 0 and self.duplicates == 0 and self.found == self.expected


def _consumer(bootstrap: str, *topics: str, isolation: str = "read_committed") -> Consumer:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "fencepost-demo-check",
            "isolation.level": isolation,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "enable.partition.eof": True,
            "topic.metadata.refresh.interval.ms": 500,
            "allow.auto.create.topics": False,
        }
    )
    _assign(consumer, *topics)
    return consumer


def _assign(consumer: Consumer, *topics: str) -> int:
    known = consumer.list_topics(timeout=10).topics
    partitions = [
        TopicPartition(topic, partition, OFFSET_BEGINNING)
        for topic in topics
        if topic in known
        for partition in known[topic].partitions
    ]
    consumer.assign(partitions)
    return len(partitions)


class TopicCounter:
    """Counts what becomes visible at read_committed while the demo runs.

    Every transaction of the connector holds one record for its offsets topic, so these count the transactions.
    """

    def __init__(self, bootstrap: str, topic: str, offsets_topic: str) -> None:
        self.records = 0
        self.size = 0
        self.transactions = 0
        self._topics = (topic, offsets_topic)
        self._topic = topic
        self._consumer = _consumer(bootstrap)
        self._uncommitted = _consumer(bootstrap, isolation="read_uncommitted")
        self._assigned = False

    def advance(self, *, timeout_s: float) -> bool:
        """Count what has become visible; return whether that was anything."""
        if not self._assigned:
            known = self._consumer.list_topics(timeout=10).topics
            if not all(topic in known for topic in self._topics):
                return False
            _assign(self._consumer, *self._topics)
            self._assigned = True
        messages = [m for m in self._consumer.consume(10_000, timeout_s) if m.error() is None]
        for message in messages:
            if message.topic() == self._topic:
                self.records += 1
                self.size += len(message.value() or b"")
            else:
                self.transactions += 1
        return bool(messages)

    def ends(self) -> tuple[int, int]:
        """How many records the topic holds in transactions that are decided, and how many in all. Counts no records."""
        partitions = [partition for partition in self._consumer.assignment() if partition.topic == self._topic]
        decided = sum(self._end(self._consumer, partition) for partition in partitions)
        return decided, sum(self._end(self._uncommitted, partition) for partition in partitions)

    @staticmethod
    def _end(consumer: Consumer, partition: TopicPartition) -> int:
        return int(consumer.get_watermark_offsets(TopicPartition(partition.topic, partition.partition), timeout=10)[1])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._consumer.close()
        self._uncommitted.close()


def check(bootstrap: str, topic: str, offsets_topic: str, flights: Path, *, kills: int, seconds: float) -> Findings:
    """Read the whole topic again and compare it with the file, row by row."""
    expected = Counter(_rows_of_file(flights))
    found = Counter(_rows_of_topic(bootstrap, topic))
    client = ClientConfig.from_properties({"bootstrap.servers": bootstrap}, where="the demo")
    markers = [*read_transaction_markers(client, topic), *read_transaction_markers(client, offsets_topic)]
    committed = {marker.transaction for marker in markers if marker.committed}
    aborted = {marker.transaction for marker in markers if not marker.committed}
    return Findings(
        expected=expected.total(),
        found=found.total(),
        duplicates=(found - expected).total(),
        lost=(expected - found).total(),
        committed=len(committed),
        aborted=len(aborted),
        kills=kills,
        seconds=seconds,
    )


def _rows_of_file(flights: Path) -> Iterator[tuple[str | None, ...]]:
    with flights.open(newline="") as file:
        rows = csv.reader(file)
        next(rows)
        for row in rows:
            yield tuple(None if cell == NULL else cell for cell in row)


def _rows_of_topic(bootstrap: str, topic: str) -> Iterator[tuple[str | None, ...]]:
    for message in read_committed(bootstrap, topic):
        flight: dict[str, Any] = json.loads(message.value() or b"null")
        yield tuple(None if cell is None else str(cell) for cell in flight.values())


def read_committed(bootstrap: str, topic: str) -> Iterator[Message]:
    """Yield every record of `topic` that a read_committed consumer sees, to the end of each partition."""
    consumer = _consumer(bootstrap)
    try:
        open_partitions = _assign(consumer, topic)
        while open_partitions:
            for message in consumer.consume(10_000, 1.0):
                if message.error() is None:
                    yield message
                else:
                    open_partitions -= 1  # the only error that is asked for: the end of a partition
    finally:
        consumer.close()


def print_findings(console: Console, findings: Findings) -> None:
    """Print the table and what to try next."""
    table = Table(title="Exactly once?", title_justify="left", show_header=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in (
        ("records expected", f"{findings.expected:,}"),
        ("records found at read_committed", f"{findings.found:,}"),
        ("duplicates", f"{findings.duplicates:,}"),
        ("lost", f"{findings.lost:,}"),
        ("worker killed with SIGKILL", f"{findings.kills}"),
        ("transactions committed", f"{findings.committed:,}"),
        ("transactions aborted", f"{findings.aborted:,}"),
        ("records/s, with the kills and restarts", f"{findings.expected / findings.seconds:,.0f}"),
    ):
        table.add_row(name, value)
    console.print(table)
    console.print(
        "Try next:\n"
        "  fencepost broker --port 9092 --data-dir kafka-data    a broker to play with\n"
        "  fencepost standalone WORKER.properties CONNECTOR.properties    your own data; examples/ has both files\n"
        "  README.md, 'A connector of your own'    ten lines of Python",
        soft_wrap=True,
    )
