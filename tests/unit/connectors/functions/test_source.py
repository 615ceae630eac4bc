"""Sources that are functions, and the short examples in README.md."""

from __future__ import annotations

import datetime as dt
import math
import re
import sys
import time
from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest
from pyspark.sql import Row

from fencepost import ConfigError, DataError, RetriableError, source
from fencepost.api.errors import PluginError
from fencepost.testing import CHECKS, Check, Limits, Violation, run_task
from tests.unit.connectors.functions.test_dataframes import Rows

CONFIG = {"topic": "rows", "poll.interval.ms": "20", "batch.rows": "5"}
README = Path(__file__).parents[4] / "README.md"


@source(key="id")
def rows(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Twelve rows."""
    for number in range((cursor or 0) + 1, int(config.get("end", "12")) + 1):
        yield {"id": number}, number


@source()
def pages(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Rows with a cursor of two parts."""
    del config
    start = (cursor["page"], cursor["row"]) if cursor else (0, 0)
    for page, row in [(0, 1), (0, 2), (1, 1), (2, 1), (2, 2), (2, 3)]:
        if (page, row) > start:
            yield f"{page}/{row}", {"page": page, "row": row}


@source()
def wrong(config: Mapping[str, str], cursor: Any) -> Iterator[Any]:
    """Yields the test's items."""
    del cursor
    yield {"no pair": 1, "no cursor": ("row", None), "own name": ("row", {"cursor": 1})}[config["what"]]


def test_a_function_is_a_connector_with_its_name() -> None:
    assert (rows.__name__, rows.__module__, rows.__doc__) == ("rows", __name__, "Twelve rows.")


def test_rows_come_in_batches_with_their_keys() -> None:
    with run_task(rows, CONFIG) as task:
        batches = [task.poll() for _ in range(3)]

    assert [[record.key for record in batch.records] for batch in batches] == [
        [1, 2, 3, 4, 5],
        [6, 7, 8, 9, 10],
        [11, 12],
    ]
    assert batches[0].offsets == [({"source": "rows"}, {"cursor": 5})]


def test_a_function_that_has_ended_is_called_again_with_its_cursor() -> None:
    with run_task(rows, CONFIG | {"end": "2"}) as task:
        assert task.poll().values == [{"id": 1}, {"id": 2}]
        assert not task.at_end()
        assert not task.poll_once()
        assert task.at_end()


def test_rows_before_a_retriable_error_are_not_lost() -> None:
    failures = iter([3, 3, 7])
    failing = next(failures)

    @source
    def flaky(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        nonlocal failing
        del config
        for number in range((cursor or 0) + 1, 10):
            if number == failing:
                failing = next(failures, 0)
                raise RetriableError("The API is away")
            yield number, number

    given: list[Any] = []
    with run_task(flaky, CONFIG) as task:
        while not task.at_end():
            given += task.poll_once().values
    assert given == list(range(1, 10))


@pytest.mark.parametrize("failing", [0, 4])
def test_a_function_may_change_its_cursor_after_it_was_yielded(failing: int) -> None:
    failures, ends = [failing], iter([3, 7, 7, 7])

    @source
    def counting(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        at, end = cursor or {"number": 0}, next(ends)
        while at["number"] < end:
            at["number"] += 1
            if at["number"] in failures:
                failures.clear()
                raise RetriableError("The API is away")
            yield at["number"], at
        at["number"] = 100

    given: list[Any] = []
    with run_task(counting, CONFIG) as task:
        while not task.at_end():
            given += task.poll_once().values
        task.commit()
    assert given == list(range(1, 8))
    assert task.offsets.items() == [({"source": counting.__qualname__}, {"number": 7})]


@pytest.mark.parametrize("row", [{"id": 0}, [0], bytearray(1)])
def test_later_changes_of_a_yielded_row_have_no_effect(row: Any) -> None:
    @source
    def reused(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        for number in range((cursor or 0) + 1, 4):
            row["id" if isinstance(row, dict) else 0] = number
            yield row, number

    with run_task(reused, CONFIG) as task:
        values = task.poll().values
    assert [value["id"] if isinstance(value, dict) else value[0] for value in values] == [1, 2, 3]


def test_later_changes_within_a_yielded_row_have_no_effect() -> None:
    @source
    def reused(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        row: dict[str, Any] = {"by_name": {}, "in_list": [[0]]}
        for number in range((cursor or 0) + 1, 4):
            row["by_name"]["id"] = row["in_list"][0][0] = number
            yield row, number

    with run_task(reused, CONFIG) as task:
        values = task.poll().values
    assert values == [{"by_name": {"id": number}, "in_list": [[number]]} for number in (1, 2, 3)]


@pytest.mark.parametrize(
    "cursor",
    [dt.date(2020, 1, 1), Decimal(1), b"x", [1], {"a": [1]}, {"a": {"b": 1}}, {1: 2}, np.int64(1), math.nan, 2**63],
    ids=repr,
)
def test_a_cursor_that_cannot_be_stored_names_the_function(cursor: Any) -> None:
    @source
    def odd(config: Mapping[str, str], before: Any) -> Iterator[tuple[Any, Any]]:
        del config, before
        yield "row", cursor

    where = rf"The source function .*odd, defined at {re.escape(__file__)}:\d+, yielded the cursor "
    with run_task(odd, CONFIG) as task, pytest.raises(DataError, match=where):
        task.poll()


class _Place(NamedTuple):
    kind: str
    at: list[int]


@pytest.mark.parametrize(
    ("wrapped", "rows"),
    [
        (lambda filled: ("gps", filled), [("gps", [1]), ("gps", [2])]),
        (lambda filled: {"place": _Place("gps", filled)}, [{"place": ("gps", [1])}, {"place": ("gps", [2])}]),
        (lambda filled: UserDict({"at": filled}), [{"at": [1]}, {"at": [2]}]),
        (lambda filled: MappingProxyType({"at": {"deep": filled}}), [{"at": {"deep": [1]}}, {"at": {"deep": [2]}}]),
    ],
    ids=["tuple", "named tuple", "UserDict", "MappingProxyType"],
)
def test_a_list_within_any_container_may_be_filled_again(wrapped: Callable[[list[int]], Any], rows: list[Any]) -> None:
    @source
    def reused(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        filled = [0]
        row = wrapped(filled)
        for number in range((cursor or 0) + 1, 3):
            filled[0] = number
            yield row, number

    with run_task(reused, CONFIG) as task:
        assert task.poll().values == rows


def test_a_poll_does_not_wait_as_long_as_a_long_interval() -> None:
    """The rows of the previous poll may be in an open transaction, which ends after the poll."""
    with run_task(rows, CONFIG | {"poll.interval.ms": "86400000", "batch.rows": "20"}) as task:
        assert len(task.poll().values) == 12
        assert task.poll_once().values == []


@pytest.mark.parametrize("kind", [time.struct_time, lambda parts: Row(*parts)], ids=["struct_time", "Row"])
def test_a_tuple_of_any_class_is_read(kind: Callable[[Sequence[int]], Any]) -> None:
    @source
    def dated(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        if cursor is None:
            yield {"published": kind(range(9))}, 1

    with run_task(dated, CONFIG) as task:
        assert task.poll().values == [{"published": tuple(range(9))}]


@pytest.mark.parametrize("column", ["", "data"])
def test_a_buffer_behind_a_memoryview_may_be_filled_again(column: str) -> None:
    @source
    def reused(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        buffer = bytearray(1)
        view = memoryview(buffer)
        for number in range((cursor or 0) + 1, 3):
            buffer[0] = number
            yield {"data": view} if column else view, number

    with run_task(reused, CONFIG) as task:
        values = task.poll().values
    assert [bytes(value["data"] if column else value) for value in values] == [b"\x01", b"\x02"]


@pytest.mark.parametrize(
    ("row", "advice"),
    [
        (dt.datetime(2020, 1, 1, microsecond=123456, tzinfo=dt.UTC), r"Give value\.isoformat\(\)"),
        (dt.date(2020, 1, 1), r"Give value\.isoformat\(\)"),
        (Decimal("1.1"), r"Give str\(value\)"),
        (math.nan, "Give None"),
        (-math.inf, "Give None"),
        (np.uint64(2**64 - 1), r"Give value\.item\(\)"),
        (np.float64("nan"), "Give None"),
    ],
)
def test_a_row_of_another_type_is_refused_as_within_a_dict(row: Any, advice: str) -> None:
    @source
    def odd(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config
        if cursor is None:
            yield row, 1

    with run_task(odd, CONFIG) as task, pytest.raises(DataError, match=advice):
        task.poll()


def test_a_row_that_contains_itself_is_left_to_the_converter() -> None:
    endless: list[Any] = []
    endless.append(endless)

    @source
    def one(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config, cursor
        yield endless, 1

    with run_task(one, CONFIG) as task:
        (value,) = task.poll().values
    assert value is endless


@pytest.mark.parametrize(("name", "value"), [("batch.rows", "0"), ("poll.interval.ms", "-1")])
def test_numbers_that_have_no_meaning_are_refused(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"{name}: it must be at least"):
        run_task(rows, CONFIG | {name: value})


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("no pair", rf"wrong, defined at {__file__}:\d+, yielded an int: it must yield \(row, cursor"),
        ("no cursor", "yielded the cursor None"),
        ("own name", "a dict whose only name is not 'cursor'"),
    ],
)
def test_anything_but_a_row_with_a_cursor_is_refused(what: str, message: str) -> None:
    with run_task(wrong, CONFIG | {"what": what}) as task, pytest.raises(DataError, match=message):
        task.poll()


def test_a_missing_key_is_named() -> None:
    @source(key="no")
    def keyless(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config, cursor
        yield {"id": 1}, 1

    with run_task(keyless, CONFIG) as task, pytest.raises(DataError, match=r"key\.columns names 'no', which"):
        task.poll()


@source
def bare(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Uses the decorator without parentheses."""
    del config
    if cursor is None:
        yield "only", 1


@source()
def broken(config: Mapping[str, str], cursor: Any) -> Any:
    """Raises the test's error."""
    del cursor
    if config["how"] == "returns":
        return None
    raise KeyError("id")


@source()
def broken_in_the_middle(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Fails after a row."""
    del config, cursor
    yield "row", 1
    raise KeyError("id")


@source()
def inclusive(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
    """Starts with the cursor's own row again."""
    del config
    for number in range(cursor or 0, 5):
        yield number, number


def test_the_decorator_needs_no_parentheses() -> None:
    with run_task(bare, CONFIG) as task:
        assert task.poll().values == ["only"]


async def _async(config: Any, cursor: Any) -> Any:
    yield config, cursor


def _one_argument(config: Any) -> Any:
    yield config, 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("id", r"source\(key='id'\)"),
        (3, "was given an int"),
        (str, "was given the class str"),
        (_async, "the async function _async"),
        (_one_argument, r"_one_argument\(.*: it takes a function\(config, cursor\)"),
    ],
)
def test_anything_but_a_source_function_is_refused(function: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        source(function)


def test_a_function_that_returns_nothing_is_refused_with_its_line() -> None:
    expected = rf"broken, defined at {__file__}:\d+, returned None: it must return \(row, cursor\) pairs: yield each"
    with run_task(broken, CONFIG | {"how": "returns"}) as task, pytest.raises(PluginError, match=expected):
        task.poll()


def _line(text: str) -> int:
    return next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("function", "check", "line"),
    [
        (broken, "reads_the_source", 'raise KeyError("id")'),
        (broken_in_the_middle, "reads_the_source", None),
        (inclusive, "resumes_from_every_offset", None),
    ],
)
def test_a_failed_check_names_the_line_of_the_function(function: Any, check: str, line: str | None) -> None:
    (run,) = [each for each in CHECKS if each.name == check]
    with pytest.raises(Violation) as found:
        run(function, CONFIG | {"how": "raises"}, Limits(call_s=120, stop_s=120))
    assert found.value.where is not None
    file, _, number = found.value.where.rpartition(":")
    assert file == __file__
    if line is not None:
        assert int(number) == _line(line)


@pytest.mark.parametrize("partition", [{"source": "row"}, None])
def test_offsets_that_the_function_would_not_get_are_refused(partition: Any) -> None:
    message = re.escape(f"no source partition {partition}. Its only one is {{'source': 'rows'}}")
    with pytest.raises(ConfigError, match=message):
        rows().alter_offsets(CONFIG, [(partition, {"cursor": 5})])


def test_offsets_of_the_function_are_taken_and_any_are_removed() -> None:
    assert rows().alter_offsets(CONFIG, [({"source": "rows"}, {"cursor": 5}), ({"source": "former name"}, None)])
    assert pages().alter_offsets(CONFIG, [({"source": "pages"}, {"page": 1, "row": 2})])


def test_the_topic_is_required() -> None:
    with pytest.raises(ConfigError, match="topic is required"):
        run_task(rows, {})


@pytest.mark.parametrize("check", CHECKS, ids=str)
@pytest.mark.parametrize("function", [rows, pages])
def test_functions_pass_the_checks(check: Check, function: Any) -> None:
    check(function, CONFIG, Limits(call_s=120, stop_s=120))


def _examples() -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", README.read_text(), re.MULTILINE | re.DOTALL)


def test_the_function_in_the_readme_runs() -> None:
    (code,) = [code for code in _examples() if "@source" in code]
    scope: dict[str, Any] = {"__name__": "my_module"}
    exec(code, scope)  # noqa: S102 - our own text
    with run_task(scope["issues"], CONFIG) as task:
        assert task.poll().values[0] == {"id": 1, "title": "Issue 1"}
        task.commit()
    with run_task(scope["issues"], CONFIG, offsets=task.offsets) as again:
        assert again.poll().values[0] == {"id": 6, "title": "Issue 6"}


def test_the_data_source_in_the_readme_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    (code,) = [code for code in _examples() if "pyspark_source" in code]
    module = ModuleType("my_data_source")
    module.Readings = type("Readings", (Rows,), {})  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "my_data_source", module)
    scope: dict[str, Any] = {"__name__": "my_module"}
    exec(code, scope)  # noqa: S102 - our own text
    with run_task(scope["ReadingsConnector"], CONFIG) as task:
        assert task.poll().values[0] == {"id": 0, "name": "row 0"}
