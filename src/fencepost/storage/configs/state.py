"""The content of the config topic as a value. Each record leads from one state to the next.

`apply` is a pure function, so all workers that have read the same records have the same state. The life cycle of a
connector:

    connector record ──> known ──task records──> known, tasks waiting ──commit──> tasks in force, fencing pending
                           ^                                                          │ task count record
                           └──────────────── connector tombstone ─────────────────────┤
                                                                                      v
                                                                                tasks in force, fenced

Task records alone change nothing. A commit says how many tasks the connector has. If compaction has removed the record
of one of these tasks, the connector is inconsistent, and has no tasks until the next complete commit. If a later commit
has fewer tasks, the records of the removed tasks stay in the topic, so more task records may be waiting than the commit
needs.

A commit without a connector has one of two reasons. Either the connector was deleted. Or its configuration was
rewritten: then compaction has removed the connector's first record, and the remaining record comes after the commit. In
the second case, that record names the commit that it `continues`. Without this name, a connector record may belong to a
new connector, which must not use the tasks of the commit.

All tasks of a commit start a new generation, unless the commit `continues` the previous one. In that case, a task with
the same number and configuration keeps its generation, if the connector's configuration is the same except for
`tasks.max`.

All tasks keep their generations if the commit says that it `adds`, comes after a task count record, and only adds
source partitions (`task.additions`). An added partition may have belonged to any former task. But after the task count
record former tasks cannot write any more, and no other current task has the partition. A leader of an older version
does not say `adds`, and fences these tasks at its next round.

Tasks that have not changed since the last task count record need not be fenced. But a changed task must never be
treated as unchanged, and compaction may have removed any record that is followed by another record with its key. So a
commit names the commit that it continues, and has a digest of the configurations of the connector and its tasks. If a
worker has read other configurations, it treats all tasks as new.

Source: KIP-415, KIP-618, KIP-875 and the records that workers write.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeVar

from fencepost.api.source import TASK_ADDITIONS
from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.configs.codec import (
    CommitRecord,
    Config,
    ConfigRecord,
    ConnectorRecord,
    LoggerLevelRecord,
    RestartRequest,
    SessionKey,
    TargetState,
    TargetStateRecord,
    TaskCountRecord,
    TaskRecord,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ConnectorState:
    """The records under a connector's name, including records that outlive the connector.

    `target_state` is None if there is no record of it. `tasks_generation` counts the commits with task configurations,
    from 0, as far as this process has read them. `generations` has the generation of each task. `committed` is the
    offset of the last commit. `commit` is the same offset if the committed records match the commit's digest.
    `task_count` is the count of the last fencing, `task_count_offset` is the offset of its record, and
    `fenced_generation` is the latest generation at that time.
    """

    config: Config | None = field(default=None, repr=False)
    applied_config: Config | None = field(default=None, repr=False)
    """The connector's configuration at the commit of the tasks.

    If the configuration has changed since, tasks must be generated again.
    """
    target_state: TargetState | None = None
    tasks: tuple[Config, ...] = field(default=(), repr=False)
    tasks_generation: int | None = None
    generations: tuple[int, ...] = ()
    committed: int | None = None
    commit: int | None = None
    inconsistent: bool = False
    pending_fencing: bool = False
    task_count: int | None = None
    task_count_offset: int | None = None
    fenced_generation: int | None = None
    waiting_tasks: tuple[tuple[int, Config], ...] = field(default=(), repr=False)
    """Task records that wait for a commit.

    The type is a tuple, because each record copies it: copying a mapping would take ten times as long.
    """
    orphan: ConnectorState | None = None
    """The state after a commit without a connector. A connector record that `continues` this commit makes it valid."""

    @property
    def unchanged_tasks(self) -> frozenset[int]:
        """The numbers of the tasks that have not changed since the last fencing."""
        fenced = -1 if self.fenced_generation is None else self.fenced_generation
        return frozenset(number for number, generation in enumerate(self.generations) if generation <= fenced)

    @property
    def half_stopped(self) -> bool:
        """Whether a stop may be written only in part: the connector is STOPPED with tasks, or STARTED without tasks."""
        match self.target_state:
            case _ if self.config is None:
                return False
            case TargetState.STOPPED:
                return bool(self.tasks)
            case TargetState.PAUSED:
                return False
            case _:
                return not self.tasks


_UNKNOWN: Final = ConnectorState()


@dataclass(frozen=True, slots=True)
class ClusterConfigState:
    """The content of the config topic up to `offset`: the offset of the last read record plus 1; -1 before any record.

    Unlike a consumer's position, `offset` does not count transaction markers. Workers compare their offsets. So all of
    them, also Kafka Connect's workers, must count in the same way, even for a topic without records.
    """

    offset: int = -1
    session_key: SessionKey | None = None
    entries: MappingProxyType[str, ConnectorState] = field(default_factory=lambda: MappingProxyType({}))
    task_counts: MappingProxyType[str, int] = field(default_factory=lambda: MappingProxyType({}))
    """The number of tasks of each connector. The mapping is the same object as long as no number changes."""

    def entry(self, connector: str) -> ConnectorState:
        """Return the state under a connector's name. The connector may be deleted."""
        return self.entries.get(connector, _UNKNOWN)

    def contains(self, connector: str) -> bool:
        """Return whether the connector exists."""
        return self.entry(connector).config is not None

    def connectors(self) -> list[str]:
        """Return the names of all connectors, sorted."""
        return sorted(name for name, entry in self.entries.items() if entry.config is not None)

    def connector_config(self, connector: str) -> Config | None:
        """Return a connector's configuration; None if the connector does not exist."""
        return self.entry(connector).config

    def applied_config(self, connector: str) -> Config | None:
        """Return the connector's configuration with which its tasks were generated; without tasks, the latest one."""
        entry = self.entry(connector)
        return entry.config if entry.config is None or entry.applied_config is None else entry.applied_config

    def target_state(self, connector: str) -> TargetState | None:
        """Return the target state of a connector; None if neither the connector nor a record of the state exists."""
        entry = self.entry(connector)
        return entry.target_state or (TargetState.STARTED if entry.config is not None else None)

    def tasks(self, connector: str) -> list[ConnectorTaskId]:
        """Return a connector's tasks; none while the connector is inconsistent."""
        return [ConnectorTaskId(connector, number) for number in range(len(self.entry(connector).tasks))]

    def task_config(self, task: ConnectorTaskId) -> Config | None:
        """Return a task's configuration; None if the task does not exist."""
        tasks = self.entry(task.connector).tasks
        return tasks[task.task] if 0 <= task.task < len(tasks) else None

    def task_configs(self, connector: str) -> list[Config]:
        """Return the configurations of a connector's tasks."""
        return list(self.entry(connector).tasks)

    def has_tasks(self, connector: str, configs: Sequence[Mapping[str, str]]) -> bool:
        """Return whether a connector's tasks have these configurations, generated for its latest configuration."""
        entry = self.entry(connector)
        if entry.inconsistent or entry.applied_config != entry.config:
            # A change of the connector's configuration restarts tasks, because it contains their converters and
            # transforms.
            return False
        return [dict(config) for config in entry.tasks] == [dict(config) for config in configs]

    def pending_fencing(self, connector: str) -> bool:
        """Return whether the previous tasks must be fenced before the tasks may start."""
        return self.entry(connector).pending_fencing

    def task_count_record(self, connector: str) -> int | None:
        """Return the number of tasks in the connector's last task count record; None if there is none."""
        return self.entry(connector).task_count

    def task_config_generation(self, connector: str) -> int | None:
        """Return the number of the last commit of task configurations, counted from 0; None before the first one."""
        return self.entry(connector).tasks_generation

    def task_generation(self, task: ConnectorTaskId) -> int | None:
        """Return the generation in which a task got its configuration; None if the task does not exist."""
        generations = self.entry(task.connector).generations
        return generations[task.task] if 0 <= task.task < len(generations) else None

    def unchanged_tasks(self, connector: str) -> frozenset[int]:
        """Return the numbers of the tasks that have not changed since the connector's last fencing."""
        return self.entry(connector).unchanged_tasks


@dataclass(frozen=True, slots=True)
class ConnectorConfigUpdate:
    """A connector was created, or got a configuration, which may be the same as before."""

    connector: str


@dataclass(frozen=True, slots=True)
class ConnectorConfigRemoval:
    """A connector was deleted."""

    connector: str


@dataclass(frozen=True, slots=True)
class TaskConfigUpdate:
    """A connector's task configurations were committed. `tasks` are all of its tasks; there may be none."""

    connector: str
    tasks: tuple[ConnectorTaskId, ...]


@dataclass(frozen=True, slots=True)
class TargetStateChange:
    """The target state of a connector changed."""

    connector: str


@dataclass(frozen=True, slots=True)
class SessionKeyUpdate:
    """The session key for requests between workers changed."""

    key: SessionKey = field(repr=False)


ConfigEvent = (
    ConnectorConfigUpdate
    | ConnectorConfigRemoval
    | TaskConfigUpdate
    | TargetStateChange
    | SessionKeyUpdate
    | RestartRequest
    | LoggerLevelRecord
)
"""The change or the request that a record contains."""


def apply(
    state: ClusterConfigState, offset: int, record: ConfigRecord | None
) -> tuple[ClusterConfigState, ConfigEvent | None]:
    """Return the state after a record (None: an unknown record), and the record's change or request.

    A restart request or a logger's level changes no state: it is for workers that are running when it is written.
    """
    state = replace(state, offset=offset + 1)
    match record:
        case SessionKey():
            return replace(state, session_key=record), SessionKeyUpdate(record)
        case RestartRequest() | LoggerLevelRecord():
            return state, record
        case None:
            return state, None
        case TaskRecord():
            name = record.id.connector
        case _:
            name = record.connector
    entry, event = _apply_to_entry(name, state.entry(name), record, offset)
    entries = _with(state.entries, name, None if entry == _UNKNOWN else entry)
    counts, count = state.task_counts, None if entry.config is None else len(entry.tasks)
    if counts.get(name) != count:
        counts = _with(counts, name, count)
    return replace(state, entries=entries, task_counts=counts), event


def _with(known: MappingProxyType[str, T], name: str, value: T | None) -> MappingProxyType[str, T]:
    # `dict(known)` would look up each name, so a topic of many connectors would take ten times as long.
    changed = known.copy()
    if value is None:
        changed.pop(name, None)
    else:
        changed[name] = value
    return MappingProxyType(changed)


def _apply_to_entry(
    name: str,
    entry: ConnectorState,
    record: ConnectorRecord | TaskRecord | CommitRecord | TaskCountRecord | TargetStateRecord,
    offset: int,
) -> tuple[ConnectorState, ConfigEvent | None]:
    event: ConfigEvent | None = None
    match record:
        case ConnectorRecord(config=None):
            return _removed(entry), ConnectorConfigRemoval(name)
        case ConnectorRecord():
            return _configured(entry, record), ConnectorConfigUpdate(name)
        case TaskRecord(id=task, config=config):
            entry = replace(entry, waiting_tasks=(*entry.waiting_tasks, (task.task, config)))
        case CommitRecord():
            committed = _committed(entry, record, offset)
            if entry.config is None:
                return replace(_removed(entry), orphan=committed), None
            entry = committed
            event = TaskConfigUpdate(name, tuple(ConnectorTaskId(name, number) for number in range(len(entry.tasks))))
        case TaskCountRecord(tasks=tasks):
            entry = _fenced(entry, tasks, offset)
        case TargetStateRecord(state=target):
            changes = target is not None and target is not (entry.target_state or TargetState.STARTED)
            event = TargetStateChange(name) if changes else None
            entry = replace(entry, target_state=target)
    return entry, event


def _configured(entry: ConnectorState, record: ConnectorRecord) -> ConnectorState:
    orphan, config = entry.orphan, record.config
    if orphan is None or orphan.committed != record.continues:
        return replace(entry, config=config)
    return replace(
        orphan,
        config=config,
        applied_config=config,
        target_state=entry.target_state,
        waiting_tasks=entry.waiting_tasks,
    )


def _fenced(entry: ConnectorState, tasks: int | None, offset: int) -> ConnectorState:
    return replace(
        entry,
        task_count=tasks,
        task_count_offset=None if tasks is None else offset,
        pending_fencing=False,
        fenced_generation=entry.tasks_generation,
        orphan=None if entry.orphan is None else _fenced(entry.orphan, tasks, offset),
    )


def _removed(entry: ConnectorState) -> ConnectorState:
    # These fields remain when the connector is deleted. The target state is deleted by its own tombstone. The task
    # count shows whether a new connector with the same name needs fencing first. Generations must not repeat.
    return ConnectorState(
        target_state=entry.target_state,
        task_count=entry.task_count,
        task_count_offset=entry.task_count_offset,
        tasks_generation=entry.tasks_generation,
    )


def _committed(entry: ConnectorState, record: CommitRecord, offset: int) -> ConnectorState:
    waiting = dict(entry.waiting_tasks)
    complete = all(number in waiting for number in range(record.tasks))
    generation = entry.tasks_generation
    if complete and waiting:
        generation = 0 if generation is None else generation + 1
    tasks = tuple(waiting[number] for number in range(record.tasks)) if complete else ()
    config = entry.config
    known = config is not None and record.digest is not None and record.digest == tasks_digest(config, tasks)
    return replace(
        entry,
        applied_config=config,
        tasks=tasks,
        tasks_generation=generation,
        generations=_generations(entry, record, tasks, generation, known=known),
        committed=offset,
        commit=offset if known else None,
        inconsistent=not complete,
        pending_fencing=True,
        # The task records of an incomplete commit are dropped. The next commit must have records of all tasks.
        waiting_tasks=(),
        orphan=None,
    )


def _generations(
    before: ConnectorState, record: CommitRecord, tasks: tuple[Config, ...], generation: int | None, *, known: bool
) -> tuple[int, ...]:
    if generation is None:
        return ()
    unchanged: set[int] = set()
    if known and record.continues is not None and record.continues == before.commit and _same_for_tasks(before):
        pairs = list(zip(before.tasks, tasks, strict=False))
        unchanged = {number for number, (former, config) in enumerate(pairs) if former == config}
        all_fenced = len(before.tasks) == len(tasks) == len(before.unchanged_tasks)
        if record.adds and all_fenced and all(map(_has_all_of, tasks, before.tasks)):
            unchanged = set(range(len(tasks)))
    return tuple(before.generations[number] if number in unchanged else generation for number in range(len(tasks)))


def _has_all_of(config: Config, former: Config) -> bool:
    """Return whether a task's configuration equals a former one, or only adds source partitions to it."""
    added, before = config.get(TASK_ADDITIONS) or "", former.get(TASK_ADDITIONS) or ""
    return added.startswith(before) and {**former, TASK_ADDITIONS: added} == {**config, TASK_ADDITIONS: added}


def _same_for_tasks(entry: ConnectorState) -> bool:
    """Return whether the connector's configuration is the one that its tasks run with, except for `tasks.max`."""
    return _for_tasks(entry.applied_config or {}) == _for_tasks(entry.config or {})


def _for_tasks(config: Config) -> dict[str, str | None]:
    return {name: text for name, text in config.items() if name != "tasks.max"}


def tasks_digest(config: Config, tasks: Sequence[Config]) -> str:
    """Return the digest for a commit: of the configurations of the connector and its tasks, without `tasks.max`."""
    text = json.dumps([_for_tasks(config), *map(dict, tasks)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
