"""A transaction as its writers see it, and the states of the producer that owns it.

    UNINITIALIZED ──init_transactions──> READY <─────────────────────────────────┐
          ^                              │   ^                                   │
          │                   begin_transaction                                  │
          │                              v   │ committed / aborted               │
          │                       IN_TRANSACTION ──commit_transaction──> COMMITTING
          │                              │                                  │
          │                       abort_transaction ──> ABORTING ───────────┤
          │                                                 │               │
          └──────init_transactions── FAILED <───────────────┴───────────────┤
                                                                            v
                                              FENCED <── (from any state but UNINITIALIZED)

    READY, FAILED and UNINITIALIZED may be initialized (again); FENCED and CLOSED are final. Any state may be closed.

Transaction versions: https://cwiki.apache.org/confluence/display/KAFKA/KIP-890.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, IntEnum, auto
from typing import Final

TopicPartition = tuple[str, int]
"""A topic's name and the number of one of its partitions."""

NO_PRODUCER_ID: Final = -1
NO_PRODUCER_EPOCH: Final = -1


class TransactionVersion(IntEnum):
    """The cluster's `transaction.version`.

    V1: partitions are added to the transaction by a separate request, and a transaction is protected from late writers
    of an earlier one by bumping the epoch (InitProducerId) before it begins. V2 (KIP-890): the first batch of a
    partition adds it, and every EndTxn bumps the epoch.
    """

    V1 = 1
    V2 = 2


@dataclass(frozen=True, slots=True)
class ProducerIdentity:
    """A producer id and its epoch."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


@dataclass(frozen=True, slots=True)
class CoordinatorView:
    """The coordinator's state of a transactional id (DescribeTransactions, KIP-664)."""

    identity: ProducerIdentity
    state: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """The data of an open transaction that every writer needs. It can be pickled.

    Without a `transactional_id` there is no transaction: the batches belong to an idempotent producer, and are always
    kept. `sequences` holds the next sequence number of each partition that was written in this transaction; a partition
    that is not in it starts at 0.
    """

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    version: TransactionVersion
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch that its batches carry."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)


BEING_COMPLETED: Final = frozenset({"PrepareCommit", "PrepareAbort"})
"""The coordinator's states in which a transaction has ended but its markers are not written yet."""

_ABORTED_BY_COORDINATOR: Final = frozenset({"PrepareAbort", "CompleteAbort"})


def has_expired(ours: ProducerIdentity, view: CoordinatorView | None, *, open_ms: float, timeout_ms: int) -> bool:
    """Return whether a transaction with a refused epoch expired; if not, a newer producer fenced its producer.

    Both raise the epoch. Expiry raises it by one and leaves the transaction aborted; a newer producer reaches another
    epoch and state. Both look alike only for the milliseconds in which the newer producer fences: but then the
    transaction is younger than its time-out. `view` is None if the coordinator cannot be asked.
    """
    if open_ms < timeout_ms:
        return False
    expired = ProducerIdentity(ours.producer_id, ours.epoch + 1)
    return view is None or (view.identity == expired and view.state in _ABORTED_BY_COORDINATOR)


_LAST_EPOCH: Final = 32_766
"""At this epoch (or before it, after another raise) a coordinator takes another producer id."""


def may_be_own_rise(ours: ProducerIdentity, view: CoordinatorView) -> bool:
    """Return whether a coordinator may have raised our own epoch, although it answers that we are fenced.

    Its answer was lost, and with it the information to recognize the retry (KAFKA-20310). A newer producer looks the
    same until it begins a transaction.
    """
    raised = view.identity == ProducerIdentity(ours.producer_id, ours.epoch + 1)
    rotated = (
        ours.epoch >= _LAST_EPOCH - 1 and view.identity.producer_id != ours.producer_id and view.identity.epoch == 0
    )
    return (raised or rotated) and view.state == "Empty"


class TransactionState(Enum):
    """The state of a TransactionalProducer."""

    UNINITIALIZED = auto()
    READY = auto()
    IN_TRANSACTION = auto()
    COMMITTING = auto()
    ABORTING = auto()
    FENCED = auto()
    FAILED = auto()
    CLOSED = auto()


_S = TransactionState

TRANSITIONS: Final[Mapping[TransactionState, frozenset[TransactionState]]] = {
    _S.UNINITIALIZED: frozenset({_S.READY, _S.FAILED, _S.CLOSED}),
    _S.READY: frozenset({_S.READY, _S.IN_TRANSACTION, _S.FENCED, _S.FAILED, _S.CLOSED}),
    _S.IN_TRANSACTION: frozenset({_S.COMMITTING, _S.ABORTING, _S.FENCED, _S.FAILED, _S.CLOSED}),
    _S.COMMITTING: frozenset({_S.READY, _S.IN_TRANSACTION, _S.FENCED, _S.FAILED, _S.CLOSED}),
    _S.ABORTING: frozenset({_S.READY, _S.FENCED, _S.FAILED, _S.CLOSED}),
    _S.FAILED: frozenset({_S.READY, _S.FENCED, _S.FAILED, _S.CLOSED}),
    _S.FENCED: frozenset({_S.CLOSED}),
    _S.CLOSED: frozenset({_S.CLOSED}),
}
"""The states that may follow each state."""
