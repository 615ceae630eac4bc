"""What a worker may end with, and what its herder may answer to a request.

FencepostError
├── ConnectorsFailedError
├── ReplacedError
│   ├── OvertakenError           another worker has started newer tasks of the connector
│   └── SupersededError          a task is not to run as it was started: newer configurations, or another worker
├── MixedGroupError              a task waits until all members of the group are set for exactly-once delivery
├── FencingRoundError            former tasks could not be fenced; tried again
└── HerderError                  a request was not carried out, and left nothing changed unless it says so
    ├── BadRequestError          400  what was asked makes no sense, or not in the state that the connector is in
    ├── ForbiddenError           403  an internal request whose signature is wrong, or what the settings forbid
    ├── NotFoundError            404
    ├── ConflictError            409
    │   ├── AlreadyExistsError
    │   └── RebalanceNeededError     asked again soon, it can be carried out
    ├── NotLeaderError                only the leader can do it; the REST layer takes it there
    ├── RequestFailedError       500  a broker, a connector's code or the leadership failed
    │   └── MissingRightError        a right is missing, as another worker told
    └── ServiceUnavailableError  503  the worker is starting, or cut off from its group
"""

from __future__ import annotations

from fencepost.api.errors import FencepostError, RetriableError
from fencepost.config.ids import ConnectorTaskId
from fencepost.runtime.restart_policy import ReplacedError


class ConnectorsFailedError(FencepostError):
    """Connectors or tasks failed, and nothing is left that this worker could do."""


class OvertakenError(ReplacedError):
    """Another worker has started a newer generation of the connector's tasks; this one must not run any of its own."""

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
    """A task waits: members of the group are set such that it could not deliver exactly once."""

    def __init__(self, task: ConnectorTaskId, advice: str) -> None:
        super().__init__(f"Task {task} is not started. {advice}. It starts by itself then")


class SupersededError(ReplacedError):
    """A task must not run as it was started: there are newer task configurations, or it was given to another worker."""

    def __init__(self, connector: str, task: int) -> None:
        super().__init__(
            f"Task {connector}-{task} does not start: the connector has newer task configurations, or the task was "
            "given to another worker. Whoever runs it starts it anew"
        )
        self.connector = connector
        self.task = task

    def __reduce__(self) -> tuple[type[SupersededError], tuple[str, int]]:
        return SupersededError, (self.connector, self.task)


class FencingRoundError(RetriableError):
    """The leader did not fence the former tasks of a connector, for a reason that may pass."""


class HerderError(FencepostError):
    """A request was not carried out; never raised itself."""


class BadRequestError(HerderError):
    """What was asked makes no sense, or not in the state that the connector is in."""


class ForbiddenError(HerderError):
    """An internal request was signed, but not with the session key of the group, or the worker's settings forbid it."""


class NotFoundError(HerderError):
    """There is no connector, task, plugin or logger of this name."""


class ConflictError(HerderError):
    """What was asked contradicts what is there."""


class AlreadyExistsError(ConflictError):
    """A connector of this name exists."""


class RebalanceNeededError(ConflictError):
    """The group must share out its work first. Clients ask again after a pause."""


class RequestTargetError(HerderError):
    """Another worker can do this; never raised itself.

    `forward_url` is the address of that worker, None if nobody knows it at the moment.
    """

    def __init__(self, message: str, *, forward_url: str | None) -> None:
        super().__init__(message)
        self.forward_url = forward_url


class NotLeaderError(RequestTargetError):
    """Only the leader of the group can do this."""


class NotAssignedError(RequestTargetError):
    """Only the worker that runs the connector or task can do this."""


class RequestFailedError(HerderError):
    """It could not be done, for a reason that is not the request's: the brokers, a connector's code, lost leadership."""


class MissingRightError(RequestFailedError):
    """Another worker could not do it, because a principal of its lacks a right: asking again does not help."""


class ServiceUnavailableError(HerderError):
    """The worker cannot do it yet, or cannot any longer: it is starting, stopping or cut off from its group."""
