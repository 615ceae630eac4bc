"""The config topic: the shared state of all workers of a group. Each worker reads it; mostly their leader writes it.

The topic has one partition, so that its records have one order. A separate thread reads it. Writes run on other
threads. A write is complete when its records have been read back. The owner's event loop is notified of changes in the
order of the records. The notification of a change comes before the completion of its write.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Final, TypeVar, TypeVarTuple, Unpack

from fencepost.api.errors import ConfigError, FencepostError, IllegalStateError
from fencepost.api.source import TASK_ADDITIONS
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.internal_topics import InternalTopic
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
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
    decode,
    encode,
)
from fencepost.storage.configs.leader_writer import (
    CONFIG_PARTITION,
    LeaderWriter,
    PlainLeaderWriter,
    TransactionalLeaderWriter,
    write_plainly,
)
from fencepost.storage.configs.state import ClusterConfigState, ConfigEvent, apply, tasks_digest
from fencepost.storage.configs.task_count import leader_transactional_id
from fencepost.storage.errors import ConfigWriteError, TopicReplacedError

_LOG: Final = logging.getLogger(__name__)

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")

Post = Callable[[Callable[[], None]], object]
"""Schedules a function on the owner's thread, as an event loop's `call_soon_threadsafe` does."""

ConfigListener = Callable[[ConfigEvent, ClusterConfigState], None]
"""Receives the change or request in each record, and the state after the record."""

_READ_TIMEOUT_MS: Final = 90_000
_READ_BACK_TIMEOUT_MS: Final = 30_000
_CLOSING_SECONDS: Final = 5.0


class ConfigBackingStore:
    """The config topic of a group of workers. Its methods return at once. Their futures are completed on other threads.

    `transactional` means that `exactly.once.source.support` is `preparing` or `enabled`. In that case privileged writes
    need `claim_write_privilege`, and a failed write loses the privilege. The privileged writes of one store run one
    after the other, in the order of the calls. Other writes do not wait for them. All methods raise IllegalStateError
    after the store was closed.
    """

    def __init__(
        self,
        topic: InternalTopic,
        group_id: str,
        *,
        clients: KafkaClients,
        transactional: bool,
        consumer: ClientConfig,
        producer: ProducerConfig,
        listener: ConfigListener,
        post: Post,
    ) -> None:
        self._clients = clients
        self._topic = topic
        self._listener = listener
        self._post = post
        self._state = ClusterConfigState()
        self._started = False
        self._closed = False
        self._replaced: TopicReplacedError | None = None
        self._log = clients.topic_log(consumer, topic.name, self._take, self._on_another_topic)
        self._plain = clients.plain_producer(producer)
        self._leader: LeaderWriter = (
            TransactionalLeaderWriter(
                partial(clients.transactional_producer, producer, leader_transactional_id(group_id)), topic.name
            )
            if transactional
            else PlainLeaderWriter(self._plain, topic.name)
        )
        self._reading = _thread("config-reading")
        self._leading = _thread("config-leading")
        self._writing = _thread("config-writing")

    @property
    def state(self) -> ClusterConfigState:
        """The state that was read so far. When `start` is done, it includes all records from before `start`."""
        return self._state

    @property
    def fatal_failure(self) -> FencepostError | None:
        """The fatal error that makes the state invalid, for example because the topic was deleted."""
        return self._replaced or self._log.fatal_failure

    def start(self, admin: ClientConfig) -> Future[ClusterConfigState]:
        """Create the topic if it is missing, read it to its end, and follow it from then on.

        The future fails with ConfigError for a topic that has several partitions or is not compacted, and with the
        errors of creating and reading a topic. The listener is not notified of records that are read before the future
        is done.
        """
        return self._run(self._reading, self._start, admin)

    def read_to_end(self, timeout_ms: float = _READ_TIMEOUT_MS) -> Future[ClusterConfigState]:
        """Read everything that was committed before this call, and the records of transactions that are open now.

        The future fails with TopicReadTimeoutError, BrokerUnavailableError, or AuthorizationError.
        """
        return self._run(self._reading, self._read_to_end, timeout_ms)

    def claim_write_privilege(self) -> Future[None]:
        """Become the only worker that may make privileged writes. The previous leader is fenced.

        The future fails with BrokerUnavailableError, AuthenticationError or AuthorizationError; in this case, the
        privilege is not claimed.
        """
        return self._run(self._leading, self._leader.claim)

    # -- privileged writes: futures fail with ConfigWriteError, or the errors of LeaderWriter.write -------

    def put_connector(self, connector: str, config: Config, target_state: TargetState | None = None) -> Future[None]:
        """Write a connector's configuration together with its target state.

        If no state is given, a new connector is STARTED, whatever records of an earlier connector with its name say.
        """
        return self._run(self._leading, self._put_connector, connector, config, target_state)

    def put_task_configs(
        self, connector: str, configs: Sequence[Config], *, continues: Callable[[Config], bool] = lambda _: False
    ) -> Future[None]:
        """Write the configurations of all tasks of a connector, and commit them. There may be no tasks.

        `continues` is called with the connector's configuration, on a thread of the store. If it returns True, tasks
        with an unchanged configuration keep running.
        """
        return self._run(self._leading, self._put_task_configs, connector, tuple(configs), continues)

    def stop_connector(self, connector: str) -> Future[None]:
        """Write atomically that a connector has no tasks and is STOPPED."""
        stopped = TargetStateRecord(connector, TargetState.STOPPED)
        return self._lead(f"The stop of connector {connector}", CommitRecord(connector, 0), stopped)

    def remove_connector(self, connector: str) -> Future[None]:
        """Delete a connector and its target state atomically."""
        records = (ConnectorRecord(connector, None), TargetStateRecord(connector, None))
        return self._lead(f"The deletion of connector {connector}", *records)

    def put_task_count(self, connector: str, tasks: int) -> Future[int | None]:
        """Write that a connector's former tasks are fenced, and how many tasks may start.

        The future returns the record's offset; None if the record was sent again and the broker already had it.
        """
        return self._run(self._leading, self._put_task_count, TaskCountRecord(connector, tasks))

    def put_session_key(self, key: SessionKey) -> Future[None]:
        """Write a new session key for requests between workers."""
        return self._lead("The session key", key)

    def put_restart_request(self, request: RestartRequest) -> Future[None]:
        """Request that all workers restart the connector and tasks that they run."""
        return self._lead(f"The restart request for connector {request.connector}", request)

    # -- writes of any worker: futures fail with ConfigWriteError ------------------------------------------------

    def put_target_state(self, connector: str, state: TargetState) -> Future[None]:
        """Write a connector's target state."""
        return self._run(self._writing, self._write, *_target_state(connector, state))

    def put_logger_level(self, logger: str, level: str) -> Future[None]:
        """Set the level of a logger on all workers."""
        return self._run(self._writing, self._write, f"The level of logger {logger}", LoggerLevelRecord(logger, level))

    def close(self) -> None:
        """Stop, and close all connections. Blocks for some seconds at most. Pending futures fail."""
        if self._closed:
            return
        self._closed = True
        self._log.close()
        self._plain.close()
        # `start` may still be creating the topic. `close` does not wait for that.
        self._reading.shutdown(wait=False, cancel_futures=True)
        self._writing.shutdown(wait=True, cancel_futures=True)
        closing = self._leading.submit(self._leader.close)
        with suppress(TimeoutError):
            closing.result(_CLOSING_SECONDS)
        self._leading.shutdown(wait=False, cancel_futures=True)

    def _run(
        self, thread: ThreadPoolExecutor, procedure: Callable[[Unpack[Arguments]], T], *args: *Arguments
    ) -> Future[T]:
        if self._closed:
            raise IllegalStateError(f"The store of config topic {self._topic.name} is closed")
        return thread.submit(procedure, *args)

    # -- on the threads of the store -----------------------------------------------------------------------------

    def _start(self, admin: ClientConfig) -> ClusterConfigState:
        with self._clients.admin(admin) as client:
            client.ensure_compacted_topic(self._topic)
        check_partitions(self._topic.name, self._log.partitions())
        self._log.start(_READ_TIMEOUT_MS)
        self._started = True
        return self._state

    def _read_to_end(self, timeout_ms: float) -> ClusterConfigState:
        self._log.read_to_end(timeout_ms)
        return self._state

    def _take(self, record: ConsumedRecord) -> None:
        if record.partition != CONFIG_PARTITION:
            _LOG.error(
                "Record %d of %s-%d is ignored: the config topic must have exactly 1 partition, and got more. No "
                "worker starts with it. Name another topic in config.storage.topic of all workers, and configure the "
                "connectors again", record.offset, record.topic, record.partition,
            )  # fmt: skip
            return
        state, event = apply(self._state, record.offset, decode(record.key, record.value))
        self._state = state
        if event is not None and self._started:
            self._post(lambda: self._listener(event, state))

    def _on_another_topic(self) -> None:
        self._replaced = TopicReplacedError(self._topic.name)

    def _lead(self, what: str, *records: ConfigRecord) -> Future[None]:
        return self._run(self._leading, self._write_as_leader, what, *records)

    def _put_connector(self, connector: str, config: Config, target_state: TargetState | None) -> None:
        if target_state is None and not self._state.contains(connector) and self._state.entry(connector).target_state:
            target_state = TargetState.STARTED
        what = f"The configuration of connector {connector}"
        records: list[ConfigRecord] = [ConnectorRecord(connector, config, self._continued(what, connector, config))]
        if target_state is not None:
            records.insert(0, TargetStateRecord(connector, target_state))
        self._write_as_leader(what, *records)

    def _continued(self, what: str, connector: str, config: Config) -> int | None:
        if self._state.entry(connector).applied_config != config:
            return None
        self._catch_up(what)
        entry = self._state.entry(connector)
        return entry.committed if entry.config is not None and entry.applied_config == config else None

    def _put_task_count(self, record: TaskCountRecord) -> int | None:
        what = f"The task count of connector {record.connector}"
        ends = self._leader.write(what, [encode(record)])
        self._read_back(what, ends)
        return ends[CONFIG_PARTITION] - 1 if ends else None

    def _put_task_configs(self, connector: str, configs: Sequence[Config], continues: Callable[[Config], bool]) -> None:
        what = f"The task configurations of connector {connector}"
        commit = self._commit(what, connector, configs, continues)
        tasks = [TaskRecord(ConnectorTaskId(connector, number), config) for number, config in enumerate(configs)]
        if tasks:
            # The commit comes after the task records, so reading it back is enough.
            self._leader.write(what, [encode(record) for record in tasks])
        self._write_as_leader(what, commit)

    def _commit(
        self, what: str, connector: str, configs: Sequence[Config], continues: Callable[[Config], bool]
    ) -> CommitRecord:
        commit, config = CommitRecord(connector, len(configs)), self._state.connector_config(connector)
        if config is None or not continues(config):
            return commit
        self._catch_up(what)
        entry = self._state.entry(connector)
        if entry.config != config:
            return commit
        adds = any(TASK_ADDITIONS in task for task in configs)
        return replace(commit, digest=tasks_digest(config, configs), continues=entry.commit, adds=adds)

    def _catch_up(self, what: str) -> None:
        # An earlier write may have succeeded although it could not be read back.
        with _Failing(what, self._topic.name):
            self._log.read_to_end(_READ_BACK_TIMEOUT_MS)

    def _write_as_leader(self, what: str, *records: ConfigRecord) -> None:
        self._read_back(what, self._leader.write(what, [encode(record) for record in records]))

    def _write(self, what: str, *records: ConfigRecord) -> None:
        rows = [encode(record) for record in records]
        self._read_back(what, write_plainly(self._plain, self._topic.name, what, rows))

    def _read_back(self, what: str, ends: Mapping[int, int]) -> None:
        with _Failing(what, self._topic.name):
            if ends:
                self._log.wait_for(ends, _READ_BACK_TIMEOUT_MS)
            else:
                self._log.read_to_end(_READ_BACK_TIMEOUT_MS)


class _Failing:
    """Within this context, a failure to read a written record back becomes a ConfigWriteError."""

    def __init__(self, what: str, topic: str) -> None:
        self._what = what
        self._topic = topic

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, FencepostError):
            reason = f"the topic could not be read: {error}".rstrip(".")
            raise ConfigWriteError(self._what, self._topic, reason, privilege_lost=False) from error


def _target_state(connector: str, state: TargetState) -> tuple[str, ConfigRecord]:
    return f"The target state of connector {connector}", TargetStateRecord(connector, state)


def _thread(name: str) -> ThreadPoolExecutor:
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)


def check_partitions(name: str, partitions: int) -> None:
    """Raise ConfigError if a config topic has more than one partition."""
    if partitions != 1:
        raise ConfigError(
            f"The config topic {name} has {partitions} partitions and must have exactly 1: records of several "
            "partitions have no common order, and workers would come to different conclusions. Name another topic "
            f"in config.storage.topic (it is created as it should be), or delete {name} and create it with 1 "
            "partition and cleanup.policy=compact",
            name="config.storage.topic",
        )
