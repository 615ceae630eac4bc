"""The states of connectors and tasks, under Connect's names.

A task:

    UNASSIGNED ──start──> RUNNING ──────pause──────> PAUSED
        │                  │  ^ ^────────resume───────┘ │
        │   failure that   │  │                         │
        │   may pass       v  │ started again           │
        │               RESTARTING ─────────────────────┤ (paused meanwhile)
        │                  │                            │
        └──────────────────┴───────────┬────────────────┘
                                       ├──> FAILED      a fatal error
                                       └──> STOPPED     a stop request, or the source's end

A task stays RUNNING while its poll() raises RetriableError. After several such errors in a row, its status shows the
last one, until poll() works again. A task that is to run only until its source ends does not wait for a failing source
forever: it becomes FAILED.

UNASSIGNED lasts until the task owns its transactional id and its start() has returned, or until the task turns out to
be paused. FAILED and STOPPED are final: a restart creates a new task. A connector has the same states, and its herder
decides how a failed connector restarts.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Protocol

from fencepost.api.errors import FencepostError, IllegalStateError


class State(StrEnum):
    """The state of a connector or a task, as shown in its status."""

    UNASSIGNED = "UNASSIGNED"
    RUNNING = "RUNNING"
    PAUSED = "PAUSED"
    RESTARTING = "RESTARTING"
    FAILED = "FAILED"
    STOPPED = "STOPPED"


ENDS: Final = frozenset({State.FAILED, State.STOPPED})
"""The states that are final."""

TRANSITIONS: Final[Mapping[State, frozenset[State]]] = {
    State.UNASSIGNED: ENDS | {State.RUNNING, State.PAUSED, State.RESTARTING},
    State.RUNNING: ENDS | {State.RUNNING, State.PAUSED, State.RESTARTING},
    State.PAUSED: ENDS | {State.RUNNING, State.RESTARTING},
    State.RESTARTING: ENDS | {State.RUNNING, State.PAUSED, State.RESTARTING},
    State.FAILED: frozenset(),
    State.STOPPED: frozenset(),
}
"""The states that may follow each state."""


class ReplacedError(FencepostError):
    """A task must not run any more, because a newer task has replaced it, or will.

    It is not restarted automatically.
    """


class EndNotReachedError(FencepostError):
    """The source of a task that runs to the source's end kept failing. The task is not restarted automatically."""


class OnState(Protocol):
    """Is notified of a task's states."""

    def __call__(self, state: State, error: Exception | None = None) -> None:
        """Called with a new state.

        `error` is the reason of RESTARTING or FAILED, or the current error of a RUNNING task.
        """


def check_transition(what: str, before: State, after: State) -> None:
    """Raise IllegalStateError if state `after` may not follow `before`. The error names `what`."""
    if after not in TRANSITIONS[before]:
        raise IllegalStateError(f"{what} is {before} and cannot become {after}")
