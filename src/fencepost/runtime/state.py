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

A task stays RUNNING while its poll() raises RetriableError; after several in a row it is reported with that error, and
without one when poll() works again. A task that ends with its source does not wait forever: it becomes FAILED.

UNASSIGNED lasts until the task owns its transactional id and its start() returned, or until it is found to be paused.
FAILED and STOPPED are final: a restart creates another task. A connector has the same states; its herder decides how a
failed one restarts.
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
    """A task must not run any more: a newer one has replaced it, or will. It is not restarted automatically."""


class EndNotReachedError(FencepostError):
    """A task that should end at its source's end waited in vain for the source. It is not restarted automatically."""


class OnState(Protocol):
    """Is notified of a task's states."""

    def __call__(self, state: State, error: Exception | None = None) -> None:
        """Called with a new state; `error` is the reason of RESTARTING or FAILED, or a RUNNING task's current error."""


def check_transition(what: str, before: State, after: State) -> None:
    """Raise IllegalStateError that names `what` unless `after` may follow `before`."""
    if after not in TRANSITIONS[before]:
        raise IllegalStateError(f"{what} is {before} and cannot become {after}")
