"""The Avro schemas of Connect schemas, compared with Java's output (tests/support/java)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from fencepost import DataError
from fencepost.converters.avro.schema import AvroOptions, avro_schema, canonical_form, parsed_schema, schema_text

pytestmark = pytest.mark.unit

_GOLDENS: Final = Path(__file__).with_name("java_schemas.tsv")

# Java's fork writes two types of one name with different fields, which makes reads wrong or fail; we refuse them.
_REFUSED: Final = {"two maps of ints", "one name with other fields", "maps of ints at two depths"}
# Java's fork does not scrub names: these results follow the documentation of Confluent's AvroData.
_SCRUBBED: Final = {
    "scrubbed name with a hyphen": '{"type":"record","name":"Value","namespace":"my_topic","fields":[{"name":"a","type":'
    '"int"}],"connect.name":"my-topic.Value"}',
    "scrubbed field": '{"type":"record","name":"T","namespace":"n","fields":[{"name":"a_b","type":"int"},{"name":"x1st",'
    '"type":"int"},{"name":"_C3_A4","type":"int"},{"name":"_x","type":"int"}],"connect.name":"n.T"}',
    "scrubbed digits in a name": '{"type":"record","name":"x2b","namespace":"x1a","fields":[{"name":"a","type":"int"}],'
    '"connect.name":"1a.2b"}',
}
# Java's fork ignores the setting.
_IGNORED: Final = {"map with optional key allowed": '{"type":"map","values":"string"}'}


def _rows() -> Iterator[tuple[str, AvroOptions, str, str]]:
    for line in _GOLDENS.read_text(encoding="utf-8").split("\n"):
        if line:
            name, given, connect, avro = line.split("\t")
            settings = dict(setting.split("=") for setting in given.split(",") if setting)
            options = AvroOptions(
                metadata=settings.get("connect.meta.data") != "false",
                enhanced=settings.get("enhanced.avro.schema.support") == "true",
                optional_map_keys=settings.get("allow.optional.map.keys") == "true",
                scrub=settings.get("scrub.invalid.names") == "true",
            )
            yield name, options, connect, (_SCRUBBED | _IGNORED).get(name, avro)


@pytest.mark.parametrize(("name", "options", "connect", "avro"), [pytest.param(*row, id=row[0]) for row in _rows()])
def test_the_schema_is_as_java_prints_it(name: str, options: AvroOptions, connect: str, avro: str):
    if name in _REFUSED:
        with pytest.raises(DataError, match="which allows it once"):
            avro_schema(json.loads(connect), options)
    elif avro.startswith("! "):
        with pytest.raises(DataError, match="does not allow the name"):
            avro_schema(json.loads(connect), options)
    else:
        assert schema_text(avro_schema(json.loads(connect), options)) == avro


@pytest.mark.parametrize(
    "avro",
    [pytest.param(avro, id=name) for name, _, _, avro in _rows() if not avro.startswith("!") and name not in _REFUSED],
)
def test_a_schema_that_is_read_back_is_the_same(avro: str):
    assert schema_text(parsed_schema(avro)) == avro


def test_the_canonical_form_ignores_parts_that_readers_ignore():
    plain = '{"type":"record","name":"n.R","fields":[{"name":"a","type":"int"}]}'
    full = (
        '{"type":"record","doc":"d","namespace":"n","name":"R","x":1,"fields":[{"name":"a","default":1,'
        '"type":{"type":"int","connect.type":"int8"}}]}'
    )
    other = plain.replace('"int"', '"long"')
    assert canonical_form(parsed_schema(plain)) == canonical_form(parsed_schema(full))
    assert canonical_form(parsed_schema(plain)) != canonical_form(parsed_schema(other))


@pytest.mark.parametrize("text", ["[1]", "{}", "nothing", '{"type":"record","fields":[]}'])
def test_an_invalid_schema_is_refused(text: str):
    with pytest.raises((ValueError, KeyError)):
        parsed_schema(text)
