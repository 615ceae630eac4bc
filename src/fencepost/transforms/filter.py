"""Drops records."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation

from fencepost.transforms.base import DroppingTransformation, planned_by_schema, reads_no_content


@planned_by_schema
@reads_no_content
class Filter(DroppingTransformation):
    """Drops all records, or with a predicate the records that it selects."""

    def kept(self, records: DataFrame) -> Column:  # noqa: ARG002 - none is kept
        """Return false: no record is kept."""
        return F.lit(False)

    def changed_records(self, records: DataFrame) -> DataFrame:
        """Return the records unchanged."""
        return records
