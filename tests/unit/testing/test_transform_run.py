from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from fencepost import ConfigError, DataError, SourceRecord, transform
from fencepost.testing import run_transform


@transform(schema="id BIGINT, total DOUBLE")
def totals(rows: pa.RecordBatch) -> pa.RecordBatch:
    kept = rows.filter(pc.greater(rows["count"], 0))
    total = pc.multiply(kept["price"], pc.cast(kept["count"], pa.float64()))
    return pa.RecordBatch.from_pydict({"id": kept["id"], "total": total, "__row": kept["__row"]})


def test_the_check_calls_a_function_as_a_worker_does() -> None:
    rows = [{"id": 1, "price": 1.5, "count": 2}, {"id": 2, "price": 1.0, "count": 0}, None]
    found = run_transform(totals, rows)
    assert [(one.value, one.source_offset["row"]) for one in found] == [({"id": 1, "total": 3.0}, 0), (None, 2)]


def test_keys_topics_and_headers_stay() -> None:
    record = SourceRecord(
        {"s": 1}, {"o": 7}, "orders", {"id": 1, "price": 2.0, "count": 1}, key="k", headers=[("h", "v")], timestamp=5
    )
    (found,) = run_transform(totals, [record])
    assert (found.topic, found.key, found.headers, found.timestamp) == ("orders", "k", [("h", b"v")], 5)
    assert (found.source_partition, found.source_offset, found.value) == ({"s": 1}, {"o": 7}, {"id": 1, "total": 2.0})


def test_other_transforms_take_their_properties() -> None:
    rows = [{"id": 1}, {"id": 2}, {"id": 3}]
    config = {"where": "value.id > 1", "value": "struct(value.id * 2 AS twice)"}
    assert [one.value for one in run_transform("Sql", rows, config)] == [{"twice": 4}, {"twice": 6}]


def test_a_transform_is_named_as_in_a_configuration() -> None:
    name = "org.apache.kafka.connect.transforms.ExtractField$Value"
    assert [one.value for one in run_transform(name, [{"id": 1}], {"field": "id"})] == [1]
    assert [one.value for one in run_transform(f"{__name__}.totals", [None])] == [None]
    with pytest.raises(ConfigError, match="Sqll"):
        run_transform("Sqll", [])


def test_the_result_of_a_function_is_checked() -> None:
    with pytest.raises(DataError, match="gives the column id as string, which does not fit bigint"):
        run_transform(totals, [{"id": "one", "price": 1.0, "count": 1}])
