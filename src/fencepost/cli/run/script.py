"""`fencepost.run`: runs a source from a script or a notebook, up to its end, exactly once.

    result = fencepost.run(issues, topic="issues", bootstrap_servers="127.0.0.1:9092")

The worker is a standalone one, on its own event loop and thread: the caller may run a loop, and need not be the main
thread. All runs have one group, and therefore share two topics, for source offsets and for counts of tasks. In these
topics a run is identified by its name.
"""

from __future__ import annotations

import asyncio
import itertools
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from inspect import isfunction
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.api.plugin_calls import kind_of
from fencepost.api.record import SourceOffset, SourcePartition
from fencepost.api.source import SourceConnector, describe
from fencepost.cli.run.transfer_progress import shown_progress
from fencepost.config.client_overrides import is_client_property
from fencepost.config.config_transformer import resolve_worker_properties
from fencepost.config.connector_config import connector_config_def
from fencepost.config.worker_config import WorkerConfig, WorkerMode, worker_config_def
from fencepost.connectors.functions.source import source as function_source
from fencepost.herder.standalone.herder import StandaloneHerder
from fencepost.runtime.metrics.transaction_metrics import TransferCounts
from fencepost.runtime.metrics.transfers import Transfers
from fencepost.runtime.worker import Worker

if TYPE_CHECKING:
    from fencepost.herder.entities import ConnectorOffset

GROUP: Final = "fencepost-run"
"""The group of all runs: their topics are `fencepost-run-offsets` and `fencepost-run-configs`."""

_WHERE: Final = "fencepost.run()"
_DEFAULTS: Final = {
    "group.id": GROUP,
    # The caller's source may be in any module.
    "fencepost.plugins.allowed.modules": "*",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}
# Missing topics are created with the brokers' default numbers of partitions and replicas.
_TOPICS: Final = {"topic.creation.default.partitions": "-1", "topic.creation.default.replication.factor": "-1"}
_OF_WORKER: Final = (
    "producer.", "consumer.", "admin.", "spark.", "config.providers.", "offset.storage.", "config.storage.",
    "key.converter.", "value.converter.", "header.converter.",
)  # fmt: skip
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_OF_CONNECTOR: Final = ("producer.override.", "admin.override.", "consumer.override.")
# The waiting thread wakes up at least this often, so that Ctrl-C is noticed on every platform.
_WAIT_S: Final = 0.5


@dataclass(frozen=True, slots=True)
class RunResult:
    """The result of a run. `records`, `bytes` (as sent) and `transactions` are the counts of this run's commits.

    `skipped` are the records that errors.tolerance skipped. `offsets` are the `(source_partition, source_offset)` pairs
    that are committed under the run's `name`, by this run and earlier ones. `interrupted` means that Ctrl-C ended the
    run before the end of the source. `seconds` is its duration.
    """

    name: str
    records: int
    bytes: int
    transactions: int
    skipped: int
    offsets: Sequence[tuple[SourcePartition | None, SourceOffset | None]]
    interrupted: bool
    seconds: float

    @property
    def cursors(self) -> list[Any]:
        """The last cursors of a source function, one for each source partition."""
        found = [offset for _, offset in self.offsets if offset is not None]
        return [offset["cursor"] if set(offset) == {"cursor"} else dict(offset) for offset in found]


class RunError(FencepostError):
    """A run failed. The cause is the error of the task or connector. `result` has the commits before the failure."""

    def __init__(self, message: str, result: RunResult) -> None:
        super().__init__(message)
        self.result = result


def run(
    source: Any,
    *,
    bootstrap_servers: str,
    topic: str | None = None,
    name: str | None = None,
    progress: bool = True,
    options: Mapping[str, Any] | None = None,
    **config: Any,
) -> RunResult:
    """Run a source until its end or Ctrl-C, exactly once, and return the result.

    `source` is a function `(config, cursor)` that yields rows or frames, with `@source` or without, a SourceConnector's
    class, or a PySpark DataSource's. `bootstrap_servers` are brokers as host:port,host:port. The source's offsets are
    kept under `name`: a later run with this name continues where the last one ended, and fences it if it still runs.
    The default is the source's name with the topic's. `options` and `config` are other properties, of the source, its
    connector, the worker and Kafka's clients: `{"tasks.max": 4, "security.protocol": "SSL"}`.

    Raises ConfigError for invalid properties, KafkaError if the brokers cannot be used, and RunError for a failure,
    with the task's error as its cause. A second Ctrl-C raises KeyboardInterrupt immediately: uncommitted records are
    aborted.
    """
    started = time.monotonic()
    connector = _connector_of(source)
    given = {"topic": topic} | dict(options or {}) | config
    texts = {name_: _text(name_, value) for name_, value in given.items() if value is not None}
    run_name = name or _default_name(source, topic)
    with _importable(connector) as path:
        worker, properties = _split(texts)
        worker = _DEFAULTS | worker | {"bootstrap.servers": bootstrap_servers}
        properties = _TOPICS | properties | {"name": run_name, "connector.class": path}
        resolved = resolve_worker_properties(worker, where=_WHERE)
        running = _Run(WorkerConfig.from_properties(resolved, where=_WHERE), properties)
        with shown_progress(running.transfers, quiet=not progress, write_line=_print_line):
            running.wait()
    return running.result(time.monotonic() - started)


class _Run:
    """A run on its own thread and event loop."""

    def __init__(self, config: WorkerConfig, properties: Mapping[str, str]) -> None:
        self.transfers = Transfers()
        self._config = config
        self._properties = properties
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._ended = threading.Event()
        self._interrupted = False
        self._offsets: Sequence[ConnectorOffset] = ()
        self._failures: Sequence[str] = ()
        self._cause: Exception | None = None
        self._error: BaseException | None = None

    def wait(self) -> None:
        """Run to the end. Raises the errors that prevent the start, and KeyboardInterrupt for a second Ctrl-C."""
        threading.Thread(target=self._main, name=_WHERE, daemon=True).start()
        # Python 3.11 considers a thread ended once Ctrl-C has interrupted its join().
        while not self._ended.is_set():
            try:
                self._ended.wait(_WAIT_S)
            except KeyboardInterrupt:
                if self._interrupted:
                    raise
                self._interrupted = True
                self._stop()
        if self._error is not None:
            raise self._error

    def result(self, seconds: float) -> RunResult:
        """Return the result. Raises RunError for a failure."""
        name = self._properties["name"]
        transfer = self.transfers.of_connectors().get(name)
        counts = TransferCounts() if transfer is None else transfer.counts
        result = RunResult(
            name=name,
            records=counts.records,
            bytes=counts.bytes,
            transactions=counts.transactions,
            skipped=counts.skipped,
            offsets=[(offset.partition, offset.offset) for offset in self._offsets],
            interrupted=self._interrupted,
            seconds=seconds,
        )
        if self._failures:
            raise RunError(
                f"The run {name} failed after {counts.records:,} committed records: {'; '.join(self._failures)}. Correct "
                "the cause and run it again: it goes on where it was committed",
                result,
            ) from self._cause
        return result

    def _stop(self) -> None:
        loop = self._loop
        if loop is not None:
            # The event loop may end at this moment.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._stopping.set)

    def _main(self) -> None:
        try:
            asyncio.run(self._run())
        except BaseException as error:  # noqa: BLE001 - the caller's thread raises it
            self._error = error
        finally:
            self._ended.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        if self._interrupted:
            return
        runtime = Worker(self._config)
        runtime.metrics.on_task = self.transfers.watch
        herder = StandaloneHerder(runtime, [self._properties], f"http://{GROUP}", once=True)
        try:
            await self._until_ended(herder)
        finally:
            await herder.stop()

    async def _until_ended(self, herder: StandaloneHerder) -> None:
        stopped: asyncio.Future[Any] = asyncio.ensure_future(self._stopping.wait())
        starting: asyncio.Future[Any] = asyncio.ensure_future(herder.start())
        await asyncio.wait([starting, stopped], return_when=asyncio.FIRST_COMPLETED)
        if not starting.done():
            starting.cancel()
            return
        await starting
        await asyncio.wait([herder.ended, stopped], return_when=asyncio.FIRST_COMPLETED)
        stopped.cancel()
        if herder.ended.done():
            self._failures = herder.ended.result()
        self._cause = next(iter(herder.errors.values()), None)
        await herder.stop_tasks()
        try:
            self._offsets = await herder.offsets.show(self._properties["name"])
        except FencepostError:
            # If the run failed, its own error says more than this one.
            if not self._failures:
                raise


def _connector_of(source: Any) -> type[SourceConnector]:
    if isinstance(source, type) and issubclass(source, SourceConnector):
        return source
    if isinstance(source, type) and any(f"{c.__module__}.{c.__name__}" == _DATA_SOURCE for c in source.__mro__):
        from fencepost.connectors.functions.dataframes import pyspark_source  # noqa: PLC0415 - it needs PySpark

        return pyspark_source(source)
    if isfunction(source):
        return function_source(source)
    if isinstance(source, str):
        raise ConfigError(
            f"fencepost.run() was given the name {source!r}: it takes the Python function or class itself. A connector in Java runs "
            "in workers only: start it with fencepost standalone"
        )
    raise ConfigError(
        f"fencepost.run() was given {kind_of(source)}: it takes a function (config, cursor) that yields rows, or the class of a "
        "SourceConnector or of a DataSource of PySpark"
    )


_DATA_SOURCE: Final = "pyspark.sql.datasource.DataSource"


def _default_name(source: Any, topic: str | None) -> str:
    # Two scripts may have functions with the same name: the topic distinguishes most of them.
    return source.__qualname__ if topic is None else f"{source.__qualname__}-{topic}"


def _text(name: str, value: Any) -> str:
    """Return a property's value as in a properties file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(str, value))
    if isinstance(value, Mapping):
        raise ConfigError(
            f"The property {name} is {kind_of(value)}: properties are texts, numbers and lists", name=name
        )
    return str(value)


def _split(properties: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """Return the worker's and the connector's properties."""
    own = worker_config_def(WorkerMode.STANDALONE).keys().keys() - connector_config_def().keys().keys()
    worker: dict[str, str] = {}
    connector: dict[str, str] = {}
    for name, text in properties.items():
        of_worker = name in own or name in _CONVERTERS or is_client_property(name) or name.startswith(_OF_WORKER)
        (worker if of_worker and not name.startswith(_OF_CONNECTOR) else connector)[name] = text
    for name in ("name", "connector.class", "bootstrap.servers"):
        if name in properties:
            raise ConfigError(f"fencepost.run() sets the property {name} itself: leave it out", name=name)
    return worker, connector


_NUMBERS: Final = itertools.count()


@contextmanager
def _importable(connector: type[SourceConnector]) -> Iterator[str]:
    """Give a class a dotted path for imports during the block; its own path if it has one."""
    place: Any = sys.modules.get(connector.__module__)
    for part in connector.__qualname__.split("."):
        place = getattr(place, part, None)
    if place is connector:
        yield describe(connector)
        return
    module_name = f"fencepost_run_{next(_NUMBERS)}"
    module = ModuleType(module_name, "A source that has no name in a module.")
    attribute = re.sub(r"\W", "_", connector.__name__)
    setattr(module, attribute, connector)
    sys.modules[module_name] = module
    try:
        yield f"{module_name}.{attribute}"
    finally:
        del sys.modules[module_name]


def _print_line(line: str) -> None:
    # A script seldom sets up logging, and a notebook shows stderr.
    print(line, file=sys.stderr, flush=True)  # noqa: T201 - see above
