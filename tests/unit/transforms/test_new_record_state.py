from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession

from fencepost import ConfigError, DataError
from fencepost.transforms.chain import Step
from fencepost.transforms.new_record_state import ExtractNewRecordState
from tests.unit.transforms.support import Records, applied

ENVELOPE = (
    "STRUCT<before: STRUCT<id: INT, name: STRING>, after: STRUCT<id: INT, name: STRING>, "
    "source: STRUCT<table: STRING, lsn: BIGINT>, op: STRING, ts_ms: BIGINT>"
)
SOURCE = ("people", 7)
EVENTS = Records(
    ENVELOPE,
    [
        {"value": (None, (1, "Ada"), SOURCE, "r", 5)},
        {"value": (None, (1, "Bob"), SOURCE, "u", 5)},
        {"value": ((1, None), None, SOURCE, "d", 5)},
        {"value": None},
        {"value": (None, None, SOURCE, "t", 5)},
    ],
)
ROWS = [{"id": 1, "name": "Ada"}, {"id": 1, "name": "Bob"}]


def extracting(**properties: str) -> Step:
    transform = ExtractNewRecordState()
    transform.configure({name.replace("_", "."): value for name, value in properties.items()})
    return Step(transform)


@pytest.mark.parametrize(
    ("mode", "left"),
    [
        ("drop", ROWS),
        ("tombstone", [*ROWS, None]),
        ("delete-to-tombstone", [*ROWS, None]),
        ("rewrite", [*({**row, "__deleted": "false"} for row in ROWS), {"id": 1, "name": None, "__deleted": "true"}]),
        (
            "rewrite-with-tombstone",
            [*({**row, "__deleted": "false"} for row in ROWS), {"id": 1, "name": None, "__deleted": "true"}, None],
        ),
    ],
)
def test_events_become_rows_and_deletes_what_the_mode_says(spark: SparkSession, mode: str, left: list[Any]) -> None:
    assert applied(spark, EVENTS, extracting(delete_tombstone_handling_mode=mode)) == left


def test_fields_of_the_event_can_be_added(spark: SparkSession) -> None:
    step = extracting(add_fields="op,table,source.lsn:position", delete_tombstone_handling_mode="drop")
    first = applied(spark, EVENTS, step)[0]
    assert first == {"id": 1, "name": "Ada", "__op": "r", "__table": "people", "__position": 7}


def test_records_that_are_no_events_stay(spark: SparkSession) -> None:
    others = Records("STRUCT<id: INT>", [{"value": (1,)}])
    assert applied(spark, others, extracting()) == [{"id": 1}]


def test_unknown_fields_and_properties_are_refused(spark: SparkSession) -> None:
    with pytest.raises(DataError, match="nothing"):
        applied(spark, EVENTS, extracting(add_fields="nothing"))
    with pytest.raises(ConfigError, match=r"delete\.tombstone\.handling\.mode"):
        extracting(drop_tombstones="false")
