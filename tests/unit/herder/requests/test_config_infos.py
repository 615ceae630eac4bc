"""What validating a connector's configuration shows, in Connect's shapes."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from fencepost import ConfigDef, ConfigError, RetriableError, SourceConnector, SourceTask
from fencepost.api.secrets import HIDDEN
from fencepost.converters import StringConverter
from fencepost.herder.interface import ConfigInfo, ConfigInfos
from fencepost.herder.requests.config_infos import validate_connector_config
from fencepost.runtime.worker import Worker
from tests.support.model_herder import model_worker_config

WORKER = Worker(model_worker_config())
CONFIG = {"connector.class": "FileStreamSource", "name": "c", "file": "/in", "topic": "t"}
GROUPS = {
    "Common", "Transforms", "Predicates", "Error Handling", "Topic Creation", "Exactly Once Support", "offsets.topic",
}  # fmt: skip


class Awkward(SourceConnector):
    """Has a password, and fails where it is told to."""

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
    """Cannot be configured for the moment."""

    def configure(self, configs: Any, *, is_key: bool = False) -> None:  # noqa: ARG002 - the API's
        raise RetriableError("the registry is away")


FUNCTION = {"connector.class": "tests.unit.connectors.functions.test_source.rows", "name": "c", "topic": "t"}
AWKWARD = {"connector.class": f"{Awkward.__module__}.Awkward", "name": "c"}


def _validate(config: dict[str, str], **more: str) -> ConfigInfos:
    return validate_connector_config(WORKER, {**config, **more})


def _info(infos: ConfigInfos, name: str) -> ConfigInfo:
    return next(info for info in infos.configs if info.value.name == name)


def _errors(infos: ConfigInfos) -> dict[str, int]:
    return {info.value.name: len(info.value.errors) for info in infos.configs if info.value.errors}


def test_a_good_config_has_no_errors_and_shows_the_workers_defaults():
    infos = _validate(CONFIG)
    assert (infos.name, infos.error_count, set(infos.groups)) == ("FileStreamSource", 0, GROUPS)
    converter = _info(infos, "value.converter")
    assert converter.definition is not None
    assert converter.definition.default_value == converter.value.value == WORKER.config.properties["value.converter"]
    assert (converter.definition.group, converter.definition.order) == ("Common", 8)
    assert _info(infos, "value.converter.plugin.version").value.value is not None


def test_every_property_is_shown_once_with_its_definition():
    infos = _validate(
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
    shown = _info(_validate(CONFIG, **{name: value}), name)
    assert shown.definition is not None
    assert (shown.definition.type, shown.definition.default_value) == (kind, default)
    assert (shown.definition.importance, shown.definition.required) == (importance, False)
    assert shown.definition.documentation
    assert shown.value.value == (HIDDEN if kind == "PASSWORD" else value)


def test_errors_are_counted_by_messages_and_a_value_that_parses_stays():
    infos = _validate({"connector.class": "FileStreamSource"}, **{"tasks.max": "abc", "topic": "", "batch.size": "0"})
    assert _errors(infos) == {"name": 1, "tasks.max": 2, "topic": 1, "batch.size": 1, "file": 1}
    assert infos.error_count == 6
    assert _info(infos, "tasks.max").value.value is None
    assert _info(infos, "batch.size").value.value == "0"
    assert _info(infos, "topic").value.value == ""


def test_all_errors_are_in_the_message():
    message = WORKER.validate({**CONFIG, "tasks.max": "0", "exactly.once.support": "maybe"}).error_message
    assert "2 error(s)" in message
    assert "tasks.max" in message
    assert "exactly.once.support" in message


def test_a_transform_has_a_group_with_its_own_properties():
    infos = _validate(
        CONFIG, **{"transforms": "a,b", "transforms.a.type": "HoistField$Value", "transforms.a.field": "line"}
    )
    assert set(infos.groups) == GROUPS | {"Transforms: a", "Transforms: b"}
    mine = [info.definition for info in infos.configs if info.definition and info.definition.group == "Transforms: a"]
    assert [(key.name, key.order) for key in mine] == [
        ("transforms.a.type", 0), ("transforms.a.plugin.version", 1), ("transforms.a.field", 2),
        ("transforms.a.negate", 3), ("transforms.a.predicate", 4),
    ]  # fmt: skip
    assert _errors(infos) == {"transforms.b.type": 1}


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
        ({"exactly.once.support": "required", "file": ""}, {"exactly.once.support": 1, "file": 1}),
        ({"consumer.override.request.timeout.ms": "soon"}, {"consumer.override.request.timeout.ms": 1}),
        ({"admin.override.reqest.timeout.ms": "1"}, {"admin.override.reqest.timeout.ms": 1}),
        ({"producer.override.security.protocol": "SASL_SSL"}, {"producer.override.sasl.mechanism": 1}),
    ],
)  # fmt: skip
def test_an_error_is_reported_on_its_property(properties: dict[str, str], errors: dict[str, int]):
    assert _errors(_validate(CONFIG, **properties)) == errors


def test_malformed_credentials_are_reported_without_showing_them():
    principal = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.jaas.config": "user=hunter2"}
    config = CONFIG | {f"producer.override.{name}": value for name, value in principal.items()}
    infos, message = _validate(config), WORKER.validate(config).error_message
    assert _errors(infos) == {"producer.override.sasl.jaas.config": 1}
    assert "sasl.jaas.config is malformed" in message
    assert "hunter2" not in f"{infos} {message}"


def test_a_converter_that_is_not_found_has_no_value_and_no_version():
    infos = _validate(CONFIG, **{"value.converter": "no.such.Conv"})
    assert _info(infos, "value.converter").value.value is None
    version = _info(infos, "value.converter.plugin.version")
    assert version.definition is not None
    assert (version.value.value, version.value.visible, version.definition.default_value) == (None, False, None)


def test_a_converter_of_the_connectors_own_shows_its_properties():
    infos = _validate(CONFIG, **{"key.converter": "JsonConverter", "key.converter.schemas.enable": "false"})
    assert _info(infos, "key.converter.schemas.enable").value.value == "false"
    assert infos.error_count == 0


def test_overrides_are_listed_with_the_policys_verdict():
    worker = Worker(model_worker_config(connector_client_config_override_policy="None"))
    infos = validate_connector_config(worker, {**CONFIG, "producer.override.acks": "all"})
    assert _errors(infos) == {"producer.override.acks": 1}
    assert _info(infos, "producer.override.acks").value.value == "all"


def test_passwords_are_never_shown():
    infos = _validate(AWKWARD, secret="letmein", **{"producer.override.sasl.jaas.config": "password=letmein"})
    assert "letmein" not in repr([*infos.configs])
    assert "hunter2" not in repr([*infos.configs])
    assert _info(infos, "secret").value.value == HIDDEN


def test_an_accepted_configuration_is_not_validated_by_the_connector_again():
    """It may look at a source that is away for a moment when the connector is started again."""
    away = {**AWKWARD, "fail": "the database is away"}
    with pytest.raises(ConfigError, match="the database is away"):
        WORKER.checked(away)
    assert WORKER.checked(away, accepted=True).name == "c"
    with pytest.raises(ConfigError, match=r"tasks\.max"):
        WORKER.checked({**away, "tasks.max": "none"}, accepted=True)


def test_an_accepted_config_stays_valid_while_a_plugin_cannot_be_created():
    config = {**CONFIG, "value.converter": f"{Away.__module__}.Away"}
    with pytest.raises(ConfigError, match="the registry is away"):
        _validate(config)
    with pytest.raises(RetriableError, match="the registry is away"):
        WORKER.checked(config, accepted=True)


def test_the_properties_of_a_function_that_make_records_are_documented():
    definition = _info(_validate(FUNCTION), "key.columns").definition
    assert definition is not None
    assert (definition.default_value, definition.type) == ("id", ConfigDef.Type.LIST)
    assert definition.documentation.startswith("The columns of the record's key")


@pytest.mark.parametrize(
    ("config", "more", "unknown"),
    [
        (CONFIG, {"tasks.maxx": "1"}, {"tasks.maxx": "tasks.max"}),
        (CONFIG, {"own": "1"}, {"own": None}),
        (CONFIG, {"producer.override.no.such": "1", "transforms": ""}, {}),
        (CONFIG, {"value.converter.schemas.enable": "false"}, {"value.converter.schemas.enable": None}),
        (
            CONFIG,
            {"value.converter": "JsonConverter", "value.converter.schema.enable": "false"},
            {"value.converter.schema.enable": "value.converter.schemas.enable"},
        ),
        (
            CONFIG,
            {
                "value.converter": "ByteArrayConverter",
                "value.converter.surplus": "1",
                "value.converter.converter.type": "value",
            },
            {"value.converter.surplus": None},
        ),
        (CONFIG, {"header.converter": "SimpleHeaderConverter", "header.converter.converter.type": "header"}, {}),
        (
            CONFIG,
            {"transforms": "f", "transforms.f.type": "Filter", "transforms.f.surplus": "1"},
            {"transforms.f.surplus": None},
        ),
        (
            CONFIG,
            {"predicates": "p", "predicates.p.type": "RecordIsTombstone", "predicates.p.surplus": "1"},
            {"predicates.p.surplus": None},
        ),
        (
            CONFIG,
            {"transforms": "h", "transforms.h.type": "HoistField$Value", "transforms.h.fields": "1"},
            {"transforms.h.fields": "transforms.h.field"},
        ),
        (
            CONFIG,
            {
                "topic.creation.default.partitions": "1",
                "topic.creation.default.replication.factor": "1",
                "topic.creation.default.retention.ms": "1",
                "topic.creation.big.partitions": "9",
            },
            {"topic.creation.big.partitions": "topic.creation.default.partitions"},
        ),
        ({"connector.class": "tests.support.bare_source.BareConnector", "name": "c"}, {"own": "1"}, {}),
        (FUNCTION, {"own": "1"}, {}),
        (FUNCTION, {"key.colums": "id"}, {"key.colums": "key.columns"}),
        (
            {"connector.class": "tests.support.bare_source.BareConnector", "name": "c"},
            {"errors.tolerence": "all"},
            {"errors.tolerence": "errors.tolerance"},
        ),
    ],
)
def test_an_unknown_property_is_logged_and_is_not_an_error(
    config: dict[str, str], more: dict[str, str], unknown: dict[str, str | None], caplog: pytest.LogCaptureFixture
):
    errors = _errors(_validate(config, **more))
    assert not set(errors) & set(unknown)
    warned = [record.getMessage() for record in caplog.records if "has an unknown property" in record.getMessage()]
    assert warned == [
        f"Connector c has an unknown property, {name}" + (f": did you mean {nearest}?" if nearest else "")
        for name, nearest in unknown.items()
    ]


@pytest.mark.parametrize(
    ("of", "type_", "refused", "hint"),
    [
        ("transforms", "ReplaceField$Value", "blacklist", "set exclude"),
        ("transforms", "Filter", "condition", "set predicate"),
        ("transforms", "InsertField$Key", "offset.field", "no meaning for a source"),
        ("transforms", "ExtractNewRecordState", "drop.tombstones", "set delete.tombstone.handling.mode"),
    ],
)
def test_a_feature_of_only_the_java_class_is_an_error_of_its_property(of: str, type_: str, refused: str, hint: str):
    own = {"InsertField$Key": {"transforms.a.static.field": "f", "transforms.a.static.value": "v"}}.get(type_, {})
    given = {**CONFIG, **own, of: "a", f"{of}.a.type": type_, f"{of}.a.{refused}": "x"}
    infos = _validate(given)
    assert _errors(infos) == {f"{of}.a.{refused}": 1}
    # It is shown beside other errors, with which no chain is built.
    assert f"{of}.a.{refused}" in _errors(_validate(given, **{"tasks.max": "0"}))
    (error,) = _info(infos, f"{of}.a.{refused}").value.errors
    assert f"The property {refused} of {type_.partition('$')[0]}" in error
    assert hint in error


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        ({"transforms.a.type": "RegexRouter", "transforms.a.regex": "a)", "transforms.a.replacement": "b"}, "regex"),
        (
            {"transforms.a.type": "RegexRouter", "transforms.a.regex": "a", "transforms.a.replacement": "$1"},
            "replacement",
        ),
        ({"transforms.a.type": "ReplaceField$Value", "transforms.a.renames": "a:x,b:x"}, "renames"),
    ],
)
def test_a_transforms_missing_feature_is_an_error_of_its_property(properties: dict[str, str], refused: str):
    assert _errors(_validate({**CONFIG, "transforms": "a", **properties})) == {f"transforms.a.{refused}": 1}


@pytest.mark.parametrize("asked", ["*", "1.x", ">=1.0", "^1"])
def test_an_invalid_version_is_reported_with_valid_ones(asked: str):
    infos = _validate(CONFIG, **{"connector.plugin.version": asked})
    (error,) = _info(infos, "connector.plugin.version").value.errors
    assert f"asks for {asked!r}, which is no version" in error
    assert "latest for any" in error


@pytest.mark.parametrize(
    ("properties", "refused"),
    [
        ({"connector.class": "FileStreamSource", "file": "/tmp/a\0b"}, "file"),
        ({"connector.class": "FileSource", "files": "/tmp/a\0b", "format": "text"}, "files"),
        ({"connector.class": "FileSource", "files": "/tmp/a\0*", "format": "text"}, "files"),
        (
            {"connector.class": "JdbcSource", "connection.url": "jdbc:postgresql://h/d?sslrootcert=/a%00b", "mode": "bulk"},
            "connection.url",
        ),
        (
            {
                "connector.class": "JdbcSource", "connection.url": "jdbc:sqlite:/a\0b", "mode": "bulk",
                "table.whitelist": "t",
            },
            "connection.url",
        ),
        (
            {
                "connector.class": "PostgresSource", "database.hostname": "h", "database.dbname": "d",
                "database.user": "u", "topic.prefix": "p", "database.sslrootcert": "/a\0b",
            },
            "database.sslrootcert",
        ),
    ],
)  # fmt: skip
def test_the_character_nul_in_a_path_is_an_error_of_its_property(properties: dict[str, str], refused: str):
    infos = _validate({"name": "c", "topic": "t", "topic.prefix": "p", **properties})
    assert _errors(infos) == {refused: 1}
    assert "NUL" in _info(infos, refused).value.errors[0]


@pytest.mark.parametrize("url", ["s3://bucket/key", "http://host/x", "file:///tmp/x"])
def test_a_file_to_follow_must_not_be_a_url(url: str):
    infos = _validate(CONFIG, file=url)
    assert _errors(infos) == {"file": 1}
    assert "FileSource reads objects of s3://" in _info(infos, "file").value.errors[0]


def test_a_pattern_of_a_predicate_is_checked():
    config = {**CONFIG, "predicates": "p", "predicates.p.type": "TopicNameMatches", "predicates.p.pattern": "[a"}
    assert _errors(_validate(config)) == {"predicates.p.pattern": 1}


@pytest.mark.parametrize("role", ["key.converter", "value.converter", "header.converter"])
def test_a_feature_of_only_javas_converter_is_an_error_of_its_property(role: str):
    name = f"{role}.value.serializer.encoding"
    infos = _validate(CONFIG, **{role: "StringConverter", name: "UTF-16"})
    assert _errors(infos) == {name: 1}
    assert "set converter.encoding" in _info(infos, name).value.errors[0]


@pytest.fixture
def with_env(monkeypatch: pytest.MonkeyPatch) -> Worker:
    """A worker that resolves environment variables, of which there are two."""
    monkeypatch.setenv("PASSWORD", "letmein")
    monkeypatch.setenv("TASKS", "3")
    provider = {"config_providers": "env", "config_providers_env_class": "EnvVarConfigProvider"}
    return Worker(model_worker_config(**provider))


def test_values_of_config_providers_are_checked_and_not_shown(with_env: Worker):
    given = {"secret": "${env:PASSWORD}", "tasks.max": "${env:TASKS}", "file": "${env:TASKS}"}
    infos = validate_connector_config(with_env, {**AWKWARD, **given})
    assert infos.error_count == 0
    assert _info(infos, "tasks.max").value.value == "${env:TASKS}"
    assert "letmein" not in repr([*infos.configs])

    config = {**AWKWARD, "tasks.max": "${env:PASSWORD}"}
    wrong = validate_connector_config(with_env, config)
    assert _errors(wrong) == {"tasks.max": 2}
    assert "'${env:PASSWORD}'" in with_env.validate(config).error_message
    assert "letmein" not in repr([*wrong.configs])


def test_a_failure_of_a_connectors_code_does_not_show_them_either(with_env: Worker, caplog: pytest.LogCaptureFixture):
    with pytest.raises(ConfigError, match=r"RuntimeError: \$\{env:PASSWORD\}") as raised:
        validate_connector_config(with_env, {**AWKWARD, "fail": "${env:PASSWORD}"})
    # What a connector's status and the log show.
    assert "letmein" not in "".join(traceback.format_exception(raised.value)) + caplog.text


def test_a_failure_of_a_connectors_code_shows_where_it_came_from(caplog: pytest.LogCaptureFixture):
    with pytest.raises(ConfigError):
        _validate(AWKWARD, fail="boom")
    assert 'raise RuntimeError(config["fail"])' in caplog.text


def test_a_placeholder_without_a_value_is_the_one_error_of_its_property(with_env: Worker):
    config = {**AWKWARD, "tasks.max": "${env:NO_SUCH}", "producer.override.acks": "${no:x}"}
    infos = validate_connector_config(with_env, config)
    assert _errors(infos) == {"tasks.max": 1, "producer.override.acks": 1}
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
        _validate(config)
