"""Both maintained release lines of Apicurio's registry, used by the converters and the readers."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient

from fencepost.api.ddl import parse_columns
from fencepost.api.errors import ConfigError
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.jsonschema.converter import JsonSchemaConverter
from fencepost.converters.protobuf.converter import ProtobufConverter
from fencepost.converters.registry.base import RegistryConverter
from fencepost.converters.registry.errors import RegistryRefusedError
from fencepost.converters.registry.reading import RegistryReader
from fencepost.embedded.jars import registry_jars
from fencepost.embedded.registry import EmbeddedRegistry
from tests.support.topics import unique

NEWER = "3.0.9"
"""The newest release on Maven Central that runs on Java 17."""

NARROW, WIDE = parse_columns("id BIGINT, name STRING"), parse_columns("id BIGINT, note STRING, name STRING")
OTHER = parse_columns("id STRING, name STRING")


@pytest.fixture(scope="module")
def newer_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRegistry]:
    with EmbeddedRegistry(tmp_path_factory.mktemp("registry-3"), jars=registry_jars(NEWER)) as registry:
        yield registry


@pytest.fixture(params=["schema_registry", "newer_registry"])
def url(request: pytest.FixtureRequest) -> str:
    registry: EmbeddedRegistry = request.getfixturevalue(request.param)
    return registry.url


def configured(converter: type[RegistryConverter], url: str, **settings: str) -> RegistryConverter:
    made = converter()
    named = {name.replace("__", "."): value for name, value in settings.items()}
    made.configure({"schema.registry.url": url, **named}, is_key=False)
    return made


@pytest.mark.parametrize("converter", [AvroConverter, ProtobufConverter, JsonSchemaConverter])
def test_values_are_read_back_by_the_schema_of_their_id(url: str, converter: type[RegistryConverter]):
    topic, made = unique("topic"), configured(converter, url)
    made.check({topic: NARROW})
    made.prepare(topic, NARROW)
    rows = pa.array([{"id": 7, "name": "ä"}], pa.struct([("id", pa.int64()), ("name", pa.string())]))
    (data,) = made.from_connect_data(topic, NARROW, rows).to_pylist()
    reader = RegistryReader({"schema.registry.url": url})
    assert reader.read(data, is_key=False) == {"id": 7, "name": "ä"}
    reader.close()
    looked_up = configured(converter, url, auto__register__schemas="false")
    looked_up.prepare(topic, NARROW)
    assert looked_up.from_connect_data(topic, NARROW, rows).to_pylist() == [data]


def test_an_incompatible_schema_is_refused_at_validation_and_at_registration(url: str):
    topic, made = unique("topic"), configured(AvroConverter, url)
    with SchemaRegistryClient({"url": url}) as client:
        client.set_compatibility(f"{topic}-value", level="BACKWARD")
    made.prepare(topic, NARROW)
    made.check({topic: WIDE})
    with pytest.raises(ConfigError, match=f"incompatible with those of subject {topic}-value"):
        made.check({topic: OTHER})
    with pytest.raises(RegistryRefusedError, match=f"incompatible with those of subject {topic}-value"):
        made.prepare(topic, OTHER)


def test_numbers_of_protobuf_follow_the_versions_of_the_subject(url: str):
    topic = unique("topic")
    for schema in (NARROW, WIDE):
        # Each line has a new task.
        made = configured(ProtobufConverter, url, fencepost__protobuf__field__numbers="names")
        made.prepare(topic, schema)
    rows = pa.array([{"id": 1, "note": "n", "name": "m"}])
    (data,) = made.from_connect_data(topic, WIDE, rows).to_pylist()
    assert data[6:] == b"\x08\1\x12\1m\x1a\1n"
