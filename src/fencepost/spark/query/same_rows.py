"""Decides whether a second DataFrame for a micro-batch certainly has the same rows as the first.

Equal plans are not sufficient: Spark compares files only by their paths, and tables only by their names, but not by
their content. The rows are certainly the same in two cases:

- Both are the same object, and Spark gets the same rows each time that it evaluates the plan. For example, this is not
  certain if the plan reads a table.
- Both have equal, deterministic selections and filters of the same RDD. Spark makes a new RDD for each micro-batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame

from fencepost.spark.query.streaming_batch import INTERNALS_ERRORS

_RDD: Final = "LogicalRDD"
_FIXED: Final = (_RDD, "LocalRelation", "Range", "OneRowRelation")
_FILES: Final = "LogicalRelation"
_LISTED: Final = "InMemoryFileIndex"
_ROW_BY_ROW: Final = ("Project", "Filter")
_UNKNOWN: Final = ("PYTHON_UDF", "SCALA_UDF", "PLAN_EXPRESSION")
"""Patterns of expressions that may read other data: user-defined functions and subqueries."""


def same_rows(one: DataFrame, other: DataFrame) -> bool:
    """Whether two DataFrames of one micro-batch certainly have the same rows. False if this is unknown."""
    try:
        plan = one._jdf.queryExecution().analyzed()  # noqa: SLF001 - pyspark shows no plan
        if one is other:
            return plan.subqueriesAll().isEmpty() and all(_is_fixed(leaf) for leaf in _each(plan.collectLeaves()))
        return _is_of_one_rdd(plan, one.sparkSession._jvm) and one.sameSemantics(other)  # noqa: SLF001 - patterns are the JVM's
    except INTERNALS_ERRORS:
        return False


def _is_fixed(leaf: Any) -> bool:
    """Whether a source returns the same rows each time. Files that are read by path are listed only once."""
    if leaf.nodeName() != _FILES:
        return leaf.nodeName() in _FIXED
    # The files of a table are listed again after each write to the table.
    return bool(leaf.catalogTable().isEmpty() and leaf.relation().location().getClass().getSimpleName() == _LISTED)


def _is_of_one_rdd(plan: Any, jvm: Any) -> bool:
    """Whether a plan is an RDD, or only selects and filters its rows with Spark's own deterministic functions."""
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    if not plan.deterministic() or any(plan.containsPattern(getattr(patterns, name)()) for name in _UNKNOWN):
        return False
    while plan.nodeName() in _ROW_BY_ROW:
        (plan,) = _each(plan.children())
    return bool(plan.nodeName() == _RDD)


def _each(sequence: Any) -> Iterator[Any]:
    """Yield the items of a Scala sequence."""
    return (sequence.apply(index) for index in range(sequence.size()))
