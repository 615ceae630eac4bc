"""An invalid topic, partition or timestamp is an error of its row, which may be skipped."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from fencepost.api.ddl import parse_columns
from fencepost.api.errors import DataError
from fencepost.config.error_handling import ErrorHandling, Tolerance
from fencepost.engine.column_types import column_types
from fencepost.engine.conversion import convert
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.errors import RecordRefusedError
from tests.support.engine import SKIP, pipeline


def converted(ddl: str, columns: dict[str, Any], errors: ErrorHandler) -> list[tuple[str, list[bytes | None]]]:
    batch = pa.RecordBatch.from_pydict(columns)
    types = column_types(parse_columns(ddl), where="b")
    return [(part.topic, part.records.value.to_pylist()) for part in convert(batch, types, pipeline("t"), errors)]


@pytest.mark.parametrize("name", ["", "a b", ".", "x" * 250, "ü", "a/b"])
def test_a_row_for_a_topic_that_cannot_be_is_skipped_if_that_is_tolerated(name: str):
    columns = {"value": ["1", "2", "3"], "topic": ["good", name, None]}
    errors = ErrorHandler(replace(SKIP, dead_letter_topic="dead"))
    found = converted("value STRING, topic STRING", columns, errors)
    assert found == [("good", [b"1"]), ("t", [b"3"])]
    assert (errors.tally.counts.skipped, [letter.value for letter in errors.letters]) == (1, [b"2"])
    assert dict(errors.letters[0].headers)["__connect.errors.stage"] == "KAFKA_PRODUCE"
    with pytest.raises(RecordRefusedError, match=r"stage KAFKA_PRODUCE.*the name of a topic has 1 to 249"):
        converted("value STRING, topic STRING", columns, ErrorHandler(ErrorHandling()))


def test_a_topic_that_is_not_utf_8_is_shown_as_bytes():
    topics = pa.concat_arrays([pa.array(["good"]), pa.array([b"\xff\xfe"]).view(pa.string())])
    columns = {"value": ["1", "2"], "topic": topics}
    assert converted("value STRING, topic STRING", columns, ErrorHandler(SKIP)) == [("good", [b"1"])]
    with pytest.raises(DataError, match=r"topic '.*xff.*xfe'"):
        converted("value STRING, topic STRING", columns, ErrorHandler(ErrorHandling()))


@pytest.mark.parametrize(
    ("name", "kind", "wrong"),
    [
        ("timestamp", pa.int64(), -1),
        ("timestamp", pa.int64(), -2),
        ("partition", pa.int64(), -1),
        ("partition", pa.int64(), 2**31),
    ],
)
def test_a_row_with_an_impossible_number_is_skipped_if_that_is_tolerated(name: str, kind: pa.DataType, wrong: int):
    columns = {"value": ["1", "2", "3"], name: pa.array([0, wrong, None], kind)}
    errors = ErrorHandler(ErrorHandling(Tolerance.ALL))
    assert converted(f"value STRING, {name} BIGINT", columns, errors) == [("t", [b"1", b"3"])]
    assert errors.tally.counts.skipped == 1
    with pytest.raises(RecordRefusedError, match=f"{wrong}"):
        converted(f"value STRING, {name} BIGINT", columns, ErrorHandler(ErrorHandling()))


@pytest.mark.parametrize("wrong", [[(None, "x")], [("a", "x"), (None, None)], [None], [(b"\xff", "x")]])
def test_a_row_with_a_header_that_has_no_name_is_skipped_if_that_is_tolerated(wrong: list[Any]):
    ddl = "value STRING, headers ARRAY<STRUCT<key: STRING, value: STRING>>"
    pairs = pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())]))
    as_bytes = pa.list_(pa.struct([("key", pa.binary()), ("value", pa.string())]))
    columns = {"value": ["1", "2", "3"], "headers": pa.array([[("", "x")], wrong, None], as_bytes).view(pairs)}
    errors = ErrorHandler(replace(SKIP, dead_letter_topic="dead"))
    assert converted(ddl, columns, errors) == [("t", [b"1", b"3"])]
    assert (errors.tally.counts.skipped, [letter.value for letter in errors.letters]) == (1, [b"2"])
    with pytest.raises(RecordRefusedError, match=r"stage KAFKA_PRODUCE.*a header (without a name|whose name is not)"):
        converted(ddl, columns, ErrorHandler(ErrorHandling()))
