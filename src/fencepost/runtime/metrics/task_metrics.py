"""The metrics of one task."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from fencepost.engine.error_counts import ErrorCounts
from fencepost.engine.plugin_counts import PluginCounts
from fencepost.runtime.metrics.definitions import ERROR_PREFIX, OWN_PREFIX, SOURCE_PREFIX, TASK_PREFIX, with_prefix
from fencepost.runtime.metrics.histogram import Buckets
from fencepost.runtime.metrics.transaction_metrics import (
    CommittedOffsets,
    EndedTransaction,
    TransactionEnd,
    TransactionMetrics,
    TransferCounts,
    Transferred,
)
from fencepost.runtime.metrics.windowed import Windowed
from fencepost.runtime.plugin_metrics import MetricKinds, PluginSample, WorkerPluginMetrics
from fencepost.runtime.state import State

_MS: Final = 1000.0
_STARTED: Final = frozenset({State.RUNNING, State.PAUSED})
_FAILED: Final = frozenset({State.FAILED, State.RESTARTING})


@dataclass(frozen=True, slots=True)
class TaskSnapshot:
    """A task's state, its metrics by name, and the number of bytes that it has sent."""

    state: State
    values: Mapping[str, float]
    histograms: Mapping[str, tuple[Buckets, float]]
    sent: int


@dataclass(frozen=True, slots=True)
class Activity:
    """The activity of a task, for display. `rate` is in records per second; it is 0 unless the task is RUNNING.

    `lag` is in the source's unit; None if unknown. Times are in milliseconds since the epoch. `ended` are the last
    transactions, the oldest first.
    """

    state: State
    counts: TransferCounts
    rate: float
    lag: float | None
    restarts: int
    open_since_ms: int | None
    last_commit_ms: int | None
    ended: tuple[EndedTransaction, ...]


class TaskMetrics:
    """The metrics of one task. Thread-safe.

    `clock` returns seconds. `on_start` is called once; its argument says whether the task reached RUNNING.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        on_start: Callable[[bool], None] = lambda _: None,
        kinds: MetricKinds | None = None,
    ) -> None:
        """`kinds` has the types of the worker's plugin metrics."""
        self._kinds = kinds or MetricKinds()
        self._plugin_metrics: list[WorkerPluginMetrics] = []
        self._clock = clock
        self._on_start: Callable[[bool], None] | None = on_start
        self._lock = threading.Lock()
        self._state = State.UNASSIGNED
        self._since = self._created = clock()
        self._time_in: dict[State, float] = {}
        self._polled = self._written = self._active = self._sent = self._restarts = 0
        self._lag = self._greatest_lag = math.nan
        self._transferred = TransferCounts()
        self._poll_records, self._poll_time, self._writes = Windowed(), Windowed(), Windowed()
        self._batch_size, self._active_count, self._transaction_size = Windowed(), Windowed(), Windowed()
        self._commit_time, self._commits = Windowed(), Windowed()
        self._errors = ErrorCounts()
        self._last_error_ms = 0
        self.transactions = TransactionMetrics(clock)

    def new_plugin_metrics(
        self, task: str, counts: PluginCounts | None = None, labels: Mapping[str, str] | None = None
    ) -> WorkerPluginMetrics:
        """Return an object with which a run of the task, or a plugin in that run, adds metrics.

        `labels` identify the plugin. `counts` collects counts from Spark's executors.
        """
        plugin = "".join(f", {label} {text}" for label, text in (labels or {}).items())
        metrics = WorkerPluginMetrics(f"task {task}{plugin}", self._kinds, labels=labels, counts=counts)
        with self._lock:
            self._plugin_metrics.append(metrics)
        return metrics

    def end_plugin_metrics(self) -> None:
        """Drop the metrics of the task and its plugins, because the run has ended."""
        with self._lock:
            ended, self._plugin_metrics = self._plugin_metrics, []
        for metrics in ended:
            metrics.close()

    def plugin_samples(self) -> list[PluginSample]:
        """Return the values of the task's own metrics, and of its plugins'."""
        with self._lock:
            shown = list(self._plugin_metrics)
        return [sample for metrics in shown for sample in metrics.samples()]

    def state(self, state: State, *, created: bool = True) -> None:
        """Record the task's state. A task that could not be created has not started, even if it is PAUSED."""
        with self._lock:
            now = self._clock()
            self._time_in[self._state] = self._time_in.get(self._state, 0.0) + now - self._since
            self._state, self._since = state, now
            self._restarts += state is State.RESTARTING
        started = created and state in _STARTED
        if self._on_start is not None and (started or state is State.FAILED):
            on_start, self._on_start = self._on_start, None
            on_start(started)

    def polled(self, seconds: float) -> None:
        """Record a poll that returned records."""
        with self._lock:
            self._poll_time.record(seconds * _MS, self._clock())
            self.transactions.polled()

    def lag(self, lag: float | None) -> None:
        """Record the source's lag; None if unknown."""
        self._lag = math.nan if lag is None else lag
        self._greatest_lag = self._lag if math.isnan(self._greatest_lag) else max(self._greatest_lag, self._lag)

    def began(self) -> None:
        """Record that a transaction was opened."""
        with self._lock:
            self.transactions.began()

    def wrote(self, polled: int, written: int, size: int = 0, errors: ErrorCounts | None = None) -> None:
        """Record a batch: the numbers of records before and after the transforms, its bytes as sent, and its errors."""
        with self._lock:
            now = self._clock()
            self._polled += polled
            self._written += written
            self._sent += size
            self._active += written
            self._poll_records.record(polled, now)
            self._batch_size.record(polled, now)
            self._writes.record(written, now)
            self._active_count.record(self._active, now)
            self.transactions.wrote(written, size)
        if errors is not None:
            self.failed_records(errors)

    def failed_records(self, errors: ErrorCounts) -> None:
        """Record errors of records."""
        with self._lock:
            self._errors += errors
            if errors.failures or errors.errors:
                self._last_error_ms = time.time_ns() // 1_000_000

    def committed(self, size: int, seconds: float, offsets: CommittedOffsets = ()) -> None:
        """Record a committed transaction with `size` records, and its offsets."""
        with self._lock:
            now = self._clock()
            self._transaction_size.record(size, now)
            self._commit_time.record(seconds * _MS, now)
            self._commits.record(1, now)
            self._done(size, now)
            opened = self.transactions.open
            self._count(records=size, bytes=0 if opened is None else opened.bytes, transactions=1)
            self.transactions.committed(size, seconds, offsets)

    def acknowledged(self, size: int) -> None:
        """Record a batch of `size` records that was acknowledged outside of transactions."""
        with self._lock:
            self._done(size, self._clock())
            # Outside of transactions, sent bytes count at once, because they cannot be aborted.
            self._count(records=size, bytes=self._sent - self._transferred.bytes)
            self.transactions.settled()

    def flushed(self, size: int, seconds: float, offsets: CommittedOffsets) -> None:
        """Record a commit of offsets outside of transactions.

        `size` is the number of records since the previous commit.
        """
        with self._lock:
            now = self._clock()
            self._commit_time.record(seconds * _MS, now)
            self._commits.record(1, now)
            self.transactions.flushed(size, seconds, offsets)

    def commit_failed(self) -> None:
        """Record a failed commit."""
        with self._lock:
            self._commits.record(0, self._clock())

    def aborted(self, size: int, *, fenced: bool = False) -> None:
        """Record that a transaction with `size` records was aborted, or that fencing ended it."""
        with self._lock:
            self._done(size, self._clock())
            self._count(aborted=1)
            self.transactions.close(TransactionEnd.FENCED if fenced else TransactionEnd.ABORTED)

    @property
    def transferred(self) -> Transferred:
        """Return the totals that were transferred since the task's start."""
        with self._lock:
            counts = replace(self._transferred, open=self._active, skipped=self._errors.skipped)
            # If the task has failed, records that it polled before may not be committed, so the lag is unknown.
            lag = math.nan if self._state in _FAILED else self._lag
            return Transferred(counts, lag, self._greatest_lag)

    def activity(self) -> Activity:
        """Return the task's activity, for display."""
        transferred = self.transferred
        with self._lock:
            commit, opened = self.transactions.last_commit, self.transactions.open
            return Activity(
                state=self._state,
                counts=transferred.counts,
                rate=self._rate(self._writes, self._clock()),
                lag=None if math.isnan(transferred.lag) else transferred.lag,
                restarts=self._restarts,
                open_since_ms=None if opened is None else opened.since_ms,
                last_commit_ms=None if commit is None else commit.at_ms,
                ended=tuple(self.transactions.ended),
            )

    def _rate(self, values: Windowed, now: float) -> float:
        return values.rate(now) if self._state is State.RUNNING else 0.0

    def _count(self, **more: int) -> None:
        self._transferred += TransferCounts(**more)

    def _done(self, size: int, now: float) -> None:
        self._active -= size
        self._active_count.record(self._active, now)

    def snapshot(self) -> TaskSnapshot:
        """Return the state, and the value of each metric."""
        with self._lock:
            now = self._clock()
            return TaskSnapshot(
                self._state,
                self._task_values(now) | self._source_values(now) | self._error_values() | self._own_values(),
                {
                    f"{OWN_PREFIX}commit_latency_seconds": self.transactions.commit_latency.snapshot(),
                    f"{OWN_PREFIX}batch_latency_seconds": self.transactions.batch_latency.snapshot(),
                },
                self._sent,
            )

    def _task_values(self, now: float) -> dict[str, float]:
        success = self._commits.average(now)
        return with_prefix(
            TASK_PREFIX,
            running_ratio=self._ratio(State.RUNNING, now),
            pause_ratio=self._ratio(State.PAUSED, now),
            batch_size_avg=self._batch_size.average(now),
            batch_size_max=self._batch_size.maximum(now),
            offset_commit_avg_time_ms=self._commit_time.average(now),
            offset_commit_max_time_ms=self._commit_time.maximum(now),
            offset_commit_success_percentage=0.0 if math.isnan(success) else success,
            offset_commit_failure_percentage=0.0 if math.isnan(success) else 1.0 - success,
        )

    def _source_values(self, now: float) -> dict[str, float]:
        return with_prefix(
            SOURCE_PREFIX,
            source_record_poll_rate=self._rate(self._poll_records, now),
            source_record_poll_total=self._polled,
            source_record_write_rate=self._rate(self._writes, now),
            source_record_write_total=self._written,
            poll_batch_avg_time_ms=self._poll_time.average(now),
            poll_batch_max_time_ms=self._poll_time.maximum(now),
            source_record_active_count=self._active,
            source_record_active_count_avg=self._active_count.average(now),
            source_record_active_count_max=self._active_count.maximum(now),
            transaction_size_min=self._transaction_size.minimum(now),
            transaction_size_max=self._transaction_size.maximum(now),
            transaction_size_avg=self._transaction_size.average(now),
        )

    def _error_values(self) -> dict[str, float]:
        errors = self._errors
        return with_prefix(
            ERROR_PREFIX,
            total_record_failures=errors.failures,
            total_record_errors=errors.errors,
            total_records_skipped=errors.skipped,
            total_retries=errors.retries,
            total_errors_logged=errors.errors_logged,
            last_error_timestamp=self._last_error_ms,
        )

    def _own_values(self) -> dict[str, float]:
        transaction = self.transactions.open
        return with_prefix(
            OWN_PREFIX,
            open_transaction_age_seconds=self.transactions.age,
            open_transaction_records=0 if transaction is None else transaction.records,
            restarts_total=self._restarts,
            source_lag=self._lag,
        )

    def _ratio(self, state: State, now: float) -> float:
        total = now - self._created
        current = now - self._since if self._state is state else 0.0
        return (self._time_in.get(state, 0.0) + current) / total if total else 0.0
