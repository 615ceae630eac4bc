"""Spark expressions for the sizes of rows; the broker tests of few rows evaluate them."""

from __future__ import annotations

from pyspark.sql import types as t

from fencepost.spark.frame.row_size import row_size


def test_a_column_whose_size_is_not_known_has_none_however_deep():
    unknown = t.GeometryType(4326)
    for kind in (
        unknown,
        t.ArrayType(unknown),
        t.MapType(t.StringType(), unknown),
        t.StructType([t.StructField("a", unknown)]),
    ):
        assert row_size(t.StructType([t.StructField("value", kind)])) is None


def test_names_are_quoted():
    assert "`a``b`" in str(row_size(t.StructType([t.StructField("a`b", t.StringType())])))
