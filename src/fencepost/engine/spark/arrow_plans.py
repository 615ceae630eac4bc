"""Finds the chains of transforms that Arrow evaluates exactly as Spark does, and keeps the results for later batches.

Spark analyses and optimizes each chain as always, so types, casts, names and errors are Spark's. If the optimized plan
consists of filters and projections whose expressions are in `arrow_expressions`, executors evaluate them where they
read the rows: to move rows from Arrow to the JVM and back would take longer than to read, transform and write them.
Otherwise Spark evaluates the whole chain.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Hashable, Iterator, Mapping
from typing import Any, Final, Generic, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from fencepost.api.fitted_columns import arrow_type, bare
from fencepost.engine.arrow_expressions import (
    ArrowExpression,
    cast_of,
    column_of,
    expression_of,
    field_of,
    literal_of,
    upper_of,
)
from fencepost.engine.arrow_plan import ArrowPlan, FilterStep, PlanColumn, ProjectionStep
from fencepost.engine.spark.known_plans import settings_hash
from fencepost.engine.spark.upper_case import upper_exceptions

_log: Final = logging.getLogger(__name__)

_CAPACITY: Final = 64
P = TypeVar("P")


class ArrowPlans(Generic[P]):
    """Keeps the most recently used plans, by keys, and remembers the chains that have no plan. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._plans: dict[Hashable, P | None] = {}

    def found(self, key: Hashable, make: Callable[[], P | None]) -> P | None:
        """Return the plan for a key. For a new key, `make` is called. Raises the errors of `make`."""
        with self._lock:
            known = key in self._plans
            plan = self._plans.pop(key, None)
        if not known:
            plan = make()
        with self._lock:
            self._plans[key] = plan
            if len(self._plans) > _CAPACITY:
                del self._plans[next(iter(self._plans))]
        return plan


def arrow_plan(read: DataFrame, transformed: DataFrame) -> ArrowPlan | None:
    """Return the transforms of a reader's rows as a plan for Arrow; None if Spark must evaluate them. Never raises."""
    try:
        return _plan(read, transformed)
    except _NotInArrowError:
        return None
    except Exception:  # noqa: BLE001 - whatever Spark's internals are in another version
        _log.debug("The plan of a chain of transforms cannot be read", exc_info=True)
        return None


class _NotInArrowError(Exception):
    """Spark has to evaluate the chain."""


def _plan(read: DataFrame, transformed: DataFrame) -> ArrowPlan:
    plan = transformed._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 - pyspark shows no plan
    source = read._jdf.queryExecution().analyzed()  # noqa: SLF001 - likewise
    result = _columns(plan, transformed.schema)
    nodes: list[Any] = []
    while plan.nodeName() in ("Project", "Filter"):
        nodes.insert(0, plan)
        plan = plan.child()
    given = _columns(source, read.schema)
    # If a transform reads rows of another DataFrame, the columns' numbers (`exprId`) differ from the reader's: Spark
    # never reuses a number.
    if plan.nodeName() != source.nodeName() or [column.number for column in given] != _numbers(plan):
        raise _NotInArrowError
    steps: list[FilterStep | ProjectionStep] = []
    kinds = {column.number: bare(column.kind) for column in given}
    for node in nodes:
        if node.nodeName() == "Filter":
            steps.append(FilterStep(_expression(node.condition(), transformed.sparkSession)))
        else:
            expressions = [_expression(java, transformed.sparkSession) for java in _items(node.projectList())]
            columns = list(zip(_numbers(node), expressions, strict=True))
            steps.append(ProjectionStep(columns))
            kinds = {number: expression.kind for number, expression in columns}
    if any(kinds[column.number] != bare(column.kind) for column in result):
        raise _NotInArrowError
    found = ArrowPlan(given, steps, result)
    # The plan is tried without rows, because even then Arrow raises errors for functions that it does not have.
    found(pa.RecordBatch.from_pydict({column.name: pa.array([], arrow_type(bare(column.kind))) for column in given}))
    return found


def _columns(plan: Any, schema: t.StructType) -> list[PlanColumn]:
    return [
        PlanColumn(field.name, number, field.dataType) for field, number in zip(schema, _numbers(plan), strict=True)
    ]


def _numbers(plan: Any) -> list[int]:
    return [attribute.exprId().id() for attribute in _items(plan.output())]


def _items(sequence: Any) -> Iterator[Any]:
    iterator = sequence.iterator()
    while iterator.hasNext():
        yield iterator.next()


def _expression(java: Any, session: SparkSession) -> ArrowExpression:
    """Read an expression from Catalyst's JSON, which lists the nodes of a tree before their children, in one call."""
    return _read(iter(json.loads(java.toJSON())), session)


def _read(nodes: Iterator[Mapping[str, Any]], session: SparkSession) -> ArrowExpression:
    node = next(nodes)
    name = node["class"].rpartition(".")[2]
    children = [_read(nodes, session) for _ in range(node["num-children"])]
    found: ArrowExpression | None
    match name:
        case "Alias":
            (found,) = children
        case "AttributeReference":
            found = column_of(node["exprId"]["id"], _kind(node["dataType"]))
        case "GetStructField":
            found = field_of(children[0], node["ordinal"])
        case "Literal":
            found = literal_of(node["value"], _kind(node["dataType"]))
        case "Cast":
            found = cast_of(children[0], _kind(node["dataType"]))
        case "Upper":
            exceptions = upper_exceptions(session, settings_hash(session))
            found = None if exceptions is None else upper_of(children[0], exceptions)
        case _:
            found = expression_of(name, children)
    if found is None:
        raise _NotInArrowError
    return found


def _kind(written: Any) -> t.DataType:
    """The type of an expression, from Catalyst's JSON."""
    field = {"name": "kind", "type": written, "nullable": True, "metadata": {}}
    return bare(t.StructType.fromJson({"type": "struct", "fields": [field]})["kind"].dataType)
