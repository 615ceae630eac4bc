"""The worker's own configuration. The properties have Kafka Connect's names."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final

from fencepost.api import allowed_paths
from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.secrets import SECRETS
from fencepost.config import client_overrides, config_transformer, rest_config
from fencepost.config.client_overrides import ClientKind, OverridePolicy, is_client_property, overrides
from fencepost.config.file_limits import own_files, paths_of, working_directory
from fencepost.config.group_config import group_config_def
from fencepost.config.internal_topics import (
    STANDALONE_GROUP,
    STORES,
    InternalTopic,
    define_internal_topics,
    internal_topic,
)
from fencepost.config.java_settings import define_java
from fencepost.config.plugin_sources import ALLOWED_MODULES, PluginSources, check_modules
from fencepost.config.restart_config import define_restarts
from fencepost.config.unknown_properties import unknown_properties
from fencepost.config.validators import (
    at_least,
    no_control_characters,
    not_blank,
    one_of,
)

_log = logging.getLogger(__name__)

ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"

_T = ConfigDef.Type
_I = ConfigDef.Importance
_REQUIRED: Final = ConfigDef.NO_DEFAULT
_CONVERTERS: Final = ("key.converter", "value.converter", "header.converter")
_PREFIXES: Final = (
    "producer.", "consumer.", "admin.", "spark.", config_transformer.PREFIX,
    *(f"{converter}." for converter in _CONVERTERS),
    *(f"{store}.storage." for store in STORES), *rest_config.PREFIXES,
)  # fmt: skip


class WorkerMode(StrEnum):
    """How a worker runs: alone in a single process, or as a member of a group."""

    STANDALONE = "standalone"
    DISTRIBUTED = "distributed"


class ExactlyOnceSourceSupport(StrEnum):
    """The values of the worker property `exactly.once.source.support` (KIP-618)."""

    DISABLED = "disabled"
    PREPARING = "preparing"
    ENABLED = "enabled"


def worker_config_def(mode: WorkerMode) -> ConfigDef:
    """Return the definitions of a worker's properties.

    A standalone worker has defaults for the names that a group of workers must agree on, and is exactly-once by
    default.
    """
    alone = mode is WorkerMode.STANDALONE
    definitions = ConfigDef()
    _define_cluster(definitions, alone=alone)
    define_internal_topics(definitions, alone=alone)
    _define_connectors(definitions)
    _define_topics(definitions)
    _define_tasks(definitions)
    _define_limits(definitions)
    _define_plugins(definitions, alone=alone)
    _define_files(definitions, alone=alone)
    _define_token_urls(definitions, alone=alone)
    return define_restarts(definitions, whose="For connectors that do not set it.")


def _define_cluster(definitions: ConfigDef, *, alone: bool) -> None:
    definitions.define(
        "bootstrap.servers",
        _T.STRING,
        _REQUIRED,
        _I.HIGH,
        "The Kafka brokers to connect to first, as host:port,host:port. The worker learns about the others from them.",
        validator=not_blank,
    )
    definitions.define(
        "group.id",
        _T.STRING,
        STANDALONE_GROUP if alone else _REQUIRED,
        _I.HIGH,
        "The name of the group of workers. The transactional ids of all tasks begin with it: two groups on one Kafka "
        "cluster need different names, and so do two standalone workers with connectors of the same name.",
        validator=no_control_characters,
    )
    definitions.define(
        "exactly.once.source.support", _T.STRING, "enabled" if alone else "disabled", _I.HIGH,
        "Whether source connectors deliver exactly once: disabled, preparing (a step of a rolling upgrade) or enabled.",
        validator=one_of([str(support) for support in ExactlyOnceSourceSupport]),
    )  # fmt: skip


def _define_connectors(definitions: ConfigDef) -> None:
    for what in ("key", "value"):
        definitions.define(
            f"{what}.converter", _T.CLASS, _REQUIRED, _I.HIGH,
            f"The converter that turns record {what}s into bytes, for connectors that name none. Its own properties "
            f"begin with {what}.converter.",
        )  # fmt: skip
    (
        definitions.define(
            "header.converter", _T.CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter", _I.LOW,
            "The converter that turns header values into bytes, for connectors that name none.",
        )
        .define(
            "offset.flush.interval.ms", _T.LONG, 60_000, _I.LOW,
            "Sets three times, in milliseconds. With transaction.boundary=interval: how long a transaction collects "
            "records, unless the connector sets transaction.boundary.interval.ms. With delivery at least once: how "
            "often a task commits its source offsets. With exactly-once delivery: how long the source offsets of "
            "records that a transform dropped wait to be committed with other records, before they are committed "
            "alone.",
            validator=at_least(0),
        )
    )  # fmt: skip


def _define_topics(definitions: ConfigDef) -> None:
    (
        definitions.define(
            "topic.creation.enable", _T.BOOLEAN, True, _I.LOW,
            "Whether tasks create missing topics by the topic.creation.* properties of their connectors. If false, "
            "these properties have no effect, and brokers may create missing topics.",
        )
        .define(
            "topic.tracking.enable", _T.BOOLEAN, True, _I.LOW,
            "Whether a distributed worker tracks which topics connectors write to (GET /connectors/{name}/topics).",
        )
        .define(
            "topic.tracking.allow.reset", _T.BOOLEAN, True, _I.LOW,
            "Whether a request may reset the tracked topics of a connector (PUT /connectors/{name}/topics/reset).",
        )
    )  # fmt: skip


def _define_tasks(definitions: ConfigDef) -> None:
    (
        definitions.define(
            "offset.flush.timeout.ms", _T.LONG, 5_000, _I.LOW,
            "How long a task that delivers at least once tries to commit its source offsets, in milliseconds, before "
            "it waits for the next interval. Exactly-once delivery commits them with the records.",
            validator=at_least(1),
        )
        .define(
            "task.shutdown.graceful.timeout.ms", _T.LONG, 5_000, _I.LOW,
            "How long all tasks of a worker together, or one connector, may take to stop, in milliseconds, before the "
            "worker abandons them.",
            validator=at_least(0),
        )
    )  # fmt: skip


def _define_limits(definitions: ConfigDef) -> None:
    """Define the limits of connectors, and the config providers."""
    (
        definitions.define(
            client_overrides.POLICY, _T.STRING, "Allowlist", _I.MEDIUM,
            "Which properties connectors may set with producer.override., consumer.override. and admin.override.: "
            "All (Kafka Connect's default), None, Principal (the credentials) or Allowlist "
            f"(see {client_overrides.ALLOWLIST}).",
        )
        .define(
            client_overrides.ALLOWLIST, _T.LIST, ",".join(client_overrides.DEFAULT_ALLOWLIST), _I.MEDIUM,
            "The client properties that connectors may override under the policy Allowlist, comma-separated; empty: "
            "none. The default allows client tuning and a separate principal, but no other brokers, trust settings or "
            "files.",
        )
        .define(
            config_transformer.PROVIDERS, _T.LIST, "", _I.LOW,
            "The names of config providers, comma-separated. Properties of the worker and of connectors may hold "
            "${name:path:key} or ${name:key}, which the provider of that name resolves. Each is defined by "
            "config.providers.<name>.class, and its own properties below config.providers.<name>.param.",
        )
    )  # fmt: skip


def _define_plugins(definitions: ConfigDef, *, alone: bool) -> None:
    definitions.define(
        "plugin.path", _T.LIST, "", _I.LOW,
        "Directories, comma-separated, from which connectors, converters and transforms can be imported: modules by "
        "their dotted paths, packages that are installed there (pip install --target) by the names of their entry points "
        "as well; and Java connectors, each in a folder with its jars. GET /connector-plugins lists them.",
    ).define(
        ALLOWED_MODULES, _T.LIST, "*" if alone else "", _I.MEDIUM,
        "Python modules, comma-separated, that may be imported if a connector's configuration names a class in them or "
        "below them, in addition to modules in directories of plugin.path, modules of installed packages that "
        "declare plugins by entry points, and modules that the worker's own properties name; * for any module. With *, every "
        "client that may send requests to the worker can make it import, and so run, any installed module.",
        validator=check_modules,
    )  # fmt: skip
    define_java(definitions)


def _define_files(definitions: ConfigDef, *, alone: bool) -> None:
    definitions.define(
        allowed_paths.PROPERTY, _T.LIST, None if alone else ".", _I.MEDIUM,
        "Directories and files, comma-separated, that FileSource and FileStreamSource may read, with everything below them, "
        "after resolving links; relative paths begin at the worker's working directory. A URL, such as s3://bucket/in, "
        "allows all objects below it. The worker's own files are always refused. Unset: a standalone worker allows all "
        "other files that it may read; a distributed worker allows its working directory, or nothing if that is / or "
        "another directory of the system. Empty: none.",
    )  # fmt: skip


def _define_token_urls(definitions: ConfigDef, *, alone: bool) -> None:
    definitions.define(
        ALLOWED_URLS, _T.LIST, None if alone else "", _I.MEDIUM,
        "The addresses of token endpoints, comma-separated, that connectors may name in an override of "
        "sasl.oauthbearer.token.endpoint.url, in addition to the worker's own. In Kafka this is a system property of the "
        "JVM. Unset: a standalone worker allows any, a distributed worker none. Empty: none.",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """A worker's configuration, checked. Times are in milliseconds."""

    mode: WorkerMode
    where: str
    """The name of the configuration in messages: the path of its file."""
    group_id: str
    bootstrap_servers: str
    exactly_once_source_support: ExactlyOnceSourceSupport
    offset_storage: InternalTopic
    config_storage: InternalTopic
    status_storage: InternalTopic
    topic_creation_enable: bool
    topic_tracking_enable: bool
    topic_tracking_allow_reset: bool
    offset_flush_interval_ms: int
    offset_flush_timeout_ms: int
    task_shutdown_graceful_timeout_ms: int
    override_policy: OverridePolicy
    plugin_path: tuple[str, ...]
    plugin_sources: PluginSources
    allowed_paths: AllowedPaths
    allowed_token_urls: tuple[str, ...] | None
    """The token endpoints that connectors may name besides the worker's own; None allows all."""
    properties: Mapping[str, str] = field(repr=False)
    """All given properties, and the defaults of the converters."""

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, str],
        *,
        where: str,
        mode: WorkerMode = WorkerMode.STANDALONE,
        files: Iterable[str] = (),
    ) -> WorkerConfig:
        """Check a worker's properties. Raises ConfigError that names `where`; warns of unknown properties.

        `files` are the paths of the files from which the properties were read: no connector may read them.
        """
        definitions = worker_config_def(mode)
        _require_valid(definitions, properties, where)
        try:
            values = definitions.parse(properties)
            support = _exactly_once_source_support(values, mode)
            policy = OverridePolicy.of(values[client_overrides.POLICY], values[client_overrides.ALLOWLIST])
            offset_topic, config_topic, status_topic = (internal_topic(store, values, properties) for store in STORES)
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}", name=error.name) from None
        _warn_of_unknown(properties, definitions, mode, where)
        own = own_files(properties, files)
        by_default = mode is WorkerMode.DISTRIBUTED and allowed_paths.PROPERTY not in properties
        SECRETS.learn_properties(properties)
        return cls(
            mode=mode,
            where=where,
            group_id=values["group.id"].strip(),
            bootstrap_servers=values["bootstrap.servers"],
            exactly_once_source_support=support,
            offset_storage=offset_topic,
            config_storage=config_topic,
            status_storage=status_topic,
            topic_creation_enable=values["topic.creation.enable"],
            topic_tracking_enable=values["topic.tracking.enable"],
            topic_tracking_allow_reset=values["topic.tracking.allow.reset"],
            offset_flush_interval_ms=values["offset.flush.interval.ms"],
            offset_flush_timeout_ms=values["offset.flush.timeout.ms"],
            task_shutdown_graceful_timeout_ms=values["task.shutdown.graceful.timeout.ms"],
            override_policy=policy,
            plugin_path=tuple(path for path in values["plugin.path"] if path),
            plugin_sources=PluginSources.from_values(values, named=[values[converter] for converter in _CONVERTERS]),
            allowed_paths=working_directory(own) if by_default else paths_of(values[allowed_paths.PROPERTY], own),
            allowed_token_urls=None if values[ALLOWED_URLS] is None else tuple(values[ALLOWED_URLS]),
            properties=MappingProxyType({"header.converter": values["header.converter"], **properties}),
        )

    def limited(self) -> WorkerConfig:
        """Return this configuration with the limits of a group's worker, except where the owner has set limits.

        A standalone worker trusts the files of its owner, but not the clients of its REST API.
        """
        given, sources = self.properties, self.plugin_sources
        return replace(
            self,
            plugin_sources=sources if ALLOWED_MODULES in given else sources.without_any_module(),
            allowed_paths=(
                self.allowed_paths if allowed_paths.PROPERTY in given else working_directory(self.allowed_paths.own)
            ),
            allowed_token_urls=self.allowed_token_urls if ALLOWED_URLS in given else (),
        )

    @property
    def internal_topics(self) -> tuple[InternalTopic, ...]:
        """The topics in which the worker keeps its state. A standalone worker keeps no task states in Kafka."""
        common = (self.offset_storage, self.config_storage)
        return common if self.mode is WorkerMode.STANDALONE else (*common, self.status_storage)

    def client_properties(self, kind: ClientKind) -> dict[str, str]:
        """Return the properties for the worker's clients of a kind.

        Properties with the kind's prefix override common ones.
        """
        common = {name: value for name, value in self.properties.items() if is_client_property(name)}
        # admin.listeners belongs to the REST API, not to the admin clients.
        of_clients = {
            name: value
            for name, value in self.properties.items()
            if name != rest_config.ADMIN_LISTENERS and not name.startswith(rest_config.PREFIXES)
        }
        prefixed = overrides(of_clients, f"{kind}.", kind, where=self.where)
        return {"bootstrap.servers": self.bootstrap_servers} | common | prefixed

    def spark_settings(self) -> dict[str, str]:
        """Return the settings for the Spark session: all properties that begin with `spark.`."""
        return {name: value for name, value in self.properties.items() if name.startswith("spark.")}


def _exactly_once_source_support(values: Mapping[str, Any], mode: WorkerMode) -> ExactlyOnceSourceSupport:
    name = "exactly.once.source.support"
    support = ExactlyOnceSourceSupport(values[name].lower())
    if mode is WorkerMode.STANDALONE and support is not ExactlyOnceSourceSupport.ENABLED:
        raise ConfigError(
            f"A standalone worker always delivers exactly once: remove the property {name}, or set it to enabled",
            name=name,
        )
    return support


def _require_valid(definitions: ConfigDef, properties: Mapping[str, str], where: str) -> None:
    """Raise ConfigError with all invalid properties."""
    wrong = [value for value in definitions.validate(properties) if value.errors]
    if wrong:
        # Further errors of the same property are only consequences of the first one.
        raise ConfigError(f"{where}: {'; '.join(value.errors[0] for value in wrong)}", name=wrong[0].name)


def _warn_of_unknown(properties: Mapping[str, str], definitions: ConfigDef, mode: WorkerMode, where: str) -> None:
    known = {*definitions.keys(), *rest_config.rest_config_def().keys()}
    if mode is WorkerMode.DISTRIBUTED:
        known.update(group_config_def().keys())
    others = [name for name in properties if not is_client_property(name)]
    for name, nearest in unknown_properties(others, known, open_prefixes=_PREFIXES).items():
        hint = "" if nearest is None else f": did you mean {nearest}?"
        _log.warning("The property %s, set in %s, is not known and has no effect%s", name, where, hint)
