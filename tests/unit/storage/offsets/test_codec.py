"""Source offsets as records: the same bytes as Kafka Connect's JSON library, and headers of any writer."""

from __future__ import annotations

import json
import math
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import DataError
from fencepost.storage.offsets.codec import (
    COMMIT_TIME,
    COMMITTED_BY,
    COPIED_FROM,
    FORMER_TOPICS,
    CommitAuthor,
    OffsetMark,
    Origin,
    decode_key,
    decode_value,
    encode_key,
    encode_value,
    identity_of,
    mark_of,
)

_PRIMITIVES = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
)
_MAPS = st.dictionaries(st.text(), _PRIMITIVES)

_READ_AT = 1_700_000_000_000

# The output of Jackson 2.19 (used by Kafka 4.1) for the same map.
_NUMBERS = {
    "plain": 1.0, "e10": 1e10, "7": 1e7, "m3": 0.001, "m4": 0.00015, "neg": -123456789.125, "z": -0.0,
    "max": 1.7976931348623157e308, "min": 2.2250738585072014e-308, "x": 9999999.999, "e22": 1e22, "100": 100.0,
    "12e16": 1.2e17, "l": -(2**63), "n": None, "b": True,
}  # fmt: skip
_NUMBERS_BY_JACKSON = (
    b'{"plain":1.0,"e10":1.0E10,"7":1.0E7,"m3":0.001,"m4":1.5E-4,"neg":-1.23456789125E8,"z":-0.0,'
    b'"max":1.7976931348623157E308,"min":2.2250738585072014E-308,"x":9999999.999,"e22":1.0E22,"100":100.0,'
    b'"12e16":1.2E17,"l":-9223372036854775808,"n":null,"b":true}'
)
_TEXT = "é\u0001\u001f\n\t\b\f\r\"\\/\u007f\u2028\U0001f600<>&'\\u001f"
_TEXT_BY_JACKSON = b'{"t":"\xc3\xa9\\u0001\\u001F\\n\\t\\b\\f\\r\\"\\\\/\x7f\xe2\x80\xa8\\uD83D\\uDE00<>&\'\\\\u001f"}'


def test_numbers_are_written_as_jackson_writes_them():
    assert encode_value("c", _NUMBERS) == _NUMBERS_BY_JACKSON


class _Page(IntEnum):
    FIRST = 1


def test_numbers_of_types_derived_from_int_are_written_as_numbers():
    assert encode_value("c", {"page": _Page.FIRST}) == b'{"page":1}'


def test_text_is_written_as_jackson_writes_it():
    assert encode_value("c", {"t": _TEXT}) == _TEXT_BY_JACKSON


def test_a_key_is_the_connector_and_the_partition_in_its_own_order():
    assert encode_key("f1", {"b": 1, "a": "x"}) == b'["f1",{"b":1,"a":"x"}]'


def test_a_removed_offset_is_a_null_value():
    assert encode_value("c", None) is None
    assert decode_value(None) is None


def test_an_empty_offset_is_not_a_removed_one():
    assert encode_value("c", {}) == b"{}"
    assert decode_value(b"{}") == {}


@given(st.text(), _MAPS)
def test_every_key_is_read_back(connector: str, partition: dict[str, Any]):
    decoded = decode_key(encode_key(connector, partition))
    assert decoded is not None
    assert (decoded.connector, list(decoded.partition.items())) == (connector, list(partition.items()))


@given(_MAPS)
def test_every_offset_is_read_back_with_its_types(offset: dict[str, Any]):
    decoded = decode_value(encode_value("c", offset))
    assert repr(decoded) == repr(offset)


@pytest.mark.parametrize(
    ("number", "text"), [(5e-324, b"4.9E-324"), (-1e-323, b"-9.9E-324"), (2e23, b"2.0E23"), (1e22, b"1.0E22")]
)
def test_java_writes_two_digits_of_a_number_that_needs_one(number: float, text: bytes):
    assert encode_value("c", {"n": number}) == b'{"n":%s}' % text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_float_is_written_in_the_shape_of_javas_doubles(number: float):
    text = (encode_value("c", {"x": number}) or b"")[5:-1].decode()
    mantissa, _, exponent = text.partition("E")
    assert float(text) == number
    assert "." in mantissa
    assert "e" not in text
    assert bool(exponent) == (number != 0 and not 1e-3 <= abs(number) < 1e7)
    if exponent:
        assert 1 <= abs(float(mantissa)) < 10


def test_a_key_that_java_wrote_with_spaces_is_read():
    decoded = decode_key(b' [ "c1" , { "task" : "0" , "n" : 1.0E10 } ] ')
    assert decoded is not None
    assert (decoded.connector, decoded.partition) == ("c1", {"task": "0", "n": 1e10})


@pytest.mark.parametrize("key", [None, b"", b"x", b'"c"', b'["c"]', b'["c",1]', b"[1,{}]", b'["c",{},1]', b"\xff"])
def test_other_keys_are_distinguished_from_offset_keys(key: bytes | None):
    assert decode_key(key) is None


@pytest.mark.parametrize("value", [b"[1]", b"12", b'"x"', b"{", b"\xff"])
def test_a_stored_value_that_is_not_an_offset_is_refused(value: bytes):
    with pytest.raises(DataError, match="not a source offset"):
        decode_value(value)


@given(st.dictionaries(st.text(), _PRIMITIVES, min_size=2), st.randoms(use_true_random=False))
def test_equal_partitions_have_one_identity_in_any_order(partition: dict[str, Any], random: Any):
    names = list(partition)
    random.shuffle(names)
    assert identity_of({name: partition[name] for name in names}) == identity_of(partition)


@pytest.mark.parametrize("other", [1.0, True, "1", None])
def test_partitions_that_differ_in_json_have_different_identities(other: Any):
    assert identity_of({"n": 1}) != identity_of({"n": other})


@pytest.mark.parametrize(
    ("partition", "told"),
    [
        ({"f": ["a"]}, "type list"),
        ({"f": {"a": 1}}, "type dict"),
        ({"f": b"x"}, "type bytes"),
        ({"f": 1 << 63}, "a number of 65 bits, of which 64 can be stored"),
        ({"f": 10**5000}, "a number of 16611 bits"),
        ({"f": math.nan}, "no number for"),
        ({"f": math.inf}, "no number for"),
        ({1: "x"}, "names must be text"),
        ("file.txt", "must be a mapping"),
        (7, "must be a mapping"),
    ],
)
def test_values_that_json_cannot_hold_are_refused_with_the_connectors_name(partition: Any, told: str):
    with pytest.raises(DataError, match=told) as caught:
        encode_key("orders", partition)
    assert "Connector orders" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "written"),
    [
        ("\ud800", b"\\uD800"),
        ("\udfffx", b"\\uDFFFx"),
        ("\U0001f600", b"\\uD83D\\uDE00"),
        ("\udc80\U0010ffff", b"\\uDC80\\uDBFF\\uDFFF"),
    ],
)
def test_surrogates_that_stand_alone_are_escaped_as_by_java_and_read_again(text: str, written: bytes):
    value = encode_value("orders", {text: text})
    assert value == b'{"%s":"%s"}' % (written, written)
    assert decode_value(value) == {text: text}
    key = encode_key("orders", {"f": text})
    assert key == b'["orders",{"f":"%s"}]' % written
    assert decode_key(key).partition == {"f": text}


def test_an_offset_that_json_cannot_hold_names_the_field():
    with pytest.raises(DataError, match="Connector orders: 'at' in the source offset is a value of type set"):
        encode_value("orders", {"at": {1}})


def test_offsets_are_plain_json_to_others():
    value = encode_value("c", {"position": 4096, "name": "é😀"})
    assert json.loads(value or b"") == {"position": 4096, "name": "é😀"}


@given(
    st.integers(0, 10**18 - 1),
    st.sampled_from([None, Origin("own"), Origin("own", "cluster")]),
    st.sampled_from([None, CommitAuthor("group-c-0", "1.2.3"), CommitAuthor("my group-my c-0", "1")]),
    st.frozensets(st.sampled_from([Origin("own"), Origin("own", "cluster"), Origin("other")])),
)
def test_a_mark_is_read_as_it_was_written(
    time: int, origin: Origin | None, author: CommitAuthor | None, former: frozenset[Origin]
) -> None:
    mark = OffsetMark(time, origin, author, former)
    assert mark_of(mark.headers(), _READ_AT) == mark


@pytest.mark.parametrize("time", [b"", b"-1", b"soon", b"\xb2", b"1.5", b"9" * 19, b"9" * 5000])
def test_an_invalid_commit_time_is_replaced_by_the_timestamp(time: bytes) -> None:
    assert mark_of([(COMMIT_TIME, time)], _READ_AT) == OffsetMark(_READ_AT)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([COMMIT_TIME, COMMITTED_BY, COPIED_FROM, FORMER_TOPICS, "x"]), st.none() | st.binary()
        )
    )
)
def test_arbitrary_headers_are_handled(headers: list[tuple[str, bytes | None]]) -> None:
    assert mark_of(headers, _READ_AT).time >= 0
