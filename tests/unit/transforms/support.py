"""Records for transforms, and their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from fencepost.api.plugin import Predicate, Transformation
from fencepost.config.plugin_sources import ANY_MODULE
from fencepost.config.plugins import PluginKind, find_plugin
from fencepost.transforms.chain import Step, apply_chain

JAVA = "org.apache.kafka.connect.transforms."


@dataclass(frozen=True)
class Records:
    """Records whose keys have one type, and whose values have one type, given as DDL."""

    value: str
    rows: Sequence[Mapping[str, Any]]
    key: str = "VOID"

    def frame(self, spark: SparkSession) -> DataFrame:
        schema = (
            f"topic STRING, partition INT, key {self.key}, value {self.value}, timestamp BIGINT, "
            "headers ARRAY<STRUCT<key: STRING, value: BINARY>>, __fencepost_row BIGINT"
        )
        rows = [
            (
                row.get("topic", "t"), row.get("partition"), row.get("key"), row.get("value"), row.get("timestamp"),
                row.get("headers"), index,
            )
            for index, row in enumerate(self.rows)
        ]  # fmt: skip
        return spark.createDataFrame(rows, schema)

    def with_rows(self, *rows: Mapping[str, Any]) -> Records:
        return replace(self, rows=rows)


def step(name: str, properties: Mapping[str, str] | None = None) -> Step:
    """A configured transform, by its class name in Kafka."""
    transform: Transformation = find_plugin(
        PluginKind.TRANSFORMATION, JAVA + name, property_name="type", sources=ANY_MODULE
    )()
    transform.configure(properties or {})
    return Step(transform)


def debezium(name: str, properties: Mapping[str, str] | None = None) -> Step:
    """A configured transform, by its class name in Debezium."""
    transform: Transformation = find_plugin(
        PluginKind.TRANSFORMATION, f"io.debezium.transforms.{name}", property_name="type", sources=ANY_MODULE
    )()
    transform.configure(properties or {})
    return Step(transform)


def predicate(name: str, properties: Mapping[str, str] | None = None) -> Predicate:
    found: Predicate = find_plugin(
        PluginKind.PREDICATE, f"{JAVA}predicates.{name}", property_name="type", sources=ANY_MODULE
    )()
    found.configure(properties or {})
    return found


def plain(value: Any) -> Any:
    """Rows as dicts, at any depth."""
    if isinstance(value, Row):
        return {name: plain(member) for name, member in value.asDict().items()}
    if isinstance(value, list):
        return [plain(item) for item in value]
    return bytes(value) if isinstance(value, bytearray) else value


def applied(spark: SparkSession, records: Records, *chain: Step, column: str = "value") -> list[Any]:
    frame = apply_chain(records.frame(spark), chain)
    assert frame.columns == ["topic", "partition", "key", "value", "timestamp", "headers", "__fencepost_row"]
    return [plain(row[column]) for row in frame.collect()]
