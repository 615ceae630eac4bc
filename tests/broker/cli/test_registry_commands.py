"""`fencepost tail` and `fencepost verify` on records with schemas, decoded by a schema registry."""

from __future__ import annotations

import base64
import json
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyspark.sql import types as spark

from fencepost.cli import main
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.jsonschema.converter import JsonSchemaConverter
from fencepost.converters.protobuf.converter import ProtobufConverter
from fencepost.converters.registry.base import RegistryConverter
from tests.support.fake_registry import FakeRegistry, fake_registry, send

ROW = spark.StructType([spark.StructField("id", spark.LongType()), spark.StructField("name", spark.StringType())])


@pytest.fixture(params=[AvroConverter, ProtobufConverter, JsonSchemaConverter])
def sent(request: pytest.FixtureRequest, bootstrap_servers: str, topic: str, registry: FakeRegistry) -> str:
    """Write two records; return the name of the converter."""
    converter: RegistryConverter = request.param()
    converter.configure({"schema.registry.url": registry.address}, is_key=False)
    converter.prepare(topic, ROW)
    rows = pa.array(
        [{"id": 1, "name": "a"}, {"id": 2, "name": "ä"}], pa.struct([("id", pa.int64()), ("name", pa.string())])
    )
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for data in converter.from_connect_data(topic, ROW, rows).to_pylist():
        producer.produce(topic, data)
    assert producer.flush(60) == 0
    return type(converter).__name__


@pytest.fixture
def connector_file(sent: str, registry: FakeRegistry, tmp_path: Path) -> str:
    """The file of a connector whose registry needs a login; the file has the credentials."""
    registry.respond = refuse_others
    file = tmp_path / "connector.properties"
    login = {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "ann:word"}
    lines = [f"value.converter={sent}", f"value.converter.schema.registry.url={registry.address}"]
    file.write_text("\n".join([*lines, *(f"value.converter.{name}={value}" for name, value in login.items())]))
    return str(file)


def refuse_others(handler: BaseHTTPRequestHandler) -> bool:
    known = handler.headers["Authorization"] == f"Basic {base64.b64encode(b'ann:word').decode()}"
    return False if known else send(handler, 401, b'{"error_code": 401, "message": "No"}', "application/json")


def test_tail_and_verify_use_the_converters_of_the_connectors_file(
    bootstrap_servers: str, topic: str, connector_file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    given = ["--bootstrap-server", bootstrap_servers, "--connector-config", connector_file]
    assert main.run(["tail", topic, "-o", "json", *given]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["value"] for line in lines] == [{"id": 1, "name": "a"}, {"id": 2, "name": "ä"}]
    source = tmp_path / "rows.csv"
    source.write_text("id,name\n1,a\n2,ä\n")
    assert main.run(["verify", topic, "--source", str(source), *given]) == 0
    assert main.run(["tail", topic, *given, "--schema-registry-url", "http://127.0.0.1:1"]) == 2
    assert "not both" in capsys.readouterr().err


def test_tail_shows_values_by_their_schema(
    bootstrap_servers: str, topic: str, registry: FakeRegistry, sent: str, capsys: pytest.CaptureFixture[str]
):
    arguments = ["tail", topic, "--bootstrap-server", bootstrap_servers, "-o", "json"]
    assert main.run([*arguments, "--schema-registry-url", registry.address]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [line["value"] for line in lines] == [{"id": 1, "name": "a"}, {"id": 2, "name": "ä"}]
    assert main.run([*arguments, "--value-converter", sent]) == 2
    assert "--schema-registry-url" in capsys.readouterr().err


@pytest.mark.usefixtures("sent")
def test_verify_compares_values_by_their_schema(
    bootstrap_servers: str, topic: str, registry: FakeRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    source = tmp_path / "rows.csv"
    source.write_text("id,name\n1,a\n2,ä\n")
    arguments = ["verify", topic, "--bootstrap-server", bootstrap_servers, "--source", str(source)]
    assert main.run([*arguments, "--schema-registry-url", registry.address]) == 0
    source.write_text("id,name\n1,a\n2,b\n")
    assert main.run([*arguments, "--schema-registry-url", registry.address]) == 1
    numbers = ["verify", topic, "--bootstrap-server", bootstrap_servers, "--sequence", "value.id"]
    assert main.run([*numbers, "--schema-registry-url", registry.address]) == 0
    capsys.readouterr()


@pytest.mark.usefixtures("sent")
def test_a_registry_that_is_away_is_named(bootstrap_servers: str, topic: str, capsys: pytest.CaptureFixture[str]):
    with fake_registry() as gone:
        address = gone.address
    arguments = ["tail", topic, "--bootstrap-server", bootstrap_servers, "--schema-registry-url", address]
    assert main.run(arguments) == 1
    assert f"The schema registry {address} could not be asked" in capsys.readouterr().err
