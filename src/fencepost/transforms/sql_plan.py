"""Checks Spark's analysed plan: expressions may only project, filter and explode single rows."""

from __future__ import annotations

from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import DataFrame

from fencepost.api.errors import ConfigError

_NODES: Final = ("Project", "Filter", "Generate")
_PATTERNS: Final = (
    "PLAN_EXPRESSION", "OUTER_REFERENCE", "AGGREGATE_EXPRESSION", "WINDOW_EXPRESSION", "SCALA_UDF", "PYTHON_UDF",
    "CURRENT_LIKE",
)  # fmt: skip


def check_plan(records: DataFrame, given: DataFrame, plugin: str, *, deterministic: bool) -> DataFrame:
    """Return `records`, which must be computed row by row from the records `given`.

    Raises ConfigError if the analysed plan sorts, aggregates, joins or reads other tables, calls user-defined
    functions, or is not deterministic although it must be. The parts of the expressions were already checked before the
    analysis. This check detects an expression that Spark expands to something else than its parts.
    """
    plan, source = _analyzed(records), _analyzed(given)
    while not plan.fastEquals(source):
        name = plan.nodeName()
        if name not in _NODES:
            raise _refused(plugin, name)
        _check_expressions(plan, plugin, deterministic=deterministic)
        if deterministic and _names_present(plan):
            raise _refused(plugin, "date or timestamp of the present, which allow.nondeterministic=true accepts,")
        plan = plan.child()
    return records


def _check_expressions(plan: Any, plugin: str, *, deterministic: bool) -> None:
    patterns: Any = SparkContext._jvm.org.apache.spark.sql.catalyst.trees.TreePattern  # type: ignore[union-attr] # noqa: SLF001 - pyspark shows no plan
    allowed = _PATTERNS if deterministic else _PATTERNS[:-1]
    expressions = plan.expressions().iterator()
    while expressions.hasNext():
        expression = expressions.next()
        for name in allowed:
            if expression.containsPattern(getattr(patterns, name)()):
                raise _refused(plugin, name.lower().replace("_", " "))
        if deterministic and not expression.deterministic():
            raise _refused(plugin, "expression that is not deterministic")


def _names_present(plan: Any) -> bool:
    """Whether Spark's optimizer would replace constant texts, such as concat('to', 'day'), by the current time."""
    rules: Any = SparkContext._jvm.org.apache.spark.sql.catalyst.optimizer  # type: ignore[union-attr] # noqa: SLF001 - pyspark shows no plan
    replace, present = (
        getattr(getattr(rules, f"{name}$"), "MODULE$") for name in ("ReplaceExpressions", "SpecialDatetimeValues")
    )
    replaced = replace.apply(plan)
    return not present.apply(replaced).expressions().equals(replaced.expressions())


def _analyzed(records: DataFrame) -> Any:
    return records._jdf.queryExecution().analyzed()  # noqa: SLF001 - pyspark shows no plan


def _refused(plugin: str, what: str) -> ConfigError:
    return ConfigError(
        f"{plugin} has an expression that becomes a {what} in Spark's plan: only expressions over the columns of a single "
        "record are allowed"
    )
