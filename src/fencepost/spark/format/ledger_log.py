"""The ledger of a write in Kafka: entries are plain records in one partition of a topic, appended with acks=all.

Entries are not part of the transaction, which ends only after them. After the transaction they are not needed: the
topic keeps them for a day. If the first entry of a ledger has expired, the ledger is lost, and grants nothing.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from fencepost.api.closing import Closing
from fencepost.kafka.admin.topic_creation import NewTopic
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import BrokerUnavailableError
from fencepost.kafka.producer.transaction import Transaction
from fencepost.kafka.records.columns import OutgoingRecord
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.format.driver_process import driver_process
from fencepost.spark.format.ledger import Entry, Ledger, Opened, decoded, encoded

_PARTITIONS: Final = 25
_KEPT_MS: Final = 24 * 60 * 60 * 1000
_PAUSE_S: Final = 0.02
_CLOCKS_MS: Final = 60_000
"""The maximum difference between the clocks of the machines that write to a ledger."""


@dataclass(frozen=True, slots=True)
class LedgerPlace:
    """The place where a write's ledger starts. `mark` is the key of its records."""

    topic: str
    mark: bytes
    partition: int = -1
    offset: int = 0


def open_ledger(config: SinkConfig, mark: str, transaction: Transaction, clients: KafkaClients) -> LedgerPlace:
    """Write the first entry.

    Creates the topic if it is missing. Raises the errors of `Admin.create_topics` and of the write.
    """
    topic = config.tasks_topic
    with clients.admin(config.producer.client) as admin:
        if not admin.topic_exists(topic):
            replicas = config.storage_replication_factor or admin.usual_replication_factor()
            settings = {"cleanup.policy": "delete", "retention.ms": str(_KEPT_MS)}
            admin.create_topics(NewTopic(topic, _PARTITIONS, replicas, settings))
    key = mark.encode()
    with clients.plain_producer(config.producer) as producer:
        opened = encoded(Opened.of(transaction, driver_process()))
        ((partition, end),) = producer.write(topic, [(key, opened)]).items()
    return LedgerPlace(topic, key, partition, end - 1)


def find_opened(config: SinkConfig, transactional_id: str, clients: KafkaClients) -> Transaction | None:
    """Return the last transaction that this driver began under an id, if it may still be open, else None.

    A transaction of another driver, which may have taken over the transactional id, is ignored. Raises the errors of
    TopicReader.
    """
    driver = driver_process()
    if driver is None:
        return None
    since = int(time.time() * 1000) - config.producer.transaction_timeout_ms - _CLOCKS_MS
    found: tuple[int, Transaction] | None = None
    with clients.topic_reader(config.producer.client, config.tasks_topic) as reader:
        ends = reader.end_offsets()
        starts = reader.committed_offsets(since)
        reader.seek({partition: start if start >= 0 else ends[partition] for partition, start in starts.items()})
        for record in reader.read_to_end():
            entry = None if record.value is None else decoded(record.value)
            if (
                isinstance(entry, Opened)
                and (entry.transactional_id, entry.driver) == (transactional_id, driver)
                and (found is None or record.timestamp >= found[0])
            ):
                found = record.timestamp, entry.transaction
    return None if found is None else found[1]


class LedgerLog(Closing):
    """Appends to a ledger and reads it. Only one thread may use it."""

    def __init__(self, config: SinkConfig, place: LedgerPlace) -> None:
        clients = KafkaClients()
        self.ledger = Ledger()
        self._place = place
        self._max_block_ms = config.producer.max_block_ms
        self._producer = clients.plain_producer(config.producer)
        self._reader = clients.topic_reader(config.producer.client, place.topic, only=place.partition)
        self._begun = False

    def close(self) -> None:
        """Close the connections."""
        self._producer.close()
        self._reader.close()

    def append(self, entry: Entry) -> int:
        """Write an entry. Return the offset after it. Raises the errors of `PlainProducer.write`."""
        place = self._place
        ends = self._producer.write(place.topic, [OutgoingRecord(place.mark, encoded(entry), (), place.partition)])
        return max(ends.values())

    def add(self, entry: Entry) -> None:
        """Write an entry, and read the ledger up to it.

        Raises the errors of `append` and `TopicReader.read_to_end`.
        """
        end, deadline = self.append(entry), Deadline.after(self._max_block_ms)
        if not self._begun:
            self._reader.end_offsets(self._max_block_ms)
            self._reader.seek({self._place.partition: self._place.offset})
            self._begun = True
        while True:
            for record in self._reader.read_to_end(deadline=deadline):
                self._take(record.key, record.value)
            if self._reader.positions.get(self._place.partition, 0) >= end:
                return
            # For a moment, a newly elected leader may not know up to which offset records are replicated.
            if deadline.passed:
                raise BrokerUnavailableError(
                    f"Topic {self._place.topic} could not be read up to offset {end}: check the health of its leaders"
                )
            time.sleep(_PAUSE_S)

    def wait(self) -> None:
        """Read the next entries. If there are none, return after half a second."""
        for record in self._reader.poll():
            self._take(record.key, record.value)

    def _take(self, key: bytes | None, value: bytes | None) -> None:
        if key == self._place.mark and value is not None:
            self.ledger.apply(decoded(value))
