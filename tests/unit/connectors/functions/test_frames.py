"""Functions that yield frames: tables of pyarrow, data frames of pandas and polars, and other exports of Arrow."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from fencepost import ConfigError, DataError, RetriableError, SourceConnector, SourceRecord, source
from fencepost.testing import CHECKS, Check, Limits, run_task

CONFIG = {"topic": "rows", "poll.interval.ms": "20", "batch.rows": "5"}
NOON = dt.datetime(2026, 11, 24, 12, tzinfo=dt.UTC).replace(tzinfo=None)


def yields(*items: Any) -> type[SourceConnector]:
    """A connector whose function yields the items, each with its number as the cursor."""

    @source
    def frames(config: Any, cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        for number, item in enumerate(items, start=1):
            if number > (cursor or 0):
                yield item, number

    return frames


def polled(item: Any, **config: str) -> list[SourceRecord]:
    properties = {name.replace("_", "."): text for name, text in config.items()}
    with run_task(yields(item), CONFIG | properties) as task:
        return list(task.poll().records)


def values(item: Any) -> list[Any]:
    return [record.value for record in polled(item)]


class Export:
    """An object that exports an Arrow stream."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return pa.table({"id": [1, 2], "name": ["a", None]}).__arrow_c_stream__(requested_schema)


TABLE = pa.table({"id": [1, 2], "name": ["a", None]})


@pytest.mark.parametrize(
    "frame",
    [
        TABLE,
        TABLE.to_batches()[0],
        TABLE.to_reader(),
        pd.DataFrame({"id": [1, 2], "name": ["a", None]}),
        pl.DataFrame({"id": [1, 2], "name": ["a", None]}),
        Export(),
    ],
    ids=lambda frame: f"{type(frame).__module__}.{type(frame).__name__}",
)
def test_each_row_of_a_frame_is_a_record(frame: Any) -> None:
    assert values(frame) == [{"id": 1, "name": "a"}, {"id": 2, "name": None}]


def test_the_cursor_is_the_one_after_the_whole_frame() -> None:
    connector = yields(TABLE, TABLE)
    with run_task(connector, CONFIG) as task:
        first = task.poll()
        task.commit()
        assert first.offsets == [({"source": "yields.<locals>.frames"}, {"cursor": 1})]
    with run_task(connector, CONFIG, offsets=task.offsets) as restarted:
        assert restarted.poll().offsets[0][1] == {"cursor": 2}
        assert not restarted.poll_once()
        assert not restarted.poll_once()
        assert restarted.at_end()


def test_rows_before_a_frame_come_before_it_and_rows_after_it_later() -> None:
    with run_task(yields({"id": 0}, TABLE, {"id": 3}, {"id": 4}), CONFIG) as task:
        batches = [task.poll() for _ in range(3)]
    assert [[value["id"] for value in batch.values] for batch in batches] == [[0], [1, 2], [3, 4]]
    assert [batch.offsets[0][1]["cursor"] for batch in batches] == [1, 2, 4]
    assert [batch.is_batch for batch in batches] == [False, True, False]


def test_a_frame_is_one_batch_whatever_its_rows() -> None:
    with run_task(yields(pa.table({"id": range(25_000)})), CONFIG) as task:
        batch = task.poll()
    assert [value["id"] for value in batch.values] == list(range(25_000))


def test_an_empty_frame_moves_the_cursor_on() -> None:
    for frame in (TABLE.slice(0, 0), pd.DataFrame(), pl.DataFrame(), pa.table({})):
        with run_task(yields(frame), CONFIG) as task:
            batch = task.poll()
        assert (batch.values, batch.offsets[0][1]) == ([], {"cursor": 1})


def test_rows_without_columns_are_refused() -> None:
    rows = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    with pytest.raises(DataError, match="There are rows without any column in the frame that the source function"):
        values(rows)


def test_columns_make_keys_topics_timestamps_and_headers() -> None:
    frame = pa.table({"id": [1, 2], "kind": ["a", "b"], "at": pa.array([NOON, None], pa.timestamp("ns"))})
    first, second = polled(frame, key_columns="id", topic="rows-${kind}", timestamp_column="at", headers_columns="kind")
    assert (first.key, first.topic, first.timestamp, first.headers) == (1, "rows-a", 1_795_521_600_000, [("kind", "a")])
    assert (second.key, second.topic, second.timestamp) == (2, "rows-b", None)


def test_the_key_of_the_decorator_is_a_column() -> None:
    @source(key="id")
    def keyed(config: Any, cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config, cursor
        yield TABLE, 2

    with run_task(keyed, CONFIG) as task:
        assert [record.key for record in task.poll().records] == [1, 2]


def test_a_frame_without_the_column_of_a_key_fails_with_its_columns() -> None:
    with pytest.raises(ConfigError, match=r"key\.columns names 'no', which is not a column; there are: id, name"):
        polled(TABLE, key_columns="no")


def test_the_columns_may_change_from_frame_to_frame() -> None:
    frames = [pa.table({"a": [1]}), pa.table({"a": ["x"], "b": [None]}), pa.table({"b": [2.5]})]
    with run_task(yields(*frames), CONFIG) as task:
        assert [task.poll().values for _ in frames] == [[{"a": 1}], [{"a": "x", "b": None}], [{"b": 2.5}]]


def test_the_function_continues_after_a_frame_once_it_is_written() -> None:
    seen: list[str] = []

    @source
    def reused(config: Any, cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        frame = pd.DataFrame({"id": [0.0, 0.0]})
        for number in range((cursor or 0) + 1, 4):
            frame["id"].to_numpy()[:] = number
            yield frame, number
            seen.append(f"after {number}")

    with run_task(reused, CONFIG) as task:
        for number in range(1, 4):
            assert task.poll().values == [{"id": number}] * 2
            assert seen == [f"after {before}" for before in range(1, number)]


def test_a_frame_after_a_retriable_error_is_yielded_again() -> None:
    failing = [True]

    @source
    def flaky(config: Any, cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        if not cursor:
            yield TABLE, 1
        if failing:
            failing.clear()
            raise RetriableError("not now")
        yield TABLE, 2

    with run_task(flaky, CONFIG) as task:
        assert [task.poll().offsets[0][1]["cursor"] for _ in range(2)] == [1, 2]


@source(key="id")
def tables(config: Any, cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Four frames of four rows, each followed by a single row."""
    del config
    for number in range(cursor or 0, 20, 5):
        yield pa.table({"id": range(number, number + 4)}), number + 4
        yield {"id": number + 4}, number + 5


@source
def pages(config: Any, cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Four frames of five rows."""
    del config
    for number in range(cursor or 0, 20, 5):
        yield pl.DataFrame({"id": range(number, number + 5)}), number + 5


@pytest.mark.parametrize("check", CHECKS, ids=str)
def test_a_function_that_yields_frames_passes_the_checks(check: Check) -> None:
    check(pages, CONFIG, Limits(call_s=60, stop_s=60))
