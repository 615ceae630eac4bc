"""The writes to the config topic that only the group's leader makes.

If `exactly.once.source.support` is `preparing` or `enabled`, each write is a transaction under the id of the group's
leader. A new leader takes over this id, so a previous leader that does not know about the new one can change nothing.
Otherwise writes are outside of transactions.

    without privilege ──claim──> privileged ──a write fails──> without privilege
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from fencepost.api.errors import FencepostError, IllegalStateError
from fencepost.kafka.errors import InvalidTimestampError, ProducerFencedError, RecordTooLargeError
from fencepost.kafka.producer.record_producer import write_and_acknowledge
from fencepost.kafka.producer.simple import PlainProducer
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.kafka.records.columns import OutgoingRecord, Records, Row
from fencepost.storage.errors import ConfigTimestampError, ConfigTooLargeError, ConfigWriteError

_LOG: Final = logging.getLogger(__name__)

CONFIG_PARTITION: Final = 0


class LeaderWriter(Protocol):
    """Makes writes that only the leader may make. Not thread-safe."""

    def claim(self) -> None:
        """Claim the write privilege, and revoke it from the previous leader."""

    def write(self, what: str, rows: Sequence[Row]) -> Mapping[int, int]:
        """Write rows together. Return the offset after the last row, by partition; empty if it is unknown.

        Raises ConfigTooLargeError or ConfigWriteError; `what` is for their messages.
        """

    def close(self) -> None:
        """Close the connections."""


class PlainLeaderWriter:
    """Makes the writes of a leader without exactly-once support. A previous leader can still write."""

    def __init__(self, producer: PlainProducer, topic: str) -> None:
        self._producer = producer
        self._topic = topic

    def claim(self) -> None:
        """Do nothing: any worker may write."""

    def write(self, what: str, rows: Sequence[Row]) -> Mapping[int, int]:
        """Write rows, in order but not atomically. Raises ConfigWriteError."""
        return write_plainly(self._producer, self._topic, what, rows)

    def close(self) -> None:
        """Do nothing: the producer's owner closes it."""


class TransactionalLeaderWriter:
    """Makes the writes of a leader under a transactional id. Each claim of the privilege uses a `new_producer`."""

    def __init__(self, new_producer: Callable[[], TransactionalProducer], topic: str) -> None:
        self._new_producer = new_producer
        self._topic = topic
        self._producer: TransactionalProducer | None = None

    def claim(self) -> None:
        """Take over the transactional id, which fences a previous leader. Raises the errors of the initialization."""
        self._drop()
        producer = self._new_producer()
        try:
            producer.init_transactions()
        except FencepostError:
            producer.close()
            raise
        self._producer = producer

    def write(self, what: str, rows: Sequence[Row]) -> Mapping[int, int]:
        """Write rows in one transaction, and return as LeaderWriter does.

        Raises IllegalStateError without the privilege, ConfigTooLargeError, and ConfigTimestampError. Any other failure
        raises ConfigWriteError, and the privilege is lost.
        """
        producer = self._producer
        if producer is None:
            raise IllegalStateError(
                f"{what} cannot be written to the config topic {self._topic}: this worker does not have the right to "
                "write as the leader. Claim it first"
            )
        try:
            return write_in_transaction(producer, self._topic, rows)
        except RecordTooLargeError as error:
            self._abort(producer, what)
            raise ConfigTooLargeError(what, self._topic, size=error.size, limit=error.limit) from error
        except InvalidTimestampError as error:
            self._abort(producer, what)
            raise ConfigTimestampError(what, self._topic) from error
        except FencepostError as error:
            raise self._lost(what, error) from error

    def close(self) -> None:
        """Release the privilege."""
        self._drop()

    def _abort(self, producer: TransactionalProducer, what: str) -> None:
        try:
            producer.abort_transaction()
        except FencepostError as error:
            raise self._lost(what, error) from error

    def _lost(self, what: str, error: FencepostError) -> ConfigWriteError:
        # ProducerFencedError has a message about tasks, so the leader's error has another message.
        fenced = isinstance(error, ProducerFencedError)
        reason = "another worker has taken over the right to write as the leader" if fenced else str(error).rstrip(".")
        _LOG.warning("The right to write to the config topic %s as the leader is lost: %s", self._topic, reason)
        self._drop()
        return ConfigWriteError(what, self._topic, reason, privilege_lost=True)

    def _drop(self) -> None:
        if self._producer is not None:
            self._producer.close()
            self._producer = None


def write_plainly(producer: PlainProducer, topic: str, what: str, rows: Sequence[Row]) -> Mapping[int, int]:
    """Write rows outside of transactions. Return the offset after the last row, by partition.

    Raises ConfigTooLargeError or ConfigWriteError.
    """
    try:
        return producer.write(topic, [OutgoingRecord(key, value, partition=CONFIG_PARTITION) for key, value in rows])
    except RecordTooLargeError as error:
        raise ConfigTooLargeError(what, topic, size=error.size, limit=error.limit) from error
    except InvalidTimestampError as error:
        raise ConfigTimestampError(what, topic) from error
    except FencepostError as error:
        raise ConfigWriteError(what, topic, str(error).rstrip("."), privilege_lost=False) from error


def write_in_transaction(producer: TransactionalProducer, topic: str, rows: Sequence[Row]) -> Mapping[int, int]:
    """Write rows in one transaction. Return the offset after the last row, by partition; empty if it is unknown.

    `producer` must be initialized under the id of the group's leader, which excludes all other writers. Raises
    ProducerFencedError if another producer has taken over the id, and the errors of writing and committing.
    """
    producer.begin_transaction()
    try:
        acks = write_and_acknowledge(producer, topic, lambda _: [(CONFIG_PARTITION, Records.of_rows(rows))])
    except FencepostError as error:
        raise producer.resolve(error) from error
    producer.commit_transaction()
    last = acks[-1]
    # The offset is unknown if a broker already had the batch from an earlier attempt.
    return {} if last.base_offset < 0 else {CONFIG_PARTITION: last.base_offset + last.count}
