"""A connector under test: starts it and its tasks, and reads their records."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from fencepost.api.errors import ConfigError, DataError
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.source import SourceConnector, SourceTask
from fencepost.testing.conformance.caller import Caller
from fencepost.testing.conformance.sequence import Reading, Seen, SeenPoll, snapshot
from fencepost.testing.conformance.violation import Violation, defined_at, raised
from fencepost.testing.connector_start import StartedConnector
from fencepost.testing.source_offsets import SourceOffsets
from fencepost.testing.task_run import Polled, RunningTask

_IDLE_POLLS: Final = 3
_IDLE_S: Final = 1.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the checks.

    `records`: the maximum number of records that are read. `offsets`: the maximum number of offsets of these records
    from which a task is resumed. `following`: how many records are compared after each resumption. `check_s`: after
    about this number of seconds, a check ends early. `call_s`: each call of the connector must return within these
    seconds. `stop_s`: a poll must return within these seconds after stop().
    """

    records: int = 300
    offsets: int = 60
    following: int = 5
    check_s: float = 30.0
    call_s: float = 15.0
    # The default of task.shutdown.graceful.timeout.ms.
    stop_s: float = 5.0


class CheckedTask:
    """A running task on its own thread, and its records so far."""

    def __init__(self, subject: Subject, started: StartedConnector, number: int, config: Mapping[str, str]) -> None:
        self._subject = subject
        self._caller = Caller(subject.limits.call_s)
        self._task_class = subject.task_class_of(started)
        self._scratch = SourceOffsets()
        self._last: tuple[Polled, list[tuple[SourcePartition | None, SourceOffset | None]]] | None = None
        self.steps: list[SeenPoll] = []
        self.ended = False
        self._empty_since: float | None = None
        self._empty_polls = 0
        try:
            self.task = self._caller.call("start()", lambda: RunningTask(started, number, config))
        except Violation:
            raise
        except Exception as error:
            raise raised("start()", error, self._task_class, "start") from error

    @property
    def reading(self) -> Reading:
        """The task's records so far."""
        return Reading(tuple(self.steps), self.ended)

    def poll(self) -> SeenPoll | None:
        """Poll once, and record the result. Sets `ended` if the source has no more records."""
        polled = self._polled(self.task.poll_once)
        self._check_unchanged()
        if not polled:
            self._nothing()
            return None
        self._empty_since, self._empty_polls = None, 0
        step = self._step(polled)
        self.steps.append(step)
        return step

    def poll_for(self, seconds: float) -> tuple[int, SeenPoll | None]:
        """Poll for some seconds, or until a poll returns records. Return the number of polls, and the records."""
        polls = 0

        def live() -> Polled:
            nonlocal polls
            until = time.monotonic() + seconds
            while True:
                polls += 1
                polled = self.task.poll_once()
                if polled or time.monotonic() > until:
                    return polled

        # One call of the thread makes all polls: a call for each poll would take longer than the poll.
        polled = self._polled(live)
        return polls, self._step(polled) if polled else None

    def _polled(self, poll: Callable[[], Polled]) -> Polled:
        try:
            return self._caller.call("poll()", poll)
        except Violation:
            raise
        except Exception as error:
            raise raised("poll()", error, self._task_class, "poll") from error

    def poll_until_some(self) -> SeenPoll | None:
        """Poll until there are records; None if the source ends before that."""
        while not self.ended:
            step = self.poll()
            if step is not None:
                return step
        return None

    def read(self, records: int, deadline: float) -> Reading:
        """Poll until this many records are read, the source ends, or the deadline on the monotonic clock has passed."""
        count = sum(len(step.records) for step in self.steps)
        while count < records and not self.ended and time.monotonic() < deadline:
            step = self.poll()
            count += 0 if step is None else len(step.records)
        return self.reading

    def commit(self) -> None:
        """Commit the polled records, and call the task's callbacks."""
        self._caller.call("commit()", self.task.commit)

    def stop(self) -> None:
        """Stop the task for good. Raises BlockedError if it does not stop."""
        try:
            self.ask_to_stop()
        finally:
            self._caller.end()

    def ask_to_stop(self) -> None:
        """Call the task's stop() on another thread, as a worker does. Raises BlockedError if it does not return."""
        other = Caller(self._subject.limits.call_s)
        try:
            other.call("stop()", self.task.stop)
        finally:
            other.end()

    @property
    def line(self) -> str | None:
        """Return `file:line` of the code that the task is running; None if it is idle."""
        return self._caller.line

    def _nothing(self) -> None:
        now = time.monotonic()
        self._empty_since = now if self._empty_since is None else self._empty_since
        self._empty_polls += 1
        try:
            at_end = self._caller.call("at_end()", self.task.at_end)
        except Violation:
            raise
        except Exception as error:
            raise raised("at_end()", error, self._task_class, "at_end") from error
        self.ended = at_end or (self._empty_polls >= _IDLE_POLLS and now - self._empty_since >= _IDLE_S)

    def _step(self, polled: Polled) -> SeenPoll:
        try:
            for record in polled.records:
                self._scratch.commit([(record.source_partition, record.source_offset)])
            self._scratch.commit(polled.offsets)
        except DataError as error:
            raise Violation(f"poll() returned an offset that cannot be stored: {error}", self._at_poll) from error
        self._last = polled, snapshot(polled.offsets)
        own = () if polled.is_batch else polled.records
        pairs = [(record.source_partition, record.source_offset) for record in own]
        return SeenPoll(
            tuple(Seen.of(record, self._subject.ignored) for record in polled.records),
            tuple(snapshot(polled.offsets)),
            tuple(snapshot(pairs)),
        )

    def _check_unchanged(self) -> None:
        if self._last is not None:
            polled, before = self._last
            self._last = None
            if snapshot(polled.offsets) != before:
                raise Violation(
                    "An offset that poll() had returned was changed by the next poll(): give each record a dict of its "
                    "own, because offsets are written later",
                    self._at_poll,
                )

    @property
    def _at_poll(self) -> str | None:
        return defined_at(self._task_class, "poll")


@dataclass(frozen=True)
class Subject:
    """A connector's class, with a configuration.

    `ignored` are names of headers and of fields of values that may be different each time a record is read. A name is
    `read_at`, or `meta.read_at` for a field within a field.
    """

    connector: type[SourceConnector]
    config: Mapping[str, str] = field(repr=False)
    limits: Limits = field(default_factory=Limits)
    ignored: frozenset[str] = frozenset()

    @cached_property
    def reference(self) -> Reading:
        """Return the records of one task from the beginning, without a commit.

        Raises Violation if the task returns no records.

        Raises ConfigError for an ignored field that no record has.
        """
        with self.task() as task:
            reading = task.read(self.limits.records, self.deadline())
        if not reading.records:
            raise Violation(
                "poll() returned no records: the checks need some. Give the connector a source that has records",
                defined_at(self.task_class, "poll"),
            )
        if unknown := self.ignored.difference(*(record.left_out for record in reading.records)):
            raise ConfigError(
                f"No record has the field or header {', '.join(sorted(unknown))}, which is to be ignored: name fields of "
                "the value as they are, and a field within a field with a dot, as meta.read_at"
            )
        return reading

    @cached_property
    def task_class(self) -> type[SourceTask]:
        """The class of the tasks."""
        with self.started() as started:
            return self.task_class_of(started)

    def task_class_of(self, started: StartedConnector) -> type[SourceTask]:
        """Request the class of the tasks. Raises Violation if the connector returns none."""
        try:
            return started.task_class()
        except Exception as error:
            raise raised("task_class()", error, self.connector, "task_class") from error

    def deadline(self) -> float:
        """Return when a check that starts now should end, in seconds on the monotonic clock."""
        return time.monotonic() + self.limits.check_s

    @contextmanager
    def started(self, offsets: SourceOffsets | None = None, *, tasks_max: int = 1) -> Iterator[StartedConnector]:
        """Start the connector, and stop it at the end."""
        config = {**self.config, "tasks.max": str(tasks_max)}
        caller = Caller(self.limits.call_s)
        try:
            started = caller.call("start() of the connector", lambda: StartedConnector(self.connector, config, offsets))
        except Violation:
            raise
        except Exception as error:
            raise raised("The start of the connector", error, self.connector, "start") from error
        else:
            yield started
            caller.call("stop() of the connector", started.stop)
        finally:
            caller.end()

    @contextmanager
    def tasks(self, count: int, offsets: SourceOffsets | None = None) -> Iterator[list[CheckedTask]]:
        """Start the connector and all tasks of `tasks.max=count`, and stop them at the end."""
        with self.started(offsets, tasks_max=count) as started:
            tasks: list[CheckedTask] = []
            try:
                for number, config in enumerate(self.task_configs(started, count)):
                    tasks.append(CheckedTask(self, started, number, config))
                yield tasks
            finally:
                for task in tasks:
                    task.stop()

    @contextmanager
    def task(self, offsets: SourceOffsets | None = None) -> Iterator[CheckedTask]:
        """Start the one task of `tasks.max=1`, and stop it at the end."""
        with self.tasks(1, offsets) as tasks:
            yield tasks[0]

    def task_configs(self, started: StartedConnector, count: int) -> list[dict[str, str]]:
        """Request the configurations of the tasks.

        Raises Violation if there is no configuration, or if there are more than `count`.
        """
        try:
            configs = started.task_configs(count)
        except Exception as error:
            raise raised("task_configs()", error, self.connector, "task_configs") from error
        if not 1 <= len(configs) <= count:
            raise Violation(
                f"task_configs({count}) returned {len(configs)} tasks: there must be at least 1, and at most {count}",
                defined_at(self.connector, "task_configs"),
            )
        return configs
