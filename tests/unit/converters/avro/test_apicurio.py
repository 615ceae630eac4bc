"""Apicurio's AvroConverter: its properties, and the part of its format that is equal to Confluent's."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, LongType

from fencepost.api.ddl import parse_columns
from fencepost.api.errors import ConfigError
from fencepost.cli.common.registry_option import record_reading
from fencepost.config.connector_config import PluginSpec
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.config.plugins import PluginKind, find_plugin
from fencepost.converters.avro.apicurio import ApicurioAvroConverter
from fencepost.converters.registry.errors import RegistryMissingError
from fencepost.engine.plugin_builder import PluginBuilder
from tests.support.fake_registry import FakeRegistry, fake_registry

NAME = "io.apicurio.registry.utils.converter.AvroConverter"
SECOND_LINE = {
    "apicurio.registry.headers.enabled": "false",
    "apicurio.registry.as-confluent": "true",
    "apicurio.registry.use-id": "contentId",
}
REGISTERS = {"apicurio.registry.auto-register": "true"}


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    with fake_registry() as found:
        below, answer = "/apis/ccompat/v7", found.answer

        def answer_below(request: object) -> tuple[int, object]:
            request.path = request.path.removeprefix(below)  # type: ignore[attr-defined]
            return answer(request)  # type: ignore[arg-type]

        found.answer = answer_below  # type: ignore[method-assign, assignment]
        yield found


def configured(registry: FakeRegistry, line: str = "registry/v3", **settings: str) -> ApicurioAvroConverter:
    converter = ApicurioAvroConverter()
    converter.configure({"apicurio.registry.url": f"{registry.address}/apis/{line}", **settings}, is_key=False)
    return converter


def test_javas_name_is_the_converter():
    for kind in (PluginKind.CONVERTER, PluginKind.HEADER_CONVERTER):
        assert find_plugin(kind, NAME, property_name="x", sources=ANY_MODULE) is ApicurioAvroConverter


@pytest.mark.parametrize(
    ("name", "instead"), [("ExtJsonConverter", "JsonSchemaConverter"), ("ProtobufConverter", "Proto")]
)
def test_converters_that_write_other_data_are_refused_by_name(name: str, instead: str):
    with pytest.raises(ConfigError, match=f"{name}, given by the property x, is not supported: .*Use .*{instead}"):
        find_plugin(PluginKind.CONVERTER, NAME.replace("AvroConverter", name), property_name="x", sources=ANY_MODULE)


def test_the_third_line_writes_a_content_id_in_four_bytes(registry: FakeRegistry):
    converter = configured(registry, **REGISTERS)
    converter.prepare("t", LongType())
    assert converter.from_connect_data("t", LongType(), pa.array([1, None])).to_pylist() == [b"\0\0\0\0\1\2", None]
    assert registry.subjects == {"t-value": [1]}
    assert not registry.asked("GET", "/associations")


def test_schemas_are_looked_up_by_default(registry: FakeRegistry):
    with pytest.raises(RegistryMissingError, match=r"set apicurio\.registry\.auto-register=true"):
        configured(registry).prepare("t", LongType())
    assert registry.add("t-value", '"long"')
    configured(registry).prepare("t", LongType())


def test_bytes_have_their_length_as_apicurios_serializer_writes_it(registry: FakeRegistry):
    converter = configured(registry, **REGISTERS)
    converter.prepare("t", BinaryType())
    assert converter.from_connect_data("t", BinaryType(), pa.array([b"ab"])).to_pylist() == [b"\0\0\0\0\1\4ab"]


@pytest.mark.parametrize("line", ["registry/v2", "ccompat/v7"])
def test_the_second_line_writes_them_if_each_setting_says_so(registry: FakeRegistry, line: str):
    converter = configured(registry, line, **SECOND_LINE, **REGISTERS)
    converter.prepare("t", LongType())
    assert converter.from_connect_data("t", LongType(), pa.array([1])).to_pylist() == [b"\0\0\0\0\1\2"]
    for name in SECOND_LINE:
        settings = {other: value for other, value in SECOND_LINE.items() if other != name}
        with pytest.raises(ConfigError, match=f"of the line 2 writes .* unless {name}=") as raised:
            configured(registry, line, **settings)
        assert raised.value.name == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("headers.enabled", "true"),
        ("as-confluent", "false"),
        ("id-handler", "io.apicurio.registry.serde.Legacy8ByteIdHandler"),
        ("use-id", "globalId"),
        ("artifact-resolver-strategy", "io.apicurio.registry.serde.strategy.SimpleTopicIdStrategy"),
        ("artifact.group-id", "mine"),
        ("auto-register.if-exists", "FAIL"),
        ("avro.encoding", "JSON"),
        ("avro-datum-provider", "io.apicurio.registry.serde.avro.ReflectAvroDatumProvider"),
        ("url", "http://registry:8080"),
        ("url", "http://registry:8080/apis/registry/v4"),
    ],
)
def test_settings_that_mean_other_bytes_or_names_are_refused(registry: FakeRegistry, name: str, value: str):
    with pytest.raises(ConfigError) as raised:
        configured(registry, **{f"apicurio.registry.{name}": value})
    assert raised.value.name == f"apicurio.registry.{name}"


@pytest.mark.parametrize(
    "name", ["artifact.artifact-id", "artifact.version", "schema-resolver", "converter.serializer"]
)
def test_properties_that_are_not_supported_are_refused_by_name(registry: FakeRegistry, name: str):
    given = {"apicurio.registry.url": f"{registry.address}/apis/registry/v3", f"apicurio.registry.{name}": "x"}
    with pytest.raises(ConfigError, match=f"{name} of ApicurioAvroConverter is not supported"):
        PluginBuilder(ANY_MODULE).converter(PluginSpec(NAME, given), "value.converter", is_key=False)


def test_logins_headers_and_tls_become_confluents_properties(registry: FakeRegistry):
    more = {
        "apicurio.auth.username": "ann", "apicurio.auth.password": "s3cret-word",
        "apicurio.registry.request.headers.X-Team": "data", **REGISTERS,
    }  # fmt: skip
    configured(registry, **more).prepare("t", LongType())
    sent = registry.requests[-1].headers
    assert sent["Authorization"] == f"Basic {base64.b64encode(b'ann:s3cret-word').decode()}"
    assert sent["X-Team"] == "data"
    with pytest.raises(ConfigError, match="truststore") as raised:
        configured(registry, **{"apicurio.registry.request.ssl.truststore.location": "/nowhere"})
    assert raised.value.name == "apicurio.registry.request.ssl.truststore.location"


def test_a_token_endpoint_needs_a_client(registry: FakeRegistry):
    with pytest.raises(ConfigError, match=r"needs apicurio\.auth\.client\.id") as raised:
        configured(registry, **{"apicurio.registry.auth.service.token.endpoint": "http://idp/token"})
    assert raised.value.name == "apicurio.auth.client.id"


def test_errors_name_apicurios_property():
    converter = ApicurioAvroConverter()
    converter.configure({"apicurio.registry.url": "http://127.0.0.1:1/apis/registry/v3"}, is_key=False)
    with pytest.raises(ConfigError, match=r"or correct apicurio\.registry\.url") as raised:
        converter.check({})
    assert raised.value.name == "apicurio.registry.url"


def test_the_file_of_a_connector_has_what_tail_and_verify_read_with(registry: FakeRegistry, tmp_path: Path):
    schema = parse_columns("id BIGINT")
    converter = configured(registry, **REGISTERS)
    converter.prepare("t", schema)
    (data,) = converter.from_connect_data("t", schema, pa.array([{"id": 7}])).to_pylist()
    file = tmp_path / "connector.properties"
    url = f"{registry.address}/apis/registry/v3"
    file.write_text(f"value.converter={NAME}\nvalue.converter.apicurio.registry.url={url}\n")
    with record_reading(None, file) as reading:
        assert reading.value.converter == NAME
        assert reading.value.registry is not None
        assert reading.value.registry.read(data, is_key=False) == {"id": 7}
