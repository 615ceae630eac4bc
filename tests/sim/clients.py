"""Replacements of the worker's Kafka clients: they ask the simulated broker, and retry like the real ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Self
from zlib import crc32

from fencepost.kafka.admin.fencing import FencingError
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import (
    BrokerUnavailableError,
    DeliveryTimeoutError,
    InvalidProducerEpochError,
    TransactionAbortableError,
)
from fencepost.kafka.producer.partition_queue import Ack
from fencepost.kafka.producer.transaction import CoordinatorView, ProducerIdentity, Transaction, TransactionVersion
from fencepost.kafka.records.columns import OutgoingRecord, RecordHeaders, Records
from tests.sim.broker import Broker, Code, Row, log_of
from tests.sim.group import GroupCoordinator
from tests.sim.kernel import Kernel, Process
from tests.sim.network import Network

REQUEST_S = 2.0
_DELIVERY_MS = 20_000.0
_METADATA_AGE_S = 10.0


@dataclass(frozen=True)
class Site:
    """The broker, network and process that a worker's code runs with."""

    process: Process
    network: Network
    broker: Broker
    group: GroupCoordinator
    version: TransactionVersion
    statuses: Any
    older: bool = False
    """Whether the worker has an older version, which fences and restarts all tasks after any change."""

    @property
    def kernel(self) -> Kernel:
        return self.process.kernel

    def asked(
        self, what: str, request: Callable[[], Any], deadline: Deadline, given_up: Callable[[], bool] = lambda: False
    ) -> Any:
        """Repeat a request until there is an answer. Raises BrokerUnavailableError."""
        while True:
            answer = self.network.call(request, timeout=REQUEST_S, what=what)
            if answer is not None and answer[0] is not Code.CONCURRENT_TRANSACTIONS:
                return answer
            if deadline.passed or given_up():
                raise BrokerUnavailableError(f"{what} was not answered in time")
            self.kernel.sleep(0.02)


class SimTransactionCoordinator:
    """Replaces kafka.coordinator.TransactionCoordinator."""

    def __init__(self, site: Site, transactional_id: str) -> None:
        self._site = site
        self._id = transactional_id
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def init_producer_id(
        self, current: ProducerIdentity, *, timeout_ms: int, deadline: Deadline
    ) -> tuple[ProducerIdentity, TransactionVersion]:
        broker = self._site.broker
        code, identity = self._call(
            "InitProducerId", lambda: broker.init_producer_id(self._id, current, timeout_ms / 1000), deadline
        )
        self._raise_for(code)
        self._site.kernel.note(f"owns {self._id}: producer {identity.producer_id}, epoch {identity.epoch}")
        return identity, self._site.version

    def end_transaction(
        self, identity: ProducerIdentity, version: TransactionVersion, *, committed: bool, deadline: Deadline
    ) -> ProducerIdentity:
        broker = self._site.broker
        code, after = self._call(
            "EndTxn", lambda: broker.end_transaction(self._id, identity, version, committed=committed), deadline
        )
        self._raise_for(code)
        return after

    def retire(self, identity: ProducerIdentity, *, timeout_ms: int, deadline: Deadline) -> None:
        if self.describe(deadline).identity != identity:
            raise InvalidProducerEpochError(self._id, str(Code.INVALID_PRODUCER_EPOCH))
        with suppress(InvalidProducerEpochError):
            self.init_producer_id(identity, timeout_ms=timeout_ms, deadline=deadline)

    def check_epoch(self, identity: ProducerIdentity, deadline: Deadline) -> None:
        broker = self._site.broker
        code, _ = self._call(
            "EndTxn",
            lambda: broker.end_transaction(self._id, identity, TransactionVersion.V1, committed=False),
            deadline,
        )
        if code is not Code.INVALID_TXN_STATE:
            self._raise_for(code)

    def add_partition(self, identity: ProducerIdentity, topic: str, deadline: Deadline) -> None:
        """Add a topic to the transaction (version 1)."""
        broker = self._site.broker
        code, _ = self._call(
            "AddPartitionsToTxn", lambda: (broker.add_partition(self._id, identity, topic), None), deadline
        )
        self._raise_for(code)

    def describe(self, deadline: Deadline) -> CoordinatorView:
        found = self._call("DescribeTransactions", lambda: self._site.broker.describe(self._id), deadline)
        return CoordinatorView(*found)

    def ask_completion(self) -> None:
        """An optimization that the model does not need: `await_completion` asks."""

    def await_completion(self, deadline: Deadline) -> None:
        broker = self._site.broker
        self._call("DescribeTransactions", lambda: (broker.completion(self._id), None), deadline)

    def close(self) -> None:
        """There is nothing to release."""

    def _call(self, what: str, request: Callable[[], Any], deadline: Deadline) -> Any:
        return self._site.asked(f"{what} of {self._id}", request, deadline, lambda: self._cancelled)

    def _raise_for(self, code: Code) -> None:
        if code is not Code.NONE:
            raise InvalidProducerEpochError(self._id, str(code))


class SimWriter:
    """Replaces kafka.writer.RecordWriter: each write is a batch, which `flush` sends until it is answered."""

    def __init__(self, site: Site, transaction: Transaction, before_sending: Callable[[], None] = lambda: None) -> None:
        self._site = site
        self._transaction = transaction
        self._before_sending = before_sending
        self._queued: list[tuple[str, Sequence[Row]]] = []
        self._cancelled = False
        self._closed = False

    @property
    def finished(self) -> bool:
        return self._closed and not self._queued

    @property
    def in_doubt(self) -> bool:
        return not self._closed or bool(self._queued)

    def cancel(self) -> None:
        self._cancelled = True

    def partitions(self, topic: str) -> int:
        # The worker and each executor learn of new partitions at different times.
        broker = self._site.broker
        return self.kept_partitions(topic) if topic in broker.grown(_METADATA_AGE_S) else broker.partitions(topic)

    def kept_partitions(self, topic: str) -> int:
        # The worker's partition count of a topic that grew may be outdated.
        now = self._site.broker.partitions(topic)
        return now if now == 1 else self._site.kernel.random.choice((now, now - 1))

    def known_partitions(self) -> dict[str, int]:
        # A topic whose metadata have expired is left out: the worker has to look it up.
        draw = self._site.kernel.random
        return {
            topic: self.partitions(topic) for topic in self._site.broker.grown(_METADATA_AGE_S) if draw.random() < 0.5
        }

    def write(self, topic: str, partition: int, records: Records | Sequence[Row]) -> None:
        rows: Sequence[Row]
        if isinstance(records, Records):
            assert records.key is not None
            headers = [()] * len(records) if records.headers is None else records.headers.to_pylist()
            columns = zip(records.key.to_pylist(), records.value.to_pylist(), headers, strict=True)
            rows = [
                SimRow.of(OutgoingRecord(key, value, tuple((header["key"], header["value"]) for header in row)))
                for key, value, row in columns
            ]
        else:
            rows = records
        self._queued.append((log_of(topic, partition), rows))

    def flush(self) -> list[Ack]:
        sequences = {topic: number for (topic, _), number in self._transaction.sequences.items()}
        acks = []
        for topic, rows in self._queued:
            sequence = sequences.get(topic, 0)
            self._before_sending()
            acks.append(self._send(topic, sequence, rows))
            sequences[topic] = sequence + len(rows)
        self._queued.clear()
        return acks

    def close(self) -> None:
        self._closed = True

    def _send(self, topic: str, sequence: int, rows: Sequence[Row]) -> Ack:
        site, transaction = self._site, self._transaction
        name, identity = transaction.transactional_id, transaction.identity
        deadline = Deadline.after(_DELIVERY_MS)
        try:
            if transaction.version is TransactionVersion.V1 and sequence == 0:
                SimTransactionCoordinator(site, name).add_partition(identity, topic, deadline)
            code, offset = site.asked(
                "Produce",
                lambda: site.broker.produce(name, identity, transaction.version, topic, sequence, rows),
                deadline,
                lambda: self._cancelled,
            )
        except BrokerUnavailableError as error:
            raise DeliveryTimeoutError(topic, 0, waited_ms=int(_DELIVERY_MS), last_problem=str(error)) from error
        if code in (Code.INVALID_PRODUCER_EPOCH, Code.INVALID_TXN_STATE, Code.INVALID_PRODUCER_ID_MAPPING):
            raise InvalidProducerEpochError(name, str(code))
        if code is Code.OUT_OF_ORDER:
            raise TransactionAbortableError("The broker does not know the transaction's earlier records")
        now_ms = int(site.kernel.now * 1000)
        return Ack(topic, 0, sequence, len(rows), offset, 0, now_ms)


class SimRow(tuple[Any, Any]):  # noqa: SLOT001 - a tuple of two with something besides
    """Key and value of a record with headers."""

    headers: RecordHeaders

    @classmethod
    def of(cls, record: OutgoingRecord) -> SimRow:
        row = cls((record.key, record.value))
        row.headers = record.headers
        return row


class SimPlainProducer:
    """Replaces kafka.plain_producer.PlainProducer."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def write(self, topic: str, rows: Sequence[Row | OutgoingRecord]) -> Mapping[int, int]:
        broker = self._site.broker
        by_log: dict[str, list[SimRow]] = defaultdict(list)
        for row in rows:
            record = OutgoingRecord(*row)
            hashed = crc32(record.key) % broker.partitions(topic)
            by_log[log_of(topic, hashed if record.partition is None else record.partition)].append(SimRow.of(record))
        deadline = Deadline.after(_DELIVERY_MS)
        end = 0
        for log, owned in by_log.items():
            request = partial(broker.write_plainly, log, owned)
            _, end = self._site.asked("Produce", lambda request=request: (Code.NONE, request()), deadline)
        return {0: end}

    def close(self) -> None:
        """There is nothing to release."""


class SimAdmin:
    """Replaces kafka.admin.Admin, with the requests of herders."""

    def __init__(self, site: Site) -> None:
        self._site = site

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def cluster_id(self) -> str:
        return "simulated"

    def require_transactions(self) -> None:
        """The simulated broker supports all requests."""

    def ensure_compacted_topic(self, *_: Any, **__: Any) -> bool:
        return False

    def fence_producers(self, ids: Iterable[str]) -> SimAdmin:
        broker = self._site.broker
        deadline = Deadline.after(30_000)
        for name in ids:
            self._site.kernel.note(f"fences {name}")
            try:
                self._site.asked(
                    "InitProducerId", lambda name=name: broker.init_producer_id(name, ProducerIdentity(), 1.0), deadline
                )
            except BrokerUnavailableError as error:
                raise FencingError(f"{name} is not fenced: {error}", {name: error}) from error
        return self

    def all(self) -> None:
        """`fence_producers` has already raised any error."""
