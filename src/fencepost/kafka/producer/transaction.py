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
    A failed initialization, or a refused epoch that is not a fencing, leads from any other state to FAILED.
    COMMITTING returns to IN_TRANSACTION if the transaction must be aborted instead.

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

    V1: partitions are added to the transaction by a separate request. Before a transaction begins, the producer's epoch
    is bumped (InitProducerId), which protects the transaction from late writers of earlier ones. V2 (KIP-890): the
    first batch of a partition adds the partition, and every EndTxn bumps the epoch.
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
    """The state of a transactional id, according to its coordinator (DescribeTransactions, KIP-664)."""

    identity: ProducerIdentity
    state: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """The data of an open transaction for its writers. It can be pickled.

    Without a `transactional_id` there is no transaction: the batches belong to an idempotent producer, and nothing
    aborts them. `sequences` has the next sequence number of each partition that was written in this transaction. Other
    partitions start at 0.
    """

    transactional_id: str | None
    producer_id: int
    producer_epoch: int
    version: TransactionVersion
    sequences: Mapping[TopicPartition, int] = field(default_factory=dict)

    @property
    def identity(self) -> ProducerIdentity:
        """The producer id and epoch that batches of this transaction carry."""
        return ProducerIdentity(self.producer_id, self.producer_epoch)


BEING_COMPLETED: Final = frozenset({"PrepareCommit", "PrepareAbort"})
"""The states of a transaction whose outcome is decided, but whose markers are not all written yet."""

_ABORTED_BY_COORDINATOR: Final = frozenset({"PrepareAbort", "CompleteAbort"})


def has_expired(ours: ProducerIdentity, view: CoordinatorView | None, *, open_ms: float, timeout_ms: int) -> bool:
    """Return whether a transaction with a refused epoch has expired. If not, a newer producer fenced its producer.

    Expiry and fencing both raise the epoch. Expiry raises it by one, and leaves the transaction aborted. A newer
    producer reaches another epoch and state. Both look alike only for some milliseconds during the fencing. A
    transaction that is younger than its time-out cannot have expired. `view` is None if the coordinator cannot be
    asked.
    """
    if open_ms < timeout_ms:
        return False
    expired = ProducerIdentity(ours.producer_id, ours.epoch + 1)
    return view is None or (view.identity == expired and view.state in _ABORTED_BY_COORDINATOR)


_LAST_EPOCH: Final = 32_766
"""From this epoch on, a coordinator assigns another producer id instead of raising the epoch.

A coordinator that raises the epoch by two at once does this one epoch earlier.
"""


def may_be_own_rise(ours: ProducerIdentity, view: CoordinatorView) -> bool:
    """Return whether this producer only seems to be fenced: its own earlier request may have raised the epoch.

    The coordinator raised the epoch, its answer was lost, and it does not recognize the retry (KAFKA-20310). A newer
    producer looks the same until it begins a transaction.
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
