"""Applies a connector's transforms in their order. Each is applied to the records that its predicate selects."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everywhere in Spark's own documentation
from pyspark.sql.types import NullType

from fencepost.api.errors import ConfigError, DataError
from fencepost.api.plugin import Predicate, Transformation
from fencepost.api.plugin_calls import call_plugin, kind_of, refuse_answer
from fencepost.api.schema_name import SCHEMA_METADATA
from fencepost.transforms.base import APPLIES, DroppingTransformation, is_planned_by_schema

RECORD_COLUMNS: Final = ("topic", "partition", "key", "value", "timestamp", "headers")
"""The columns that a transform may change."""

_BEFORE: Final = "__fencepost_before_"


@dataclass(frozen=True, slots=True)
class Step:
    """A transform, and the predicate that selects its records. Without a predicate it applies to all records.

    With `negate`, the transform applies to records for which the predicate is false. Errors name the `alias`, if there
    is one.
    """

    transform: Transformation
    predicate: Predicate | None = None
    negate: bool = False
    alias: str = ""


def all_planned_by_schema(chain: Sequence[Step]) -> bool:
    """Whether the plan of a chain can be used for all batches with the same columns: see `planned_by_schema`."""
    plugins = [step.transform for step in chain] + [step.predicate for step in chain if step.predicate is not None]
    return all(is_planned_by_schema(plugin) for plugin in plugins)


def apply_chain(records: DataFrame, chain: Sequence[Step]) -> DataFrame:
    """Return the records after all steps of a chain.

    Raises ConfigError if a transform with a predicate changes the type of a column, because the column could not hold
    the records to which the transform does not apply. Raises the errors of the transforms.
    """
    for step in chain:
        with _named(step.alias):
            records = _applied(step, records) if step.predicate is None else _apply_where(records, step.predicate, step)
    return records


@contextmanager
def _named(alias: str) -> Iterator[None]:
    """In errors of a step, replace the name of a property by its full name in the connector's configuration."""
    prefix = f"transforms.{alias}."
    try:
        yield
    except (ConfigError, DataError) as error:
        if not alias or type(error) not in (ConfigError, DataError):
            raise
        name = prefix + error.name if error.name else None
        raise type(error)(f"{name or f'{prefix}*'}: {error}", name=name) from error


def property_with(chain: Sequence[Step], fragment: str) -> str:
    """Return the full name of the property in which a fragment of an expression is found.

    The result is empty unless exactly one property of the chain contains the fragment.
    """
    found = {
        f"transforms.{step.alias}.{name}"
        for step in chain
        for name, text in getattr(step.transform, "properties", {}).items()
        if step.alias and isinstance(text, str) and fragment in text
    }
    return found.pop() if len(found) == 1 else ""


def _applied(step: Step, records: DataFrame) -> DataFrame:
    what = f"apply() of the transform {type(step.transform).__name__}"
    answer: Any = call_plugin(what, step.transform.apply, records)
    if not isinstance(answer, DataFrame):
        refuse_answer(what, step.transform.apply, kind_of(answer), "the changed DataFrame")
    return answer


def _tested(predicate: Predicate, records: DataFrame) -> Column:
    what = f"test() of the predicate {type(predicate).__name__}"
    answer: Any = call_plugin(what, predicate.test, records)
    if not isinstance(answer, Column):
        refuse_answer(what, predicate.test, kind_of(answer), "a Column of Spark")
    return answer


def _apply_where(records: DataFrame, predicate: Predicate, step: Step) -> DataFrame:
    holds = F.coalesce(_tested(predicate, records), F.lit(False))
    applies = ~holds if step.negate else holds
    transform = step.transform
    columns = records.columns
    if isinstance(transform, DroppingTransformation):
        # `rows` is used because the transform's own filter would also drop records to which it does not apply.
        records = transform.rows(records, applies)
    before = {f"{_BEFORE}{name}": F.col(name) for name in RECORD_COLUMNS}
    beside = records.withColumns({**before, APPLIES: applies})
    if isinstance(transform, DroppingTransformation):
        changed = transform.changed_records(beside)
    else:
        changed = _applied(step, beside)
    return changed.select(
        *(_chosen(name, changed, step) if name in RECORD_COLUMNS else F.col(name) for name in columns)
    )


def _chosen(name: str, changed: DataFrame, step: Step) -> Column:
    before, after = changed.schema[f"{_BEFORE}{name}"], changed.schema[name]
    identity = (before.metadata or {}).get(SCHEMA_METADATA)
    if (after.metadata or {}).get(SCHEMA_METADATA) != identity:
        raise ConfigError(
            f"The transform {type(step.transform).__name__} has a predicate, but changes the name or version of the "
            f"{name}'s schema, which the records of a batch share. Apply it to all records"
        )
    old, new = before.dataType, after.dataType
    kinds = {old.simpleString(), new.simpleString()} - {NullType().simpleString()}
    if len(kinds) > 1:
        raise ConfigError(
            f"The transform {type(step.transform).__name__} has a predicate, but makes {new.simpleString()} of the "
            f"{name}'s type {old.simpleString()}: records of one batch must be of one type. Apply it to all records, "
            "or write the records that it selects separately"
        )
    return (
        F.when(F.col(APPLIES), F.col(name)).otherwise(F.col(f"{_BEFORE}{name}")).alias(name, metadata=before.metadata)
    )
