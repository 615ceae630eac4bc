"""Headers with transforms: header.converter converts each value once, and added text stays text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

from fencepost import transform
from fencepost.api.plugin import HeaderConverter
from fencepost.api.record import SourceBatch, SourceRecord
from fencepost.engine.engine import SparkEngine
from fencepost.transforms.chain import Step
from fencepost.transforms.records import InsertHeader
from fencepost.transforms.sql import Sql
from tests.support.checker import read_topic
from tests.support.engine import SKIP, json_converter, pipeline, producer, write

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class BytesInHeaders:
    """Reads rows with headers of type bytes, and one row without headers."""

    schema = "value STRING, headers ARRAY<STRUCT<key: STRING, value: BINARY>>"

    def read(self, split: int) -> Iterator[pa.RecordBatch]:
        del split
        headers = pa.array([[("b", b"bytes"), ("n", None)], None, []], _HEADERS)
        yield pa.RecordBatch.from_pydict({"value": ["1", "2", "3"], "headers": headers})


@transform(schema="headers ARRAY<STRUCT<key: STRING, value: BINARY>>", on="record")
def as_they_are(rows: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"headers": rows["headers"].cast(_HEADERS), "__row": rows["__row"]})


def steps(name: str) -> list[Step]:
    inserted, concat, put = InsertHeader(), Sql(), Sql()
    inserted.configure({"header": "h", "value.literal": "text"})
    concat.configure({"headers": "concat(headers, array(struct('h' AS key, 'text' AS value)))"})
    put.configure({"headers": "map('h', 'text')"})
    return {
        "insert": [Step(inserted)],
        "concat": [Step(concat)],
        "map": [Step(put)],
        "function": [Step(as_they_are())],
    }[name]


def written(
    engine: SparkEngine, servers: str, topic: str, batch: Any, chain: str, *, header: HeaderConverter | None = None
) -> list[Any]:
    with producer(servers) as owner:
        write(engine, owner, batch, pipeline(topic, transforms=steps(chain), header=header))
    return [one.headers for one in read_topic(servers, topic)]


@pytest.mark.parametrize("size", [10, None])
@pytest.mark.parametrize("chain", ["insert", "concat", "map"])
def test_a_text_beside_bytes_stays_a_text(
    engine: SparkEngine, bootstrap_servers: str, topic: str, chain: str, size: int | None
):
    """In the worker and on executors. The text must not become base64, as the bytes beside it do."""
    batch = SourceBatch.of_reader(BytesInHeaders(), [0], bytes=size)
    before = () if chain == "map" else (("b", b"Ynl0ZXM="), ("n", None))
    assert written(engine, bootstrap_servers, topic, batch, chain) == [
        (*before, ("h", b"text")), (("h", b"text"),), (("h", b"text"),),
    ]  # fmt: skip


@pytest.mark.parametrize("chain", ["insert", "function"])
def test_headers_of_polled_records_are_converted_once(
    engine: SparkEngine, bootstrap_servers: str, topic: str, chain: str
):
    records = [
        SourceRecord({"s": 1}, {"o": number}, topic, "v", headers=headers)
        for number, headers in enumerate([[("t", "x"), ("b", b"bytes"), ("n", 5)], [("t", "y")], []])
    ]
    added = (("h", b"text"),) if chain == "insert" else ()
    assert written(engine, bootstrap_servers, topic, records, chain) == [
        (("t", b"x"), ("b", b"Ynl0ZXM="), ("n", b"5"), *added), (("t", b"y"), *added), added,
    ]  # fmt: skip


@pytest.mark.parametrize("of_file", [False, True])
def test_a_record_whose_header_has_no_name_is_skipped_if_that_is_tolerated(
    engine: SparkEngine, bootstrap_servers: str, topic: str, *, of_file: bool
):
    nameless = Sql()
    nameless.configure({"headers": "array(struct(nullif(value, '2') AS key, 'text' AS value))"})
    records = [SourceRecord({"s": 1}, {"o": text}, topic, text, value_schema="STRING") for text in ("1", "2", "3")]
    batch = SourceBatch.of_reader(BytesInHeaders(), [0]) if of_file else records
    with producer(bootstrap_servers) as owner:
        write(engine, owner, batch, pipeline(topic, transforms=[Step(nameless)], errors=SKIP))
    assert [one.headers for one in read_topic(bootstrap_servers, topic)] == [(("1", b"text"),), (("3", b"text"),)]


@pytest.mark.parametrize("chain", ["insert", "concat", "map", "function"])
def test_an_added_text_is_converted_beside_texts_of_the_record(
    engine: SparkEngine, bootstrap_servers: str, topic: str, chain: str
):
    records = [SourceRecord({"s": 1}, {"o": 1}, topic, "v", headers=[("t", "x"), ("u", "y")])]
    own, added = (("t", b'"x"'), ("u", b'"y"')), (("h", b'"text"'),)
    expected = {"insert": own + added, "concat": own + added, "map": added, "function": own}[chain]
    assert written(engine, bootstrap_servers, topic, records, chain, header=json_converter()) == [expected]


def test_an_added_text_is_converted_whatever_other_records_are_in_the_batch(
    engine: SparkEngine, bootstrap_servers: str, topic: str
):
    """A record with headers must not keep the texts of other records from being converted."""
    records = [
        SourceRecord({"s": 1}, {"o": number}, topic, f"v{number}", headers=headers)
        for number, headers in enumerate([[], [("t", 5)], []])
    ]
    converted, beside = ("h", b'"text"'), (("t", b"5"), ("h", b"text"))
    found = written(engine, bootstrap_servers, topic, records, "insert", header=json_converter())
    assert found == [(converted,), beside, (converted,)]
    alone = written(engine, bootstrap_servers, topic, records[:1], "insert", header=json_converter())
    assert alone == [*found, (converted,)]
