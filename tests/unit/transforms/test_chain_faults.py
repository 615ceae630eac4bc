"""What a transform or predicate does wrong is told in its author's terms."""

from __future__ import annotations

from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from fencepost import ConfigDef, Transformation
from fencepost.api.errors import PluginError
from fencepost.transforms.chain import Step, apply_chain
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
