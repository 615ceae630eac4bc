"""Errors of the communication with a Kafka cluster.

    KafkaError
    ├── BrokerUnavailableError      no broker answers (a RetriableError too)
    │   ├── NoDescriptorError       this process has no file descriptor for a connection
    │   └── ConcurrentTransactionsError   the last transaction of the transactional id does not end
    ├── AuthenticationError         the broker does not accept the credentials, or the TLS handshake fails
    ├── AuthorizationError          the principal lacks a right
    ├── UnsupportedBrokerError      the broker is too old for the request
    ├── TopicNotFoundError          the topic does not exist and the broker does not create it
    ├── PartitionGoneError          the topic no longer has a partition for which records are sent
    ├── TopicCreationError          the topic cannot be created
    ├── DisklessTopicError          the topic does not accept transactions (KIP-1150)
    ├── RecordTooLargeError         one record is larger than a limit
    ├── InvalidTimestampError       the timestamps of records are too far from the broker's clock
    ├── InvalidProducerEpochError   a writer's transaction is over; `TransactionalProducer.resolve` finds out why
    ├── ProducerFencedError         a newer instance of the task owns the transactional id
    ├── TransactionExpiredError     the transaction ran longer than transaction.timeout.ms
    ├── TransactionAbortableError   the transaction must be aborted; the same records may be sent in a new one
    │   ├── DeliveryTimeoutError    a batch was not acknowledged within delivery.timeout.ms
    │   └── LostEpochError          the coordinator raised the epoch, but does not remember for whom
    ├── GroupProtocolError          a worker of the group sent data that cannot be read
    ├── UnknownOutcomeError         nobody knows whether the commit took place until the committed offsets are read
    └── BrokerRefusedError          any other error in a broker's answer

Spark's executors send these errors to the worker with their attributes. `engine/reports.py` lists these attributes.
"""

from __future__ import annotations

from typing import Final

from fencepost.api.errors import FencepostError, RetriableError
from fencepost.config.file_descriptors import OutOfFileDescriptorsError


class KafkaError(FencepostError):
    """The base of errors of the communication with a Kafka cluster. This class itself is never raised."""


class BrokerUnavailableError(KafkaError, RetriableError):
    """No broker can be reached, or the required one does not answer in time."""

    def __init__(self, message: str, *, address: str | None = None) -> None:
        super().__init__(message)
        self.address = address


class NoDescriptorError(BrokerUnavailableError, OutOfFileDescriptorsError):
    """This process has no file descriptor left for a connection; nothing is known about the broker."""

    def __init__(self, address: str) -> None:
        OutOfFileDescriptorsError.__init__(
            self, f"There is no file descriptor for a connection to the broker {address}"
        )
        self.address = address


class ConcurrentTransactionsError(BrokerUnavailableError):
    """The last transaction of a transactional id does not end (CONCURRENT_TRANSACTIONS).

    Retriable: the transaction ends once the brokers are healthy again, or repaired. `state` is the transaction's state
    at the coordinator; None if it is unknown.
    """

    def __init__(
        self, transactional_id: str, request: str, *, waited_ms: int, coordinator: str, state: str | None
    ) -> None:
        seen = (
            "is unknown (to see it, the principal needs DESCRIBE on the transactional id)"
            if state is None
            else f"is {state}"
        )
        super().__init__(
            f"The last transaction of {transactional_id} did not end within {waited_ms} ms, in which its coordinator put "
            f"{request} off (CONCURRENT_TRANSACTIONS). Its state {seen}. {HELD_UP}: then restart the broker at "
            f"{coordinator}, and upgrade it. `fencepost transactions list` shows what is open",
            address=coordinator,
        )
        self.transactional_id = transactional_id
        self.request = request
        self.waited_ms = waited_ms
        self.state = state


HELD_UP: Final = (
    "Either a partition that it wrote to has no leader, or fewer replicas in sync than min.insync.replicas: check the "
    "brokers' health. Or the coordinator has a known fault (KAFKA-19999, Kafka 4.2 and later)"
)
"""Possible reasons why a transaction does not end, for messages."""


class AuthenticationError(KafkaError):
    """The broker does not accept the credentials, or one side does not trust the other's certificate."""


class AuthorizationError(KafkaError):
    """The principal lacks a right. `resource` is for example `topic orders`, `operation` for example `WRITE`."""

    def __init__(self, resource: str, operation: str) -> None:
        super().__init__(
            f"Not authorized: the principal lacks {operation} on {resource}. "
            f"Add an ACL that allows {operation} on it, then restart what failed"
        )
        self.resource = resource
        self.operation = operation


class UnsupportedBrokerError(KafkaError):
    """The broker does not support a required request."""


class TopicNotFoundError(KafkaError):
    """The topic does not exist, and the broker does not create it automatically.

    `to_read` selects the message for readers.
    """

    def __init__(self, topic: str, *, to_read: bool = False) -> None:
        super().__init__(
            f"Topic {topic} does not exist on this cluster: check the name, and that bootstrap.servers is the right cluster"
            if to_read
            else f"Topic {topic} does not exist and the broker does not create it by itself: create the topic, "
            "or set topic.creation.default.partitions and topic.creation.default.replication.factor"
        )
        self.topic = topic


class PartitionGoneError(KafkaError):
    """Records were sent for a partition that its topic does not have any more.

    Kafka never removes partitions, so the topic was deleted and created again.
    """

    def __init__(self, topic: str, partition: int) -> None:
        super().__init__(
            f"Topic {topic} was deleted and created again with fewer partitions while records were sent to it: it has no "
            f"partition {partition} any more. The records that the topic had before are gone. Restart the failed task to send new "
            "records, or stop the connector and reset its offsets to send all of them again"
        )
        self.topic = topic
        self.partition = partition


class TopicCreationError(KafkaError):
    """A topic cannot be created."""

    def __init__(self, topic: str, reason: str) -> None:
        super().__init__(f"Topic {topic} cannot be created: {reason}")
        self.topic = topic
        self.reason = reason


class DisklessTopicError(KafkaError):
    """A topic is diskless (KIP-1150), so brokers do not accept transactional records for it."""

    def __init__(self, topic: str) -> None:
        super().__init__(
            f"No records can be written to topic {topic} exactly once: it is diskless (diskless.enable=true), and diskless "
            "topics take no part in transactions. Create it with diskless.enable=false, or send the records to another "
            "topic"
        )
        self.topic = topic


class RecordTooLargeError(KafkaError):
    """One record is larger than a limit. `size` and `limit` are bytes; `setting` is the property to raise.

    `limit` is None if only the broker knows it.
    """

    def __init__(self, topic: str, size: int, limit: int | None, setting: str) -> None:
        limit_text = "" if limit is None else f"the {limit} bytes that "
        super().__init__(
            f"A record for topic {topic} takes {size} bytes, more than {limit_text}{setting} allows: "
            f"raise {setting}, or make the source's records smaller"
        )
        self.topic = topic
        self.size = size
        self.limit = limit
        self.setting = setting


class InvalidTimestampError(KafkaError):
    """A broker refuses records because their timestamps are too far from its clock (INVALID_TIMESTAMP)."""

    def __init__(self, topic: str, detail: str | None = None) -> None:
        detail_text = f" ({detail.rstrip('.')})" if detail else ""
        super().__init__(
            f"The broker refused records for topic {topic} with INVALID_TIMESTAMP: their timestamps are further from "
            "the broker's clock than message.timestamp.before.max.ms and message.timestamp.after.max.ms of the topic "
            f"allow{detail_text}. Set the clocks of this machine and of the brokers; if the source gives its records "
            "timestamps, check those"
        )
        self.topic = topic


class InvalidProducerEpochError(KafkaError):
    """The brokers refuse a producer's epoch: its transaction ended, expired, or was fenced.

    `TransactionalProducer.resolve` turns it into ProducerFencedError or TransactionExpiredError.
    """

    def __init__(self, transactional_id: str, code_name: str) -> None:
        super().__init__(
            f"The brokers refuse the transaction of {transactional_id} ({code_name}): it ended, expired, or a newer "
            "instance of the task took over"
        )
        self.transactional_id = transactional_id
        self.code_name = code_name


class ProducerFencedError(KafkaError):
    """A newer instance of the task owns the transactional id; this one can write nothing any more."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"Fenced: a newer instance of the task took over the transactional id {transactional_id}. Uncommitted "
            "records of this instance are aborted. If no other instance of the task runs, restart it; if it is fenced "
            "again, another program runs the same task: stop that"
        )
        self.transactional_id = transactional_id


class TransactionExpiredError(KafkaError):
    """The coordinator aborted the transaction because it was open longer than `transaction.timeout.ms`."""

    def __init__(self, transactional_id: str, *, open_ms: int, timeout_ms: int) -> None:
        super().__init__(
            f"The transaction of {transactional_id} expired: it was open for {open_ms} ms and "
            f"transaction.timeout.ms is {timeout_ms}. Its records are aborted and will be read again. To prevent it: "
            "tune the producer for throughput (producer.override.batch.size, compression.type), raise "
            "producer.override.transaction.timeout.ms, commit more often (a smaller "
            "transaction.boundary.interval.ms), set transaction.boundary=poll if the connector allows it, or make the "
            "source's batches smaller"
        )
        self.transactional_id = transactional_id
        self.open_ms = open_ms
        self.timeout_ms = timeout_ms


class TransactionAbortableError(KafkaError):
    """The transaction must be aborted. The same records may then be sent in a new transaction.

    Outside of transactions, records that were written stay in the topic, and the same records may be sent again.
    """


class TransactionalIdExpiredError(TransactionAbortableError):
    """The brokers removed a transactional id that had been idle for long. It can be initialized again."""

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"The brokers forgot the transactional id {transactional_id}, which had no transaction for longer than "
            "their transactional.id.expiration.ms: it is initialized again, and the records are sent in a new "
            "transaction"
        )
        self.transactional_id = transactional_id


class LostEpochError(TransactionAbortableError):
    """A coordinator raised the epoch, but its answer was lost, and it refuses the producer's retry.

    The id can be initialized again.
    """

    def __init__(self, transactional_id: str) -> None:
        super().__init__(
            f"The transaction coordinator of {transactional_id} raised its epoch, lost the answer in a failover, and refused "
            "the retry (KAFKA-20310): the transactional id is initialized again, and the task goes on from its committed "
            "offsets"
        )
        self.transactional_id = transactional_id


class DeliveryTimeoutError(TransactionAbortableError):
    """A batch was not acknowledged within `delivery.timeout.ms`. It is unknown whether the broker has it."""

    def __init__(self, topic: str, partition: int, *, waited_ms: int, last_problem: str) -> None:
        super().__init__(
            f"A batch for {topic}-{partition} was not acknowledged for {waited_ms} ms (delivery.timeout.ms); the last "
            f"problem was: {last_problem}. Check the brokers' health, or raise producer.override.delivery.timeout.ms"
        )
        self.topic = topic
        self.partition = partition
        self.waited_ms = waited_ms
        self.last_problem = last_problem


class UnknownOutcomeError(KafkaError):
    """A commit was sent, but its outcome is unknown.

    The task must initialize its transactional id again, which either commits or aborts the transaction. Then it must
    read the committed offsets, which show the outcome.
    """

    def __init__(self, transactional_id: str, last_problem: str) -> None:
        super().__init__(
            f"It is not known whether the last transaction of {transactional_id} was committed: {last_problem}. "
            "Restart the task: it settles the transaction and goes on from the offsets that are committed"
        )
        self.transactional_id = transactional_id
        self.last_problem = last_problem


class GroupProtocolError(KafkaError):
    """A worker of the group violated Connect's group protocol. `what` names the message, `problem` the error in it."""

    def __init__(self, what: str, problem: str) -> None:
        super().__init__(
            f"The group of workers has a member that sends what cannot be read as {what}: {problem}. Check that only "
            "Connect workers use this group.id"
        )
        self.what = what
        self.problem = problem


class BrokerRefusedError(KafkaError):
    """A broker answered with an error that has no class of its own.

    `code` is Kafka's error code and `name` its name (https://kafka.apache.org/protocol#protocol_error_codes).
    """

    def __init__(self, request: str, code: int, name: str, detail: str | None = None) -> None:
        detail_text = f": {detail}" if detail else ""
        super().__init__(f"The broker refused {request} with {name} ({code}){detail_text}")
        self.request = request
        self.code = code
        self.name = name
