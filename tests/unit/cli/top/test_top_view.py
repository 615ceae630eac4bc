"""The tables of `fencepost top`, without a terminal."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.cli.top.top_view import (
    COLUMNS,
    ERROR,
    TREND,
    Rates,
    age,
    columns_for,
    figure,
    first_workers,
    group_text,
    hidden_text,
    lines,
    problems,
    sparkline,
    traces,
    worker_lines,
    worst,
)

_NOW = 1_000_000_000


def _row(state: str = "RUNNING", *tasks: str, **more: Any) -> dict[str, Any]:
    figures = {"records": 7, "rate": 2.0, "lag": None, "skipped": 0, "restarts": 0, "open_since": None}
    named = [{"id": number, "state": each, "worker_id": f"w{number}:1"} for number, each in enumerate(tasks)]
    return {**figures, "last_commit": None, "state": state, "worker_id": "w:1", "error": None, "tasks": named, **more}


def _worker(tasks: int, connectors: int = 0, version: str | None = None, started: int | None = None) -> dict[str, Any]:
    return {"tasks": tasks, "connectors": connectors, "version": version, "started": started}


def _answer(rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "worker_id": "w:1",
        "group_id": "shop",
        "workers": {
            "w:1": _worker(1),
            "v:1": _worker(3, connectors=2, version="0.2.0", started=_NOW - 120_000),
            "idle:1": _worker(0),
        },
        "silent": {},
        "exactly_once": "enabled",
        "breaking": [],
        "membership": None,
        "rows": rows,
        "now": _NOW,
        **more,
    }


def test_failed_connectors_come_first_even_if_only_a_task_failed():
    rows = {
        "a": _row("RUNNING", "RUNNING"),
        "z": _row("RUNNING", "RUNNING", "FAILED"),
        "b": _row("PAUSED", "PAUSED"),
        "y": _row("FAILED"),
    }

    shown = list(lines(_answer(rows), {}, set(), Rates()))

    assert [(line.connector, line.state) for line in shown] == [
        ("y", "FAILED"), ("z", "FAILED"), ("b", "PAUSED"), ("a", "RUNNING"),
    ]  # fmt: skip


def test_a_state_that_is_not_known_is_not_hidden_at_the_end():
    assert worst(_row("RUNNING", "RUNNING", "NEW_STATE")) == "NEW_STATE"


def test_an_unfolded_connector_is_followed_by_its_tasks_with_their_figures():
    rows = {"a": _row("RUNNING", "RUNNING", "FAILED", rate=5.0, open_since=_NOW - 3_000, error="it broke\nat line 1")}
    tasks = {"a": [{**_row(), "task": 0, "rate": 1234.4, "last_commit": _NOW - 61_000}]}

    connector, first, second = lines(_answer(rows), tasks, {"a"}, Rates())

    assert (connector.key, first.key, second.key) == (("a", None), ("a", 0), ("a", 1))
    assert (connector.cells["tasks"], connector.cells["open"], connector.cells[ERROR]) == ("1/2", "3s", "it broke")
    assert connector.error == "it broke\nat line 1"
    assert (first.cells["rows/s"], first.cells["commit"], first.cells["worker"]) == ("1,234", "61s", "w0:1")
    assert (second.state, second.cells["worker"]) == ("FAILED", "w1:1")
    assert "rows/s" not in second.cells


def test_names_and_errors_cannot_control_the_terminal():
    (line,) = lines(_answer({"a\x1b[2J": _row(error="bad \x1b]0;title\x07")}), {}, set(), Rates())

    assert "\x1b" not in "".join(line.cells.values()) + line.error
    assert line.connector == "a\x1b[2J"


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        ("fencepost.engine.errors.RecordError: it broke", "RecordError: it broke"),
        ("org.apache.kafka.common.KafkaException: no", "KafkaException: no"),
        ("orders.csv has gone: look", "orders.csv has gone: look"),
    ],
)
def test_the_column_of_errors_leaves_modules_out(error: str, shown: str):
    (line,) = lines(_answer({"a": _row(error=error)}), {}, set(), Rates())

    assert (line.cells[ERROR], line.error) == (shown, error)


def test_sixty_columns_show_the_most_important_figures():
    columns = columns_for(60)

    assert [column.title for column in columns] == ["connector", "state", "tasks", "rows/s", "open", "commit"]
    assert sum(column.width + 2 for column in columns) <= 60


@pytest.mark.parametrize("width", range(1, 300, 7))
def test_columns_never_exceed_the_width(width: int):
    assert sum(column.width + 2 for column in columns_for(width, 40)) <= width


def test_a_wide_terminal_shows_all_columns_whole_names_and_longer_errors():
    columns = {column.title: column.width for column in columns_for(250, 40)}

    assert list(columns) == [column.title for column in COLUMNS]
    assert columns["connector"] == 40
    assert sum(columns.values()) + 2 * len(columns) == 250


def test_rates_are_kept_until_the_connector_is_deleted():
    rates = Rates()
    for rate in (1.0, 2.0):
        rates.add({"a": _row(rate=rate), "b": _row(rate=9.0)}, {"a": [{"task": 3, "rate": rate / 2}]})
    rates.add({"a": _row(rate=4.0)}, {})

    assert rates.of("a") == (1.0, 2.0, 4.0)
    assert (rates.of("b"), rates.of("a", 3)) == ((), ())
    (line,) = lines(_answer({"a": _row(rate=4.0)}), {}, set(), rates)
    assert line.cells[TREND] == "▃▅█"


@pytest.mark.parametrize(
    ("rates", "shown"),
    [((), ""), ((0.0, 0.0), "  "), ((0.0, 1.0), " █"), ((1e-9, 8.0), "▁█"), ((9.0, 1.0, 2.0, 2.0), "▅██")],
)
def test_a_sparkline_ends_with_the_newest_rates(rates: tuple[float, ...], shown: str):
    assert sparkline(rates, 3) == shown


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, ""), (0.4, "0"), (12_345, "12,345"), (999_999, "999,999"), (3_210_000, "3.21M"), (5e9, "5G"), (2e12, "2T")],
)
def test_numbers_are_abbreviated(value: float | None, shown: str):
    assert figure(value) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(-5, "0s"), (12, "12s"), (99, "99s"), (180, "3m"), (7_200, "2h"), (3 * 86_400, "3d")],
)
def test_ages_are_abbreviated(seconds: int, shown: str):
    assert age(_NOW - seconds * 1000, _NOW) == shown


def test_the_group_is_summed_up_and_its_problems_are_named():
    rows = {"a": _row(rate=3.0), "b": _row("FAILED", rate=0.0)}
    membership = {"rebalancing": True}
    answer = _answer(rows, breaking=["v:1"], silent={"u:1": "it is away"}, membership=membership)

    assert group_text(answer, 100) == (
        "group shop  exactly-once enabled  3 workers  2 connectors  1 FAILED  1 RUNNING  3 rows/s"
    )
    assert group_text(answer, 50).splitlines() == [
        "group shop  exactly-once enabled  3 workers", "2 connectors  1 FAILED  1 RUNNING  3 rows/s",
    ]  # fmt: skip
    assert problems(answer) == [
        "These workers break exactly-once delivery: v:1", "u:1 does not answer: it is away", "The group is rebalancing",
    ]  # fmt: skip
    assert worker_lines(answer, 60) == [
        "v:1  2 connectors  3 tasks  version 0.2.0  up 2m",
        "w:1  0 connectors  1 task  answers this",
        "idle:1  0 connectors  0 tasks",
    ]


def test_of_many_workers_those_with_most_tasks_are_listed():
    answer = _answer({}, workers={f"w{number}:1": _worker(number) for number in range(10)})

    assert first_workers(answer, 60, 7)[0] == "w9:1  0 connectors  9 tasks"
    assert first_workers(answer, 60, 7)[-2:] == [
        "w4:1  0 connectors  4 tasks", "and 4 more, 1 without tasks: w lists all",
    ]  # fmt: skip
    assert len(first_workers(answer, 60, 10)) == 10
    assert len(worker_lines(answer, 60)) == 10


@pytest.mark.parametrize("width", [40, 50, 60, 78])
def test_versions_and_ages_of_workers_with_long_names_are_never_cut(width: int):
    names = ["fencepost-10.fencepost.data.svc:8083", "connect." + "long-domain." * 9 + "example:8083", "w:1", "n" * 90]
    workers = {name: _worker(12, 3, "0.1.0", _NOW - 120_000) for name in names}
    shown = worker_lines(_answer({}, workers=workers, worker_id=""), width)

    assert all(len(line) <= width for line in shown), shown
    assert all(line.endswith("  3 c 12 t 0.1.0 up 2m") for line in shown)
    hosts = [line.split()[0] for line in shown]
    assert [host[-5:] for host in hosts if host.startswith(("f", "c"))] == [":8083", ":8083"]
    assert all(any(host.startswith(name[:5]) for host in hosts) for name in names)


def test_traces_belong_to_the_connector_or_to_one_task():
    status = {
        "connector": {"state": "FAILED", "worker_id": "w:1", "trace": "first\n"},
        "tasks": [
            {"id": 0, "state": "RUNNING", "worker_id": "w:1"},
            {"id": 1, "state": "FAILED", "worker_id": "v:1", "trace": "Traceback:\n  line\nsecond\x1b"},
        ],
    }

    assert traces(status, 1) == "Task 1 on v:1 is FAILED: second\\x1b\n\nTraceback:\n  line\nsecond\\x1b"
    assert traces(status) == f"The connector on w:1 is FAILED: first\n\nfirst\n\n{traces(status, 1)}"
    assert traces(status, 0) == ""


@pytest.mark.parametrize(
    ("count", "first", "room", "told"),
    [
        (5, 0, 5, ""),
        (6, 0, 5, "1 more below"),
        (6, 1, 5, "1 more above"),
        (2_000, 10, 5, "10 more above, 1,985 more below"),
        (3, 0, -1, "3 more below"),
        (0, 0, 5, ""),
    ],
)
def test_lines_out_of_sight_are_counted(count: int, first: int, room: int, told: str):
    assert hidden_text(count, first, room) == told
