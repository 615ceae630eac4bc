"""Sources that are a function, and the short examples in README.md."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fencepost import ConfigError, DataError, source
from fencepost.testing import CHECKS, Check, Limits, run_task
from tests.unit.connectors.test_pyspark_source import Rows

CONFIG = {"topic": "rows", "poll.interval.ms": "20", "batch.rows": "5"}
README = Path(__file__).parents[3] / "README.md"


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


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("no pair", rf"wrong, defined at {__file__}:\d+, yielded an int: it must yield \(row, cursor"),
        ("no cursor", "yielded the cursor None"),
        ("own name", "a dict with another name than 'cursor'"),
    ],
)
def test_what_is_no_row_with_a_cursor_is_refused(what: str, message: str) -> None:
    with run_task(wrong, CONFIG | {"what": what}) as task, pytest.raises(DataError, match=message):
        task.poll()


def test_a_missing_key_is_named() -> None:
    @source(key="no")
    def keyless(config: Mapping[str, str], cursor: Any) -> Iterator[tuple[Any, Any]]:
        del config, cursor
        yield {"id": 1}, 1

    with run_task(keyless, CONFIG) as task, pytest.raises(DataError, match="has no field 'no'"):
        task.poll()


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
