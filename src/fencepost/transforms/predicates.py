"""Predicates: TopicNameMatches, HasHeaderKey, RecordIsTombstone."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.config_def import ConfigDef
from fencepost.config.java_regex import java_pattern, java_regex
from fencepost.config.validators import not_blank
from fencepost.transforms.base import RecordPredicate, planned_by_schema, reads_no_content


def _pattern(name: str, value: Any) -> None:
    not_blank(name, value)
    java_pattern(name, value)


@planned_by_schema
@reads_no_content
class TopicNameMatches(RecordPredicate):
    """True for records whose whole topic name matches a regular expression (Java's)."""

    definitions = ConfigDef().define(
        "pattern", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, ConfigDef.Importance.MEDIUM,
        "The regular expression (Java's) that the whole name of the topic must match.", validator=_pattern,
    )  # fmt: skip

    def test(self, records: DataFrame) -> Column:  # noqa: ARG002 - the columns have fixed names
        """Return whether the topic matches."""
        return F.col("topic").rlike(java_regex("pattern", self.properties["pattern"]).whole)


@planned_by_schema
@reads_no_content
class HasHeaderKey(RecordPredicate):
    """True for records with at least one header of the given name."""

    definitions = ConfigDef().define(
        "name", ConfigDef.Type.STRING, ConfigDef.NO_DEFAULT, ConfigDef.Importance.MEDIUM, "The header's name.",
        validator=not_blank,
    )  # fmt: skip

    def test(self, records: DataFrame) -> Column:  # noqa: ARG002 - the columns have fixed names
        """Return whether the header exists."""
        name = self.properties["name"]
        return F.exists("headers", lambda header: header["key"] == F.lit(name))


@planned_by_schema
@reads_no_content
class RecordIsTombstone(RecordPredicate):
    """True for records whose value is null."""

    def test(self, records: DataFrame) -> Column:  # noqa: ARG002 - the columns have fixed names
        """Return whether the value is null."""
        return F.col("value").isNull()
