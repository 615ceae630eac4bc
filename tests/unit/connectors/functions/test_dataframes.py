"""PySpark data sources as connectors. docs/guide/simple-sources.md has one that Spark's executors read."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    SimpleDataSourceStreamReader,
)
from pyspark.sql.types import ArrayType, MapType, StringType, StructField, StructType

from fencepost import ConfigError, DataError, SourceConnector
from fencepost.api.ddl import parse_columns
from fencepost.api.traces import plugin_location
from fencepost.connectors.functions.dataframes import pyspark_source
from fencepost.testing import CHECKS, Check, Limits, Violation, run_task

END = 12
CONFIG = {"topic": "rows", "poll.interval.ms": "20"}


class Part(InputPartition):
    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, end


class Reader(DataSourceStreamReader):
    """Five rows for each offset, in two partitions."""

    committed: list[dict[str, Any]]

    def __init__(self, *, arrow: bool) -> None:
        self.arrow = arrow
        self.committed = []

    def initialOffset(self) -> dict[str, Any]:
        return {"rows": {"index": 0}}

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        del limit
        return {"rows": {"index": min(start["rows"]["index"] + 5, END)}}

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        first, last = start["rows"]["index"], end["rows"]["index"]
        return [Part(first, first + 2), Part(first + 2, last)]

    def read(self, partition: Any) -> Iterator[Any]:
        numbers = range(partition.start, partition.end)
        if self.arrow:
            names = pa.array([f"row {number}" for number in numbers], pa.string())
            yield pa.record_batch({"id": pa.array(numbers, pa.int32()), "name": names})
        else:
            yield from ((number, f"row {number}") for number in numbers)

    def commit(self, end: dict[str, Any]) -> None:
        self.committed.append(end)


class OldReader(Reader):
    """A reader with the interface of Spark before 4.2."""

    def latestOffset(self) -> dict[str, Any]:  # type: ignore[override]
        return {"rows": {"index": END}}


class Rows(DataSource):
    """An option chooses its reader."""

    def schema(self) -> str:
        return "id INT, name STRING"

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        kind = self.options.get("kind", "")
        return OldReader(arrow=False) if kind == "old" else Reader(arrow=kind == "arrow")


class SimpleReader(SimpleDataSourceStreamReader):
    def initialOffset(self) -> dict[str, Any]:
        return {"index": 0}

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        end = min(start["index"] + 5, END)
        return iter([(number, f"row {number}") for number in range(start["index"], end)]), {"index": end}

    def readBetweenOffsets(self, start: dict[str, Any], end: dict[str, Any]) -> Iterator[tuple[Any, ...]]:
        raise NotImplementedError


class StuckReader(SimpleReader):
    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        return iter([(1, "row 1")]), start


class Simple(Rows):
    """Has only a simple reader."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return DataSource.streamReader(self, schema)

    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        del schema
        return StuckReader() if self.options.get("kind") == "stuck" else SimpleReader()


class Bounded(DataSource):
    """Has no stream reader."""

    def schema(self) -> str:
        return "id INT"

    def reader(self, schema: StructType) -> DataSourceReader:
        raise NotImplementedError


RowsConnector = pyspark_source(Rows)
SimpleConnector = pyspark_source(Simple)
BoundedConnector = pyspark_source(Bounded)


@pytest.mark.parametrize("kind", ["tuples", "arrow", "old"])
def test_rows_are_read_in_the_order_of_the_partitions(kind: str) -> None:
    with run_task(RowsConnector, CONFIG | {"kind": kind}) as task:
        values = [value for _ in range(1 if kind == "old" else 3) for value in task.poll().values]

    assert values == [{"id": number, "name": f"row {number}"} for number in range(END)]


def test_the_offset_is_the_readers_offset_as_json() -> None:
    with run_task(RowsConnector, CONFIG) as task:
        polled = task.poll()

    assert polled.offsets == [({"source": "Rows"}, {"offset": '{"rows": {"index": 5}}'})]


class OneOffset(Reader):
    """Changes one dict in place and returns it each time."""

    at: dict[str, Any]

    def initialOffset(self) -> dict[str, Any]:
        self.at = {"rows": {"index": 0}}
        return self.at

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        del limit, start
        self.at["rows"]["index"] = min(self.at["rows"]["index"] + 5, END)
        return self.at


class OneOffsetSimple(SimpleReader):
    """Changes the given offset in place."""

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        rows, end = super().read(start)
        start.update(end)
        return rows, start


class Reused(Rows):
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        return OneOffset(arrow=False)


class ReusedSimple(Simple):
    def simpleStreamReader(self, schema: StructType) -> SimpleDataSourceStreamReader:
        del schema
        return OneOffsetSimple()


@pytest.mark.parametrize("data_source", [Reused, ReusedSimple])
def test_a_reader_may_change_its_offset_object_in_place(data_source: type[DataSource]) -> None:
    with run_task(pyspark_source(data_source), CONFIG) as task:
        ids = [value["id"] for _ in range(3) for value in task.poll().values]
    assert ids == list(range(END))


def test_the_columns_of_the_key_are_chosen() -> None:
    with run_task(RowsConnector, CONFIG | {"key.columns": "id"}) as task:
        assert [record.key for record in task.poll().records] == [0, 1, 2, 3, 4]
    with pytest.raises(ConfigError, match="names 'no', which is not a column"):
        run_task(RowsConnector, CONFIG | {"key.columns": "no"})


def test_topics_and_headers_come_from_columns() -> None:
    with run_task(RowsConnector, CONFIG | {"topic": "rows-${id}", "headers.columns": "name"}) as task:
        records = task.poll().records
    assert [(record.topic, record.headers) for record in records] == [
        (f"rows-{n}", [("name", f"row {n}")]) for n in range(5)
    ]


def test_a_commit_is_passed_to_the_reader() -> None:
    with run_task(RowsConnector, CONFIG) as task:
        task.poll()
        task.commit()
        assert task._instance._task._reader.committed == [{"rows": {"index": 5}}]  # type: ignore[attr-defined]


def test_rows_without_an_advancing_offset_are_refused() -> None:
    with (
        run_task(SimpleConnector, CONFIG | {"kind": "stuck"}) as task,
        pytest.raises(DataError, match="did not advance"),
    ):
        task.poll()


def test_a_data_source_without_a_stream_reader_is_refused() -> None:
    with pytest.raises(ConfigError, match="Bounded has no stream reader"):
        run_task(BoundedConnector, CONFIG)


_NAME = StructField("name", StringType())
_TWICE = StructType([_NAME, _NAME])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("id INT, name VARCHAR(10)", "write STRING for CHAR and VARCHAR"),
        ("id INT, names ARRAY<CHAR(3)>", "write STRING for CHAR and VARCHAR"),
        (_TWICE, "has the field name twice"),
        (StructType([StructField("who", _TWICE)]), r"has the field who\.name twice"),
        (StructType([StructField("who", ArrayType(_TWICE))]), r"has the field who\[\]\.name twice"),
        (StructType([StructField("who", MapType(StringType(), _TWICE))]), r"has the field who\[value\]\.name twice"),
    ],
)
def test_columns_that_rows_cannot_have_are_refused(columns: str | StructType, message: str) -> None:
    class Odd(Rows):
        def schema(self) -> Any:
            return columns

    with pytest.raises(ConfigError, match=rf"The schema of the data source .*Odd .*{message}"):
        run_task(pyspark_source(Odd), CONFIG)


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("connector", [RowsConnector, SimpleConnector])
def test_both_kinds_of_readers_pass_the_checks(check: Check, connector: type[SourceConnector]) -> None:
    check(connector, CONFIG, Limits(call_s=120, stop_s=120))


class NoRoute(Rows):
    """streamReader() fails."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        raise KeyError("id")


class NoOffset(Rows):
    """A method of its reader fails."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        return FailingReader(arrow=False)


class FailingReader(Reader):
    """latestOffset() fails."""

    def latestOffset(self, start: dict[str, Any], limit: Any) -> dict[str, Any]:
        del start, limit
        raise KeyError("id")


@pytest.mark.parametrize("data_source", [NoRoute, NoOffset])
def test_an_error_of_a_data_source_has_the_line_of_its_code(data_source: type[DataSource]) -> None:
    with pytest.raises(KeyError) as raised, run_task(pyspark_source(data_source), CONFIG) as task:
        task.poll()
    location = plugin_location(raised.value)
    assert location is not None
    file, _, line = location.rpartition(":")
    assert (file, Path(file).read_text().splitlines()[int(line) - 1].strip()) == (__file__, 'raise KeyError("id")')


def test_a_failed_check_names_the_line_of_the_data_source() -> None:
    check = next(each for each in CHECKS if each.name == "resumes_from_every_offset")
    with pytest.raises(Violation) as found:
        check(pyspark_source(Unstable), CONFIG, Limits(call_s=120, stop_s=120))
    assert found.value.where is not None
    assert found.value.code == "class Unstable(Rows):"


class Unstable(Rows):
    """Its rows depend on the time of its start."""

    started = itertools.count()

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        del schema
        return UnstableReader(next(self.started))


class UnstableReader(Reader):
    """Numbers its rows from its own start on."""

    def __init__(self, first: int) -> None:
        super().__init__(arrow=False)
        self.first = first

    def read(self, partition: Any) -> Iterator[Any]:
        yield from ((self.first + number, "row") for number in range(partition.start, partition.end))


class Declared(DataSource):
    """Its columns depend on an option."""

    def schema(self) -> str:
        if "wide" not in self.options:
            raise ValueError("who asks?")
        return "id INT, name STRING" if self.options["wide"] == "true" else "id INT"


@pytest.mark.parametrize(
    ("config", "known"),
    [
        ({"wide": "false"}, {"rows": "value STRUCT<id: INT>"}),
        ({"wide": "true", "key.columns": "id"}, {"rows": "value STRUCT<id: INT, name: STRING>, key INT"}),
        ({"wide": "true", "topic.column": "name"}, {}),
        ({"wide": "true", "topic": "rows-${name}"}, {}),
        ({}, {}),
    ],
)
def test_the_columns_are_known_before_anything_is_read(config: dict[str, str], known: dict[str, str]):
    found = pyspark_source(Declared)().known_schemas(CONFIG | config)
    assert {topic: parse_columns(ddl) for topic, ddl in found.items()} == {
        topic: parse_columns(ddl) for topic, ddl in known.items()
    }
