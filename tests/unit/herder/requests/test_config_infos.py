"""The result of validating a connector's configuration, in Connect's format."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from fencepost import ConfigDef, ConfigError, RetriableError, SourceConnector, SourceTask
from fencepost.api.secrets import HIDDEN
from fencepost.converters import StringConverter
from fencepost.herder.entities import ConfigInfo, ConfigInfos
from fencepost.herder.requests.config_infos import validate_connector_config
from fencepost.runtime.worker import Worker
from tests.support.model_herder import model_worker_config

WORKER = Worker(model_worker_config())
CONFIG = {"connector.class": "FileStreamSource", "name": "c", "file": "/in", "topic": "t"}
GROUPS = {
    "Common", "Transforms", "Predicates", "Error Handling", "Topic Creation", "Exactly Once Support", "offsets.topic",
}  # fmt: skip


class Awkward(SourceConnector):
    """Has a password, and fails in the given method."""

    def version(self) -> str:
        return "7"

    def config(self) -> ConfigDef:
        return (
            ConfigDef().define("secret", ConfigDef.Type.PASSWORD, "hunter2").define("fail", ConfigDef.Type.STRING, "")
        )

    def validate(self, config: Any) -> Any:
        if config.get("fail"):
            raise RuntimeError(config["fail"])
        return super().validate(config)

    def start(self, config: Any) -> None:
        raise AssertionError(config)

    def task_class(self) -> type[SourceTask]:
        raise AssertionError

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        raise AssertionError(max_tasks)


class Away(StringConverter):
    """Raises a retriable error when it is configured."""

    def configure(self, configs: Any, *, is_key: bool = False) -> None:  # noqa: ARG002 - the API's
        raise RetriableError("the registry is away")


FUNCTION = {"connector.class": "tests.unit.connectors.functions.test_source.rows", "name": "c", "topic": "t"}
AWKWARD = {"connector.class": f"{Awkward.__module__}.Awkward", "name": "c"}


def validated(config: dict[str, str], **more: str) -> ConfigInfos:
    return validate_connector_config(WORKER, {**config, **more})


def info_of(infos: ConfigInfos, name: str) -> ConfigInfo:
    return next(info for info in infos.configs if info.value.name == name)


def errors_of(infos: ConfigInfos) -> dict[str, int]:
    return {info.value.name: len(info.value.errors) for info in infos.configs if info.value.errors}


def test_a_good_config_has_no_errors_and_shows_the_workers_defaults():
    infos = validated(CONFIG)
    assert (infos.name, infos.error_count, set(infos.groups)) == ("FileStreamSource", 0, GROUPS)
    converter = info_of(infos, "value.converter")
    assert converter.definition is not None
    assert converter.definition.default_value == converter.value.value == WORKER.config.properties["value.converter"]
    assert (converter.definition.group, converter.definition.order) == ("Common", 8)
    assert info_of(infos, "value.converter.plugin.version").value.value is not None


def test_every_property_is_shown_once_with_its_definition():
    infos = validated(
        CONFIG,
        **{
            "transforms": "a",
            "transforms.a.type": "HoistField$Value",
            "transforms.a.field": "f",
            "producer.override.acks": "all",
            "topic.creation.default.partitions": "1",
            "topic.creation.default.replication.factor": "1",
        },
    )
    names = [info.value.name for info in infos.configs]
    assert len(names) == len(set(names))
    assert all(info.definition is not None and info.definition.name == info.value.name for info in infos.configs)
    assert infos.error_count == 0


@pytest.mark.parametrize(
    ("name", "value", "kind", "default", "importance"),
    [
        ("producer.override.enable.idempotence", "false", "BOOLEAN", "true", "LOW"),
        ("producer.override.bootstrap.servers", "b:1", "LIST", "", "HIGH"),
        ("producer.override.linger.ms", "3", "LONG", "5", "MEDIUM"),
        ("consumer.override.max.poll.records", "3", "INT", "500", "MEDIUM"),
        ("admin.override.client.dns.lookup", "use_all_dns_ips", "STRING", "use_all_dns_ips", "MEDIUM"),
        ("producer.override.ssl.key.password", "hunter2", "PASSWORD", None, "HIGH"),
    ],
)
def test_an_override_is_shown_as_its_client_defines_it(
    name: str, value: str, kind: str, default: str | None, importance: str
):
    shown = info_of(validated(CONFIG, **{name: value}), name)
    assert shown.definition is not None
    assert (shown.definition.type, shown.definition.default_value) == (kind, default)
    assert (shown.definition.importance, shown.definition.required) == (importance, False)
    assert shown.definition.documentation
    assert shown.value.value == (HIDDEN if kind == "PASSWORD" else value)


def test_errors_are_counted_by_messages_and_a_value_that_parses_stays():
    infos = validated({"connector.class": "FileStreamSource"}, **{"tasks.max": "abc", "topic": "", "batch.size": "0"})
    assert errors_of(infos) == {"name": 1, "tasks.max": 2, "topic": 1, "batch.size": 1, "file": 1}
    assert infos.error_count == 6
    assert info_of(infos, "tasks.max").value.value is None
    assert info_of(infos, "batch.size").value.value == "0"
    assert info_of(infos, "topic").value.value == ""


def test_all_errors_are_in_the_message():
    message = WORKER.validate({**CONFIG, "tasks.max": "0", "exactly.once.support": "maybe"}).error_message
    assert "2 error(s)" in message
    assert "tasks.max" in message
    assert "exactly.once.support" in message


def test_a_transform_has_a_group_with_its_own_properties():
    infos = validated(
        CONFIG, **{"transforms": "a,b", "transforms.a.type": "HoistField$Value", "transforms.a.field": "line"}
    )
    assert set(infos.groups) == GROUPS | {"Transforms: a", "Transforms: b"}
    mine = [info.definition for info in infos.configs if info.definition and info.definition.group == "Transforms: a"]
    assert [(key.name, key.order) for key in mine] == [
        ("transforms.a.type", 0), ("transforms.a.plugin.version", 1), ("transforms.a.field", 2),
        ("transforms.a.negate", 3), ("transforms.a.predicate", 4),
    ]  # fmt: skip
    assert errors_of(infos) == {"transforms.b.type": 1}


@pytest.mark.parametrize(
    ("properties", "errors"),
    [
        ({"transforms": "a", "transforms.a.type": "Nope"}, {"transforms.a.type": 1}),
        ({"transforms": "a,a"}, {"transforms": 1}),
        ({"transforms": "a", "transforms.a.type": "HoistField$Value"}, {"transforms.a.field": 1}),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.negate": "x"}, {"transforms.a.negate": 1}),
        ({"transforms": "a", "transforms.a.type": "Filter", "transforms.a.predicate": "p"}, {"transforms.a.predicate": 1}),
        ({"transforms": "a", "transforms.a.type": "InsertField$Value"}, {"transforms.a.topic.field": 1}),
        ({"predicates": "p", "predicates.p.type": "TopicNameMatches"}, {"predicates.p.pattern": 1}),
        ({"predicates": "p", "predicates.p.type": "Filter"}, {"predicates.p.type": 1}),
        ({"value.converter": "no.such.Conv"}, {"value.converter": 1}),
        ({"value.converter": "JsonConverter", "value.converter.schemas.enable": "x"}, {"value.converter.schemas.enable": 1}),
        ({"value.converter.plugin.version": "9.9"}, {"value.converter.plugin.version": 1}),
        ({"connector.plugin.version": "9.9"}, {"connector.plugin.version": 1}),
        ({"connector.plugin.version": "[9.9,10)"}, {"connector.plugin.version": 1}),
        ({"connector.plugin.version": "[9.9"}, {"connector.plugin.version": 1}),
        ({"connector.plugin.version": "[0.0.1,9.9)"}, {}),
        ({"connector.plugin.version": "latest"}, {}),
        (
            {"transforms": "a", "transforms.a.type": "Filter", "transforms.a.plugin.version": "(,0.0.1]"},
            {"transforms.a.plugin.version": 1},
        ),
        (
            {"predicates": "p", "predicates.p.type": "RecordIsTombstone", "predicates.p.plugin.version": "[9,)"},
            {"predicates.p.plugin.version": 1},
        ),
        ({"topic.creation.groups": "g"}, {"topic.creation.default.partitions": 1}),
        ({"file": ""}, {"file": 1}),
        ({"consumer.override.request.timeout.ms": "soon"}, {"consumer.override.request.timeout.ms": 1}),
        ({"admin.override.reqest.timeout.ms": "1"}, {"admin.override.reqest.timeout.ms": 1}),
        ({"producer.override.security.protocol": "SASL_SSL"}, {"producer.override.sasl.mechanism": 1}),
    ],
)  # fmt: skip
def test_an_error_is_reported_on_its_property(properties: dict[str, str], errors: dict[str, int]):
    assert errors_of(validated(CONFIG, **properties)) == errors


def test_malformed_credentials_are_reported_without_showing_them():
    principal = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "user=hunter2"}
    config = CONFIG | {f"producer.override.{name}": value for name, value in principal.items()}
    infos, message = validated(config), WORKER.validate(config).error_message
    assert errors_of(infos) == {"producer.override.sasl.jaas.config": 1}
    assert "sasl.jaas.config is malformed" in message
    assert "hunter2" not in f"{infos} {message}"


def test_a_converter_that_is_not_found_has_no_value_and_no_version():
    infos = validated(CONFIG, **{"value.converter": "no.such.Conv"})
    assert info_of(infos, "value.converter").value.value is None
    version = info_of(infos, "value.converter.plugin.version")
    assert version.definition is not None
    assert (version.value.value, version.value.visible, version.definition.default_value) == (None, False, None)


def test_a_converter_of_the_connectors_own_shows_its_properties():
    infos = validated(CONFIG, **{"key.converter": "JsonConverter", "key.converter.schemas.enable": "false"})
    assert info_of(infos, "key.converter.schemas.enable").value.value == "false"
    assert infos.error_count == 0


def test_overrides_are_listed_with_the_policys_verdict():
    worker = Worker(model_worker_config(connector_client_config_override_policy="None"))
    infos = validate_connector_config(worker, {**CONFIG, "producer.override.acks": "all"})
    assert errors_of(infos) == {"producer.override.acks": 1}
    assert info_of(infos, "producer.override.acks").value.value == "all"


def test_passwords_are_never_shown():
    infos = validated(AWKWARD, secret="letmein", **{"producer.override.sasl.jaas.config": "password=letmein"})
    assert "letmein" not in repr([*infos.configs])
    assert "hunter2" not in repr([*infos.configs])
    assert info_of(infos, "secret").value.value == HIDDEN


def test_an_accepted_configuration_is_not_validated_by_the_connector_again():
    """The connector's validation could fail because its source is away when the connector starts again."""
    away = {**AWKWARD, "fail": "the database is away"}
    with pytest.raises(ConfigError, match="the database is away"):
        WORKER.checked(away)
    assert WORKER.checked(away, accepted=True).name == "c"
    with pytest.raises(ConfigError, match=r"tasks\.max"):
        WORKER.checked({**away, "tasks.max": "none"}, accepted=True)


def test_an_accepted_config_stays_valid_while_a_plugin_cannot_be_created():
    config = {**CONFIG, "value.converter": f"{Away.__module__}.Away"}
    with pytest.raises(ConfigError, match="the registry is away"):
        validated(config)
    with pytest.raises(RetriableError, match="the registry is away"):
        WORKER.checked(config, accepted=True)


def test_the_properties_of_a_function_that_make_records_are_documented():
    definition = info_of(validated(FUNCTION), "key.columns").definition
    assert definition is not None
    assert (definition.default_value, definition.type) == ("id", ConfigDef.Type.LIST)
    assert definition.documentation.startswith("The columns that become the record's key")


@pytest.fixture
def with_env(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker with a config provider for environment variables, with two variables set."""
    monkeypatch.setenv("PASSWORD", "letmein")
    monkeypatch.setenv("TASKS", "3")
    provider = {"config_providers": "env", "config_providers_env_class": "EnvVarConfigProvider"}
    return Worker(model_worker_config(**provider))


def test_values_of_config_providers_are_checked_and_not_shown(with_env: Worker):
    given = {"secret": "${env:PASSWORD}", "tasks.max": "${env:TASKS}", "file": "${env:TASKS}"}
    infos = validate_connector_config(with_env, {**AWKWARD, **given})
    assert infos.error_count == 0
    assert info_of(infos, "tasks.max").value.value == "${env:TASKS}"
    assert "letmein" not in repr([*infos.configs])

    config = {**AWKWARD, "tasks.max": "${env:PASSWORD}"}
    wrong = validate_connector_config(with_env, config)
    assert errors_of(wrong) == {"tasks.max": 2}
    assert "'${env:PASSWORD}'" in with_env.validate(config).error_message
    assert "letmein" not in repr([*wrong.configs])


def test_a_failure_of_a_connectors_code_does_not_show_provided_values(
    with_env: Worker, caplog: pytest.LogCaptureFixture
):
    with pytest.raises(ConfigError, match=r"RuntimeError: \$\{env:PASSWORD\}") as raised:
        validate_connector_config(with_env, {**AWKWARD, "fail": "${env:PASSWORD}"})
    # The texts in a connector's status and in the log.
    assert "letmein" not in "".join(traceback.format_exception(raised.value)) + caplog.text


def test_a_failure_of_a_connectors_code_shows_where_it_came_from(caplog: pytest.LogCaptureFixture):
    with pytest.raises(ConfigError):
        validated(AWKWARD, fail="boom")
    assert 'raise RuntimeError(config["fail"])' in caplog.text


def test_a_placeholder_without_a_value_is_the_one_error_of_its_property(with_env: Worker):
    config = {**AWKWARD, "tasks.max": "${env:NO_SUCH}", "producer.override.acks": "${no:x}"}
    infos = validate_connector_config(with_env, config)
    assert errors_of(infos) == {"tasks.max": 1, "producer.override.acks": 1}
    assert "no 'NO_SUCH'" in with_env.validate(config).error_message


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"name": "c"}, "connector.class is required"),
        ({"connector.class": "Nope"}, "no connector named 'Nope'"),
        ({"connector.class": "fencepost.connectors.Nope"}, "Nope"),
        ({**AWKWARD, "fail": "boom"}, "RuntimeError: boom"),
    ],
)
def test_an_uncheckable_signature_is_a_bad_request(config: dict[str, str], said: str):
    with pytest.raises(ConfigError, match=said):
        validated(config)
