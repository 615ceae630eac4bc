"""A source task in the worker: a thread that can be started, paused and stopped, and that restarts by itself.

See `state` for the states and `run` for the steps of a run.
"""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass
from typing import Final, Protocol

from fencepost.api.errors import describe_error
from fencepost.api.plugin_calls import as_failure
from fencepost.config.file_descriptors import explained
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import log_context
from fencepost.kafka.errors import ProducerFencedError
from fencepost.kafka.producer.transaction import ProducerIdentity, TransactionState
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.metrics.transaction_metrics import Commit, OngoingTransaction
from fencepost.runtime.restart_policy import RestartPolicy
from fencepost.runtime.state import ENDS, State, check_transition
from fencepost.runtime.switch_interval import adapt_switch_interval
from fencepost.runtime.task.control import TaskControl
from fencepost.runtime.task.restart_log import log_failure, log_restart
from fencepost.runtime.task.run import TaskParts, TaskRun

_log: Final = logging.getLogger(__name__)


class TaskListener(Protocol):
    """Is notified of a task's states, on the task's thread."""

    def on_task_state(self, task: ConnectorTaskId, state: State, error: Exception | None) -> None:
        """Called with a new state.

        `error` is the reason of RESTARTING or FAILED, or the current error of a RUNNING task.

        Must not raise.
        """


@dataclass(frozen=True, slots=True)
class TransactionStatus:
    """A task's open transaction and last commit, as the worker knows them.

    `state` is the name of a TransactionState. `producer_id` and `producer_epoch` are None until the task owns its
    transactional id.
    """

    state: str
    producer_id: int | None
    producer_epoch: int | None
    open: OngoingTransaction | None
    last_commit: Commit | None


class WorkerSourceTask:
    """Runs one source task until it is stopped, fails fatally, or (if requested) its source ends."""

    def __init__(
        self,
        task_id: ConnectorTaskId,
        parts: TaskParts,
        listener: TaskListener,
        metrics: TaskMetrics,
        *,
        paused: bool = False,
        stop_at_end: bool = False,
    ) -> None:
        self.id = task_id
        self._parts = parts
        self._listener = listener
        self._metrics = metrics
        self._stop_at_end = stop_at_end
        self._control = TaskControl(paused=paused)
        self._restarts = RestartPolicy(parts.restarts)
        self._run: TaskRun | None = None
        self._state = State.UNASSIGNED
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._live, name=f"task-{task_id}", daemon=True)

    @property
    def state(self) -> State:
        """The task's state."""
        return self._state

    @property
    def error(self) -> Exception | None:
        """The reason why the task is RESTARTING or FAILED, or its current error while it is RUNNING."""
        return self._error

    @property
    def transaction(self) -> TransactionStatus:
        """The task's open transaction and last commit. Thread-safe."""
        transactions = self._metrics.transactions
        run = self._run
        producer = None if run is None else run.producer
        if producer is None:
            return TransactionStatus(TransactionState.UNINITIALIZED.name, None, None, None, transactions.last_commit)
        identity = producer.identity
        known = identity != ProducerIdentity()
        return TransactionStatus(
            producer.state.name,
            identity.producer_id if known else None,
            identity.epoch if known else None,
            transactions.open,
            transactions.last_commit,
        )

    def start(self) -> None:
        """Start, on the task's own thread."""
        adapt_switch_interval()
        self._thread.start()

    def pause(self) -> None:
        """Ask the task to commit after the current poll, and not to poll until resumed."""
        self._control.pause()

    def resume(self) -> None:
        """Ask the task to poll again."""
        self._control.resume()

    def add(self, additions: str | None) -> None:
        """Give the task the latest `task.additions` of its configuration."""
        if additions is not None:
            self._parts.config.add(additions)

    def stop(self) -> None:
        """Ask the task to commit and end. Does not wait: see `join`."""
        self._control.stop()
        run = self._run
        if run is not None:
            # The task's stop() runs on another thread, because it may be slow or hang, and must not block the caller.
            threading.Thread(target=self._stop_task, args=[run], name=f"stop-{self.id}", daemon=True).start()

    def _stop_task(self, run: TaskRun) -> None:
        with log_context(self.id):
            run.stop_task()

    def cancel(self) -> None:
        """Abandon a task that did not stop in time. Its open transaction is aborted, and it can write nothing more.

        The call takes some milliseconds, or a few seconds at most if the brokers do not answer.
        """
        self._control.cancel()
        self.stop()
        self._parts.engine.cancel(str(self.id))
        if self._run is not None and self._thread.is_alive():
            self._run.abandon()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for the end of the task, for `timeout` seconds at most. Return whether it has ended."""
        if self._thread.ident is not None:
            self._thread.join(timeout)
        return not self._thread.is_alive()

    def _live(self) -> None:
        with log_context(self.id):
            try:
                self._run_and_restart()
            except BaseException as error:  # noqa: BLE001 - the thread must not end without the task's state saying so
                self._fail_at_last(as_failure(f"Task {self.id}", error))
        adapt_switch_interval()

    def _run_and_restart(self) -> None:
        """Run, and run again after retriable failures, until the task is done."""
        final, reason = State.STOPPED, None
        again = True
        while again and not self._control.stopping:
            try:
                again = self._run_once()
            except BaseException as raised:  # noqa: BLE001 - a connector's code may raise anything; it ends in the status
                error = explained(f"Task {self.id}", as_failure(f"Task {self.id}", raised))
                if self._control.stopping:
                    # The error of a poll that the stop interrupted is logged at DEBUG. Fencing by a newer instance of
                    # the task is logged at INFO.
                    level = logging.INFO if isinstance(error, ProducerFencedError) else logging.DEBUG
                    _log.log(level, "Task %s was stopped, so this is not a failure: %s", self.id, describe_error(error))
                elif not self._wait_to_restart(error):
                    final, reason, again = State.FAILED, error, False
        self._set_state(final, reason)

    def _run_once(self) -> bool:
        self._run = TaskRun(
            self.id,
            self._parts,
            self._control,
            self._metrics,
            on_state=self._set_state,
            on_commit=self._restarts.progressed,
            stop_at_end=self._stop_at_end,
        )
        return self._run.run()

    def _fail_at_last(self, error: Exception) -> None:
        """Report a failure of the worker itself, in any state of the task."""
        if self._state in ENDS:
            _log.error("A fault of this worker, after task %s ended: %s", self.id, error, exc_info=error)
            return
        self._state, self._error = State.FAILED, error
        self._listener.on_task_state(self.id, State.FAILED, error)
        _log.error("A fault of this worker ended task %s: %s", self.id, error, exc_info=error)

    def _wait_to_restart(self, error: Exception) -> bool:
        delay = self._restarts.failed(error)
        if delay is None:
            log_failure(self.id, error)
            return False
        log_restart(self.id, f"in {delay:.1f} s", error, self._error)
        self._set_state(State.RESTARTING, error)
        self._control.wait(delay)
        return True

    def _set_state(self, state: State, error: Exception | None = None) -> None:
        check_transition(f"Task {self.id}", self._state, state)
        self._state, self._error = state, error
        if error is None:
            _log.info("Task %s is %s", self.id, state)
        self._metrics.state(state)
        self._listener.on_task_state(self.id, state, error)
