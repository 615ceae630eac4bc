"""The worker: it creates connectors and tasks from configurations, and holds the parts that they share.

A herder decides which connectors and tasks run. It listens to their states, asks connectors for task configurations,
and starts, pauses and stops tasks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cache, partial
from typing import Final

from fencepost.api.allowed_paths import PathsOfWorker
from fencepost.api.errors import ConfigError
from fencepost.api.secrets import HIDDEN, SECRETS
from fencepost.api.source import SourceTask
from fencepost.config.config_transformer import ConfigTransformer
from fencepost.config.connector_config import ConnectorConfig, TransactionBoundary
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import log_context
from fencepost.config.plugins import use_plugin_path
from fencepost.config.preflight import with_name
from fencepost.config.restart_config import RestartConfig
from fencepost.config.validation_context import ValidationContext
from fencepost.config.worker_config import ExactlyOnceSourceSupport, WorkerConfig
from fencepost.engine.engine import SparkEngine
from fencepost.engine.plugin_builder import NewPluginMetrics
from fencepost.java.pipeline import java_pipeline
from fencepost.java.task import JavaTask, JavaTaskSetting
from fencepost.kafka.admin.topic_creator import TopicCreator
from fencepost.kafka.clients import KafkaClients
from fencepost.kafka.producer.transactional import TransactionalProducer
from fencepost.runtime.connector.client_properties import (
    admin_config,
    brokers_written_to,
    producer_config,
)
from fencepost.runtime.connector.passwords import passwords
from fencepost.runtime.connector.pipeline_builder import build_pipeline
from fencepost.runtime.connector.plugin_versions import require_converter_versions, require_versions
from fencepost.runtime.connector.source_connector import ConnectorListener, WorkerConnector
from fencepost.runtime.connector.state_topics import state_topics
from fencepost.runtime.connector.task_class import check_task_class
from fencepost.runtime.connector.validation import Validation, connector_class, connector_defaults, validate
from fencepost.runtime.connector.worker_converters import warn_of_unknown_converter_properties
from fencepost.runtime.metrics.task_metrics import TaskMetrics
from fencepost.runtime.metrics.worker_metrics import WorkerMetrics
from fencepost.runtime.offset_stores import OffsetStores
from fencepost.runtime.task.admission import Admission
from fencepost.runtime.task.context import TaskProperties
from fencepost.runtime.task.delivery import delivers_exactly_once, delivery
from fencepost.runtime.task.run import NoChecks, StartChecks, TaskParts
from fencepost.runtime.task.source_task import TaskListener, WorkerSourceTask
from fencepost.runtime.task.writes import WritePath
from fencepost.storage.offsets.connector_store import ConnectorOffsetStore
from fencepost.storage.offsets.partition_guard import PartitionGuard

_log: Final = logging.getLogger(__name__)


class Worker:
    """Everything that the connectors and tasks of one process share. Thread-safe.

    properties = resolve_worker_properties(load_properties(path), where=path)
    worker = Worker(WorkerConfig.from_properties(properties, where=path))
    worker.start()                                  # reaches the brokers; the offsets topic exists
    config = worker.checked(properties)             # or worker.validate(properties) for all findings
    connector = worker.new_connector(config, listener)
    connector.start()
    for number, task_config in enumerate(connector.task_configs()):
        task = worker.new_task(config, number, task_config, listener)
        task.start()
    ...
    worker.stop_tasks(tasks)
    worker.stop_connector(connector)
    worker.stop()
    """

    def __init__(self, config: WorkerConfig, clients: KafkaClients | None = None) -> None:
        """Raises ConfigError for an invalid config provider or Spark setting.

        Nothing is started. `clients` creates the Kafka clients, also for the herder.
        """
        self.config = config
        self.clients = clients or KafkaClients()
        import_path = use_plugin_path(",".join(config.plugin_path))
        self._transformer = ConfigTransformer.from_properties(config.properties, where=config.where)
        self.engine = SparkEngine(config.spark_settings(), import_path=[str(folder) for folder in import_path])
        self._offsets = OffsetStores(config, self.clients)
        self._guard = PartitionGuard()
        self._admission = Admission()
        self.metrics = WorkerMetrics(self._offsets.pending_copies)

    def start(self) -> None:
        """Reach the brokers, and create the worker's offsets topic if it is missing.

        Raises BrokerUnavailableError, AuthenticationError, AuthorizationError, TopicCreationError or ConfigError, and
        UnsupportedBrokerError if the brokers do not support exactly-once delivery.
        """
        warn_of_unknown_converter_properties(self.config)
        require_converter_versions(self.config)
        if self.config.exactly_once_source_support is not ExactlyOnceSourceSupport.DISABLED:
            self._require_transactions(None)
        self._offsets.open_global()

    def limited(self) -> Worker:
        """Return this worker with the limits of a worker in a group.

        The limits apply to connectors that are configured by requests.
        """
        limited = copy(self)
        limited.config = self.config.limited()
        return limited

    def agreeing(self, others: tuple[PathsOfWorker, ...]) -> Worker:
        """Return this worker with an additional rule: other workers must allow the files in a configuration as well."""
        if not others:
            return self
        agreeing = copy(self)
        agreeing.config = replace(self.config, allowed_paths=replace(self.config.allowed_paths, others=others))
        return agreeing

    def validate(self, properties: Mapping[str, str], *, accepted: bool = False) -> Validation:
        """Check a connector's configuration, with its placeholders resolved.

        A configuration that was `accepted` before is not validated again by the connector itself. Raises the errors of
        `connector.validation.validate`.
        """
        return validate(self.config, self._transformer.transform(properties), accepted=accepted)

    def checked(self, properties: Mapping[str, str], *, warn: bool = False, accepted: bool = False) -> ConnectorConfig:
        """Return a connector's configuration.

        If properties are invalid, raises one ConfigError, with one error for each. `warn` logs unknown properties;
        `accepted` is as for `validate`.
        """
        validation = self.validate(properties, accepted=accepted)
        if warn:
            validation.warn_of_unknown()
        wrong = [value for value in validation.values.values() if value.errors]
        if wrong:
            # Only the first error of each property is reported: a value that cannot be parsed is None, which causes a
            # second error, as in Connect.
            errors = "; ".join(with_name(value.name, value.errors[0]) for value in wrong)
            name = properties.get("name", "(without a name)")
            raise ConfigError(f"The configuration of connector {name} is invalid: {errors}", name=wrong[0].name)
        return self.connector_config(properties)

    def connector_config(self, properties: Mapping[str, str | None]) -> ConnectorConfig:
        """Return a connector's configuration, which was validated before, with its placeholders resolved.

        Raises ConfigError for placeholders without a value, and for the first invalid property.
        """
        given = {name: text for name, text in properties.items() if text is not None}
        transformed = self._transformer.transform(given)
        transformed.required(where=f"Connector {given.get('name')}")
        SECRETS.learn(dict.fromkeys(passwords(self.config, transformed.properties), HIDDEN))
        defaults = connector_defaults(self.config, transformed.properties)
        return ConnectorConfig.from_transformed(transformed, defaults)

    def new_connector(self, config: ConnectorConfig, listener: ConnectorListener) -> WorkerConnector:
        """Return a connector, not started. Raises the errors of opening its offsets topic.

        Raises UnsupportedBrokerError if the connector writes to other brokers, which do not support exactly-once
        delivery.
        """
        if brokers_written_to(self.config, config) != self.config.bootstrap_servers and delivers_exactly_once(
            self.config, config
        ):
            self._require_transactions(config)
        instance = new_connector_instance(self.config, config)
        require_versions(self.config, config.properties, instance.version())
        offsets = self._offsets.open(config)
        connector = WorkerConnector(
            config,
            instance,
            offsets.reader(),
            listener,
            self.config.allowed_paths,
            kinds=self.metrics.kinds,
            watch=partial(self._guard.watch, offsets) if delivers_exactly_once(self.config, config) else None,
        )
        self.metrics.add_connector(connector)
        return connector

    def new_task(
        self,
        connector: ConnectorConfig,
        number: int,
        task_config: Mapping[str, str],
        listener: TaskListener,
        *,
        checks: StartChecks | None = None,
        paused: bool = False,
        stop_at_end: bool = False,
        wrote_to: Callable[[Collection[str]], None] = lambda _: None,
        metrics: TaskMetrics | None = None,
    ) -> WorkerSourceTask:
        """Return a task, not started. `task_config` may contain placeholders.

        With `stop_at_end` the task ends when its source ends, instead of waiting for more. `wrote_to` is called on the
        task's thread with the topics of each commit's records. `metrics` are the metrics of earlier attempts of the
        same start. Raises ConfigError, and the errors of the connector's constructor and its `task_class`.
        """
        task_id = ConnectorTaskId(connector.name, number)
        parts = self._parts(task_id, connector, task_config, checks or NoChecks(), wrote_to)
        metrics = metrics or self.metrics.add(task_id)
        return WorkerSourceTask(task_id, parts, listener, metrics, paused=paused, stop_at_end=stop_at_end)

    def restarts(self, config: ConnectorConfig) -> RestartConfig:
        """Return the restart settings of a connector and its tasks. Raises ConfigError."""
        return RestartConfig.of(self.config.properties, config.properties)

    def offsets(self, config: ConnectorConfig) -> ConnectorOffsetStore:
        """Return the store of a connector's offsets. Raises the errors of opening its offsets topics."""
        return self._offsets.open(config)

    def offset_producer(self, config: ConnectorConfig) -> TransactionalProducer:
        """Return a producer for a connector's offsets, under the transactional id of its first task.

        Raises ConfigError.
        """
        task = ConnectorTaskId(config.name, 0)
        return self.clients.transactional_producer(
            producer_config(self.config, config, task), task.transactional_id(self.config.group_id)
        )

    def stop_tasks(self, tasks: Iterable[WorkerSourceTask]) -> list[WorkerSourceTask]:
        """Ask tasks to commit and end, and wait for `task.shutdown.graceful.timeout.ms` in total.

        Tasks that have not ended by then are cancelled and returned.
        """
        tasks = list(tasks)
        for task in tasks:
            task.stop()
        deadline = time.monotonic() + self.config.task_shutdown_graceful_timeout_ms / 1000
        late = [task for task in tasks if not task.join(max(0.0, deadline - time.monotonic()))]
        for task in late:
            with log_context(task.id):
                _log.warning(
                    "Task %s did not stop in time and is cancelled: its uncommitted records are aborted", task.id
                )
                task.cancel()
        for task in tasks:
            self.metrics.remove(task.id)
        return late

    def stop_connector(self, connector: WorkerConnector) -> None:
        """Stop a connector and remove it from the metrics."""
        # The metrics come first: if the connector's stop hangs, it may be replaced by another instance meanwhile.
        self.metrics.remove_connector(connector.config.name)
        connector.stop()

    def stop(self) -> None:
        """Close the offsets topics and stop Spark. Tasks that are still running fail.

        Waits some seconds at most for pending copies of offsets to the worker's offsets topic.
        """
        self._guard.close()
        self._offsets.close()
        self.engine.stop()

    def write_path(
        self, connector: ConnectorConfig, wrote_to: Callable[[Collection[str]], None], new_metrics: NewPluginMetrics
    ) -> WritePath:
        """Return the path of a task's records to Kafka.

        `wrote_to` has the same meaning as for `new_task`. Raises ConfigError.
        """
        return WritePath(
            engine=self.engine,
            pipeline=build_pipeline(self.config, connector, new_metrics),
            topic_creator=self._topic_creator(connector),
            offsets_topic=self._offsets.topic(connector),
            wrote_to=wrote_to,
            state_topics=state_topics(self.config) if self._offsets.is_beside(connector) else {},
        )

    def _require_transactions(self, connector: ConnectorConfig | None) -> None:
        with self.clients.admin(admin_config(self.config, connector)) as admin:
            admin.require_transactions()

    def _parts(
        self,
        task_id: ConnectorTaskId,
        connector: ConnectorConfig,
        task_config: Mapping[str, str],
        checks: StartChecks,
        wrote_to: Callable[[Collection[str]], None],
    ) -> TaskParts:
        instance = new_connector_instance(self.config, connector)
        instance.set_context(ValidationContext(connector.properties, self.config.allowed_paths))
        task_class = instance.task_class()
        check_task_class(task_id, task_config.get("task.class"), task_class)
        new_delivery, new_boundaries = delivery(self.clients, self.config, connector, task_id)
        properties = self._transformer.transform(task_config).required(where=f"Task {task_id}")
        SECRETS.learn_properties(properties)
        return TaskParts(
            config=TaskProperties(properties),
            new_task=self._new_task(task_id, connector, task_class),
            new_delivery=new_delivery,
            # The offsets are opened only once: if the topic is deleted, a restarting task must keep the offsets that it
            # has read from it.
            open_offsets=cache(partial(self._offsets.open, connector)),
            new_boundaries=new_boundaries,
            engine=self.engine,
            allowed_paths=self.config.allowed_paths,
            new_write_path=partial(self.write_path, connector, wrote_to),
            guard=self._guard,
            restarts=self.restarts(connector),
            checks=checks,
            admission=self._admission,
        )

    def _new_task(
        self, task_id: ConnectorTaskId, connector: ConnectorConfig, task_class: type[SourceTask]
    ) -> Callable[[], SourceTask]:
        if not issubclass(task_class, JavaTask):
            return task_class
        pipeline = java_pipeline(connector, self.config.properties, self.config.plugin_sources)
        transactional = delivers_exactly_once(self.config, connector)
        boundary = connector.transaction_boundary if transactional else TransactionBoundary.POLL
        return partial(task_class, JavaTaskSetting(task_id, boundary, pipeline))

    def _topic_creator(self, connector: ConnectorConfig) -> TopicCreator | None:
        if connector.topic_creation is None:
            return None
        if not self.config.topic_creation_enable:
            _log.warning(
                "The topic.creation properties of connector %s have no effect: this worker's topic.creation.enable is "
                "false", connector.name,
            )  # fmt: skip
            return None
        return TopicCreator(connector.topic_creation, admin_config(self.config, connector))


def connector_version(worker: WorkerConfig, properties: Mapping[str, str]) -> str:
    """Return the version of the connector in a configuration. Raises ConfigError if there is none."""
    return ConnectorInstance.of(connector_class(worker, properties), properties.get("name")).version()


def partitions_follow_task_configs(worker: WorkerConfig, config: ConnectorConfig) -> bool:
    """Ask a connector's class whether tasks may keep running when other tasks change. Raises the errors of the call."""
    return new_connector_instance(worker, config).partitions_follow_task_configs(dict(config.properties))


def new_connector_instance(worker: WorkerConfig, config: ConnectorConfig) -> ConnectorInstance:
    """Return an instance of a connector's class. It is not started.

    Raises ConfigError if the class does not exist, and the errors of its constructor.
    """
    return ConnectorInstance.of(connector_class(worker, config.properties), config.name)
