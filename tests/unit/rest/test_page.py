"""The page at /ui: its files, who may load them, and its content."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import re
from importlib import resources
from pathlib import Path

import aiohttp
import pytest

from fencepost.herder.core import history
from fencepost.herder.core.observation import HidingTransaction, TopicView
from fencepost.rest.server import RestServer
from tests.support.model_herder import ModelHerder
from tests.support.rest import Answer, Api, RestApis

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
_FILES = resources.files("fencepost.rest").joinpath("ui")
_USER = {"Authorization": "Basic " + base64.b64encode(b"ann:secret").decode()}


def _create(api: Api, config: dict[str, str], *names: str) -> None:
    for name in names:
        assert api.post("/connectors", {"name": name, "config": config}).status == 201


def test_a_browser_is_redirected_to_the_page_and_other_clients_get_json(api: Api) -> None:
    plain = api.get("/")
    shown = api.get("/", headers={"Accept": BROWSER})

    assert 'href="ui/"' in shown.text
    assert shown.headers["Content-Type"].startswith("text/html")
    for accept in ("*/*", "application/json", "application/*", "text/html;q=0, */*"):
        answer = api.get("/", headers={"Accept": accept})
        assert (answer.text, answer.headers["Content-Type"]) == (plain.text, plain.headers["Content-Type"])
    assert api.get("/", headers={"Accept": "text/plain"}).status == 406


def test_every_file_that_the_page_names_is_there_and_nothing_is_from_elsewhere(api: Api) -> None:
    todo, done = ["index.html"], set()
    while todo:
        name = todo.pop()
        answer = api.get("/ui/" if name == "index.html" else f"/ui/{name}")
        assert answer.status == 200, name
        done.add(name)
        folder = name.rpartition("/")[0]
        for found in re.findall(r'(?:from\s*|src=|href=)"(?!#)([^"$\s]+)"', answer.text):
            path = found.removeprefix("./")
            assert "//" not in path, f"{name} loads {found}"
            path = f"{folder}/{path}" if folder else path
            todo += [path] if path not in done else []
    assert {"app.js", "style.css", "vendor/preact.mjs", "vendor/uPlot.mjs", "vendor/uPlot.css"} <= done


def test_files_have_a_strict_policy_and_are_asked_for_again(api: Api) -> None:
    first = api.get("/ui/app.js")

    policy = dict(part.strip().split(" ", 1) for part in first.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
    assert policy["frame-ancestors"] == "'none'"
    assert first.headers["Cache-Control"] == "no-cache"
    again = api.get("/ui/app.js", headers={"If-None-Match": first.headers["ETag"]})
    assert (again.status, again.text) == (304, "")
    assert "style=" not in api.get("/ui/").text
    assert not re.search(r"<script(?![^>]*src=)", api.get("/ui/").text)


@pytest.mark.parametrize("path", ["/ui/nothing.js", "/ui/vendor/README.md", "/ui/../root.py", "/ui/%2e%2e/root.py"])
def test_other_paths_are_not_found(api: Api, path: str) -> None:
    assert api.get(path).status == 404


def test_the_page_is_also_served_without_the_trailing_slash(api: Api) -> None:
    assert "app.js" in api.get("/ui").text


def test_the_page_needs_the_user_that_the_rest_api_needs(apis: RestApis, herder: ModelHerder, tmp_path: Path) -> None:
    passwords = tmp_path / "passwords.properties"
    passwords.write_text("ann=secret\n")
    api = apis.serve(herder, {"rest.basic.auth.credentials.file": str(passwords)})
    paths = ("/ui/", "/ui/app.js", "/ui/api/overview", "/ui/api/events", "/ui/api/here", "/ui/api/topics/t")
    paths += ("/ui/api/topics/t/records", "/ui/api/here/logs", "/ui/api/here/history")
    paths += ("/ui/api/connectors/a/logs", "/ui/api/connectors/a/history")

    assert [api.get(path).status for path in paths] == [401] * len(paths)
    assert api.put("/ui/api/transactions/x/abort").status == 401
    assert api.get("/ui/", headers=_USER).status == 200
    assert api.get("/ui/api/overview", headers=_USER).status == 200
    assert herder.observation.asked == [_USER["Authorization"]]


def test_the_overview_has_every_connector_in_one_answer(api: Api, config: dict[str, str]) -> None:
    _create(api, config, "a", "b")

    body = api.get("/ui/api/overview").body

    assert (body["group_id"], body["exactly_once"], body["breaking"]) == ("group", "enabled", [])
    assert set(body["rows"]) == {"a", "b"}
    row = body["rows"]["a"]
    assert (row["state"], row["records"], row["rate"], row["lag"], row["transactions"]) == ("RUNNING", 3, 12.5, None, 1)
    assert [task["state"] for task in row["tasks"]] == ["RUNNING"]


def test_the_activity_of_tasks_includes_their_transactions(api: Api, config: dict[str, str]) -> None:
    _create(api, config, "a")

    (task,) = api.get("/ui/api/connectors/a").body["tasks"]

    assert task["ended"] == [{"since": 1_700_000_000_000, "until": 1_700_000_001_000, "records": 3, "end": "COMMITTED"}]
    assert api.get("/ui/api/connectors/missing").status == 404


def test_a_topic_shows_hiding_transactions_with_a_button_to_abort(api: Api, herder: ModelHerder) -> None:
    hiding = HidingTransaction("group-a-0", 7, 3, "Ongoing", 1_700_000_000_000, 60_000, [0], "a", 0)
    herder.observation.views["t"] = TopicView("t", {1: (5, 5), 0: (10, 14)}, [hiding])

    body = api.get("/ui/api/topics/t").body
    assert api.put("/ui/api/transactions/group-a-0/abort").status == 204

    assert body["partitions"] == [
        {"partition": 0, "stable": 10, "end": 14},
        {"partition": 1, "stable": 5, "end": 5},
    ]
    (transaction,) = body["transactions"]
    assert (transaction["transactional_id"], transaction["connector"], transaction["task"]) == ("group-a-0", "a", 0)
    assert herder.observation.aborted == ["group-a-0"]
    assert api.get("/ui/api/topics/missing").status == 404


def test_the_records_of_a_topic_are_text_so_that_no_browser_rounds_them(api: Api) -> None:
    body = api.get("/ui/api/topics/t/records?count=1&connector=b").body

    assert (body["topic"], body["connector"], body["connectors"], body["complete"]) == ("t", "b", ["a", "b"], True)
    (record,) = body["records"]
    assert (record["value"], record["key"], record["headers"]) == ('{"id": 9007199254740993}', None, [["h", '"x"']])
    assert [api.get(f"/ui/api/topics/{path}").status for path in ("a%2Fb/records", "t/records?count=101")] == [400, 400]


def test_figures_and_log_lines_are_shown_of_one_worker_and_of_all(api: Api, config: dict[str, str]) -> None:
    _create(api, config, "a")

    assert api.get("/ui/api/connectors/a/history").body == {"history": [[1_700_000_000, 12.5, None]], "seconds": 20}
    assert api.get("/ui/api/here/history?connector=a").body == {"history": [[1_700_000_000, 12.5, None]]}
    (line,) = api.get("/ui/api/connectors/a/logs").body["logs"]
    assert (line["level"], line["task"], line["message"]) == ("WARNING", 0, "<b>")
    assert api.get("/ui/api/here/logs?connector=a").body == {"logs": [line]}
    assert [api.get(f"/ui/api/connectors/missing/{part}").status for part in ("history", "logs")] == [404, 404]
    assert [api.get(f"/ui/api/here/{part}").status for part in ("history", "logs")] == [200, 200]


def test_figures_are_kept_while_the_api_answers_whoever_asks(
    herder: ModelHerder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "STEP_SECONDS", 0.01)
    with RestApis() as apis:
        apis.serve(herder)
        while herder.observation.kept < 2:
            apis.call(asyncio.sleep(0.01))
    assert herder.observation.kept == -1


@pytest.mark.parametrize("name", ["a%2Fb", "%3Cb%3E", "a%20b", "x" * 250])
def test_an_invalid_name_of_a_topic_is_a_bad_request(api: Api, name: str) -> None:
    answer = api.get(f"/ui/api/topics/{name}")

    assert answer.status == 400
    assert "the name of a topic has 1 to 249 letters" in answer.body["message"]


def test_events_have_all_rows_at_first_and_then_those_that_changed(
    apis: RestApis, api: Api, herder: ModelHerder, config: dict[str, str]
) -> None:
    _create(api, config, "a", "b")

    async def events() -> list[dict[str, object]]:
        found = []
        async with aiohttp.ClientSession() as session, session.get(f"{api.url}/ui/api/events") as response:
            assert response.content_type == "text/event-stream"
            async for line in response.content:
                if line.startswith(b"data: "):
                    found.append(json.loads(line.removeprefix(b"data: ")))
                    herder.known.pop("b", None)
                    if len(found) == 2:
                        return found
        return found

    first, second = apis.call(events())

    assert (first["whole"], set(first["rows"])) == (True, {"a", "b"})
    assert (second["whole"], second["rows"]) == (False, {"b": None})


def test_a_worker_that_stops_ends_the_streams(herder: ModelHerder) -> None:
    """Otherwise an open stream would delay the end of its server up to the limit for requests in progress."""
    with RestApis() as apis:
        api = apis.serve(herder)

        async def stop() -> bytes:
            async with aiohttp.ClientSession() as session, session.get(f"{api.url}/ui/api/events") as response:
                await response.content.readline()
                server: RestServer = apis._servers[0]
                await server.stop()
                return await response.content.read()

        assert apis.call(stop()).endswith(b"\n\n")


def test_libraries_are_the_files_that_the_readme_names() -> None:
    table = _FILES.joinpath("vendor", "README.md").read_text()
    named = dict(re.findall(r"^\| ([\w.]+) \|.*\| ([0-9a-f]{64}) \|", table, re.MULTILINE))
    licences = _FILES.joinpath("vendor", "LICENSES.txt").read_text()

    there = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in _FILES.joinpath("vendor").iterdir()
        if path.name.endswith(("mjs", "css"))
    }
    assert there == named
    for package, version in set(re.findall(r"^\| [\w.]+ \| (\w+)[^|]*\| ([\d.]+) \|", table, re.MULTILINE)):
        assert f"==== {package}-{version} ====" in licences


def test_500_connectors_are_one_small_answer(api: Api, herder: ModelHerder, config: dict[str, str]) -> None:
    _create(api, config, "a")
    herder.known = {f"connector-{number}": herder.known["a"] for number in range(500)}

    answer: Answer = api.get("/ui/api/overview")

    assert len(answer.body["rows"]) == 500
    assert len(answer.text) < 300_000
