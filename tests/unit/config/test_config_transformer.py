"""Placeholders in properties: their values, and that secret values are never shown."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from fencepost import ConfigError, ConfigProvider
from fencepost.config.config_transformer import ConfigTransformer, resolve_worker_properties

VALUES = {"user": "me", "password": "hunter2", "short": "7", "db:1": "colon"}


class Vault(ConfigProvider):
    """Has VALUES at each path, and records the requested paths."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        self.asked.append(path)
        if path == "/sealed":
            raise RuntimeError("it is sealed")
        return {key: VALUES[key] for key in keys if key in VALUES}


class _Twin(ConfigProvider):
    """Its user name is equal to the provider's name."""

    def get(self, path: str, keys: Collection[str]) -> Mapping[str, str]:
        del path
        return {key: {"user": "vault", "password": "hunter2"}[key] for key in keys}


def _transformer(vault: Vault | None = None) -> ConfigTransformer:
    return ConfigTransformer({"vault": vault or Vault()})


@pytest.mark.parametrize(
    ("text", "resolved"),
    [
        ("${vault:user}", "me"),
        ("${vault:/a/path:user}", "me"),
        ("${vault:/a/path:db:1}", "colon"),
        ("postgres://${vault:user}:${vault:password}@host", "postgres://me:hunter2@host"),
        ("$1 ${name} ${} $$ plain", "$1 ${name} ${} $$ plain"),
    ],
)
def test_a_placeholder_is_replaced_where_it_stands(text: str, resolved: str):
    transformed = _transformer().transform({"x": text, "y": "as it is"})
    assert (transformed.properties, transformed.errors) == ({"x": resolved, "y": "as it is"}, ())


def test_each_path_is_looked_up_once():
    vault = Vault()
    _transformer(vault).transform({"a": "${vault:/p:user}", "b": "${vault:/p:password}", "c": "${vault:user}"})
    assert sorted(vault.asked) == ["", "/p"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("${vault:nobody}", "no 'nobody'"),
        ("${safe:user}", "no config provider named 'safe'; its config.providers are vault"),
        ("${vault:/sealed:user}", "RuntimeError: it is sealed"),
        ("${vault:user} and ${vault:nobody}", "no 'nobody'"),
    ],
)
def test_an_unresolved_placeholder_is_an_error_of_its_property(text: str, said: str):
    transformed = _transformer().transform({"x": text, "y": "${vault:user}"})
    (wrong,) = transformed.errors
    assert wrong.name == "x"
    assert said in wrong.errors[0]
    assert transformed.properties == {"x": text, "y": "me"}
    with pytest.raises(ConfigError, match=r"the worker: .*property x"):
        transformed.required(where="the worker")


def test_a_task_config_gets_back_the_placeholders_of_its_connector():
    given = {"url": "db://${vault:user}:${vault:password}@h", "password": "${vault:password}", "topic": "t"}
    transformed = _transformer().transform(given)
    task = {**transformed.properties, "url": "db://me:hunter2@h/orders", "task": "0"}
    restored = transformed.restored(task)
    assert restored == {**given, "url": "db://${vault:user}:${vault:password}@h/orders", "task": "0"}
    assert _transformer().transform(restored).properties == task


def test_a_value_inside_another_ones_placeholder_does_not_change_it():
    given = {"url": "${vault:password}@${vault:/vault:user}"}
    transformed = ConfigTransformer({"vault": _Twin()}).transform(given)
    task = {"url": "hunter2@vault/orders"}
    restored = transformed.restored(task)
    assert restored == {"url": "${vault:password}@${vault:/vault:user}/orders"}


def test_values_are_hidden_in_messages_and_in_texts_about_the_configuration():
    transformed = _transformer().transform({"password": "${vault:password}", "n": "${vault:short}"})
    message = "Invalid value '7' for n: 7 to 17 only, not hunter2"
    assert transformed.hidden(message) == "Invalid value '${vault:short}' for n: 7 to 17 only, not ${vault:password}"
    assert "hunter2" not in repr(transformed)


def _worker(**properties: str) -> dict[str, str]:
    named = {name.replace("_", "."): text for name, text in properties.items()}
    return resolve_worker_properties({"config.providers": "files", **named}, where="worker.properties")


def test_a_workers_properties_are_resolved_by_the_providers_that_it_names(tmp_path: Path):
    secrets = tmp_path / "secrets.properties"
    secrets.write_text("password=hunter2")
    resolved = _worker(
        config_providers_files_class="org.apache.kafka.common.config.provider.FileConfigProvider",
        config_providers_files_param_allowed_paths=str(tmp_path),
        producer_sasl_password=f"${{files:{secrets}:password}}",
    )
    assert resolved["producer.sasl.password"] == "hunter2"
    assert resolved["config.providers"] == "files"


@pytest.mark.parametrize(
    ("properties", "blamed"),
    [
        ({}, "config.providers.files.class"),
        ({"config_providers_files_class": "NoSuch"}, "config.providers.files.class"),
        ({"config_providers_files_class": "JsonConverter"}, "config.providers.files.class"),
        (
            {"config_providers_files_class": "EnvVarConfigProvider", "config_providers_files_param_allowlist_pattern": "("},
            "config.providers.files.param.allowlist.pattern",
        ),
        ({"config_providers_files_class": "EnvVarConfigProvider", "group_id": "${files:NO_SUCH_VARIABLE}"}, "group.id"),
        ({"config_providers_files_class": "EnvVarConfigProvider", "group_id": "${env:HOME}"}, "group.id"),
    ],
)  # fmt: skip
def test_errors_of_a_workers_providers_name_the_property(properties: dict[str, str], blamed: str):
    with pytest.raises(ConfigError, match=r"worker\.properties: ") as raised:
        _worker(**properties)
    assert raised.value.name == blamed


def test_a_config_provider_in_java_is_refused_with_what_to_name_instead():
    with pytest.raises(ConfigError) as raised:
        _worker(config_providers_files_class="com.example.VaultConfigProvider")
    assert str(raised.value) == (
        "worker.properties: There is no config provider named 'com.example.VaultConfigProvider', which the property "
        "config.providers.files.class asks for. Installed: DirectoryConfigProvider, EnvVarConfigProvider, "
        "FileConfigProvider. The worker does not run a config provider in Java: name one in Python, of these or your own"
    )


class _TellingProvider(ConfigProvider):
    """Returns or raises a given result."""

    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def get(self, path: str, keys: Any) -> Any:
        del path, keys
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (SystemExit(3), "get() of the config provider telling raised SystemExit(3)"),
        (None, "returned None: it must return a dict of str"),
        (["user"], "returned a list: it must return a dict of str"),
        ({"user": 7}, "returned a dict with an int for 'user': it must return a dict of str"),
    ],
)
def test_a_providers_mistake_is_an_error_of_the_property(answer: Any, message: str):
    transformed = ConfigTransformer({"telling": _TellingProvider(answer)}).transform({"u": "${telling:user}"})
    [error] = transformed.errors
    assert error.name == "u"
    assert message in error.errors[0]
