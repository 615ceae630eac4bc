"""The terminal application of `fencepost top`. Importing this raises ModuleNotFoundError without textual.

every 2 s, and after each request: overview of the group, tasks of unfolded connectors ──> lines ──> table
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, Final
from urllib.parse import quote

from rich.text import Text
from textual import work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.coordinate import Coordinate
from textual.events import Resize
from textual.widgets import DataTable, Footer, Static

from fencepost.api.errors import FencepostError
from fencepost.api.texts import printable
from fencepost.cli.common.connect_client import ConnectClient, RequestRefusedError, connector_path
from fencepost.cli.connectors.connector_views import STYLES, is_restarting
from fencepost.cli.top.top_screens import TraceScreen, WorkersScreen
from fencepost.cli.top.top_view import (
    CONNECTOR,
    STATE,
    Line,
    Rates,
    TopColumn,
    columns_for,
    first_workers,
    group_text,
    hidden_text,
    lines,
    problems,
    traces,
)

OVERVIEW: Final = "/ui/api/overview"

_REFRESH_SECONDS: Final = 2.0
_TICK_SECONDS: Final = 1.0
# A worker waits up to 5 s for the others of its group. A worker that hangs must not block requests to others.
_ANSWER_SECONDS: Final = 15.0
# Older figures are shown with their age.
_OLD_SECONDS: Final = 5.0
_REBALANCE_SECONDS: Final = 30.0
_SCROLLBAR: Final = 1
# The margin of a text outside of the table, on both sides.
_MARGINS: Final = 2
# The workers take a quarter of the terminal, and at least this many lines on a small one.
_WORKERS: Final = 4


class TopApp(App[None]):
    """Shows the group of a worker until it is quit. Workers that do not answer are asked again."""

    CSS: ClassVar[str] = """
    #head, #problem, #detail, #workers { height: auto; padding: 0 1; }
    #problem { color: $text-error; }
    #detail, #workers { border-top: solid $surface-lighten-2; }
    #detail { max-height: 30%; border-title-color: $text; }
    #workers { text-wrap: nowrap; text-overflow: ellipsis; }
    DataTable { height: 1fr; scrollbar-size-vertical: 1; scrollbar-size-horizontal: 1; }
    TraceScreen, WorkersScreen { background: $background 60%; }
    TraceScreen VerticalScroll, WorkersScreen VerticalScroll { background: $surface; padding: 0 1; }
    WorkersScreen VerticalScroll { border: solid $surface-lighten-2; border-title-color: $text; }
    WorkersScreen Static { height: auto; text-wrap: nowrap; text-overflow: ellipsis; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("q", "quit", "Quit"),
        Binding("ctrl+c", "quit", show=False, priority=True),
        # The table itself handles Enter, which is not listed in the footer.
        Binding("space", "unfold", "Tasks", key_display="␣"),
        Binding("t", "trace", "Trace"),
        Binding("p", "pause", "Pause"),
        Binding("r", "resume", "Resume"),
        Binding("s", "restart", "Restart"),
        Binding("w", "workers", "Workers"),
        Binding("h", "hide_workers", show=False),
    ]
    ENABLE_COMMAND_PALETTE = False
    TITLE = "fencepost top"

    def __init__(self, *urls: str) -> None:
        """Ask one of the workers at these addresses. Raises ConfigError for an invalid one."""
        super().__init__()
        self._reading = ConnectClient(*urls, retry_seconds=0, answer_seconds=_ANSWER_SECONDS)
        self._changing = ConnectClient(*urls, retry_seconds=_REBALANCE_SECONDS)
        self.rates = Rates()
        """The rates that were seen since the start."""
        self._unfolded: set[str] = set()
        self._answer: dict[str, Any] | None = None
        self._tasks: dict[str, list[dict[str, Any]]] = {}
        self._answered_at = time.monotonic()
        self._failure = ""
        self._lines: list[Line] = []
        self._columns: list[TopColumn] = []
        self._due = asyncio.Event()
        self._head_part, self._problem_part = Static(id="head"), Static(id="problem")
        self._grid: DataTable[Text] = DataTable(cursor_type="row")
        self._detail_part, self._workers_part = Static(id="detail"), Static(id="workers")

    def compose(self) -> ComposeResult:
        """Lay out the group, the table, and the details of the selected line."""
        yield self._head_part
        yield self._problem_part
        yield self._grid
        yield self._detail_part
        yield self._workers_part
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Start requesting."""
        self._follow()
        self.watch(self._grid, "scroll_y", self._show_hidden)
        self.set_interval(_TICK_SECONDS, self._show_head)

    @property
    def _open(self) -> bool:
        """Whether the screen is still there: events and answers also arrive while the application closes."""
        return self._grid.is_attached

    @work
    async def _follow(self) -> None:
        while True:
            self._due.clear()
            await self._read_overview()
            self._show()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._due.wait(), _REFRESH_SECONDS)

    async def _read_overview(self) -> None:
        try:
            answer = await self._reading.request("GET", OVERVIEW)
            self._unfolded &= answer["rows"].keys()
            self._tasks = {name: await self._tasks_of(name) for name in sorted(self._unfolded)}
        except FencepostError as error:
            self._failure = printable(str(error))
            return
        self._answer, self._failure, self._answered_at = answer, "", time.monotonic()
        self.rates.add(answer["rows"], self._tasks)

    async def _tasks_of(self, connector: str) -> list[dict[str, Any]]:
        try:
            answer = await self._reading.request("GET", f"/ui/api/connectors/{quote(connector, safe='')}")
        except RequestRefusedError:
            # The connector has just been deleted, or the group rebalances: states are shown without figures.
            return []
        tasks: list[dict[str, Any]] = answer["tasks"]
        return tasks

    def _show(self) -> None:
        self._show_head()
        if self._open and self._answer is not None:
            chosen = self._line()
            self._lines = list(lines(self._answer, self._tasks, self._unfolded, self.rates))
            self._show_table(chosen)
            self._show_detail()
            self._show_workers(self._answer)

    def _show_workers(self, answer: dict[str, Any]) -> None:
        width, room = self.size.width - _MARGINS, max(_WORKERS, self.size.height // 4)
        self._workers_part.update(Text("\n".join(first_workers(answer, width, room))))
        if isinstance(self.screen, WorkersScreen):
            self.screen.show(answer)

    def _show_head(self) -> None:
        if not self._open:
            return
        answer = self._answer
        self._head_part.update(
            Text("Asking the worker ..." if answer is None else group_text(answer, self.size.width - _MARGINS))
        )
        lines = [] if answer is None else problems(answer)
        old = time.monotonic() - self._answered_at
        if self._failure:
            lines.insert(0, f"{self._failure}. Asking again; the figures are {old:.0f} s old")
        elif old > _OLD_SECONDS:
            lines.insert(0, f"The worker has not answered for {old:.0f} s")
        self._problem_part.update(Text("\n".join(lines)))
        self._problem_part.display = bool(lines)

    def _show_table(self, chosen: Line | None) -> None:
        table = self._grid
        scrolled = table.scroll_y
        longest = max((len(line.cells[CONNECTOR]) for line in self._lines), default=0)
        columns = columns_for(self.size.width - _SCROLLBAR, longest)
        if columns != self._columns:
            self._columns = columns
            table.clear(columns=True)
            for column in columns:
                table.add_column(Text(column.title, justify="right" if column.right else "left"), width=column.width)
        if table.row_count != len(self._lines):
            table.clear()
            table.add_rows(self._cells(line) for line in self._lines)
        else:
            for row, line in enumerate(self._lines):
                for at, cell in enumerate(self._cells(line)):
                    table.update_cell_at(Coordinate(row, at), cell)
        self._keep(chosen, scrolled)

    def _keep(self, chosen: Line | None, scrolled: float) -> None:
        """Keep the cursor on the selected line, wherever it has moved."""
        places = [at for at, line in enumerate(self._lines) if chosen is not None and line.key == chosen.key]
        if places:
            self._grid.move_cursor(row=places[0], scroll=False)
            self._grid.scroll_to(y=scrolled, animate=False)

    def _show_hidden(self) -> None:
        """Show below the table how many lines are out of sight: without colours, a scrollbar is hardly visible."""
        table = self._grid
        room = table.scrollable_content_region.height - table.header_height
        self._detail_part.border_title = hidden_text(table.row_count, round(table.scroll_y), room)

    def _cells(self, line: Line) -> Iterable[Text]:
        for column in self._columns:
            text = Text(line.cells.get(column.title, ""), no_wrap=True, justify="right" if column.right else "left")
            text.truncate(column.width, overflow="ellipsis")
            if column.title == STATE:
                text.stylize(STYLES.get(line.state, ""))
            yield text

    def _line(self) -> Line | None:
        row = self._grid.cursor_row
        return self._lines[row] if 0 <= row < len(self._lines) else None

    def _show_detail(self) -> None:
        line = self._line()
        text = "There are no connectors." if line is None else line.cells[CONNECTOR].strip()
        if line is not None and self._answer is not None:
            row = self._answer["rows"][line.connector]
            text += f"  {row['class']}  on {line.cells['worker'] or 'no worker'}"
            error = line.error or (row["error"] or "")
            text += f"\n{error}" * bool(error)
        self._detail_part.update(Text(printable(text)))
        # The new details may change the height of the table.
        self.call_after_refresh(self._show_hidden)

    def on_data_table_row_highlighted(self) -> None:
        """Show the details of the line under the cursor."""
        if self._open:
            self._show_detail()

    def on_data_table_row_selected(self) -> None:
        """Show or hide the tasks of the connector."""
        self.action_unfold()

    def on_resize(self, _: Resize) -> None:
        """Show the columns that fit."""
        self._show()
        self.call_after_refresh(self._show_hidden)

    def action_unfold(self) -> None:
        """Show or hide the tasks of the connector."""
        if (line := self._line()) is not None:
            self._unfolded ^= {line.connector}
            self._due.set()

    def action_workers(self) -> None:
        """List all workers."""
        if self._answer is not None:
            self.push_screen(WorkersScreen(self._answer))

    def action_hide_workers(self) -> None:
        """Show or hide the workers below the table."""
        self._workers_part.display = not self._workers_part.display

    def action_pause(self) -> None:
        """Pause the connector."""
        self._ask("Pausing", "PUT", lambda line: connector_path(line.connector, "pause"))

    def action_resume(self) -> None:
        """Resume the connector."""
        self._ask("Resuming", "PUT", lambda line: connector_path(line.connector, "resume"))

    def action_restart(self) -> None:
        """Restart the failed parts of the connector."""
        self._ask(
            "Restarting what failed of",
            "POST",
            lambda line: connector_path(line.connector, "restart"),
            {"includeTasks": "true", "onlyFailed": "true"},
        )

    def action_trace(self) -> None:
        """Show why the connector, or the task, failed."""
        if (line := self._line()) is not None:
            self._show_trace(line)

    @work(exclusive=True, group="trace")
    async def _show_trace(self, line: Line) -> None:
        async def ask() -> None:
            status = await self._reading.request("GET", connector_path(line.connector, "status"))
            text = traces(status, line.task)
            if text and self._open:
                self.push_screen(TraceScreen(text))
            else:
                self.notify(f"{line.cells[CONNECTOR].strip()} has not failed", markup=False)

        await self._telling(ask)

    @work
    async def _ask(
        self, what: str, method: str, path: Callable[[Line], str], query: Mapping[str, str | list[str]] | None = None
    ) -> None:
        line = self._line()
        if line is None:
            return

        async def ask() -> None:
            status = await self._changing.request(method, path(line), query)
            name = printable(line.connector)
            # Only a restart answers with a status.
            did = status is None or is_restarting(status)
            self.notify(f"{what} {name}" if did else f"{name} has not failed", markup=False)

        await self._telling(ask)
        self._due.set()

    async def _telling(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Show a request's failure instead of ending the application."""
        try:
            await ask()
        except FencepostError as error:
            self.notify(printable(str(error)), severity="error", markup=False)
