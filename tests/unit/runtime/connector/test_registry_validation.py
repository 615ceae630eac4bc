"""What the validation of a connector says of its schema registry."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from fencepost.api.secrets import HIDDEN
from fencepost.config.config_transformer import TransformedConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.runtime.connector.passwords import password_properties, shown_config
from fencepost.runtime.connector.validation import Validation, validate
from tests.support.fake_registry import FakeRegistry, fake_registry, send

WORKER = WorkerConfig.from_properties(
    {
        "bootstrap.servers": "127.0.0.1:1",
        "group.id": "g",
        **{f"{kind}.converter": "org.apache.kafka.connect.json.JsonConverter" for kind in ("key", "value")},
    },
    where="worker",
)
URL = "value.converter.schema.registry.url"


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as found:
        yield found


def config(address: str, **more: str) -> dict[str, str]:
    return {
        "name": "c", "connector.class": "FileStreamSource", "topic": "t", "file": "pyproject.toml",
        "value.converter": "io.confluent.connect.avro.AvroConverter", URL: address, **more,
    }  # fmt: skip


def checked(properties: Mapping[str, str], *, accepted: bool = False) -> Validation:
    return validate(WORKER, TransformedConfig(properties), accepted=accepted)


def test_a_registry_that_answers_is_valid(registry: FakeRegistry):
    headers = {"value.converter.request.header.X-Team": "data"}
    found = checked(config(registry.address, **headers))
    assert found.errors == []
    assert found.unknown == {}
    assert [request.path for request in registry.requests] == ["/schemas/types"]
    assert registry.requests[0].headers["X-Team"] == "data"


def test_a_registry_that_is_away_is_an_error_of_its_address():
    with fake_registry() as gone:
        address = gone.address
    found = checked(config(address))
    assert found.values[URL].errors == found.errors
    assert f"The schema registry {address} could not be asked" in found.error_message


def test_a_refused_login_is_an_error(registry: FakeRegistry):
    registry.respond = lambda handler: send(handler, 401, b'{"error_code": 401, "message": "No"}', "application/json")
    found = checked(config(registry.address))
    assert "401: No: check basic.auth.*" in str(found.values[URL].errors)


def test_an_accepted_configuration_starts_without_its_registry():
    with fake_registry() as gone:
        address = gone.address
    assert checked(config(address), accepted=True).errors == []


def test_the_properties_are_defined_below_the_converter(registry: FakeRegistry):
    found = checked(config(registry.address))
    assert {URL, "value.converter.auto.register.schemas", "value.converter.scrub.invalid.names"} <= found.keys.keys()
    assert checked(config("nowhere")).values[URL].errors
    wrong = checked(config(registry.address, **{"value.converter.rule.executors": "x"}))
    assert "rules of data contracts change the data" in str(wrong.values["value.converter.rule.executors"].errors)


def test_logins_are_passwords_wherever_they_are():
    secrets = {
        URL: "http://ann:word@registry:8081",
        "value.converter.basic.auth.user.info": "ann:word",
        "value.converter.bearer.auth.token": "token",
        "value.converter.bearer.auth.client.secret": "s",
        "value.converter.schema.registry.ssl.keystore.password": "p",
        "value.converter.schema.registry.ssl.keystore.key": "k",
    }
    given = config("", **secrets)
    shown = shown_config(given, password_properties(WORKER, given))
    assert {name: shown[name] for name in secrets} == dict.fromkeys(secrets, HIDDEN)
    assert URL not in password_properties(WORKER, config("http://registry:8081/path@x"))
