"""The lines and cells in which `fencepost top` shows a group, for a terminal of any width.

The figures come from two answers for the page at /ui: the overview of the group, and the tasks of unfolded connectors.
"""

from __future__ import annotations

import re
import textwrap
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.texts import printable
from fencepost.cli.connectors.connector_views import FAILED
from fencepost.herder.core.observation import message_of

Json = Mapping[str, Any]

CONNECTOR: Final = "connector"
STATE: Final = "state"
TREND: Final = "trend"
ERROR: Final = "last error"

_ORDER: Final = (FAILED, "RESTARTING", "UNASSIGNED", "PAUSED", "STOPPED", "RUNNING")
_BARS: Final = "▁▂▃▄▅▆▇█"
# Ten minutes, with one value every two seconds.
_KEPT: Final = 300
_TREND_WIDTH: Final = 20
# The space beside each cell, on both sides.
_PADDING: Final = 2
_LONGEST_NAME: Final = 48
# A worker's name keeps at least this number of characters, even in the narrowest terminal.
_SHORTEST_NAME: Final = 12
_NO_BREAK: Final = "\N{NO-BREAK SPACE}"
# The module or package names before an exception's class, which do not fit into a column.
_MODULE: Final = re.compile(r"^(?:\w+\.)+(?=\w+:)")


@dataclass(frozen=True, slots=True)
class TopColumn:
    """A column of `width` characters. A terminal shows as many columns as fit, those with the lowest `rank` first."""

    title: str
    width: int
    rank: int
    right: bool = False


COLUMNS: Final = (
    TopColumn(CONNECTOR, 14, 0),
    TopColumn(STATE, 10, 1),
    TopColumn("tasks", 5, 4, right=True),
    TopColumn("rows/s", 7, 2, right=True),
    TopColumn(TREND, _TREND_WIDTH, 7),
    TopColumn("lag", 9, 6, right=True),
    TopColumn("open", 6, 3, right=True),
    TopColumn("commit", 6, 5, right=True),
    TopColumn("restarts", 8, 9, right=True),
    TopColumn("skipped", 7, 10, right=True),
    TopColumn("rows", 13, 11, right=True),
    TopColumn("worker", 21, 12),
    TopColumn(ERROR, 20, 8),
)


@dataclass(frozen=True, slots=True)
class Line:
    """A connector, or with a `task` one of its tasks. `cells` are texts by the titles of columns."""

    connector: str
    task: int | None
    state: str
    error: str
    cells: Mapping[str, str]

    @property
    def key(self) -> tuple[str, int | None]:
        """Identifies the line, also when it has moved."""
        return self.connector, self.task


class Rates:
    """The recent rates of connectors and tasks, in rows per second."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, int | None], deque[float]] = {}

    def add(self, rows: Mapping[str, Json], tasks: Mapping[str, Iterable[Json]]) -> None:
        """Add the rates of an answer, and forget connectors and tasks that are missing in it."""
        now = {(name, None): float(row["rate"]) for name, row in rows.items()} | {
            (name, int(task["task"])): float(task["rate"]) for name, found in tasks.items() for task in found
        }
        self._seen = {key: self._seen.get(key, deque(maxlen=_KEPT)) for key in now}
        for key, rate in now.items():
            self._seen[key].append(rate)

    def of(self, connector: str, task: int | None = None) -> Sequence[float]:
        """Return the recorded rates, the newest last."""
        return tuple(self._seen.get((connector, task), ()))


def columns_for(width: int, longest_name: int = 0) -> list[TopColumn]:
    """Return the columns that fit a terminal, in order; the remaining width goes to names and errors."""
    chosen: list[TopColumn] = []
    left = width
    for column in sorted(COLUMNS, key=lambda column: column.rank):
        if column.width + _PADDING > left:
            break
        left -= column.width + _PADDING
        chosen.append(column)
    name = COLUMNS[0].width
    more = max(0, min(longest_name, _LONGEST_NAME, name + left) - name)
    widths = {CONNECTOR: name + more, ERROR: COLUMNS[-1].width + left - more}
    return [
        TopColumn(column.title, widths.get(column.title, column.width), column.rank, column.right)
        for column in COLUMNS
        if column in chosen
    ]


def lines(answer: Json, tasks: Mapping[str, Iterable[Json]], unfolded: Collection[str], rates: Rates) -> Iterator[Line]:
    """Yield the connectors, failed ones first, then by name. Below each unfolded connector are its tasks."""
    now = int(answer["now"])
    for name, row in sorted(answer["rows"].items(), key=lambda item: (_rank(worst(item[1])), item[0])):
        yield _connector(name, row, now, rates)
        if name in unfolded:
            figures = {int(task["task"]): task for task in tasks.get(name, ())}
            for task in row["tasks"]:
                yield _task(name, task, figures.get(int(task["id"])), now, rates)


def worst(row: Json) -> str:
    """Return the most urgent state of a connector and its tasks."""
    return min((str(part["state"]) for part in (row, *row["tasks"])), key=_rank)


def _rank(state: str) -> int:
    return _ORDER.index(state) if state in _ORDER else 0


def _connector(name: str, row: Json, now: int, rates: Rates) -> Line:
    state = worst(row)
    running = sum(task["state"] == "RUNNING" for task in row["tasks"])
    cells = {
        CONNECTOR: name,
        "tasks": f"{running}/{len(row['tasks'])}",
        "worker": row["worker_id"],
        **_figures(row, now, rates.of(name)),
    }
    return _line(name, None, state, row["error"], cells)


def _task(name: str, task: Json, figures: Json | None, now: int, rates: Rates) -> Line:
    number = int(task["id"])
    cells = {CONNECTOR: f"  task {number}", "worker": task["worker_id"]}
    if figures is not None:
        cells |= _figures(figures, now, rates.of(name, number))
    return _line(name, number, task["state"], None, cells)


def _line(connector: str, task: int | None, state: str, error: str | None, cells: Mapping[str, str]) -> Line:
    error_text = printable(error or "")
    shown = {title: printable(cell) for title, cell in cells.items()}
    return Line(
        connector,
        task,
        state,
        error_text,
        {**shown, STATE: state, ERROR: _MODULE.sub("", error_text.partition("\n")[0])},
    )


def _figures(of: Json, now: int, rates: Sequence[float]) -> dict[str, str]:
    return {
        "rows/s": figure(of["rate"]),
        TREND: sparkline(rates, _TREND_WIDTH),
        "lag": figure(of["lag"]),
        "open": age(of["open_since"], now),
        "commit": age(of["last_commit"], now),
        "restarts": figure(of["restarts"]),
        "skipped": figure(of["skipped"]),
        "rows": figure(of["records"]),
    }


def sparkline(rates: Sequence[float], width: int) -> str:
    """Return the last rates as bars of eight heights.

    The greatest rate has the highest bar, and a rate of 0 is a blank.
    """
    shown = rates[-width:]
    top = max(shown, default=0.0)
    return "".join(" " if rate <= 0 else _BARS[min(7, int(rate / top * 8))] for rate in shown)


_UNITS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def figure(value: float | None) -> str:
    """Return a number in at most seven characters, empty for None: 12,345 or 3.21M."""
    if value is None:
        return ""
    for size, unit in _UNITS:
        if abs(value) >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:,.0f}"


def age(since_ms: int | None, now_ms: int) -> str:
    """Return the age of a time, empty for None: 12s, 3m, 5h or 2d."""
    if since_ms is None:
        return ""
    seconds = max(0, now_ms - since_ms) / 1000
    for limit, unit, name in ((100, 1, "s"), (6000, 60, "m"), (48 * 3600, 3600, "h")):
        if seconds < limit:
            return f"{seconds / unit:.0f}{name}"
    return f"{seconds / 86400:.0f}d"


def group_text(answer: Json, width: int) -> str:
    """Return the group, the setting of exactly-once delivery, and the sums of all connectors, in lines of `width`."""
    rows = answer["rows"].values()
    states = Counter(map(worst, rows))
    parts = [
        f"group {printable(answer['group_id'])}",
        f"exactly-once {answer['exactly_once']}",
        _many(len(answer["workers"]), "worker"),
        _many(len(rows), "connector"),
        *(f"{states[state]} {state}" for state in sorted(states, key=_rank)),
        f"{figure(sum(row['rate'] for row in rows))} rows/s",
    ]
    text = "  ".join(part.replace(" ", _NO_BREAK) for part in parts)
    return textwrap.fill(text, max(1, width), break_long_words=False, break_on_hyphens=False).replace(_NO_BREAK, " ")


def problems(answer: Json) -> list[str]:
    """Return the problems of the group itself: workers that do not answer, or that break exactly-once delivery."""
    lines = [f"{worker} does not answer: {printable(why)}" for worker, why in sorted(answer["silent"].items())]
    if answer["breaking"]:
        lines.insert(0, f"These workers break exactly-once delivery: {', '.join(answer['breaking'])}")
    if answer["membership"] is not None and answer["membership"]["rebalancing"]:
        lines.append("The group is rebalancing")
    return lines


def hidden_text(count: int, first: int, room: int) -> str:
    """Return how many of `count` lines are out of sight. The visible ones are `room` lines from number `first` on."""
    above, below = min(first, count), max(0, count - first - max(0, room))
    parts = [f"{number:,} more {where}" for number, where in ((above, "above"), (below, "below")) if number]
    return ", ".join(parts)


def worker_lines(answer: Json, width: int) -> list[str]:
    """Return all workers with the counts of their work, the busiest first, in lines of `width`.

    If one line is too long, all lines are abbreviated, and names are shortened in the middle: versions and ages are
    never cut.
    """
    workers = sorted(answer["workers"].items(), key=lambda item: (-item[1]["tasks"], item[0]))
    long = [_worker_line(answer, name, _worker(worker, answer["now"])) for name, worker in workers]
    if all(len(line) <= width for line in long):
        return long
    return [_worker_line(answer, name, _short_worker(worker, answer["now"]), width) for name, worker in workers]


def first_workers(answer: Json, width: int, room: int) -> list[str]:
    """Return the busiest workers in at most `room` lines; the last one says how many are left out."""
    every = worker_lines(answer, width)
    if len(every) <= room:
        return every
    left = len(every) - (room - 1)
    idle = min(left, sum(worker["tasks"] == 0 for worker in answer["workers"].values()))
    without = f", {idle} without tasks" * bool(idle)
    return [*every[: room - 1], f"and {left} more{without}: w lists all"]


def _worker_line(answer: Json, name: str, figures: str, width: int | None = None) -> str:
    end = f"  {figures}" + ("  answers this" if name == answer["worker_id"] else "")
    shown = printable(name)
    return (shown if width is None else _shortened(shown, width - len(end))) + end


def _worker(worker: Json, now_ms: int) -> str:
    parts = [_many(worker["connectors"], "connector"), _many(worker["tasks"], "task")]
    if worker["version"] is not None:
        parts += [f"version {printable(worker['version'])}", f"up {age(worker['started'], now_ms)}"]
    return "  ".join(parts)


def _short_worker(worker: Json, now_ms: int) -> str:
    text = f"{worker['connectors']:,} c {worker['tasks']:,} t"
    if worker["version"] is not None:
        text += f" {printable(worker['version'])} up {age(worker['started'], now_ms)}"
    return text


def _shortened(name: str, room: int) -> str:
    """Shorten a name to `room` characters, but not below a minimum: the start of the host and the port stay."""
    room = max(room, _SHORTEST_NAME)
    if len(name) <= room:
        return name
    port = len(name) - name.rfind(":") if ":" in name else 0
    end = min(max(port, room // 3), room - 1)
    return f"{name[: room - end - 1]}…{name[-end:]}"


def traces(status: Json, task: int | None = None) -> str:
    """Return the traces of a connector and its tasks, or of one task, from GET /connectors/NAME/status.

    Each trace stands below its message: in Python's traces the message is the last line, often out of sight.
    """
    parts = [(f"Task {part['id']}", part) for part in status["tasks"] if task is None or part["id"] == task]
    if task is None:
        parts.insert(0, ("The connector", status["connector"]))
    texts = [
        f"{what} on {part['worker_id']} is {part['state']}: {printable(message_of(part['trace']) or '')}\n\n"
        f"{printable(part['trace'].rstrip())}"
        for what, part in parts
        if part.get("trace")
    ]
    return "\n\n".join(texts)


def _many(number: int, thing: str) -> str:
    return f"{number:,} {thing}" + ("" if number == 1 else "s")
