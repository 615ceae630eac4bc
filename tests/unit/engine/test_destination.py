"""A pipeline with a prefix writes to other topics than its records name, but converts for the topics that they name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from fencepost import ConfigError
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.converters.simple_header_converter import SimpleHeaderConverter
from fencepost.converters.string_converter import StringConverter
from fencepost.engine.column_types import column_types
from fencepost.engine.conversion import convert
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.pipeline import Pipeline


class Told(StringConverter):
    """Records the topics for which it converts."""

    def __init__(self) -> None:
        super().__init__()
        self.topics: list[str] = []

    def from_connect_data(self, topic: str, schema: Any, values: pa.Array) -> pa.Array:
        self.topics.append(topic)
        return super().from_connect_data(topic, schema, values)


@pytest.fixture
def pipeline() -> Pipeline:
    converter = Told()
    handling = ErrorHandling(tolerance=Tolerance.ALL, dead_letter_topic="refused")
    return Pipeline((), converter, converter, SimpleHeaderConverter(), default_topic="orders", errors=handling)


@pytest.mark.parametrize("prefix", ["", "test-"])
def test_rows_of_any_topic_go_to_the_one_with_the_prefix(pipeline: Pipeline, prefix: str) -> None:
    pipeline = replace(pipeline, topic_prefix=prefix)
    schema = t.StructType().add("value", t.StringType()).add("topic", t.StringType())
    rows = pa.RecordBatch.from_pydict({"value": ["a", "b", "c"], "topic": ["north", None, "south"]})

    found = list(convert(rows, column_types(schema, where="rows"), pipeline, ErrorHandler(pipeline.errors)))

    assert [converted.topic for converted in found] == [f"{prefix}{name}" for name in ("north", "orders", "south")]
    assert pipeline.value_converter.topics == ["north", "orders", "south"]  # type: ignore[attr-defined]
    assert pipeline.dead_letter_topic == f"{prefix}refused"
    assert pipeline.without_transforms().destination("t") == f"{prefix}t"


def test_a_name_that_is_too_long_with_the_prefix_is_refused(pipeline: Pipeline) -> None:
    redirected = replace(pipeline, topic_prefix="test-")
    assert redirected.destination("t" * 244) == "test-" + "t" * 244
    with pytest.raises(ConfigError, match="cannot be redirected"):
        redirected.destination("t" * 245)
    # Brokers refuse these topic names themselves.
    assert pipeline.destination("t" * 250) == "t" * 250
    assert redirected.destination("t" * 250) == "test-" + "t" * 250
