"""Hashes and partitions, compared with kafka-python's murmur2 and with test vectors of Kafka's clients."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as murmur2_of_one

from fencepost.kafka.producer.partitioner import murmur2, partition_for_keys


@pytest.mark.parametrize(
    ("key", "hashed"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"a-little-bit-long-string", -985981536),
        (b"a-little-bit-longer-string", -1486304829),
        (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971),
        (b"abc", 479470107),
    ],
)
def test_murmur2_agrees_with_kafkas_test_vectors(key: bytes, hashed: int):
    assert murmur2(pa.array([key])).tolist() == [hashed]


def _signed(number: int) -> int:
    return int(np.uint32(number & 0xFFFFFFFF).view(np.int32))


@given(
    st.lists(st.none() | st.binary(max_size=40) | st.binary(min_size=8, max_size=8), max_size=60),
    st.sampled_from([pa.binary(), pa.large_binary(), pa.binary_view()]),
    st.data(),
)
def test_hashes_match_kafka_python(keys: list[bytes | None], kind: pa.DataType, data: st.DataObject):
    start = data.draw(st.integers(0, len(keys)))

    hashes = murmur2(pa.array(keys, kind).slice(start))

    assert hashes.tolist() == [_signed(murmur2_of_one(key or b"")) for key in keys[start:]]


def test_keys_of_any_lengths_are_hashed_as_kafka_does():
    generator = random.Random(1)
    for lengths in ([8] * 100, [50_000], [*range(200)], [3] * 50 + [5_000, 7_001]):
        keys = [generator.randbytes(length) for length in lengths]

        assert murmur2(pa.array(keys)).tolist() == [_signed(murmur2_of_one(key)) for key in keys]


@given(st.lists(st.binary(max_size=10), min_size=1), st.integers(1, 200))
def test_a_partition_is_the_positive_hash_modulo_the_partitions(keys: list[bytes], partitions: int):
    found = partition_for_keys(pa.array(keys), partitions)

    assert found.tolist() == [(murmur2_of_one(key) & 0x7FFFFFFF) % partitions for key in keys]


def test_no_keys_have_no_hashes():
    assert murmur2(pa.array([], pa.binary())).tolist() == []
