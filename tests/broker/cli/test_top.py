"""`fencepost top` on real standalone workers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from typing import Any

import pytest
from textual.pilot import Pilot
from textual.widgets import DataTable, Static

from fencepost.cli.top import top_app
from fencepost.cli.top.top_app import TopApp
from fencepost.cli.top.top_screens import TraceScreen
from fencepost.embedded.ports import free_ports
from tests.broker.rest.test_standalone_rest import Start, start
from tests.support.workers import WorkerApi

__all__ = ["start"]

_SECONDS = 120
_LONG = "org.apache.kafka.connect.converters.LongConverter"
_WIDE = (200, 30)
_NARROW = (60, 20)


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fencepost top` refreshes more often than by default."""
    monkeypatch.setattr(top_app, "_REFRESH_SECONDS", 0.2)


class _Screen:
    """The text that the application shows."""

    def __init__(self, app: TopApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    def row(self, number: int) -> list[str]:
        table: DataTable[Any] = self.app.screen_stack[0].query_one(DataTable)
        return [cell.plain.strip() for cell in table.get_row_at(number)] if number < table.row_count else []

    def titles(self) -> list[str]:
        table: DataTable[Any] = self.app.screen_stack[0].query_one(DataTable)
        return [column.label.plain for column in table.ordered_columns]

    def text(self, name: str) -> str:
        return str(self.app.screen_stack[0].query_one(f"#{name}", Static).render())

    async def wait_for(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while not condition():
            assert time.monotonic() < deadline, f"{what}: {self.text('head')!r} {self.text('problem')!r} {self.row(0)}"
            await self.pilot.pause(0.05)


def _use(*urls: str, size: tuple[int, int], use: Callable[[_Screen], Awaitable[None]]) -> None:
    async def run() -> None:
        app = TopApp(*urls)
        async with app.run_test(size=size) as pilot:
            await use(_Screen(app, pilot))

    asyncio.run(run())


def _create_one_that_fails(worker: WorkerApi, file: str, topic: str) -> None:
    config = {"connector.class": "FileStreamSource", "file": file, "topic": topic, "value.converter": _LONG}
    assert worker.request("POST", "/connectors", {"name": "broken", "config": config}).status == 201
    worker.wait_for_states("broken", "RUNNING", "FAILED")


def test_top_shows_a_worker_and_controls_its_connectors(start: Start, topic: str) -> None:
    with start(fencepost_files_allowed_paths="/") as worker:
        _create_one_that_fails(worker, str(worker.folder / "lines"), topic)

        async def use(screen: _Screen) -> None:
            await screen.wait_for(lambda: screen.row(0)[:2] == ["broken", "FAILED"], "the failed one is first")
            await screen.wait_for(lambda: screen.row(1)[:3] == ["filed", "RUNNING", "1/1"], "the other runs")
            assert "1 FAILED  1 RUNNING" in screen.text("head")
            assert "LongConverter" in screen.text("detail")
            assert worker.id in screen.text("workers")
            assert screen.text("problem") == ""

            await screen.press("t")
            await screen.wait_for(lambda: isinstance(screen.app.screen, TraceScreen), "the trace is shown")
            assert "Task 0 on" in str(screen.app.screen.query_one("#trace", Static).render())
            await screen.press("escape")

            await screen.press("down", "space")
            await screen.wait_for(lambda: screen.row(2)[:2] == ["task 0", "RUNNING"], "its task is shown")
            committed = screen.titles().index("rows")
            await screen.wait_for(lambda: screen.row(2)[committed] == "1", "the line is counted")

            await screen.press("p")
            await screen.wait_for(lambda: screen.row(1)[:2] == ["filed", "PAUSED"], "it is paused")
            await asyncio.to_thread(worker.wait_for_states, "filed", "PAUSED", "PAUSED")
            await screen.press("r")
            await screen.wait_for(lambda: screen.row(1)[:2] == ["filed", "RUNNING"], "it is resumed")

            await screen.press("up")
            traced = await asyncio.to_thread(worker.get, "/connectors/broken/status")
            await asyncio.to_thread(worker.request, "PUT", "/connectors/broken/config", _mended(worker, topic))
            await screen.press("s", "enter")
            await screen.wait_for(lambda: screen.row(0)[:2] == ["broken", "RUNNING"], "it is restarted")
            assert traced["tasks"][0]["state"] == "FAILED"
            await screen.press("ctrl+c")
            await screen.wait_for(lambda: not screen.app.is_running, "it is quit")

        _use(worker.url, size=_WIDE, use=use)


def _mended(worker: Any, topic: str) -> dict[str, str]:
    return {"connector.class": "FileStreamSource", "file": str(worker.folder / "lines"), "topic": topic}


def test_top_continues_after_a_restart_of_the_worker(start: Start) -> None:
    (port, nobody) = free_ports(2)
    listeners = f"http://127.0.0.1:{port}"

    async def use(screen: _Screen) -> None:
        await screen.wait_for(lambda: screen.row(0)[:2] == ["filed", "RUNNING"], "it is shown")
        first.close()
        await screen.wait_for(lambda: "cannot be reached" in screen.text("problem"), "that it is away is told")
        assert screen.row(0)[0] == "filed"
        await screen.press("p")
        with start(listeners=listeners):
            await screen.wait_for(lambda: screen.text("problem") == "", "it is back")
            await screen.wait_for(lambda: screen.row(0)[:2] == ["filed", "RUNNING"], "it is shown again")

    # The application replaces stderr, but the first fork of a process needs the original one.
    with ExitStack() as first:
        first.enter_context(start(listeners=listeners))
        _use(f"http://127.0.0.1:{nobody}", listeners, size=_WIDE, use=use)


def test_the_table_fits_a_terminal_of_60_columns_without_colours(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    with start() as worker:

        async def use(screen: _Screen) -> None:
            await screen.wait_for(lambda: screen.row(0)[:2] == ["filed", "RUNNING"], "it is shown")
            assert screen.titles() == ["connector", "state", "tasks", "rows/s", "open"]
            table = screen.app.query_one(DataTable)
            assert table.virtual_size.width <= table.size.width
            lines = [list(line) for line in screen.app.screen._compositor.render_strips()]
            colours = {segment.style.color for line in lines for segment in line if segment.style}
            assert all(colour is None or len({*colour.get_truecolor()}) == 1 for colour in colours), colours

        _use(worker.url, size=_NARROW, use=use)
