"""The real worker, with simulated Kafka, Spark and HTTP.

The worker gets SimClients, which make clients of the simulated broker. `in_world` replaces threads and the clock by
simulated ones. All other code is the package's: the distributed herder and its parts, the stores, the task's run with
its poll loop and its transaction, the transactional producer, and the leader's assignor.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import lru_cache
from types import ModuleType, SimpleNamespace
from typing import Any

import fencepost
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.group_config import GroupConfig
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.worker_config import WorkerConfig, WorkerMode
from fencepost.herder.distributed.group_parts import GroupParts
from fencepost.herder.work.task_work import TaskPlan, TaskWork
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.config.client_config import ClientConfig, ProducerConfig
from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
from fencepost.kafka.group.membership import GroupSettings
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.task.run import TaskParts
from fencepost.runtime.task.writes import WritePath
from fencepost.runtime.worker import Worker
from fencepost.storage.configs.codec import CommitRecord, decode, encode
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore, SharedOffsets
from fencepost.storage.offsets.copies import OffsetCopies
from fencepost.storage.offsets.topic import OffsetStore
from fencepost.storage.statuses.table import StatusTable
from tests.sim.clients import (
    SimAdmin,
    SimPlainProducer,
    SimTransactionCoordinator,
    SimWriter,
    Site,
)
from tests.sim.group import SimMember
from tests.sim.kernel import Kernel
from tests.sim.readers import SimTopicLog, SimTopicReader
from tests.sim.source import NumbersTask, Origin, SimEngine, SimPipeline
from tests.sim.threads import SimExecutor, SimThreading, SimTime

GROUP_ID = "group"
CONFIGS, OFFSETS, OWN_OFFSETS = "configs", "offsets", "own-offsets"
_READ_BACK_MS = 6_000

_THREADED = ("runtime", "storage")
"""The packages whose threads, locks and conditions are simulated. Others are replaced as a whole."""


def worker_config() -> WorkerConfig:
    """The configuration of each worker."""
    converter = "org.apache.kafka.connect.json.JsonConverter"
    properties = {
        "bootstrap.servers": "simulated:1",
        "group.id": GROUP_ID,
        "exactly.once.source.support": "enabled",
        "offset.storage.topic": OFFSETS,
        "config.storage.topic": CONFIGS,
        "status.storage.topic": "status",
        "key.converter": converter,
        "value.converter": converter,
        "fencepost.plugins.allowed.modules": "tests",
        "producer.transaction.timeout.ms": "20000",
        "producer.max.block.ms": "15000",
    }
    return WorkerConfig.from_properties(properties, where="worker.properties", mode=WorkerMode.DISTRIBUTED)


WORKER = worker_config()
# Schedules configure the same connectors again and again, and all workers read the same records, so results are cached.
_PARSED: dict[tuple[tuple[str, str | None], ...], ConnectorConfig] = {}
decoded = lru_cache(decode)


@lru_cache
def group_config(protocol: str, max_delay_ms: int) -> GroupConfig:
    """The group's settings; the simulated member has its own timeouts."""
    properties = {"connect.protocol": protocol, "scheduled.rebalance.max.delay.ms": str(max_delay_ms)}
    return GroupConfig.from_properties(properties, where="worker.properties")


class SimClients(KafkaClients):
    """Makes the clients with which a process asks the simulated broker."""

    def __init__(self, site: Site) -> None:
        self._site: Any = site

    def admin(self, config: ClientConfig) -> Any:
        del config
        return SimAdmin(self._site)

    def transactional_producer(self, config: ProducerConfig, transactional_id: str) -> TransactionalProducer:
        coordinator: Any = lambda _, name: SimTransactionCoordinator(self._site, name)  # noqa: E731 - of another type
        writer: Any = lambda _, *parts: SimWriter(self._site, *parts)  # noqa: E731 - of another type
        return TransactionalProducer(config, transactional_id, new_coordinator=coordinator, new_writer=writer)

    def plain_producer(self, config: ProducerConfig) -> Any:
        del config
        return SimPlainProducer(self._site)

    def topic_reader(self, config: ClientConfig, topic: str) -> Any:
        del config
        return SimTopicReader(self._site, topic)

    def topic_log(
        self, config: ClientConfig, topic: str, on_record: Callable[[ConsumedRecord], None], *told: Callable[[], None]
    ) -> Any:
        del config, told
        return SimTopicLog(self._site, topic, on_record)

    def group_member(self, config: ClientConfig, settings: GroupSettings, *, loop: Any, **parts: Any) -> Any:
        del config, loop
        return SimMember(self._site, settings, **parts)


class SimWorkerRuntime(Worker):
    """Makes tasks with simulated clients and a simulated engine."""

    def __init__(self, site: Site) -> None:
        super().__init__(WORKER, SimClients(site))
        self._offsets: Any = _OffsetStores(self.clients)
        self.engine: Any = SimEngine()
        self.metrics: Any = _Silent()
        self._guard: Any = _NoGuard()
        self.planned_at = 0

    def start(self) -> None:
        """The offsets topic exists already."""

    def checked(self, properties: Mapping[str, str], **_: bool) -> ConnectorConfig:
        return self.connector_config(properties)

    def validate(self, *_: Any, **__: bool) -> Any:
        return SimpleNamespace(errors=[], warn_of_unknown=lambda: None)

    def connector_config(self, properties: Mapping[str, str | None]) -> ConnectorConfig:
        known = tuple(properties.items())
        if known not in _PARSED:
            _PARSED[known] = super().connector_config(properties)
        return _PARSED[known]

    def _parts(self, task_id: ConnectorTaskId, connector: ConnectorConfig, *args: Any) -> TaskParts:
        parts = super()._parts(task_id, connector, *args)
        pipeline: Any = SimPipeline(
            Origin(connector.name, task_id.task, self.planned_at), keyed="keyed" in connector.properties
        )
        path = WritePath(self.engine, pipeline, None, self._offsets.topic(connector), lambda _: None)
        return replace(parts, new_write_path=lambda _: path)


class _OffsetStores:
    """Replaces runtime.offset_stores.OffsetStores: the worker's topic and another one stay open."""

    def __init__(self, clients: KafkaClients) -> None:
        topics = WORKER.offset_storage, replace(WORKER.offset_storage, name=OWN_OFFSETS)
        self._store, self._own = (OffsetStore(topic, clients=clients, consumer=_NONE, admin=_NONE) for topic in topics)
        self._copies = OffsetCopies(self._store, clients.plain_producer(_NONE))

    def open(self, connector: ConnectorConfig) -> ConnectorOffsetStore:
        if self.topic(connector) == OFFSETS:
            return ConnectorOffsetStore(connector.name, self._store, open_former=lambda _: self._own)
        return ConnectorOffsetStore(connector.name, self._own, SharedOffsets(self._store, self._copies))

    def topic(self, connector: ConnectorConfig) -> str:
        return str(connector.properties.get("offsets.storage.topic", OFFSETS))

    def pending_copies(self) -> int:
        return self._copies.pending()

    def close(self) -> None:
        self._copies.close()


class _NoGuard:
    """Replaces PartitionGuard: the checker looks at each commit."""

    def watch(self, *_: Any) -> Any:
        return _Silent()

    def watching(self, *_: Any) -> Any:
        return nullcontext()


class _Finalizer:
    """Replaces weakref.finalize for objects that are closed explicitly.

    A real finalizer would keep every simulated world alive, because its callback refers to it.
    """

    atexit = False

    def __init__(self, _: Any, call: Callable[[], None]) -> None:
        self._call = call

    def __call__(self) -> None:
        self._call()


class _Silent:
    """Metrics without readers."""

    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self, *_: Any, **__: Any) -> Any:
        return self


class _TaskWork(TaskWork):
    """Records the position in the config topic at which a task was planned, for the origin of its records."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._planned_at: dict[int | None, int] = {}

    def want(self, plan: TaskPlan | None) -> None:
        if plan is not None:
            self._planned_at.setdefault(plan.generation, self._parts.state.offset)
        super().want(plan)

    def _make(self, properties: dict[str, Any], plan: TaskPlan, *args: Any) -> Any:
        self._parts.worker.planned_at = self._planned_at[plan.generation]  # type: ignore[attr-defined]
        return super()._make(properties, plan, *args)


class SimStatuses:
    """Statuses that all workers see at once."""

    fatal_failure = None

    def __init__(self, table: StatusTable) -> None:
        self.table = table

    def owns(self, _: Any) -> bool:
        """The worker that reported last owns the connector or task."""
        return True

    def put(self, subject: Any, status: Any) -> None:
        if status.trace:
            said = status.trace.splitlines()[-1]
            NumbersTask.kernel.note(f"{subject} is {status.state}: {said}")
            if not said.startswith(fencepost.__name__):
                NumbersTask.kernel.fault(f"{subject} is {status.state}, which nobody expects: {said}")
        if self.table.allows(subject, status):
            self.table.apply(subject, status)

    def disown(self, subject: Any) -> None:
        """Reports never arrive out of order here."""

    def delete_connector(self, connector: str) -> None:
        for task in self.table.tasks(connector):
            self.table.apply(task, None)
        self.table.apply(connector, None)

    def delete_task(self, task: ConnectorTaskId) -> None:
        self.table.apply(task, None)

    def put_active_topic(self, task: ConnectorTaskId, topic: str) -> None:
        """Active topics are not used here."""

    def start(self, _: Any) -> Any:
        started: Future[None] = Future()
        started.set_result(None)
        return started

    def close(self) -> None:
        """There is nothing to release."""


_NONE: Any = None


def _on_loop(parts: GroupParts, coroutine: Any) -> None:
    del parts
    NumbersTask.kernel.wait_for(coroutine)


def _as_known(site: Site, record: Any) -> Any:
    """The records that a worker reads or writes, according to its version."""
    plain = site.older and isinstance(record, CommitRecord)
    return CommitRecord(record.connector, record.tasks) if plain else record


@lru_cache
def _modules() -> Mapping[str, ModuleType]:
    for package in ("runtime", "herder", "kafka", "storage"):
        path = importlib.import_module(f"fencepost.{package}").__path__
        for found in pkgutil.walk_packages(path, f"fencepost.{package}."):
            importlib.import_module(found.name)
    whole = fencepost.__name__ + "."
    return {name.removeprefix(whole): module for name, module in sys.modules.items() if name.startswith(whole)}


@lru_cache
def _owners(what: ModuleType, within: tuple[str, ...] = ("",)) -> list[ModuleType]:
    """The modules that import a module of the standard library, in all packages or in some."""
    name = what.__name__
    return [
        module for path, module in _modules().items() if path.startswith(within) and getattr(module, name, None) is what
    ]


def _replacements(kernel: Kernel, here: Callable[[], Site]) -> list[tuple[Any, str, Any]]:
    """The replacements: the owner of a name, the name, and its simulated value."""
    at = _modules().__getitem__
    return [
        *_clocks_and_threads(kernel),
        (at("storage.configs.topic"), "decode", lambda key, value: _as_known(here(), decoded(key, value))),
        (at("storage.configs.topic"), "encode", lambda record: encode(_as_known(here(), record))),
        (at("storage.configs.topic"), "_thread", lambda _: SimExecutor(here().process)),
        (at("storage.offsets.topic"), "weakref", SimpleNamespace(finalize=_Finalizer)),
        (at("herder.distributed.herder"), "status_store", lambda *_: here().statuses),
        (at("herder.distributed.group_work"), "TaskWork", _TaskWork),
        # The real function would read the files of installed packages again at each start of a worker.
        (at("runtime.worker"), "use_plugin_path", lambda _: []),
        (GroupParts, "on_loop", _on_loop),
        (NumbersTask, "kernel", kernel),
    ]


def _told_faults(kernel: Kernel) -> list[tuple[Any, str, Any]]:
    """Log messages about a worker's own faults, which no schedule may have."""
    told = SimpleNamespace(exception=lambda text: kernel.fault(text, sys.exception()))
    return [(_modules()["herder.core.convergence"], "_log", told)]


def _clocks_and_threads(kernel: Kernel) -> list[tuple[Any, str, Any]]:
    clock, threads = SimTime(kernel), SimThreading(kernel)
    return [
        *((module, "time", clock) for module in _owners(time)),
        *((module, "random", kernel.random) for module in _owners(random)),
        *((module, "threading", threads) for module in _owners(threading, _THREADED)),
        # Shorter than the time without news of the config topic that workers tolerate.
        (_modules()["storage.configs.topic"], "_READ_BACK_TIMEOUT_MS", _READ_BACK_MS),
    ]


@contextmanager
def in_world(
    kernel: Kernel, here: Callable[[], Site], mutations: Sequence[tuple[Any, str, Any]] = ()
) -> Iterator[None]:
    """Run the worker's code in the world; `here` is the site of the current process; `mutations` break some code."""
    before = []
    log, telling = logging.getLogger(fencepost.__name__), _Telling(kernel)
    logging.disable(logging.NOTSET if kernel.tracing else logging.CRITICAL)
    if kernel.tracing:
        log.addHandler(telling)
        log.setLevel(logging.DEBUG)
    try:
        for owner, name, value in [*_replacements(kernel, here), *_told_faults(kernel), *mutations]:
            before.append((owner, name, owner.__dict__.get(name, _MISSING)))
            setattr(owner, name, value)
        yield
    finally:
        for owner, name, value in reversed(before):
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        log.removeHandler(telling)
        log.setLevel(logging.NOTSET)
        logging.disable(logging.NOTSET)


class _Telling(logging.Handler):
    """Adds the worker's log lines to the trace."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__()
        self._kernel = kernel

    def emit(self, record: logging.LogRecord) -> None:
        self._kernel.note(f"{record.levelname.lower()}: {record.getMessage()}")


_MISSING = object()
