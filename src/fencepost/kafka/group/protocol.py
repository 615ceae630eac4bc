"""The data that workers of a group exchange through the group coordinator: protocols, metadata and assignments.

Group type `connect` has three protocols: eager rebalancing, KIP-415 (incremental cooperative rebalancing), and KIP-507,
which only declares that requests between workers are signed. `codec` converts the messages to bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import IntEnum, StrEnum
from typing import Final, NamedTuple

from fencepost.config.ids import ConnectorTaskId

PROTOCOL_TYPE: Final = "connect"


class ConnectProtocol(StrEnum):
    """The protocols of a group of workers, under the names that they have in JoinGroup."""

    EAGER = "default"
    COMPATIBLE = "compatible"
    SESSIONED = "sessioned"

    @property
    def version(self) -> int:
        """The version in the header of metadata and assignments."""
        return _VERSIONS[self]

    @property
    def offered(self) -> tuple[ConnectProtocol, ...]:
        """The protocols that a worker with this `connect.protocol` offers to the group, preferred first."""
        return tuple(protocol for protocol in reversed(ConnectProtocol) if protocol.version <= self.version)

    @classmethod
    def of_setting(cls, connect_protocol: str) -> ConnectProtocol:
        """Return the protocol for a value of `connect.protocol`, where eager rebalancing is called `eager`.

        Raises ValueError.
        """
        return cls.EAGER if connect_protocol == "eager" else cls[connect_protocol.upper()]


_VERSIONS: Final = {ConnectProtocol.EAGER: 0, ConnectProtocol.COMPATIBLE: 1, ConnectProtocol.SESSIONED: 2}


class WorkerTopics(NamedTuple):
    """The names of a worker's internal topics. All are empty if they are unknown."""

    offset: str = ""
    config: str = ""
    status: str = ""


UNKNOWN_TOPICS: Final = WorkerTopics()


class WorkerFiles(NamedTuple):
    """The files that a worker's connectors may read.

    `directory` is where the worker's relative paths start, empty if unknown. `paths` are its allowed paths; None means
    all.
    """

    directory: str = ""
    paths: tuple[str, ...] | None = None


UNKNOWN_FILES: Final = WorkerFiles()


class AssignmentError(IntEnum):
    """The reasons why an assignment is empty."""

    NONE = 0
    CONFIG_MISMATCH = 1
    """The leader has read less of the config topic than a member: all members must read to its end and join again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The leader's assignment to a member, or the work that a member runs.

    In `compatible` and `sessioned`, the leader sends a change: stop `revoked_*`, start `connectors` and `tasks`, keep
    everything else running. In `default`, it sends everything that the member must run. The config topic must be read
    up to `config_offset` before anything is started. If `delay_ms` is not 0, members join again after that time,
    because the leader does not assign the work of a lost member until then. `supports` has the URL and the
    `exactly.once.source.support` of each member, empty if unknown; it has no entries if the leader does not send them.
    `leader_topics` are the leader's internal topics. `other_topics` has the URL and the topics of each member that uses
    other topics or does not announce any. `files` has the URL and the files of each member, if they differ.
    """

    error: int = AssignmentError.NONE
    leader: str = ""
    leader_url: str = ""
    config_offset: int = -1
    connectors: tuple[str, ...] = ()
    tasks: tuple[ConnectorTaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[ConnectorTaskId, ...] = ()
    delay_ms: int = 0
    supports: tuple[tuple[str, str], ...] = ()
    leader_topics: WorkerTopics = UNKNOWN_TOPICS
    other_topics: tuple[tuple[str, WorkerTopics], ...] = ()
    files: tuple[tuple[str, WorkerFiles], ...] = ()

    @property
    def failed(self) -> bool:
        """Whether the leader failed to assign work."""
        return self.error != AssignmentError.NONE

    @property
    def revokes(self) -> bool:
        """Whether some work must be stopped."""
        return bool(self.revoked_connectors or self.revoked_tasks)

    def revoking_of(self, held: Assignment | None) -> Assignment:
        """Return this change, but only with revocations of work in `held`, which the member runs.

        The limit is needed because the coordinator repeats the member's last assignment if the member joins without a
        change.
        """
        connectors, tasks = (set(held.connectors), set(held.tasks)) if held is not None else (set(), set())
        return replace(
            self,
            revoked_connectors=tuple(name for name in self.revoked_connectors if name in connectors),
            revoked_tasks=tuple(task for task in self.revoked_tasks if task in tasks),
        )

    def added_to(self, held: Assignment | None) -> Assignment:
        """Return everything that a member runs after this change, if it ran `held` before."""
        if held is None:
            return self
        connectors = {*held.connectors, *self.connectors} - {*self.revoked_connectors}
        tasks = {*held.tasks, *self.tasks} - {*self.revoked_tasks}
        return replace(self, connectors=tuple(sorted(connectors)), tasks=tuple(sorted(tasks)))


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerMetadata:
    """The metadata that a member sends to the leader when it joins.

    `config_offset` is the offset of the last data record of the config topic that the member has read, plus 1. It is
    not the position, which transaction markers advance as well. `assignment` is the work that the member runs, None if
    nothing. `support` is its `exactly.once.source.support`, empty if unknown.
    """

    url: str
    config_offset: int
    assignment: Assignment | None = None
    support: str = ""
    topics: WorkerTopics = UNKNOWN_TOPICS
    files: WorkerFiles = UNKNOWN_FILES


@dataclass(frozen=True, slots=True, kw_only=True)
class Election:
    """The leader's input for the assignments: the metadata of all members, by member id.

    `held` is the work that this member ran until now; None if it ran nothing. `held.leader` is the leader of the
    previous generation.
    """

    leader: str
    protocol: ConnectProtocol
    members: Mapping[str, WorkerMetadata]
    held: Assignment | None

    @property
    def led_before(self) -> bool:
        """Whether this member also led the previous generation."""
        return self.held is not None and self.held.leader == self.leader
