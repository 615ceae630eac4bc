"""The invariants, checked against the records in the simulated topics, not against the workers' own state."""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fencepost.storage.configs.codec import CommitRecord, Config, TargetState, TaskCountRecord
from fencepost.storage.configs.state import ClusterConfigState, apply
from fencepost.storage.configs.task_count import fencing_plan
from fencepost.storage.offsets.codec import decode_key, decode_value, mark_of
from fencepost.storage.offsets.shared_partitions import SharedPartitions
from tests.sim.broker import Batch, Broker, Row, topic_of
from tests.sim.kernel import Kernel
from tests.sim.site import CONFIGS, OFFSETS, OWN_OFFSETS, decoded
from tests.sim.source import DATA, Origin

_OFFSETS_TOPICS = OFFSETS, OWN_OFFSETS

_Record = tuple[tuple[int, int], int]
"""The producer id and epoch of a record's transaction, and its number in its source partition."""


@dataclass
class _Generations:
    """A connector's commits of task configurations, counted from 1, and the fenced ones among them."""

    commits: list[int] = field(default_factory=list)
    """The offsets of these commits."""
    owned_since: dict[int, int] = field(default_factory=dict)
    """By source partition: the commit since which it belongs to the same task."""
    fenced_before: dict[int, int] = field(default_factory=dict)
    """By source partition: from this offset on, tasks of earlier commits may not have visible records of it."""
    all_fenced_before: int = 0
    """The same for source partitions that belong to no task."""


class Checker:
    """Watches the broker, and reports records that must not be there."""

    def __init__(self, kernel: Kernel, on_commit: Callable[[], None]) -> None:
        """`on_commit` is called when a connector gets task configurations."""
        self._kernel = kernel
        self._on_commit = on_commit
        self.state = ClusterConfigState()
        self.looks_at_stops = True
        self.keyed = False
        """Whether each source partition's records have their own key."""
        self._position = 0
        self._stored: dict[tuple[str, int], tuple[float, int]] = {}
        self._stored_positions: dict[str, int] = {}
        self._generations: dict[str, _Generations] = defaultdict(_Generations)
        self._shared = SharedPartitions()

    def follow(self, broker: Broker) -> None:
        self._broker = broker
        broker.follow(CONFIGS, self._read_configs)

    @property
    def fencing_is_due(self) -> bool:
        """Whether some connector has task configurations without a task count record behind them."""
        return any(entry.pending_fencing for entry in self.state.entries.values())

    # -- no write of generation n is visible after the count record of generation n + 1 ------------------------

    def on_marker(self, batches: Sequence[Batch], committed: bool) -> None:
        """Check batches that become visible."""
        for batch in batches:
            if committed and topic_of(batch.topic) in _OFFSETS_TOPICS:
                self._check_authors(batch)
            if committed and topic_of(batch.topic) == DATA:
                for (origin, number), sequence in batch.rows:
                    known = self._generations[origin.connector]
                    commit = bisect_left(known.commits, origin.planned_at)
                    owned_since = known.fenced_before.get(number, known.all_fenced_before)
                    if commit < owned_since:
                        self._kernel.fault(
                            f"record {sequence} of partition {number} of {origin.connector} was written by task "
                            f"{origin.task} of commit {commit} and is visible though commit {owned_since}, which gives "
                            "the partition to another task, has its task count record"
                        )
                        return

    # -- no two tasks are taken for sharing a source partition -------------------------------------------------

    def _check_authors(self, batch: Batch) -> None:
        """Check that PartitionGuard, which reads these commits, would not fail a task."""
        for row in batch.rows:
            named, mark = decode_key(row[0]), mark_of(getattr(row, "headers", ()), 0)
            if named is not None and mark.author is not None:
                self._shared.commit(named.connector, named.identity, mark.author, mark.time)
                if self._shared.found(named.connector)[0]:
                    self._kernel.fault(f"two tasks are taken for sharing {named.partition} of {named.connector}")

    def _read_configs(self) -> None:
        rows, self._position = self._broker.fetch(CONFIGS, self._position)
        for offset, (key, value), _ in rows:
            record = decoded(key, value)
            before = self.state
            self.state, _ = apply(before, offset, record)
            if self.looks_at_stops:
                self._check_stopped(before)
            if isinstance(record, CommitRecord):
                known = self._generations[record.connector]
                known.commits.append(offset)
                known.owned_since = self._owned_since(known, before, record)
                self._kernel.note(
                    f"configs: commit {len(known.commits)} of {record.connector} has {record.tasks} task(s), "
                    f"partitions belong to theirs since {known.owned_since}"
                )
                self._on_commit()
            elif isinstance(record, TaskCountRecord) and record.tasks is not None:
                former = before.task_count_record(record.connector)
                known = self._generations[record.connector]
                self._kernel.note(f"configs: task count {record.tasks} of {record.connector}, before it {former}")
                # With one task before and after, the new one fences the old one by its transactional id at its start.
                if fencing_plan(former, record.tasks) is not None:
                    known.fenced_before, known.all_fenced_before = known.owned_since, len(known.commits)

    def _owned_since(self, known: _Generations, before: ClusterConfigState, record: CommitRecord) -> dict[int, int]:
        """Set since which commit each partition belongs to its task: one of the same number and configuration."""
        name = record.connector
        unchanged = record.continues is not None and _for_tasks(before.applied_config(name)) == _for_tasks(
            before.connector_config(name)
        )
        former, tasks = before.task_configs(name), self.state.task_configs(name)
        owned = {}
        for number, config in enumerate(tasks):
            goes_on = unchanged and number < len(former) and former[number] == config
            for partition in json.loads(config.get("partitions") or "[]"):
                owned[partition] = known.owned_since[partition] if goes_on else len(known.commits)
        return owned

    # -- what belongs together in the config topic is there together ------------------------------------------

    def _check_stopped(self, before: ClusterConfigState) -> None:
        """Check that no record leaves a connector that is stopped and has tasks."""
        for name, entry in self.state.entries.items():
            if entry.target_state is TargetState.STOPPED and entry.tasks and entry is not before.entry(name):
                self._kernel.fault(f"connector {name} is STOPPED and has {len(entry.tasks)} task(s)")

    def stored(self) -> Mapping[tuple[str, int], int]:
        """The offsets as readers see them."""
        for log in self._offsets_logs():
            rows, self._stored_positions[log] = self._broker.fetch(log, self._stored_positions.get(log, 0))
            for _, row, time in rows:
                if not _is_copy(row):
                    partition, offset = _committed(*row)
                    self._stored[partition] = max(self._stored.get(partition, (0.0, 0)), (time, offset))
        return {partition: offset for partition, (_, offset) in self._stored.items()}

    def has_copies(self, connector: str) -> bool:
        """Whether a copy in the worker's offsets topic is the newest offset of some source partition of a connector."""
        last: dict[bytes, Any] = {}
        for log in self._broker.logs(OFFSETS):
            last |= {row[0]: row for batch in self._broker.batches(log) if batch.committed for row in batch.rows}
        return any(
            named.connector == connector and _is_copy(row) for key, row in last.items() if (named := decode_key(key))
        )

    # -- nothing lost, nothing doubled, offsets as visible -----------------------------------------------------

    def next_offsets(self) -> dict[tuple[str, int], int]:
        """Go through the committed transactions in the order of their offsets; return each partition's position.

        The offset before a transaction, the records in it, and the offset in it must fit together.
        """
        written = self._records_by_transaction()
        order: dict[tuple[str, int], list[_Record]] = defaultdict(list)
        offsets: dict[tuple[str, int], int] = defaultdict(int)
        # Offset records outside of transactions are copies of others.
        batches = [
            batch for log in self._offsets_logs() for batch in self._broker.batches(log) if batch.transactional_id
        ]
        transactions: dict[tuple[int, int], list[Batch]] = defaultdict(list)
        for batch in sorted(batches, key=lambda batch: batch.time):
            if batch.committed:
                transactions[batch.producer_id, batch.epoch].append(batch)
        for transaction, parts in transactions.items():
            records = written.pop(transaction, {})
            rows = [row for batch in parts for row in batch.rows]
            for key, value in rows:
                partition, stored = _committed(key, value)
                sequences = sorted(records.pop(partition, []))
                expected = list(range(offsets[partition], stored))
                if sequences and sequences != expected:
                    self._fault(
                        partition, f"records {sequences} are visible where the offsets go {offsets[partition]} -> "
                        f"{stored}",
                    )  # fmt: skip
                elif not sequences and expected and not self._set_by_hand(rows):
                    self._fault(partition, f"records {expected} are lost: their offsets are stored, they are not")
                offsets[partition] = stored
                order[partition] += [(transaction, sequence) for sequence in sequences]
            if records:
                self._fault(next(iter(records)), f"{records} are visible without their offsets")
        for records in written.values():
            self._fault(next(iter(records)), f"{records} are visible without their offsets")
        self._check_order(order)
        if self.keyed:
            self._check_keys()
        return offsets

    def _offsets_logs(self) -> list[str]:
        return [log for topic in _OFFSETS_TOPICS for log in self._broker.logs(topic)]

    def _set_by_hand(self, rows: Sequence[Row]) -> bool:
        """Whether a user set the offsets: no task writes several offsets without records, or removes any."""
        return all(value is None or decode_value(value) == {"next": 0} for _, value in rows)

    def _records_by_transaction(self) -> dict[tuple[int, int], dict[tuple[str, int], list[int]]]:
        written: dict[tuple[int, int], dict[tuple[str, int], list[int]]] = defaultdict(lambda: defaultdict(list))
        for _, origin, number, (transaction, sequence) in self._visible():
            written[transaction][origin.connector, number].append(sequence)
        return written

    def _check_order(self, order: dict[tuple[str, int], list[_Record]]) -> None:
        """Check that each topic partition has a source partition's records in the order of their offsets."""
        visible: dict[tuple[str, tuple[str, int]], list[_Record]] = defaultdict(list)
        for log, origin, number, record in self._visible():
            visible[log, (origin.connector, number)].append(record)
        ranks = {
            partition: {record: rank for rank, record in enumerate(records)} for partition, records in order.items()
        }
        for (log, partition), records in visible.items():
            rank = ranks[partition]
            if records != sorted(records, key=rank.__getitem__):
                told = [sequence for _, sequence in sorted(records, key=rank.__getitem__)]
                self._fault(partition, f"{log} has {[sequence for _, sequence in records]}, the offsets tell of {told}")

    def _check_keys(self) -> None:
        """Check that records of one key that were written together are in one partition of the topic."""
        placed: dict[tuple[tuple[int, int], Origin, int], str] = {}
        for log, origin, number, (transaction, sequence) in self._visible():
            other = placed.setdefault((transaction, origin, number), log)
            if log != other:
                partition = origin.connector, number
                self._fault(partition, f"one batch has the key's records in {other} and, from {sequence} on, in {log}")
                return

    def _visible(self) -> Iterator[tuple[str, Origin, int, _Record]]:
        """The visible records: their log, their writer, their source partition and their numbers."""
        for log in self._broker.logs(DATA):
            for batch in self._broker.batches(log):
                if batch.committed:
                    transaction = batch.producer_id, batch.epoch
                    for (origin, number), sequence in batch.rows:
                        yield log, origin, number, (transaction, sequence)

    def _fault(self, partition: tuple[str, int], text: str) -> None:
        self._kernel.fault(f"partition {partition[1]} of {partition[0]}: {text}")


def _is_copy(row: Any) -> bool:
    return mark_of(getattr(row, "headers", ()), 0).origin is not None


def _committed(key: bytes, value: bytes | None) -> tuple[tuple[str, int], int]:
    """A connector, a source partition, and its committed position."""
    named, offset = decode_key(key), decode_value(value)
    assert named is not None
    assert named.partition is not None
    return (named.connector, named.partition["partition"]), 0 if offset is None else offset["next"]


def _for_tasks(config: Config | None) -> dict[str, str | None]:
    return {name: text for name, text in (config or {}).items() if name != "tasks.max"}
