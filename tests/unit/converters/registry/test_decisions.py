"""Converters determine schema ids once, in the driver."""

from __future__ import annotations

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as spark

from fencepost import ConfigError
from fencepost.converters.avro.converter import AvroConverter
from fencepost.converters.registry.base import NotPreparedError
from fencepost.converters.registry.errors import (
    RegistryAccessError,
    RegistryError,
    RegistryMissingError,
    RegistryRefusedError,
    RegistryUnavailableError,
)
from fencepost.converters.registry.registry import forget_registries
from tests.support.fake_registry import FakeRegistry, fake_registry, send

pytestmark = pytest.mark.unit

ROW = spark.StructType([spark.StructField("id", spark.LongType(), nullable=False)])
NAME = spark.StructField("name", spark.StringType())
ROWS = pa.array([{"id": 7}, {"id": -1}], pa.struct([("id", pa.int64())]))
QUICK = {"retries.wait.ms": "1", "retries.max.wait.ms": "1"}


def converter(registry: FakeRegistry, *, is_key: bool | None = False, **settings: str) -> AvroConverter:
    made = AvroConverter()
    given = {name.replace("__", "."): value for name, value in settings.items()}
    made.configure({"schema.registry.url": registry.address, **QUICK, **given}, is_key=is_key)
    return made


def test_an_id_is_asked_for_once(registry: FakeRegistry):
    first, second = converter(registry), converter(registry)
    for _ in range(3):
        first.prepare("t", ROW)
        second.prepare("t", ROW)
        assert first.from_connect_data("t", ROW, ROWS).to_pylist()[0] == b"\0\0\0\0\1\x0e"
    assert len(registry.asked("POST", "/versions")) == 1
    assert len(registry.asked("GET", "/associations")) == 1


def test_threads_that_prepare_at_once_ask_once(registry: FakeRegistry):
    together = threading.Barrier(8)

    def prepare(_: int) -> None:
        made = converter(registry)
        together.wait()
        made.prepare("t", ROW)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(prepare, range(8)))
    assert len(registry.asked("POST", "/versions")) == 1


def test_a_pickled_converter_has_its_ids_and_no_way_to_the_registry(registry: FakeRegistry):
    made = converter(
        registry, basic__auth__credentials__source="USER_INFO", basic__auth__user__info="ann:secret-of-ann"
    )
    made.prepare("t", ROW)
    pickled = pickle.dumps(made)
    assert b"secret-of-ann" not in pickled
    assert registry.address.encode() not in pickled
    copy = pickle.loads(pickled)  # noqa: S301 - pickled above
    asked = len(registry.requests)
    assert copy.from_connect_data("t", ROW, ROWS).equals(made.from_connect_data("t", ROW, ROWS))
    with pytest.raises(NotPreparedError):
        copy.from_connect_data("u", ROW, ROWS)
    with pytest.raises(ConfigError):
        copy.prepare("u", ROW)
    assert len(registry.requests) == asked


def test_nulls_are_null_records_without_a_schema(registry: FakeRegistry):
    assert converter(registry).from_connect_data("t", ROW, pa.nulls(2, ROWS.type)).to_pylist() == [None, None]
    assert registry.requests == []


def test_the_default_subject_is_of_the_topic_and_the_role(registry: FakeRegistry):
    converter(registry).prepare("a/b", ROW)
    converter(registry, is_key=True).prepare("a/b", ROW)
    converter(registry, is_key=None).prepare("a/b", spark.StringType())
    assert sorted(registry.subjects) == ["a/b-header-string", "a/b-key", "a/b-value"]


@pytest.mark.parametrize(
    ("strategy", "subject"),
    [
        ("io.confluent.kafka.serializers.subject.TopicNameStrategy", "t-value"),
        ("io.confluent.kafka.serializers.subject.RecordNameStrategy", "io.confluent.connect.avro.ConnectDefault"),
        ("TopicRecordNameStrategy", "t-io.confluent.connect.avro.ConnectDefault"),
        ("AssociatedNameStrategy", "t-value"),
    ],
)
def test_a_strategy_names_the_subject(registry: FakeRegistry, strategy: str, subject: str):
    converter(registry, value__subject__name__strategy=strategy).prepare("t", ROW)
    assert list(registry.subjects) == [subject]


def test_an_associated_subject_is_taken(registry: FakeRegistry):
    registry.associations["t-value"] = ["orders"]
    converter(registry).prepare("t", ROW)
    assert list(registry.subjects) == ["orders"]


@pytest.mark.parametrize(
    ("fallback", "subject"),
    [
        ("RECORD", "io.confluent.connect.avro.ConnectDefault"),
        ("TOPIC_RECORD", "t-io.confluent.connect.avro.ConnectDefault"),
    ],
)
def test_the_fallback_names_a_subject_without_association(registry: FakeRegistry, fallback: str, subject: str):
    converter(registry, subject__name__strategy__fallback__type=fallback).prepare("t", ROW)
    assert list(registry.subjects) == [subject]


def test_no_fallback_fails_without_an_association(registry: FakeRegistry):
    with pytest.raises(RegistryError, match="associates no subject"):
        converter(registry, subject__name__strategy__fallback__type="NONE").prepare("t", ROW)


def test_a_record_name_strategy_needs_a_record(registry: FakeRegistry):
    with pytest.raises(RegistryError, match="only records have one"):
        converter(registry, value__subject__name__strategy="RecordNameStrategy").prepare("t", spark.LongType())


def test_a_context_is_put_before_the_subject(registry: FakeRegistry):
    converter(registry, fencepost__registry__context=".staging").prepare("t", ROW)
    assert list(registry.subjects) == [":.staging:t-value"]


def test_schemas_are_looked_up_where_they_are_not_to_be_registered(registry: FakeRegistry):
    settings = {"auto.register.schemas": "false"}
    with pytest.raises(RegistryMissingError, match=r"under subject t-value.*auto.register.schemas=true"):
        converter(registry, **settings).prepare("t", ROW)
    converter(registry).prepare("t", ROW)
    made = converter(registry, **settings)
    made.prepare("t", ROW)
    assert made.from_connect_data("t", ROW, ROWS).to_pylist()[0] == b"\0\0\0\0\1\x0e"


def test_normalize_is_passed_on(registry: FakeRegistry):
    converter(registry, normalize__schemas="true").prepare("t", ROW)
    assert registry.asked("POST", "/versions")[0].query["normalize"] == ["true"]


LATEST = (
    '{"type":"record","name":"R","fields":[{"name":"more","type":"string","default":"ab"},'
    '{"name":"name","type":["null","string"],"default":null},{"name":"id","type":"long"}]}'
)


def test_the_newest_schema_is_written_by_name_and_with_its_defaults(registry: FakeRegistry):
    registry.add("t-value", LATEST)
    made = converter(registry, **{"auto.register.schemas": "false", "use.latest.version": "true"})
    made.prepare("t", ROW)
    assert made.from_connect_data("t", ROW, ROWS).to_pylist()[0] == b"\0\0\0\0\1\x04ab\0\x0e"
    assert registry.asked("POST", "") == []


def test_the_newest_schema_is_looked_up_again_after_its_time(registry: FakeRegistry):
    registry.add("t-value", LATEST)
    settings = {"auto.register.schemas": "false", "use.latest.version": "true", "latest.cache.ttl.sec": "0"}
    made = converter(registry, **settings)
    made.prepare("t", ROW)
    registry.add("t-value", LATEST.replace("ab", "xyz"))
    made.prepare("t", ROW)
    assert made.from_connect_data("t", ROW, ROWS).to_pylist()[0] == b"\0\0\0\0\2\x06xyz\0\x0e"


@pytest.mark.parametrize("fixed", [{"use.latest.version": "true"}, {"use.schema.id": "1"}])
def test_a_field_that_the_chosen_schema_lacks_is_refused_or_dropped(registry: FakeRegistry, fixed: dict[str, str]):
    registry.add("t-value", '{"type":"record","name":"R","fields":[{"name":"id","type":"long"}]}')
    wider = spark.StructType([*ROW.fields, NAME])
    settings = {"auto.register.schemas": "false", **fixed}
    with pytest.raises(RegistryError, match=r"lacks name.*compatibility\.strict=false"):
        converter(registry, **settings).prepare("t", wider)
    lenient = {"latest.compatibility.strict": "false", "id.compatibility.strict": "false"}
    made = converter(registry, **settings, **lenient)
    made.prepare("t", wider)
    rows = pa.array([{"id": 7, "name": "x"}], pa.struct([("id", pa.int64()), ("name", pa.string())]))
    assert made.from_connect_data("t", wider, rows).to_pylist() == [b"\0\0\0\0\1\x0e"]


def test_a_schema_of_another_language_is_refused(registry: FakeRegistry):
    registry.add("t-value", "{}", "JSON")
    settings = {"auto.register.schemas": "false", "use.latest.version": "true"}
    with pytest.raises(RegistryError, match="of type JSON, and AvroConverter writes AVRO"):
        converter(registry, **settings).prepare("t", ROW)


def test_an_incompatible_schema_names_subject_version_reason_and_remedy(registry: FakeRegistry):
    converter(registry).prepare("t", ROW)
    registry.incompatible = "READER_FIELD_MISSING_DEFAULT_VALUE: name"
    with pytest.raises(RegistryRefusedError) as refused:
        converter(registry).prepare("t", spark.StructType([*ROW.fields, NAME]))
    message = str(refused.value)
    for part in (
        "values of topic t",
        "subject t-value",
        "newest version: 1",
        "READER_FIELD_MISSING",
        "compatibility to NONE",
    ):
        assert part in message


@pytest.mark.parametrize(
    ("status", "error"),
    [(401, RegistryAccessError), (403, RegistryAccessError), (422, RegistryRefusedError), (404, RegistryMissingError)],
)
def test_a_refusal_has_the_registrys_message(registry: FakeRegistry, status: int, error: type[Exception]):
    body = b'{"error_code": 42201, "message": "No, because of reasons"}'
    registry.respond = lambda handler: send(handler, status, body, "application/json")
    with pytest.raises(error, match="No, because of reasons"):
        converter(registry).prepare("t", ROW)


@pytest.mark.parametrize("known", [True, False])
def test_a_conflict_with_another_worker_is_not_an_incompatibility(registry: FakeRegistry, known: bool):
    """Apicurio refuses the second of two concurrent registrations."""
    conflicts = [b'{"error_code": 409, "message": "already exists"}']
    if known:
        converter(registry).prepare("t", ROW)
        forget_registries()

    def refuse(handler: Any) -> bool:
        first = handler.command == "POST" and handler.path.partition("?")[0].endswith("/versions") and conflicts
        return bool(first) and send(handler, 409, conflicts.pop(), "application/json")

    registry.respond = refuse
    made = converter(registry)
    made.prepare("t", ROW)
    assert made.from_connect_data("t", ROW, ROWS).to_pylist()[0] == b"\0\0\0\0\1\x0e"
    assert registry.subjects == {"t-value": [1]}


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_busy_registry_is_asked_again(registry: FakeRegistry, status: int):
    left = [status] * 3
    registry.respond = lambda handler: bool(left) and send(handler, left.pop(), b"<html>busy</html>", "text/html")
    made = converter(registry, value__subject__name__strategy="TopicNameStrategy")
    made.prepare("t", ROW)
    assert len(registry.requests) == 4
    left.extend([status] * 4)
    with pytest.raises(RegistryUnavailableError, match=f"answered {status}"):
        made.prepare("u", ROW)


def test_the_next_address_is_asked_if_one_is_away(registry: FakeRegistry):
    with fake_registry() as gone:
        away = gone.address
    made = AvroConverter()
    made.configure({"schema.registry.url": f"{away},{registry.address}", **QUICK}, is_key=False)
    made.prepare("t", ROW)
    asked = len(registry.requests)
    assert asked
    made.prepare("u", ROW)
    assert len(registry.requests) == 2 * asked


def test_a_registry_without_guids_cannot_serve_headers(registry: FakeRegistry):
    with pytest.raises(RegistryError, match="no GUID"):
        converter(registry, value__schema__id__serializer="HeaderSchemaIdSerializer").prepare("t", ROW)


def test_the_guid_is_in_the_header_and_not_in_the_payload():
    forget_registries()
    with fake_registry(with_guids=True) as registry:
        made = converter(registry, value__schema__id__serializer="HeaderSchemaIdSerializer")
        made.prepare("t", ROW)
        assert made.from_connect_data("t", ROW, ROWS).to_pylist() == [b"\x0e", b"\1"]
        header = made.record_header("t", ROW)
    assert header is not None
    assert (header[0], header[1][:1], len(header[1])) == ("__value_schema_id", b"\1", 17)
