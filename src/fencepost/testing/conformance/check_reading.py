"""Checks of a single task's records, and of where it resumes."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from fencepost.testing.conformance.caller import left_of
from fencepost.testing.conformance.sequence import Reading, Seen, difference
from fencepost.testing.conformance.subject import CheckedTask, Subject
from fencepost.testing.conformance.violation import NotApplicableError, Violation, defined_at, raised
from fencepost.testing.source_offsets import SourceOffsets

_BUSY_S: Final = 0.5
_BUSY_POLLS: Final = 200
_SETTLED_S: Final = 0.5
_CHECK_INTERVAL_S: Final = 0.05
_READING_S: Final = 5.0
_RESUMED_TWICE: Final = 5


def reads_the_source(subject: Subject) -> None:
    """poll() returns records, with offsets that can be stored."""
    if not subject.reference.records:
        raise AssertionError(subject)


def gives_the_same_again(subject: Subject) -> None:
    """Without a commit, the next task returns the same records again."""
    reference = subject.reference
    with subject.task() as task:
        again = task.read(len(reference.records), subject.deadline())
    wrong = difference(reference, 0, again.records, ended=again.ended)
    if wrong is not None:
        raise Violation(
            f"A task that started from the same offsets, none, returned something else: {wrong}. What a task returns may "
            "depend on its offsets only: not on other state, the time or chance. If a field has the time of reading, leave "
            "it out: fencepost test --ignore FIELD, in pytest check(..., ignore=[FIELD])",
            defined_at(subject.task_class, "poll"),
        )


def resumes_from_every_offset(subject: Subject) -> None:
    """From every offset that it returned, a task resumes with the next record."""
    deadline = subject.deadline()
    for number, point in enumerate(_in_spread_order(list(_resume_points(subject.reference)))):
        if number == subject.limits.offsets or time.monotonic() > deadline:
            return
        following = _check_following(subject, subject.reference, point, deadline)
        if number < _RESUMED_TWICE:
            # A resumed task's offsets may wrongly count from its own start. To detect that, a task is also resumed from
            # one of these.
            points = list(_resume_points(following, point.offsets))
            for again in points[len(points) // 2 :][:1]:
                _check_following(subject, following, again, deadline)


@dataclass(frozen=True, slots=True)
class _ResumePoint:
    """The committed offsets after the first `count` records."""

    count: int
    offsets: SourceOffsets


def _resume_points(reference: Reading, before: SourceOffsets | None = None) -> Iterator[_ResumePoint]:
    """Yield the resume points of a task's records.

    The task started at the offsets `before`; by default there were none.
    """
    committed = SourceOffsets() if before is None else before.copy()
    count = 0
    for step in reference.steps:
        for position in step.positions:
            committed.commit([position])
            count += 1
            yield _ResumePoint(count, committed.copy())
        if not step.positions:
            count += len(step.records)
            # If a batch has no offsets, it is committed together with a later batch.
            if step.offsets:
                committed.commit(step.offsets)
                yield _ResumePoint(count, committed.copy())


def _in_spread_order(points: list[_ResumePoint]) -> Iterator[_ResumePoint]:
    """Yield the first and the last point, and then points halfway between points that were already yielded."""
    if not points:
        return
    yield points[0]
    if len(points) > 1:
        yield points[-1]
    gaps = [(0, len(points) - 1)]
    while gaps:
        low, high = gaps.pop(0)
        if high - low > 1:
            middle = (low + high) // 2
            yield points[middle]
            gaps += [(low, middle), (middle, high)]


def _check_following(subject: Subject, reference: Reading, point: _ResumePoint, deadline: float) -> Reading:
    """Resume a task from a point of an earlier task's records. Raises Violation if it continues differently."""
    left = len(reference.records) - point.count
    with subject.task(point.offsets) as task:
        if left:
            following = task.read(min(left, subject.limits.following), deadline)
        else:
            task.poll()
            following = task.reading
    compared = following.records
    if reference is not subject.reference:
        # The resumed task has read only some of the records. Later records may be from source partitions that it has
        # not reached.
        known = {record.partition for record in reference.records}
        compared = [record for record in compared if record.partition in known]
    wrong = difference(reference, point.count, compared, ended=following.ended)
    if wrong is None:
        return following
    last: Seen = reference.records[point.count - 1]
    raise Violation(
        f"A task that resumed from the offset of {last}, {point.offsets.items()!r}: {wrong}. The offset of a record is the "
        "position after it, and different records of a source partition have different offsets",
        defined_at(subject.task_class, "start"),
    )


def waits_for_more(subject: Subject) -> None:
    """At the end of the source, poll() waits a little for more, and returns only new records."""
    with subject.task() as task:
        task.read(subject.limits.records, subject.deadline())
        if not task.ended:
            raise NotApplicableError(f"the source has more than {subject.limits.records} records")
        polls, step = task.poll_for(_BUSY_S)
    if step is not None:
        raise Violation(
            f"at_end() returned True, or poll() returned nothing for a second, but then came {step.records[0]}",
            defined_at(subject.task_class, "at_end"),
        )
    if polls > _BUSY_POLLS:
        raise Violation(
            f"poll() was called {polls} times in {_BUSY_S:g} s and had nothing to return: wait a little for more, for "
            "example by Event.wait, or the worker uses a whole core",
            defined_at(subject.task_class, "poll"),
        )


def stops_promptly(subject: Subject) -> None:
    """stop() lets a waiting poll() return, and raises nothing."""
    with subject.started() as started:
        task = CheckedTask(subject, started, 0, subject.task_configs(started, 1)[0])
        poller = _Poller(task)
        poller.start()
        poller.wait_until_it_waits()
        poller.stopping.set()
        task.ask_to_stop()
        poller.join(subject.limits.stop_s)
        while poller.is_alive() and (left_s := left_of(subject.limits.stop_s)) > 0:
            poller.join(left_s)
        if poller.is_alive():
            raise Violation(
                f"poll() did not return within {subject.limits.stop_s:g} s of stop(): wait with Event.wait, and let "
                "stop() set the event",
                task.line,
            )
        task.stop()
        if poller.violation is not None:
            raise poller.violation
        if task.task.stop_error is not None:
            raise raised("stop()", task.task.stop_error, subject.task_class, "stop")


class _Poller(threading.Thread):
    """Polls a task until the thread should stop, or the source has ended."""

    def __init__(self, task: CheckedTask) -> None:
        # A daemon thread, because the waiting poll may never return.
        super().__init__(name="conformance-poll", daemon=True)
        self._task = task
        self._polls = 0
        self.stopping = threading.Event()
        self.violation: Violation | None = None

    def run(self) -> None:
        """Poll the task."""
        try:
            while not self.stopping.is_set() and not self._task.ended:
                self._task.poll()
                self._polls += 1
        except Violation as violation:
            self.violation = violation

    def wait_until_it_waits(self) -> None:
        """Wait until a poll has lasted for a while, polling has ended, or the source turns out to be endless."""
        before, since = self._polls, time.monotonic()
        deadline = since + _READING_S
        while self.is_alive() and time.monotonic() < deadline:
            self.join(_CHECK_INTERVAL_S)
            if self._polls != before:
                before, since = self._polls, time.monotonic()
            elif time.monotonic() - since > _SETTLED_S and self._task.line is not None:
                return
