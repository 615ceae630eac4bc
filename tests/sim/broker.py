"""A Kafka of one broker, as far as transactions go: logs, producer ids and epochs, and when what is visible.

A topic has one partition, unless it grows: then each further one is a log `topic/number` of its own. A batch is open
until a marker commits or aborts it; readers see what is committed before the first batch that is still open (the last
stable offset). Markers are written some time after a transaction was decided on, each partition for itself.

Source: KIP-98, KIP-360, KIP-890 (both transaction versions); of a producer's earlier batches only the last is known.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from fencepost.kafka.producer.transaction import ProducerIdentity, TransactionVersion
from tests.sim.kernel import Kernel

Row = tuple[Any, Any]
"""Key and value of a record."""


class Code(StrEnum):
    """The errors that the broker answers."""

    NONE = "NONE"
    DUPLICATE = "DUPLICATE_SEQUENCE_NUMBER"
    OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
    INVALID_PRODUCER_EPOCH = "INVALID_PRODUCER_EPOCH"
    INVALID_TXN_STATE = "INVALID_TXN_STATE"
    INVALID_PRODUCER_ID_MAPPING = "INVALID_PRODUCER_ID_MAPPING"
    CONCURRENT_TRANSACTIONS = "CONCURRENT_TRANSACTIONS"


class Phase(StrEnum):
    """The state of a transactional id's transaction, under DescribeTransactions' names."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"


_PREPARING: Final = frozenset({Phase.PREPARE_COMMIT, Phase.PREPARE_ABORT})


@dataclass(slots=True, eq=False)
class Batch:
    """Records that were written together. `committed` is None while their transaction is open."""

    topic: str
    offset: int
    rows: Sequence[Row]
    time: float
    producer_id: int = -1
    epoch: int = -1
    committed: bool | None = True
    transactional_id: str = ""


@dataclass(slots=True)
class _Producer:
    """A partition's state of a producer."""

    epoch: int
    next_sequence: int = 0
    last: Batch | None = None
    open: list[Batch] = field(default_factory=list)


@dataclass(slots=True)
class _Log:
    end: int = 0
    batches: list[Batch] = field(default_factory=list)
    producers: dict[int, _Producer] = field(default_factory=dict)
    open: dict[int, int] = field(default_factory=dict)
    """The start of each open transaction's first batch, by producer id."""
    followers: list[Callable[[], None]] = field(default_factory=list)

    @property
    def stable(self) -> int:
        return min(self.open.values()) if self.open else self.end


@dataclass(slots=True)
class _Transaction:
    producer_id: int
    epoch: int = 0
    phase: Phase = Phase.EMPTY
    topics: set[str] = field(default_factory=set)
    number: int = 0
    timeout_s: float = 60.0


def log_of(topic: str, partition: int) -> str:
    """The name of a partition's log."""
    return f"{topic}/{partition}" if partition else topic


def topic_of(log: str) -> str:
    """The topic of a partition's log."""
    return log.partition("/")[0]


class Broker:
    """All methods are requests, which take no simulated time."""

    bumps_epochs = True
    """Whether InitProducerId fences. Set to False by a mutation, which the model must notice."""
    compacts = False
    """Whether a reader that starts may find the topic compacted."""

    def __init__(self, kernel: Kernel, on_marker: Callable[[Sequence[Batch], bool], None]) -> None:
        """`on_marker` is called with a partition's batches when a marker commits or aborts them."""
        self._kernel = kernel
        self._logs: dict[str, _Log] = {}
        self._partitions: dict[str, int] = {}
        self._grown_at: dict[str, float] = {}
        self._transactions: dict[str, _Transaction] = {}
        self._next_producer_id = 1
        self._on_marker = on_marker

    # -- reading ------------------------------------------------------------------------------------------------

    def end(self, topic: str) -> int:
        """The offset after the last record, committed or not."""
        return self._log(topic).end

    def fetch(self, topic: str, position: int) -> tuple[list[tuple[int, Row, float]], int]:
        """Return the committed records from a position on, as offset, row and time, and the position behind them."""
        log = self._log(topic)
        stable = log.stable
        # Search from the end, because readers mostly ask for the last batches.
        index = len(log.batches)
        while index and log.batches[index - 1].offset + len(log.batches[index - 1].rows) > position:
            index -= 1
        found = [
            (batch.offset + number, row, batch.time)
            for batch in log.batches[index:]
            if batch.offset < stable and batch.committed
            for number, row in enumerate(batch.rows)
            if batch.offset + number >= position
        ]
        return found, max(position, stable)

    def is_settled(self, *topics: str) -> bool:
        """Whether no transaction is open in these topics."""
        return not any(self._log(log).open for topic in topics for log in self.logs(topic))

    def grow(self, topic: str) -> None:
        """Give a topic one more partition."""
        self._partitions[topic] = self.partitions(topic) + 1
        self._grown_at[topic] = self._kernel.now

    def partitions(self, topic: str) -> int:
        """The number of a topic's partitions."""
        return self._partitions.get(topic, 1)

    def grown(self, within_s: float) -> list[str]:
        """The topics that got a partition in the last seconds."""
        return [topic for topic, grown_at in self._grown_at.items() if self._kernel.now - grown_at < within_s]

    def logs(self, topic: str) -> list[str]:
        """The names of the logs of a topic's partitions."""
        return [log_of(topic, partition) for partition in range(self.partitions(topic))]

    def follow(self, topic: str, told: Callable[[], None]) -> None:
        """Call a function whenever more of a topic may be read."""
        self._log(topic).followers.append(told)

    def batches(self, topic: str) -> list[Batch]:
        """All of a topic's batches."""
        return self._log(topic).batches

    # -- writing ------------------------------------------------------------------------------------------------

    def write_plainly(self, topic: str, rows: Sequence[Row]) -> int:
        """Append rows outside of transactions; return the offset behind them."""
        log = self._log(topic)
        batch = Batch(topic, log.end, rows, self._kernel.now)
        log.batches.append(batch)
        log.end += len(rows)
        self._on_marker([batch], True)
        self._tell(log)
        return log.end

    def produce(  # noqa: PLR0917 - the fields of a Produce request
        self, name: str, identity: ProducerIdentity, version: TransactionVersion, topic: str, sequence: int, rows: Any
    ) -> tuple[Code, int]:
        """Append rows to a transaction; return the first one's offset."""
        log = self._log(topic)
        known = log.producers.get(identity.producer_id)
        if known is not None and identity.epoch < known.epoch:
            return Code.INVALID_PRODUCER_EPOCH, -1
        if known is not None and identity.epoch == known.epoch and sequence < known.next_sequence:
            return Code.NONE if known.last is not None else Code.DUPLICATE, known.last.offset if known.last else -1
        if known is None or not known.open:
            code = self._verify(name, identity, version, topic)
            if code is not Code.NONE:
                return code, -1
            if known is None or identity.epoch > known.epoch:
                known = log.producers[identity.producer_id] = _Producer(identity.epoch)
        if identity.epoch != known.epoch:
            return Code.INVALID_PRODUCER_EPOCH, -1
        if sequence != known.next_sequence:
            return Code.OUT_OF_ORDER, -1
        batch = Batch(topic, log.end, rows, self._kernel.now, identity.producer_id, identity.epoch, None, name)
        log.batches.append(batch)
        log.open.setdefault(identity.producer_id, log.end)
        log.end += len(rows)
        known.open.append(batch)
        known.last, known.next_sequence = batch, sequence + len(rows)
        return Code.NONE, batch.offset

    def _verify(self, name: str, identity: ProducerIdentity, version: TransactionVersion, topic: str) -> Code:
        found = self._transactions.get(name)
        if found is None or found.producer_id != identity.producer_id:
            return Code.INVALID_PRODUCER_ID_MAPPING
        if found.epoch != identity.epoch:
            return Code.INVALID_PRODUCER_EPOCH
        if found.phase in _PREPARING:
            return Code.CONCURRENT_TRANSACTIONS
        if version is TransactionVersion.V1:
            return Code.NONE if topic in found.topics else Code.INVALID_TXN_STATE
        self._add(name, found, topic)
        return Code.NONE

    def add_partition(self, name: str, identity: ProducerIdentity, topic: str) -> Code:
        """Make a topic part of a transaction of version 1."""
        return self._verify(name, identity, TransactionVersion.V2, topic)

    def _add(self, name: str, transaction: _Transaction, topic: str) -> None:
        if transaction.phase is not Phase.ONGOING:
            transaction.phase = Phase.ONGOING
            transaction.topics = set()
            transaction.number += 1
            number = transaction.number
            self._kernel.later(transaction.timeout_s, lambda: self._expire(name, transaction, number))
        transaction.topics.add(topic)

    # -- transactions -------------------------------------------------------------------------------------------

    def init_producer_id(self, name: str, current: ProducerIdentity, timeout_s: float) -> tuple[Code, ProducerIdentity]:
        """Take over a transactional id; answers "retry" while the open transaction is being aborted."""
        found = self._transactions.get(name)
        if found is None:
            found = self._transactions[name] = _Transaction(self._next_producer_id, -1)
            self._next_producer_id += 1
            found.epoch = 0
        elif found.phase in _PREPARING:
            return Code.CONCURRENT_TRANSACTIONS, ProducerIdentity()
        elif found.phase is Phase.ONGOING:
            # A given epoch is ignored here.
            self._prepare(name, found, committed=False, bump=self.bumps_epochs)
            return Code.CONCURRENT_TRANSACTIONS, ProducerIdentity()
        else:
            if current.producer_id >= 0 and current != ProducerIdentity(found.producer_id, found.epoch):
                return Code.INVALID_PRODUCER_EPOCH, ProducerIdentity()
            found.epoch += self.bumps_epochs
            found.phase = Phase.EMPTY
            if not self.bumps_epochs:
                self._forget_sequences(found.producer_id)
        found.timeout_s = timeout_s
        return Code.NONE, ProducerIdentity(found.producer_id, found.epoch)

    def _forget_sequences(self, producer_id: int) -> None:
        for log in self._logs.values():
            known = log.producers.get(producer_id)
            if known is not None:
                known.next_sequence, known.last = 0, None

    def end_transaction(  # noqa: PLR0911 - a table of what may be found
        self, name: str, identity: ProducerIdentity, version: TransactionVersion, *, committed: bool
    ) -> tuple[Code, ProducerIdentity]:
        """Commit or abort; a repeated request has the same answer."""
        found = self._transactions.get(name)
        if found is None or found.producer_id != identity.producer_id:
            return Code.INVALID_PRODUCER_ID_MAPPING, identity
        second = version is TransactionVersion.V2
        ended = {Phase.COMPLETE_COMMIT, Phase.PREPARE_COMMIT} if committed else {
            Phase.COMPLETE_ABORT, Phase.PREPARE_ABORT
        }  # fmt: skip
        bumped = ProducerIdentity(found.producer_id, found.epoch)
        if second and identity.epoch == found.epoch - 1 and found.phase in ended:
            return Code.NONE, bumped
        if identity.epoch != found.epoch:
            return Code.INVALID_PRODUCER_EPOCH, identity
        if found.phase is Phase.ONGOING:
            self._prepare(name, found, committed=committed, bump=second)
            return Code.NONE, ProducerIdentity(found.producer_id, found.epoch)
        if not second and found.phase in ended:
            return Code.NONE, identity
        if second and not committed and found.phase not in _PREPARING:
            found.epoch += 1
            found.phase = Phase.COMPLETE_ABORT
            return Code.NONE, ProducerIdentity(found.producer_id, found.epoch)
        return Code.INVALID_TXN_STATE, identity

    def describe(self, name: str) -> tuple[ProducerIdentity, str] | None:
        """Return the coordinator's state of a transactional id."""
        found = self._transactions.get(name)
        return None if found is None else (ProducerIdentity(found.producer_id, found.epoch), str(found.phase))

    def completion(self, name: str) -> Code:
        """Return whether an ended transaction still waits for its markers."""
        found = self._transactions.get(name)
        return Code.CONCURRENT_TRANSACTIONS if found is not None and found.phase in _PREPARING else Code.NONE

    def _expire(self, name: str, transaction: _Transaction, number: int) -> None:
        if transaction.phase is Phase.ONGOING and transaction.number == number:
            self._kernel.note(f"broker: the transaction of {name} expires")
            self._prepare(name, transaction, committed=False, bump=True)

    def _prepare(self, name: str, transaction: _Transaction, *, committed: bool, bump: bool) -> None:
        transaction.epoch += bump
        transaction.phase = Phase.PREPARE_COMMIT if committed else Phase.PREPARE_ABORT
        self._kernel.note(f"broker: {name} epoch {transaction.epoch}: {transaction.phase}")
        for topic in sorted(transaction.topics):
            delay = self._kernel.random.expovariate(1 / 0.02)
            self._kernel.later(delay, lambda topic=topic: self._mark(transaction, topic, committed=committed))

    def _mark(self, transaction: _Transaction, topic: str, *, committed: bool) -> None:
        log = self._log(topic)
        known = log.producers.setdefault(transaction.producer_id, _Producer(transaction.epoch))
        ended, known.open = known.open, []
        for batch in ended:
            batch.committed = committed
        log.open.pop(transaction.producer_id, None)
        log.end += 1
        if transaction.epoch > known.epoch:
            known.epoch, known.next_sequence, known.last = transaction.epoch, 0, None
        self._on_marker(ended, committed)
        transaction.topics.discard(topic)
        if not transaction.topics:
            transaction.phase = Phase.COMPLETE_COMMIT if committed else Phase.COMPLETE_ABORT
        self._tell(log)

    def _tell(self, log: _Log) -> None:
        for told in log.followers:
            told()

    def _log(self, topic: str) -> _Log:
        log = self._logs.get(topic)
        if log is None:
            log = self._logs[topic] = _Log()
        return log
