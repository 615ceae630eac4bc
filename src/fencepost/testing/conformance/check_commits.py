"""Checks of the records that tasks return when they are committed, killed or restarted, or their number changes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Final

from fencepost.storage.offsets.codec import identity_of
from fencepost.testing.conformance.sequence import Reading, Seen, SeenPoll, difference, records_of
from fencepost.testing.conformance.subject import CheckedTask, Subject
from fencepost.testing.conformance.violation import NotApplicableError, Violation, defined_at
from fencepost.testing.source_offsets import SourceOffsets

_TASK_COUNTS: Final = (1, 3, 2)
_RUNS: Final = 8


def survives_restarts(subject: Subject) -> None:
    """Restarted again and again, tasks return each record once."""
    _chain(subject, "was stopped after each commit, and started again", _commit_and_stop)


def survives_kills_before_a_commit(subject: Subject) -> None:
    """Killed after poll() and before the commit, tasks return each record once."""
    _chain(subject, "was killed after poll() before its commit, and started again", _lose_the_last_poll)


def survives_kills_after_a_commit(subject: Subject) -> None:
    """Killed after the commit and before its callbacks, tasks return each record once."""
    _chain(subject, "was killed after the commit, before commit() was called, and started again", _lose_the_callbacks)


Run = Callable[[CheckedTask, SourceOffsets], Iterator[SeenPoll]]


def _commit_and_stop(task: CheckedTask, committed: SourceOffsets) -> Iterator[SeenPoll]:
    del committed
    if steps := _steps_to_an_offset(task):
        yield from steps
        task.commit()


def _lose_the_last_poll(task: CheckedTask, committed: SourceOffsets) -> Iterator[SeenPoll]:
    yield from _commit_and_stop(task, committed)
    task.poll_until_some()


def _lose_the_callbacks(task: CheckedTask, committed: SourceOffsets) -> Iterator[SeenPoll]:
    for step in _steps_to_an_offset(task):
        yield step
        committed.commit(step.offsets)


def _steps_to_an_offset(task: CheckedTask) -> list[SeenPoll]:
    """Poll until something can be committed: a connector with its own transactions may return batches before that."""
    steps = []
    while (step := task.poll_until_some()) is not None:
        steps.append(step)
        if step.offsets:
            break
    return steps


def _chain(subject: Subject, what: str, run: Run) -> None:
    """Run one task after another on the same offsets. Compare all committed records with the expected ones."""
    reference, deadline = subject.reference, subject.deadline()
    committed, found, ended = SourceOffsets(), list[Seen](), False
    with ExitStack() as killed, subject.started(committed) as started:
        for _ in range(_RUNS):
            config = subject.task_configs(started, 1)[0]
            task = CheckedTask(subject, started, 0, config)
            # A fenced worker may stay alive. To simulate that, its task is stopped only at the end.
            keep = killed if run is not _commit_and_stop else None
            if keep is not None:
                keep.callback(task.stop)
            steps = list(run(task, committed))
            if keep is None:
                task.stop()
            found += records_of(steps)
            ended = not steps
            wrong = difference(reference, 0, found, ended=ended)
            if wrong is not None:
                raise Violation(
                    f"A task {what}: {wrong}. Uncommitted records must be returned again, committed ones must not",
                    defined_at(subject.task_class, "start"),
                )
            if ended or time.monotonic() > deadline or len(found) >= len(reference.records):
                return


def survives_more_and_fewer_tasks(subject: Subject) -> None:
    """When the number of tasks changes, no record is lost or returned twice."""
    reference, deadline = subject.reference, subject.deadline()
    committed, found, ended = SourceOffsets(), list[Seen](), False
    share = max(1, len(reference.records) // len(_TASK_COUNTS))
    for run, count in enumerate(_TASK_COUNTS):
        last = run == len(_TASK_COUNTS) - 1
        with subject.tasks(count, committed) as tasks:
            for task in tasks:
                task.read(len(reference.records) + 1 if last else max(1, share // len(tasks)), deadline)
                if task.steps and not task.steps[-1].offsets:
                    _steps_to_an_offset(task)
                found += task.reading.records
                task.commit()
            ended = all(task.ended for task in tasks)
        wrong = difference(reference, 0, found, ended=ended and last)
        if wrong is not None:
            raise Violation(
                f"With tasks.max={count}, after {' and '.join(map(str, _TASK_COUNTS[:run])) or 'no other'} task(s): {wrong}. "
                "A source partition belongs to the source, not to a task, and each is read by some task",
                defined_at(subject.connector, "task_configs"),
            )


def tasks_share_no_source_partition(subject: Subject) -> None:
    """No two tasks read the same source partition."""
    with subject.started(tasks_max=3) as started:
        if len(subject.task_configs(started, 3)) == 1:
            raise NotApplicableError("the connector makes one task of tasks.max=3")
    for count in (2, 3):
        owners: dict[str, int] = {}
        with subject.tasks(count) as tasks:
            for number, task in enumerate(tasks):
                for partition in _partitions(task.read(subject.limits.records, subject.deadline())):
                    other = owners.setdefault(partition, number)
                    if other != number:
                        raise Violation(
                            f"With tasks.max={count}, the tasks {other} and {number} read the same source partition, "
                            f"{partition}: give each to one task, or records are returned twice",
                            defined_at(subject.connector, "task_configs"),
                        )


def partitions_follow_task_configs(subject: Subject) -> None:
    """If the connector promises it, a task's configuration defines the source partitions that it reads."""
    with subject.started() as started:
        if not started.instance.partitions_follow_task_configs(started.config):
            raise NotApplicableError("partitions_follow_task_configs() returns False")
    known: dict[tuple[int, str], tuple[int, set[str]]] = {}
    for count in (1, 2, 3):
        with subject.tasks(count) as tasks:
            for number, task in enumerate(tasks):
                partitions = _partitions(task.read(subject.limits.records, subject.deadline()))
                if not task.ended:
                    continue
                key = number, repr(sorted(task.task.config.items()))
                first, before = known.setdefault(key, (count, partitions))
                if before != partitions:
                    raise Violation(
                        f"partitions_follow_task_configs() returns True, but task {number} has the same configuration "
                        f"with tasks.max={first} and {count}, and other source partitions: {sorted(before)} and "
                        f"{sorted(partitions)}",
                        defined_at(subject.connector, "partitions_follow_task_configs"),
                    )


def _partitions(reading: Reading) -> set[str]:
    return {identity_of(partition) for step in reading.steps for partition, _ in (*step.positions, *step.offsets)}
