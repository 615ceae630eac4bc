"""The application `fencepost top` with the model herder."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from textual.pilot import Pilot
from textual.widgets import DataTable, Static
from textual.widgets._toast import Toast

from fencepost.cli.top import top_app
from fencepost.cli.top.top_app import TopApp
from tests.support.model_herder import ModelHerder
from tests.support.rest import RestApis

_SECONDS = 120


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """`fencepost top` refreshes more often than by default."""
    monkeypatch.setattr(top_app, "_REFRESH_SECONDS", 0.1)


def _names(app: TopApp) -> list[str]:
    table = app.query_one(DataTable)
    return [table.get_row_at(row)[0].plain for row in range(table.row_count)]


def _problem(app: TopApp) -> str:
    return str(app.query_one("#problem", Static).render())


async def _until(pilot: Pilot[None], condition: Callable[[], object]) -> None:
    async with asyncio.timeout(_SECONDS):
        while not condition():
            await pilot.pause(0.02)


def test_the_cursor_stays_on_a_connector_that_moves(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines"), "topic": "t"}
    herder = ModelHerder()
    with RestApis() as apis:
        api = apis.serve(herder)
        for name in ("a", "b", "c"):
            assert api.post("/connectors", {"name": name, "config": config}).status == 201

        async def use() -> None:
            app = TopApp(api.url)
            async with app.run_test(size=(120, 20)) as pilot:
                await _until(pilot, lambda: _names(app) == ["a", "b", "c"])
                await pilot.press("down")
                await _until(pilot, lambda: app.query_one(DataTable).cursor_row == 1)
                herder.known["c"].config["offsets.storage.topic"] = "t"
                await _until(pilot, lambda: _names(app) == ["c", "a", "b"])
                await _until(pilot, lambda: app.query_one(DataTable).cursor_row == 2)
                del herder.known["a"]
                await _until(pilot, lambda: _names(app) == ["c", "b"])
                assert app.query_one(DataTable).cursor_row == 1

        apis.call(use())


def test_a_restart_where_nothing_failed_says_so(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines"), "topic": "t"}
    with RestApis() as apis:
        api = apis.serve(ModelHerder())
        assert api.post("/connectors", {"name": "a", "config": config}).status == 201

        async def use() -> None:
            app = TopApp(api.url)
            async with app.run_test(notifications=True) as pilot:
                await _until(pilot, lambda: _names(app) == ["a"])
                await pilot.press("s")
                await _until(pilot, lambda: list(app.query(Toast)))
                assert [str(toast.render()) for toast in app.query(Toast)] == ["a has not failed"]

        apis.call(use())


def test_a_workers_refusal_is_shown(tmp_path: Path) -> None:
    passwords = tmp_path / "passwords.properties"
    passwords.write_text("ann=secret\n")
    with RestApis() as apis:
        api = apis.serve(ModelHerder(), {"rest.basic.auth.credentials.file": str(passwords)})

        async def use() -> None:
            app = TopApp(api.url)
            async with app.run_test() as pilot:
                await _until(pilot, lambda: "(status 401" in _problem(app))
            app = TopApp(api.url.replace("//", "//ann:secret@"))
            async with app.run_test() as pilot:
                await _until(pilot, lambda: "no connectors" in str(app.query_one("#detail", Static).render()))
                assert _problem(app) == ""

        apis.call(use())


def test_top_may_be_closed_while_answers_arrive(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(top_app, "_REFRESH_SECONDS", 0.005)
    (tmp_path / "lines").write_text("one\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines"), "topic": "t"}
    with RestApis() as apis:
        api = apis.serve(ModelHerder())
        assert api.post("/connectors", {"name": "a", "config": config}).status == 201

        async def use() -> None:
            for pauses in range(8):
                app = TopApp(api.url)
                async with app.run_test(size=(60, 20)) as pilot:
                    for _ in range(pauses):
                        await pilot.pause(0.02)
                assert not app.is_running

        apis.call(use())


def test_all_listed_workers_are_seen_in_a_small_terminal() -> None:
    worker = {"tasks": 1, "connectors": 1, "version": None, "started": None}
    answer: dict[str, Any] = {
        "worker_id": "w0:1", "group_id": "shop", "workers": {f"w{number}:1": worker for number in range(9)}, "silent": {},
        "exactly_once": "enabled", "breaking": [], "rows": {}, "membership": None, "now": 0,
    }  # fmt: skip

    async def overview(_: web.Request) -> web.Response:
        return web.json_response(answer)

    async def use() -> None:
        served = web.Application()
        served.router.add_get(top_app.OVERVIEW, overview)
        async with TestServer(served) as server:
            app = TopApp(str(server.make_url("/")))
            async with app.run_test(size=(30, 24)) as pilot:
                workers = app.query_one("#workers", Static)
                await _until(pilot, lambda: "and 4 more" in str(workers.render()))
                await _until(pilot, lambda: workers.size.height == len(str(workers.render()).splitlines()))

    asyncio.run(use())


def test_details_leave_room_for_connectors_in_a_low_terminal(tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines"), "topic": "t"}
    name = "a-long-name-" * 30
    with RestApis() as apis:
        api = apis.serve(ModelHerder())
        assert api.post("/connectors", {"name": name, "config": config}).status == 201

        async def use() -> None:
            app = TopApp(api.url)
            async with app.run_test(size=(50, 12)) as pilot:
                await _until(pilot, lambda: app.query_one("#detail").size.height > 1)
                # The table has its header and two connectors.
                assert app.query_one(DataTable).size.height >= 3

        apis.call(use())


def _seen(app: TopApp) -> list[str]:
    """The lines of the terminal, as a person sees them."""
    return [strip.text.strip() for strip in app.screen._compositor.render_strips()]


def _row(tasks: int) -> dict[str, Any]:
    return {
        "state": "RUNNING", "worker_id": "w:1", "class": "Source", "error": None, "rate": 0.0, "lag": None, "open_since": None,
        "last_commit": None, "restarts": 0, "skipped": 0, "records": 0,
        "tasks": [{"id": number, "state": "RUNNING", "worker_id": "w:1"} for number in range(tasks)],
    }  # fmt: skip


@pytest.mark.parametrize(("connectors", "tasks"), [(7, 7), (30, 2), (1, 40)])
def test_no_line_is_out_of_sight_in_80_by_24_characters_without_a_sign(
    connectors: int, tasks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Another answer would bring the sign up to date.
    monkeypatch.setattr(top_app, "_REFRESH_SECONDS", 600.0)
    rows = {f"c{number:02}": _row(tasks) for number in range(connectors)}
    figures = [{**_row(0), "task": number} for number in range(tasks)]
    answer: dict[str, Any] = {
        "worker_id": "w:1", "group_id": "shop", "silent": {}, "exactly_once": "enabled", "breaking": [], "rows": rows,
        "workers": {f"w{number}:1": {"tasks": 1, "connectors": 1, "version": None, "started": None} for number in range(9)},
        "membership": None, "now": 0,
    }  # fmt: skip

    async def overview(_: web.Request) -> web.Response:
        return web.json_response(answer)

    async def one(_: web.Request) -> web.Response:
        return web.json_response({"tasks": figures})

    def counted(app: TopApp) -> tuple[int, int, int]:
        """How many lines of the table are above, in and below what is seen, by what is seen alone."""
        lines = _seen(app)
        above = next((int(found[1]) for line in lines if (found := re.search(r"(\d+) more above", line))), 0)
        below = next((int(found[1]) for line in lines if (found := re.search(r"(\d+) more below", line))), 0)
        return above, sum(bool(re.match(r"(c\d\d|task \d+) +RUNNING", line)) for line in lines), below

    async def use() -> None:
        served = web.Application()
        served.router.add_get(top_app.OVERVIEW, overview)
        served.router.add_get("/ui/api/connectors/{name}", one)
        async with TestServer(served) as server:
            app = TopApp(str(server.make_url("/")))
            async with app.run_test(size=(80, 24)) as pilot:
                await _until(pilot, lambda: len(_names(app)) == connectors)
                await pilot.press("space")
                every = connectors + tasks
                await _until(pilot, lambda: len(_names(app)) == every)
                await _until(pilot, lambda: sum(counted(app)) == every)
                above, seen, below = counted(app)
                assert (above, seen + below) == (0, every)
                assert (below > 0) == (every > seen)
                # As the wheel of a mouse does, which leaves the cursor where it is.
                app.query_one(DataTable).scroll_end(animate=False)
                await _until(pilot, lambda: counted(app)[2] == 0 and sum(counted(app)) == every)
                assert counted(app)[0] == every - counted(app)[1]

    asyncio.run(use())
