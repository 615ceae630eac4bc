"""Drops records."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.api.config_def import ConfigDef
from fencepost.api.plugin import Transformation
from fencepost.transforms.base import planned_by_schema


@planned_by_schema
class Filter(Transformation):
    """Drops all records; with a predicate, those that it selects."""

    def config(self) -> ConfigDef:
        """Return no definitions: there are no properties."""
        return ConfigDef()

    def configure(self, configs: Mapping[str, str]) -> None:
        """Take nothing."""

    def apply(self, records: DataFrame) -> DataFrame:
        """Return no records."""
        return records.filter(F.lit(False))
