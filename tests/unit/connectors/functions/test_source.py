"""Sources that are a function, and the short examples in README.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

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
    """Rows whose cursor has two parts."""
    del config
    start = (cursor["page"], cursor["row"]) if cursor else (0, 0)
    for page, row in [(0, 1), (0, 2), (1, 1), (2, 1), (2, 2), (2, 3)]:
        if (page, row) > start:
            yield f"{page}/{row}", {"page": page, "row": row}


@source()
def wrong(config: Mapping[str, str], cursor: Any) -> Iterator[Any]:
    """Yields what the test gives."""
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
        ("own name", "a dict with another name than 'cursor'"),
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
    """Needs no parentheses."""
    del config
    if cursor is None:
        yield "only", 1


@source()
def broken(config: Mapping[str, str], cursor: Any) -> Any:
    """Fails as the test says."""
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
    """The row of the cursor comes again."""
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
