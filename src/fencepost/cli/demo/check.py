"""The demo's check: compares an independent client's read_committed view with the CSV file row by row."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console

from fencepost.api.closing import Closing
from fencepost.cli.common.independent_client import READ_UNCOMMITTED, ends_of, open_consumer, partitions_of, read
from fencepost.cli.common.tables import print_figures
from fencepost.cli.verify.csv_rows import CsvRows
from fencepost.cli.verify.row_check import SourceFile, compare_rows
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer.transaction_markers import read_transaction_markers

if TYPE_CHECKING:
    from confluent_kafka import Consumer, TopicPartition

NULL: Final = "NA"


@dataclass(frozen=True, slots=True)
class Findings:
    """The result of comparing the topic with the file."""

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
        """Whether the topic has every row once."""
        return self.lost == 0 and self.duplicates == 0 and self.found == self.expected


class TopicCounter(Closing):
    """Counts the visible records at read_committed while the demo runs.

    Every transaction of the connector has one record in its offsets topic, so these records count the transactions.
    """

    def __init__(self, bootstrap: str, topic: str, offsets_topic: str) -> None:
        self.records = 0
        self.size = 0
        self.transactions = 0
        self._topics = (topic, offsets_topic)
        self._topic = topic
        config = _client(bootstrap)
        self._consumer = open_consumer(config)
        self._uncommitted = open_consumer(config, READ_UNCOMMITTED)
        self._assigned = False

    def advance(self, *, timeout_s: float) -> bool:
        """Count newly visible records; return whether there were any."""
        if not self._assigned:
            partitions = [partitions_of(self._consumer, topic) for topic in self._topics]
            if not all(partitions):
                return False
            self._consumer.assign([partition for topic in partitions for partition in topic])
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
        """Return two counts, taken from the topic's offsets: the records in ended transactions, and all records."""
        partitions = [partition for partition in self._consumer.assignment() if partition.topic == self._topic]
        decided = sum(self._end(self._consumer, partition) for partition in partitions)
        return decided, sum(self._end(self._uncommitted, partition) for partition in partitions)

    @staticmethod
    def _end(consumer: Consumer, partition: TopicPartition) -> int:
        return int(consumer.get_watermark_offsets(partition, timeout=10)[1])

    def close(self) -> None:
        """Close both consumers."""
        self._consumer.close()
        self._uncommitted.close()


def check(bootstrap: str, topic: str, offsets_topic: str, flights: Path, *, kills: int, seconds: float) -> Findings:
    """Read the whole topic again and compare it with the file, row by row."""
    client = _client(bootstrap)
    rows, source = CsvRows(NULL), SourceFile(flights)
    found = (rows.of_record(message.value()) for message in read(client, topic, ends_of(client, topic)))
    compared = compare_rows(found, rows.of_file(source), source)
    markers = [*read_transaction_markers(client, topic), *read_transaction_markers(client, offsets_topic)]
    committed = {marker.transaction for marker in markers if marker.committed}
    aborted = {marker.transaction for marker in markers if not marker.committed}
    return Findings(
        expected=compared.expected,
        found=compared.found,
        duplicates=compared.duplicates,
        lost=compared.lost,
        committed=len(committed),
        aborted=len(aborted),
        kills=kills,
        seconds=seconds,
    )


def _client(bootstrap: str) -> ClientConfig:
    return ClientConfig.from_properties({"bootstrap.servers": bootstrap}, where="the demo")


def print_findings(console: Console, findings: Findings) -> None:
    """Print the findings, and commands to try next."""
    rows = (
        ("records expected", f"{findings.expected:,}"),
        ("records found at read_committed", f"{findings.found:,}"),
        ("duplicates", f"{findings.duplicates:,}"),
        ("lost", f"{findings.lost:,}"),
        ("worker killed with SIGKILL", f"{findings.kills}"),
        ("transactions committed", f"{findings.committed:,}"),
        ("transactions aborted", f"{findings.aborted:,}"),
        ("records/s, with the kills and restarts", f"{findings.expected / findings.seconds:,.0f}"),
    )
    print_figures(console, "Exactly once?", rows)
    console.print(
        "Try next:\n"
        "  fencepost broker --port 9092 --data-dir kafka-data    a broker for experiments\n"
        "  fencepost standalone WORKER.properties CONNECTOR.properties    your own data; examples/ has both files\n"
        "  fencepost verify TOPIC --source FILE --bootstrap-server 127.0.0.1:9092    this check, for your own data\n"
        "  README.md, 'Your own connector'    ten lines of Python",
        soft_wrap=True,
    )
