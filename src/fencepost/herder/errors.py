"""Errors that end a worker, and errors with which its herder answers requests.

FencepostError
├── ReplacedError
│   ├── OvertakenError           another worker has started newer tasks of the connector
│   └── SupersededError          a task must not run as it was started: newer configurations, or another worker
├── MixedGroupError              a task waits until all members of the group have settings for exactly-once delivery
├── FencingRoundError            former tasks could not be fenced; tried again
└── HerderError                  a request failed, and changed nothing unless the message says so
    ├── BadRequestError          400  the request is invalid, or not possible in the connector's state
    ├── ForbiddenError           403  an internal request with a wrong signature, or the settings forbid the request
    ├── NotFoundError            404
    ├── ConflictError            409
    │   ├── AlreadyExistsError
    │   └── RebalanceNeededError     the request can succeed if it is repeated soon
    ├── RequestTargetError       another worker can process the request; the REST layer forwards it there
    │   ├── NotLeaderError
    │   └── NotAssignedError
    ├── RequestFailedError       500  a broker, a connector's code or the leadership failed
    │   └── MissingRightError        another worker reported that it lacks a right
    └── ServiceUnavailableError  503  the worker is starting, or cut off from its group
"""

from __future__ import annotations

from fencepost.api.errors import FencepostError, RetriableError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.state import ReplacedError


class OvertakenError(ReplacedError):
    """Another worker has started a newer generation of the connector's tasks.

    This worker must not run any of these tasks.
    """

    def __init__(self, connector: str, group_id: str) -> None:
        super().__init__(
            f"Another worker of group {group_id} has started connector {connector} meanwhile, and this one leaves it "
            "alone. If both should run it at once, give them different group.id"
        )
        self.connector = connector
        self.group_id = group_id

    def __reduce__(self) -> tuple[type[OvertakenError], tuple[str, str]]:
        return OvertakenError, (self.connector, self.group_id)


class MixedGroupError(FencepostError):
    """A task or connector waits: the settings of the group's members prevent exactly-once delivery."""

    def __init__(self, unit: str | ConnectorTaskId, advice: str) -> None:
        what = "Connector" if isinstance(unit, str) else "Task"
        super().__init__(f"{what} {unit} is not started. {advice}. It starts automatically then")


class SupersededError(ReplacedError):
    """A task must not run as it was started: there are newer task configurations, or it was assigned elsewhere."""

    def __init__(self, connector: str, task: int) -> None:
        super().__init__(
            f"Task {connector}-{task} does not start: the connector has newer task configurations, or the task was "
            "assigned to another worker, which starts it"
        )
        self.connector = connector
        self.task = task

    def __reduce__(self) -> tuple[type[SupersededError], tuple[str, int]]:
        return SupersededError, (self.connector, self.task)


class FencingRoundError(RetriableError):
    """The leader did not fence the former tasks of a connector, for a retriable reason."""


class HerderError(FencepostError):
    """The base of errors of requests that were not processed. This class itself is never raised."""


class BadRequestError(HerderError):
    """The request is invalid, or not allowed in the connector's state."""


class ForbiddenError(HerderError):
    """An internal request was signed with another key than the group's, or the worker's settings forbid the request."""


class NotFoundError(HerderError):
    """There is no connector, task, plugin or logger with this name."""


class ConflictError(HerderError):
    """The request conflicts with the current state."""


class AlreadyExistsError(ConflictError):
    """A connector with this name exists."""


class RebalanceNeededError(ConflictError):
    """The group must rebalance first. Clients retry after a pause."""


class RequestTargetError(HerderError):
    """Another worker can process the request. This class itself is never raised.

    `forward_url` is the address of that worker; None if it is unknown at the moment.
    """

    def __init__(self, message: str, *, forward_url: str | None) -> None:
        super().__init__(message)
        self.forward_url = forward_url


class NotLeaderError(RequestTargetError):
    """Only the leader of the group can process the request."""


class NotAssignedError(RequestTargetError):
    """Only the worker that runs the connector or task can process the request."""


class RequestFailedError(HerderError):
    """The request failed for an external reason: the brokers, a connector's code, lost leadership."""


class MissingRightError(RequestFailedError):
    """Another worker could not process the request, because its principal lacks a right: a retry does not help."""


class ServiceUnavailableError(HerderError):
    """The worker is starting, stopping or disconnected from its group."""
