"""Mistakes in a transform or predicate are reported in its author's terms."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fencepost import ConfigDef, Transformation
from fencepost.api.errors import ConfigError, DataError, PluginError
from fencepost.transforms.chain import Step, apply_chain, property_with
from fencepost.transforms.sql import Sql
from tests.unit.transforms.support import Records, applied, predicate, step


class _Told(Transformation):
    def __init__(self, answer: Any) -> None:
        self._answer = answer

    def config(self) -> ConfigDef:
        return ConfigDef()

    def configure(self, configs: Any) -> None: ...

    def apply(self, records: Any) -> Any:
        del records
        if isinstance(self._answer, BaseException):
            raise self._answer
        return self._answer


def _apply(answer: Any) -> None:
    apply_chain(cast("DataFrame", None), [Step(_Told(answer))])


def test_a_transform_that_returns_nothing_is_reported_with_the_expected_type():
    with pytest.raises(
        PluginError, match=r"apply\(\) of the transform _Told, .* returned None: it must return the changed"
    ):
        _apply(None)


def test_a_transform_that_exits_is_a_failure():
    with pytest.raises(PluginError, match=r"apply\(\) of the transform _Told raised SystemExit\(3\)"):
        _apply(SystemExit(3))


ROWS = Records("STRUCT<a: INT>", [{"value": (1,)}])


def test_a_transform_refuses_no_record_that_its_predicate_keeps_from_it(spark: SparkSession) -> None:
    inserted = step("InsertField$Value", {"partition.field": "a!"})
    never = Step(inserted.transform, predicate("TopicNameMatches", {"pattern": "other"}))
    assert applied(spark, ROWS, never) == [{"a": 1}]
    with pytest.raises(PySparkException, match="no partition"):
        applied(spark, ROWS, inserted)


def test_a_required_field_is_not_required_of_a_null_value(spark: SparkSession) -> None:
    assert applied(spark, ROWS.with_rows({}), step("InsertField$Value", {"partition.field": "p!"})) == [None]


def test_an_error_of_a_step_names_the_property_of_its_alias(spark: SparkSession) -> None:
    records = Records("STRUCT<a: INT>", [{"value": (1,)}])
    for transform, error, named in (
        (step("ValueToKey", {"fields": "b"}).transform, DataError, r"transforms\.t\.\*: "),
        (_Told(ConfigError("not this", name="select")), ConfigError, r"transforms\.t\.select: not this"),
    ):
        with pytest.raises(error, match=f"^{named}"):
            apply_chain(records.frame(spark), [Step(transform, alias="t")])


def test_a_part_of_an_expression_points_to_its_property() -> None:
    first, second = (configured(Sql(), value=text) for text in ("CAST(value.a AS INT) + 1", "value.b + 1"))
    chain = [Step(first, alias="a"), Step(second, alias="b")]
    assert property_with(chain, "CAST(value.a AS INT)") == "transforms.a.value"
    assert property_with(chain, "+ 1") == "", "it may be of either"
    assert property_with([Step(first)], "CAST(value.a AS INT)") == ""


def configured(transform: Transformation, **properties: str) -> Transformation:
    transform.configure(properties)
    return transform
