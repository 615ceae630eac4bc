"""Decides whether a second DataFrame for a micro-batch surely has the same rows as the first.

Equal plans do not prove it: Spark compares relations of files by their paths, and tables by their names, whatever their
present content. The proof is

    one DataFrame     unless Spark reads a table, or another source, anew each time
    two DataFrames    with equal selections and filters of one RDD: Spark gives each micro-batch as a new one
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from pyspark.sql import DataFrame

from fencepost.spark.query.streaming_batch import UNTOLD

_RDD: Final = "LogicalRDD"
_FIXED: Final = (_RDD, "LocalRelation", "Range", "OneRowRelation")
_FILES: Final = "LogicalRelation"
_LISTED: Final = "InMemoryFileIndex"
_ROW_BY_ROW: Final = ("Project", "Filter")
_UNKNOWN: Final = ("PYTHON_UDF", "SCALA_UDF", "PLAN_EXPRESSION")
"""Patterns of expressions that may read other data: user-defined functions, and subqueries."""


def same_rows(one: DataFrame, other: DataFrame) -> bool:
    """Whether two DataFrames of one micro-batch surely have the same rows; False if that is unknown."""
    try:
        plan = one._jdf.queryExecution().analyzed()  # noqa: SLF001 - pyspark shows no plan
        if one is other:
            return plan.subqueriesAll().isEmpty() and all(_is_fixed(leaf) for leaf in _each(plan.collectLeaves()))
        return _is_of_one_rdd(plan, one.sparkSession._jvm) and one.sameSemantics(other)  # noqa: SLF001 - patterns are the JVM's
    except UNTOLD:
        return False


def _is_fixed(leaf: Any) -> bool:
    """Whether a source gives the same rows each time. Files that are read by path are listed once."""
    if leaf.nodeName() != _FILES:
        return leaf.nodeName() in _FIXED
    # The files of a table are listed again after a write to it.
    return bool(leaf.catalogTable().isEmpty() and leaf.relation().location().getClass().getSimpleName() == _LISTED)


def _is_of_one_rdd(plan: Any, jvm: Any) -> bool:
    """Whether a plan is an RDD, or selects and filters its rows with Spark's own deterministic functions."""
    patterns = jvm.org.apache.spark.sql.catalyst.trees.TreePattern
    if not plan.deterministic() or any(plan.containsPattern(getattr(patterns, name)()) for name in _UNKNOWN):
        return False
    while plan.nodeName() in _ROW_BY_ROW:
        (plan,) = _each(plan.children())
    return bool(plan.nodeName() == _RDD)


def _each(sequence: Any) -> Iterator[Any]:
    """The items of a sequence of Scala."""
    return (sequence.apply(index) for index in range(sequence.size()))
