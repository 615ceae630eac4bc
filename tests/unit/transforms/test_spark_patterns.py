"""Texts accepted as Spark datetime patterns, compared with Spark."""

from __future__ import annotations

import random
from collections.abc import Callable
from string import ascii_letters

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from fencepost import ConfigError
from fencepost.config.spark_patterns import datetime_pattern_error
from tests.unit.transforms.support import step

Takes = Callable[[str, bool], bool]
PIECES = [
    "yyyy", "MM", "dd", "HH", "mm", "ss", "SSS", "E", "a", "XXX", "VV", "[", "]", "'T'", "'", "''", "-", ":", " ", ".", "#", "{",
    "b", "n", "VVV", "é", "Q", "YYYY",
]  # fmt: skip


@pytest.fixture(scope="module")
def spark_takes(spark: SparkSession) -> Takes:
    jvm = spark._jvm
    assert jvm is not None
    helper = jvm.org.apache.spark.sql.catalyst.util.DateTimeFormatterHelper

    def takes(pattern: str, parses: bool) -> bool:
        try:
            jvm.java.time.format.DateTimeFormatterBuilder().appendPattern(
                helper.convertIncompatiblePattern(pattern, parses)
            )
        except (Py4JError, PySparkException):
            return False
        return True

    return takes


@pytest.mark.parametrize("parses", [False, True], ids=["formats", "parses"])
def test_every_letter_in_every_number_is_taken_as_spark_takes_it(spark_takes: Takes, parses: bool) -> None:
    for pattern in (letter * count for letter in ascii_letters for count in range(1, 12)):
        assert (datetime_pattern_error(pattern, parses=parses) is None) is spark_takes(pattern, parses), pattern


def test_random_patterns_are_taken_as_spark_takes_them(spark_takes: Takes) -> None:
    rng = random.Random(7)
    taken = 0
    for _ in range(1_000):
        pattern = "".join(rng.choices(PIECES, k=rng.randint(1, 5)))
        expected = spark_takes(pattern, False)
        taken += expected
        assert (datetime_pattern_error(pattern, parses=False) is None) is expected, pattern
    assert 100 < taken < 900


@pytest.mark.parametrize(
    ("transform", "properties", "name"),
    [
        ("TimestampRouter", {"timestamp.format": "yyyy-bb"}, "timestamp.format"),
        ("TimestampConverter$Value", {"target.type": "string", "format": "yyyy-bb"}, "format"),
        ("TimestampConverter$Value", {"target.type": "unix", "format": "E yyyy"}, "format"),
    ],
)
def test_a_pattern_that_is_none_is_refused_at_its_property(
    transform: str, properties: dict[str, str], name: str
) -> None:
    with pytest.raises(ConfigError, match=f"the value of the property {name}, is not a datetime pattern") as refused:
        step(transform, properties)
    assert refused.value.name == name
