"""The ledger of one write: it decides which attempt of a task may write which topic partitions. Pure: no I/O.

Spark may run a task or a whole stage again while the first attempt still runs on an executor that Spark considers lost.
Both attempts would write with the same producer id and epoch, and partition leaders cannot distinguish them. So each
attempt asks a ledger before it writes. The entries of a ledger are records in one partition of a topic, so all readers
see the same order, and the first claim wins:

    opened   the driver has begun the transaction
    claim    an attempt of a task asks for topic partitions
    done     the attempt's records are acknowledged; its partitions are free, and the next writer continues after them
    failed   the attempt ended with an error
    closed   the driver is about to commit: nothing is granted any more

    UNKNOWN ──opened──> OPEN ──closed──> CLOSED

An attempt writes only to partitions that the ledger granted to it, and a task is granted to only one attempt. So each
attempt that may have written anything has a granted claim before `closed`. The driver commits only if these attempts
are exactly the attempts whose results Spark returned: then each of them has ended, and no other attempt has written.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum, auto
from typing import Final

from fencepost.api.errors import DataError, FencepostError
from fencepost.engine.errors import WriteRetriedError
from fencepost.kafka.errors import TransactionAbortableError
from fencepost.kafka.producer.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TopicPartition,
    Transaction,
    TransactionVersion,
)


@dataclass(frozen=True, slots=True)
class Opened:
    """The first entry: the transaction, and the Spark application whose driver began it.

    `version` is a TransactionVersion. `driver` is the text of `driver_process`, None if it is unknown.
    """

    transactional_id: str | None = None
    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    version: int = TransactionVersion.V1
    driver: str | None = None

    @classmethod
    def of(cls, transaction: Transaction, driver: str | None) -> Opened:
        """Return the first entry of the ledger for a transaction."""
        identity = transaction.identity
        return cls(transaction.transactional_id, identity.producer_id, identity.epoch, int(transaction.version), driver)

    @property
    def transaction(self) -> Transaction:
        """The transaction."""
        version = TransactionVersion(self.version)
        return Transaction(self.transactional_id, self.producer_id, self.producer_epoch, version)


@dataclass(frozen=True, slots=True)
class Claim:
    """An attempt of a task requests `partitions` of a topic: all of them, or with `one` any free partition of them.

    `attempt` is unique.
    """

    task: int
    attempt: int
    topic: str
    partitions: tuple[int, ...]
    one: bool


@dataclass(frozen=True, slots=True)
class Done:
    """An attempt has ended. `sequences` are the next sequence numbers, as (topic, partition, number)."""

    task: int
    attempt: int
    sequences: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Failed:
    """An attempt has failed."""

    task: int
    attempt: int
    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The last entry."""


Entry = Opened | Claim | Done | Failed | Closed

_KINDS: Final[Mapping[str, type[Entry]]] = {kind.__name__: kind for kind in (Opened, Claim, Done, Failed, Closed)}


def encoded(entry: Entry) -> bytes:
    """Return the value of an entry's record."""
    return json.dumps({"entry": type(entry).__name__, **asdict(entry)}, separators=(",", ":")).encode()


def decoded(value: bytes) -> Entry:
    """Read the value of an entry's record."""
    members = json.loads(value)
    kind = _KINDS[members.pop("entry")]
    lists = {name: tuple(map(_hashable, found)) for name, found in members.items() if isinstance(found, list)}
    return kind(**members | lists)


def _hashable(member: object) -> object:
    return tuple(member) if isinstance(member, list) else member


class LedgerState(Enum):
    """The state of a ledger."""

    UNKNOWN = auto()
    OPEN = auto()
    CLOSED = auto()


@dataclass
class Ledger:
    """The state of a ledger after the entries so far.

    `attempts` has for each task the attempt that it was granted to. `owners` has for each topic partition the task that
    writes it. `sequences` has the next sequence number of each partition that a task has written. `finished` are the
    tasks that are done.
    """

    state: LedgerState = LedgerState.UNKNOWN
    attempts: dict[int, int] = field(default_factory=dict)
    owners: dict[TopicPartition, int] = field(default_factory=dict)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    finished: set[int] = field(default_factory=set)

    def apply(self, entry: Entry) -> None:
        """Apply the next entry. An entry that is not allowed has no effect.

        A repeated entry has no effect either, even if it comes late. Entries may be repeated because an append without
        an answer is sent again, and brokers may process both.
        """
        match entry:
            case Opened() if self.state is LedgerState.UNKNOWN:
                self.state = LedgerState.OPEN
            case Closed():
                self.state = LedgerState.CLOSED
            case Claim() if self._may_write(entry.task, entry.attempt) and entry.task not in self.finished:
                self._grant(entry)
            case Done() if self.attempts.get(entry.task) == entry.attempt and entry.task not in self.finished:
                self.finished.add(entry.task)
                self.owners = {place: task for place, task in self.owners.items() if task != entry.task}
                self.sequences |= {(topic, partition): number for topic, partition, number in entry.sequences}
            case Failed() if self.attempts.get(entry.task) == entry.attempt:
                self.failures[entry.task] = entry.reason

    def granted(self, claim: Claim) -> tuple[int, ...]:
        """Return the partitions that the claim's attempt may write; empty until all needed partitions are granted.

        Raises WriteRetriedError if another attempt has the task, TransactionAbortableError if the ledger is not open,
        and DataError if the attempt would have to wait for another attempt while it owns partitions that other attempts
        may wait for.
        """
        if self.state is not LedgerState.OPEN:
            raise TransactionAbortableError(
                f"Task {claim.task} may not write, because the ledger of its write is "
                f"{'closed' if self.state is LedgerState.CLOSED else 'lost'}: its transaction has ended, or will be aborted"
            )
        if not self._may_write(claim.task, claim.attempt):
            raise self._retried(claim.task)
        mine = tuple(p for p in claim.partitions if self.owners.get((claim.topic, p)) == claim.task)
        if len(mine) == len(claim.partitions) or (mine and claim.one):
            return mine[:1] if claim.one else mine
        if claim.task in self.owners.values():
            raise _conflict(claim)
        return ()

    def could_grant(self, claim: Claim) -> bool:
        """Whether the claim would be granted as the next entry."""
        return bool(self._obtainable(claim))

    def check(self, attempts: Mapping[int, int]) -> None:
        """Check that no attempt except `attempts`, which maps tasks to their attempts, may have written.

        Raises WriteRetriedError if another attempt may have written, and TransactionAbortableError for a lost ledger.
        """
        for task, attempt in self.attempts.items():
            if attempts.get(task) != attempt:
                raise self._retried(task)
        if self.state is not LedgerState.CLOSED or attempts != self.attempts:
            raise TransactionAbortableError("The ledger of the write was lost, so its transaction is aborted")

    def _may_write(self, task: int, attempt: int) -> bool:
        return self.state is LedgerState.OPEN and self.attempts.get(task, attempt) == attempt

    def _grant(self, claim: Claim) -> None:
        if claim.one and any(self.owners.get((claim.topic, partition)) == claim.task for partition in claim.partitions):
            return
        if places := self._obtainable(claim):
            self.attempts[claim.task] = claim.attempt
            self.owners |= dict.fromkeys(places, claim.task)

    def _obtainable(self, claim: Claim) -> list[TopicPartition]:
        places = [(claim.topic, partition) for partition in claim.partitions]
        free = [place for place in places if self.owners.get(place, claim.task) == claim.task]
        if claim.one:
            return free[:1]
        return free if len(free) == len(places) else []

    def _retried(self, task: int) -> FencepostError:
        reason = self.failures.get(task)
        cause = "look for lost executors and Python workers" if reason is None else f"it had failed: {reason}"
        return WriteRetriedError(
            f"Spark ran task {task} of a write again after an attempt that may have written records, so the transaction is "
            f"aborted and nothing of it is visible. About the first attempt: {cause}"
        )


def _conflict(claim: Claim) -> FencepostError:
    return DataError(
        f"Task {claim.task} has rows for partitions of topic {claim.topic} that another task writes: use "
        "write_kafka or foreachBatch(exactly_once(...)) of fencepost.spark, which bring rows to their writers, or "
        "coalesce(1) the DataFrame"
    )
