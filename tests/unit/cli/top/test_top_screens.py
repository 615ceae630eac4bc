"""The screens over the table of `fencepost top`."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from textual.pilot import Pilot
from textual.widgets import Static

from fencepost.cli.top import top_app
from fencepost.cli.top.top_app import TopApp
from fencepost.cli.top.top_screens import WorkersScreen

_SECONDS = 120
_NOW = 1_000_000


def _overview(workers: int) -> dict[str, Any]:
    """A group whose last three workers have no tasks."""
    return {
        "worker_id": "fencepost-0.fencepost.data.svc:8083", "group_id": "shop", "silent": {}, "exactly_once": "enabled",
        "workers": {
            f"fencepost-{number}.fencepost.data.svc:8083": {
                "connectors": 13, "tasks": max(0, 10 * (workers - 3 - number)), "version": "0.1.0", "started": _NOW - 120_000,
            }
            for number in range(workers)
        },
        "breaking": [], "rows": {}, "membership": None, "now": _NOW,
    }  # fmt: skip


def _seen(app: TopApp) -> str:
    """The terminal, as a person sees it."""
    return "\n".join(strip.text for strip in app.screen._compositor.render_strips())


async def _until(app: TopApp, pilot: Pilot[None], condition: Callable[[], object]) -> None:
    try:
        async with asyncio.timeout(_SECONDS):
            while not condition():
                await pilot.pause(0.02)
    except TimeoutError:
        raise AssertionError(_seen(app)) from None


def _use(answer: dict[str, Any], use: Callable[[TopApp, Pilot[None]], Awaitable[None]]) -> None:
    """Use the application in a terminal of 80 by 24 characters."""

    async def overview(_: web.Request) -> web.Response:
        return web.json_response(answer)

    async def run() -> None:
        served = web.Application()
        served.router.add_get(top_app.OVERVIEW, overview)
        async with TestServer(served) as server:
            app = TopApp(str(server.make_url("/")))
            async with app.run_test(size=(80, 24)) as pilot:
                await _until(app, pilot, lambda: "fencepost-0" in str(app.query_one("#workers", Static).render()))
                await use(app, pilot)

    asyncio.run(run())


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fencepost top` refreshes more often than by default."""
    monkeypatch.setattr(top_app, "_REFRESH_SECONDS", 0.1)


def test_w_lists_all_of_ten_workers_with_long_names_in_80_by_24() -> None:
    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        await _until(app, pilot, lambda: "and 5 more, 3 without tasks: w lists all" in _seen(app))
        # All that are listed below the table have their uptime.
        assert len(re.findall(r"fencepost-\d\S+ +13 c \d+ t 0\.1\.0 up 2m", _seen(app))) == 5
        await pilot.press("w")
        found = r"(fencepost-\d)\S*:8083 +13 c (\d+) t 0\.1\.0 up 2m"
        await _until(app, pilot, lambda: len(re.findall(found, _seen(app))) == 10)
        listed = re.findall(found, _seen(app))
        assert sorted(name for name, _ in listed) == [f"fencepost-{number}" for number in range(10)]
        assert [tasks for _, tasks in listed][-3:] == ["0", "0", "0"]
        await pilot.press("w")
        await _until(app, pilot, lambda: not isinstance(app.screen, WorkersScreen))

    _use(_overview(10), use)


def test_a_list_of_sixty_workers_is_scrolled_and_says_what_is_out_of_sight() -> None:
    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("w")
        await _until(app, pilot, lambda: re.search(r"\d+ more below", _seen(app)))
        assert "fencepost-59" not in _seen(app)
        await pilot.press("end")
        await _until(app, pilot, lambda: "fencepost-59" in _seen(app) and "more below" not in _seen(app))
        assert re.search(r"\d+ more above", _seen(app))

    _use(_overview(60), use)


def test_the_list_of_workers_follows_the_group() -> None:
    answer = _overview(5)

    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("w")
        await _until(app, pilot, lambda: "fencepost-4" in _seen(app))
        answer["workers"] = _overview(7)["workers"]
        await _until(app, pilot, lambda: "fencepost-6" in _seen(app))

    _use(answer, use)


def test_h_hides_the_workers_below_the_table() -> None:
    async def use(app: TopApp, pilot: Pilot[None]) -> None:
        await pilot.press("h")
        await _until(app, pilot, lambda: "fencepost-0" not in _seen(app))
        await pilot.press("h")
        await _until(app, pilot, lambda: "fencepost-0" in _seen(app))

    _use(_overview(4), use)
