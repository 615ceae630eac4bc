"""A connector's validation and its schema registry."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import unquote

import pytest

from fencepost.api.secrets import HIDDEN
from fencepost.config.config_transformer import TransformedConfig
from fencepost.config.worker_config import WorkerConfig
from fencepost.converters.registry import base
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
    assert registry.requests[0].path == "/schemas/types"
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


def rows(address: str, folder: Path, **more: str) -> dict[str, str]:
    """A connector whose configuration has the schema of its records."""
    file = folder / "rows.csv"
    file.write_text("1,a\n")
    return {
        "name": "c", "connector.class": "FileSource", "topic": "t", "format": "csv", "files": str(file), "schema": "id INT, name STRING",
        "key.columns": "id", "key.converter": "AvroConverter", "key.converter.schema.registry.url": address,
        "value.converter": "AvroConverter", URL: address, **more,
    }  # fmt: skip


INCOMPATIBLE = "The schema of the values of topic t is incompatible with those of subject t-value, .*: no default"


@pytest.mark.parametrize("converter", ["AvroConverter", "ProtobufConverter", "JsonSchemaConverter"])
def test_a_known_schema_that_the_registry_would_refuse_is_an_error(
    registry: FakeRegistry, tmp_path: Path, converter: str
):
    properties = rows(registry.address, tmp_path, **{"value.converter": converter})
    assert checked(properties).errors == []
    asked = {unquote(request.path): request.body for request in registry.asked("POST", "/compatibility")}
    assert list(asked) == [f"/compatibility/subjects/t-{role}/versions/latest" for role in ("key", "value")]
    assert "name" in asked["/compatibility/subjects/t-value/versions/latest"]["schema"]
    registry.incompatible = "no default"
    found = checked({name: value for name, value in properties.items() if not name.startswith("key.")})
    assert found.values[URL].errors == found.errors
    assert re.search(INCOMPATIBLE, found.error_message)
    assert registry.subjects == {}


def test_the_schema_of_lines_is_known(registry: FakeRegistry):
    registry.incompatible = "no default"
    assert re.search(INCOMPATIBLE, checked(config(registry.address)).error_message)


@pytest.mark.parametrize(
    "more",
    [
        {"transforms": "a", "transforms.a.type": "HoistField$Value", "transforms.a.field": "f"},
        {"topic.column": "name"},
        {"topic": "t-${name}"},
        {"schema": "infer"},
    ],
)
def test_a_schema_that_is_not_known_is_not_asked_for(registry: FakeRegistry, tmp_path: Path, more: dict[str, str]):
    registry.incompatible = "no default"
    assert checked(rows(registry.address, tmp_path, **more)).errors == []
    assert registry.asked("POST", "/compatibility") == []


def test_a_schema_that_must_be_registered_is_looked_up(registry: FakeRegistry, tmp_path: Path):
    properties = rows(registry.address, tmp_path, **{"value.converter.auto.register.schemas": "false"})
    assert "is not in the registry under subject t-value" in checked(properties).error_message
    record = '{"type": "record", "name": "R", "fields": [{"name": "id", "type": ["null", "int"], "default": null}]}'
    registry.add("t-value", record)
    newest = properties | {"value.converter.use.latest.version": "true"}
    assert "The schema lacks name, which the records have" in checked(newest).error_message
    assert checked(newest | {"value.converter.latest.compatibility.strict": "false"}).errors == []


def test_a_user_without_the_right_to_check_compatibility_may_register(registry: FakeRegistry):
    def refuse(handler: BaseHTTPRequestHandler) -> bool:
        refused = handler.path.startswith("/compatibility")
        return refused and send(handler, 403, b'{"error_code": 403, "message": "No"}', "application/json")

    registry.respond = refuse
    assert checked(config(registry.address)).errors == []
    assert registry.asked("POST", "/compatibility")


def test_a_registry_that_hangs_does_not_hold_up_the_validation(registry: FakeRegistry, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "_CHECK_S", 0.2)
    released = threading.Event()
    registry.respond = lambda handler: handler.path.startswith("/compatibility") and released.wait(60)
    try:
        more = {"value.converter.max.retries": "1000000", "value.converter.http.read.timeout.ms": "60000"}
        found = checked(config(f"{registry.address},{registry.address}/second", **more))
    finally:
        released.set()
    assert found.values[URL].errors == found.errors
    assert "could not be asked for the compatibility with subject t-value" in found.error_message
    assert len(registry.asked("POST", "/compatibility")) == 1


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
