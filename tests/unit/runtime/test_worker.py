from __future__ import annotations

import gc
import re
import weakref
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import pytest

from fencepost import ConfigDef, ConfigError, ConnectorTransactionBoundaries, ExactlyOnceSupport
from fencepost.api.config_def import ConfigValue
from fencepost.config.restart_config import RestartConfig, TaskRestartPolicy
from fencepost.config.worker_config import WorkerConfig
from fencepost.java.errors import JvmEndedError
from fencepost.runtime.connector.validation import Validation
from fencepost.runtime.connector.worker_converters import warn_of_unknown_converter_properties
from fencepost.runtime.restart_policy import RestartPolicy
from fencepost.runtime.worker import Worker
from tests.support.sequence_source import SequenceConnector, properties
from tests.support.task_runner import States


@pytest.fixture
def worker() -> Iterator[Worker]:
    config = {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    }
    worker = Worker(WorkerConfig.from_properties(config, where="worker.properties"))
    yield worker
    worker.stop()


def _blamed(worker: Worker, config: dict[str, str]) -> list[str]:
    try:
        return [value.name for value in worker.validate(config).values.values() if value.errors]
    except ConfigError as error:
        return [str(error.name)]


def test_a_valid_configuration_is_checked_without_brokers(worker: Worker):
    config = worker.checked(properties("c", "t", {"transforms": "f", "transforms.f.type": "Filter"}))
    assert config.name == "c"


class KeptConnector(SequenceConnector):
    """Knows which of its instances are still there."""

    made = 0
    kept: ClassVar[weakref.WeakSet[KeptConnector]] = weakref.WeakSet()

    def __init__(self) -> None:
        type(self).made += 1
        self.kept.add(self)


@pytest.mark.parametrize("limit", ["1", "many"], ids=["valid", "refused"])
def test_an_instance_that_was_made_for_a_validation_is_released(worker: Worker, limit: str):
    config = properties("c", "t", {"limit": limit}) | {"connector.class": f"{__name__}.KeptConnector"}
    before = KeptConnector.made
    for _ in range(3):
        assert _blamed(worker, config) == (["limit"] if limit == "many" else [])
    assert KeptConnector.made > before
    gc.collect()
    assert list(KeptConnector.kept) == []


@pytest.mark.parametrize(
    ("change", "blamed"),
    [
        ({"connector.class": ""}, "connector.class"),
        ({"connector.class": "NoSuchConnector"}, "connector.class"),
        ({"value.converter": "NoSuchConverter"}, "value.converter"),
        (
            {"value.converter": "JsonConverter", "value.converter.schemas.enable": "maybe"},
            "value.converter.schemas.enable",
        ),
        ({"header.converter": "NoSuchConverter"}, "header.converter"),
        ({"transforms": "x", "transforms.x.type": "NoSuchTransform"}, "transforms.x.type"),
        (
            {"transforms": "x", "transforms.x.type": "RegexRouter", "transforms.x.replacement": "y"},
            "transforms.x.regex",
        ),
        ({"topic.creation.default.partitions": "none"}, "topic.creation.default.partitions"),
        ({"limit": "many"}, "limit"),
        ({"transaction.boundary": "never"}, "transaction.boundary"),
    ],
)
def test_errors_are_reported_on_their_properties(worker: Worker, change: dict[str, str], blamed: str):
    assert _blamed(worker, properties("c", "t") | change) == [blamed]


def test_an_error_without_the_name_of_its_property_is_reported_with_it(worker: Worker, monkeypatch: pytest.MonkeyPatch):
    said = {
        "transforms.a.field": 'Missing required configuration "field" which has no default value.',
        "transforms.b.field": "The property transforms.b.field is required.",
        "field": "transforms.b.field and a field-list lack it",
    }
    found = Validation({}, {name: ConfigValue(name, errors=[error]) for name, error in said.items()})
    monkeypatch.setattr(worker, "validate", lambda *_, **__: found)
    with pytest.raises(ConfigError) as caught:
        worker.checked(properties("c", "t"))
    joined = (
        'transforms.a.field: Missing required configuration "field" which has no default value.; '
        "The property transforms.b.field is required.; field: transforms.b.field and a field-list lack it"
    )
    for message in (str(caught.value), found.error_message):
        assert message.endswith(f": {joined}")


def test_all_errors_are_reported_at_once(worker: Worker):
    config = properties("c", "t", {"limit": "many", "tasks.max": "0"})
    with pytest.raises(ConfigError, match=r"connector c is invalid: .*tasks\.max.*; .*limit"):
        worker.checked(config)


def test_a_task_that_cannot_resolve_its_configuration_says_why(worker: Worker):
    config = worker.connector_config(properties("c", "t"))
    with pytest.raises(ConfigError, match=r"Task c-0: The property password holds .*no config provider named 'env'"):
        worker.new_task(config, 0, {"password": "${env:PASSWORD}"}, States())


def test_a_task_that_was_configured_for_java_does_not_run_in_python(worker: Worker):
    given = {"connector.class": "io.debezium.connector.postgresql.PostgresConnector", "name": "c", "topic.prefix": "t"}
    config = worker.connector_config(given)
    with pytest.raises(ConfigError, match=r"Task c-0 is configured for the Java class io\.debezium"):
        worker.new_task(config, 0, {"task.class": "io.debezium.connector.postgresql.PostgresConnectorTask"}, States())


@pytest.mark.parametrize("enabled", [True, False])
def test_the_worker_says_whether_connectors_may_have_topics_created(
    worker: Worker, caplog: pytest.LogCaptureFixture, *, enabled: bool
):
    worker.config = replace(worker.config, topic_creation_enable=enabled)
    given = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    creator = worker._topic_creator(worker.connector_config(properties("c", "t", given)))
    assert (creator is not None) is enabled
    assert ("have no effect" in caplog.text) is not enabled


class EndedConnector(SequenceConnector):
    """Fails at one of the questions, as when its JVM ends."""

    ends_at = ""
    failure: Exception = JvmEndedError("The JVM has ended")

    def __init__(self) -> None:
        self._reach("the constructor")

    def version(self) -> str:
        self._reach("version")
        return super().version()

    def config(self) -> ConfigDef:
        self._reach("config")
        return super().config()

    def exactly_once_support(self, config: Mapping[str, str]) -> ExactlyOnceSupport:
        self._reach("exactly_once_support")
        return super().exactly_once_support(config)

    def can_define_transaction_boundaries(self, config: Mapping[str, str]) -> ConnectorTransactionBoundaries:
        self._reach("can_define_transaction_boundaries")
        return super().can_define_transaction_boundaries(config)

    def _reach(self, question: str) -> None:
        if question == self.ends_at:
            raise self.failure


@pytest.mark.parametrize("failure", [EndedConnector.failure, OSError("no route")], ids=repr)
@pytest.mark.parametrize(
    "question",
    ["the constructor", "version", "config", "exactly_once_support", "can_define_transaction_boundaries"],
)
def test_a_failure_of_its_code_does_not_make_an_accepted_configuration_invalid(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, question: str, failure: Exception
):
    named = {"connector.class": f"{__name__}.{EndedConnector.__name__}", "transaction.boundary": "connector"}
    config = properties("c", "t", named)
    monkeypatch.setattr(EndedConnector, "ends_at", question)
    monkeypatch.setattr(EndedConnector, "failure", failure)
    with pytest.raises(type(failure)) as caught:
        worker.checked(config, accepted=True)
    assert caught.value is failure
    assert RestartPolicy(RestartConfig(policy=TaskRestartPolicy.ALWAYS)).failed(failure) is not None
    # A new configuration is refused: nothing would check it later.
    with pytest.raises(ConfigError, match=str(failure)):
        worker.checked(config)


def test_a_value_that_does_not_parse_has_one_error(worker: Worker):
    with pytest.raises(ConfigError) as caught:
        worker.checked(properties("c", "t", {"tasks.max": "zwei"}))
    assert str(caught.value).count("tasks.max") == 1


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("value.converter.schema.enable", "not known to JsonConverter .* did you mean value.converter.schemas.enable?"),
        ("key.converter.encodin", "not known to StringConverter"),
    ],
)
def test_a_misspelt_property_of_the_workers_converters_is_reported(
    worker: Worker, caplog: pytest.LogCaptureFixture, name: str, told: str
):
    changed = {**worker.config.properties, name: "x"}
    warn_of_unknown_converter_properties(replace(worker.config, properties=changed))
    assert re.search(told, caplog.text)


def test_defined_properties_of_the_workers_converters_pass(worker: Worker, caplog: pytest.LogCaptureFixture):
    changed = {**worker.config.properties, "value.converter.schemas.enable": "false"}
    warn_of_unknown_converter_properties(replace(worker.config, properties=changed))
    assert "not known" not in caplog.text


@pytest.mark.parametrize(
    "asked",
    [
        {"connector.plugin.version": "[9,)"},
        {"value.converter": "JsonConverter", "value.converter.plugin.version": "[9,)"},
        {"transforms": "f", "transforms.f.type": "Filter", "transforms.f.plugin.version": "9.0"},
        {"predicates": "p", "predicates.p.type": "RecordIsTombstone", "predicates.p.plugin.version": "(,0.0.1)"},
    ],
)
def test_a_connector_does_not_start_if_another_version_is_installed_since(worker: Worker, asked: dict[str, str]):
    config = worker.connector_config(properties("c", "t", asked))
    (name,) = (name for name in asked if name.endswith("plugin.version"))

    with pytest.raises(ConfigError, match=f"{re.escape(name)} asks for version") as refused:
        worker.new_connector(config, States())

    assert refused.value.name == name


def test_a_worker_does_not_start_with_another_version_of_its_converter():
    config = {
        "bootstrap.servers": "127.0.0.1:1",
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.plugin.version": "[9,)",
    }
    worker = Worker(WorkerConfig.from_properties(config, where="worker.properties"))

    with pytest.raises(ConfigError, match=r"value\.converter\.plugin\.version asks for version \[9,\)"):
        worker.start()
    worker.stop()


def test_a_property_without_a_value_in_the_config_topic_is_left_out(worker: Worker):
    config = worker.connector_config({**properties("c", "t"), "extra": None})
    assert "extra" not in config.properties
