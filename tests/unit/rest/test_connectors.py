"""Connectors over REST: bodies, statuses and headers like Connect's."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest

from fencepost.herder.entities import ConnectorOffset
from fencepost.storage.configs.codec import TargetState
from tests.support.model_herder import ModelHerder
from tests.support.rest import Api

Config = dict[str, str]


def test_a_created_connector_is_answered_with_its_address_and_no_tasks(api: Api, config: Config):
    answer = api.post("/connectors", {"name": "c1", "config": config})
    assert answer.status == 201
    assert answer.headers["Location"] == f"{api.url}/connectors/c1"
    assert answer.headers["Content-Type"] == "application/json"
    assert answer.body == {"name": "c1", "config": {**config, "name": "c1"}, "tasks": [], "type": "source"}
    assert list(answer.body["config"])[-1] == "name"


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("naïve-名", "na%C3%AFve-%E5%90%8D"),
        ("sp 1?y#z", "sp%201%3Fy%23z"),
        ("a/b", "a%2Fb"),
        ("100%25", "100%2525"),
        ("a+b:c", "a%2Bb%3Ac"),
    ],
)
def test_a_connector_of_any_name_can_be_reached_and_deleted(api: Api, config: Config, name: str, path: str):
    created = api.post("/connectors", {"name": f" {name} ", "config": config})
    assert (created.status, created.headers["Location"]) == (201, f"{api.url}/connectors/{path}")
    assert api.get(f"/connectors/{path}").body["name"] == name
    assert api.get(f"/connectors/{path}/config").body["name"] == name
    assert api.delete(f"/connectors/{path}").status == 204
    assert api.get("/connectors").body == []


@pytest.mark.parametrize(
    ("given", "state"), [("STOPPED", TargetState.STOPPED), ("paused", TargetState.PAUSED), (None, TargetState.STARTED)]
)
def test_a_connector_begins_in_the_requested_state(
    api: Api, herder: ModelHerder, config: Config, given: str | None, state: TargetState
):
    assert api.post("/connectors", {"name": "c", "config": config, "initial_state": given}).status == 201
    assert herder.known["c"].target is state


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (None, "no body"),
        (b"null", "must be a JSON object, not null"),
        (b'{"name":"x","config":{', "line 1, column"),
        (b"[1]", "not a list"),
        (b"\xff", "UTF-8"),
        (b'{"name": NaN, "config": {}}', "NaN"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"name": "\\ud800", "config": {}}', "surrogate"),
        ({"name": "x"}, 'no "config"'),
        ({"name": "x", "config": None}, "must be a JSON object"),
        ({"config": {"topic": "t"}}, "no name"),
        ({"name": " ", "config": {}}, "empty"),
        ({"name": "a\nb", "config": {}}, "control characters"),
        ({"name": ".", "config": {}}, "must not be named '.'"),
        ({"name": " .. ", "config": {}}, "must not be named '..'"),
        ({"name": "x", "config": {"name": "y"}}, "make them equal"),
        ({"name": "x", "config": {"a": None}}, "property a must be a text"),
        ({"name": "x", "config": {"a": {"b": 1}}}, "not an object"),
        ({"name": "x", "config": {}, "bogus": 1}, '"bogus"'),
        ({"name": "x", "config": {}, "initial_state": "SLEEPING"}, "RUNNING, PAUSED, STOPPED"),
        ({"name": "x", "config": {}}, "connector.class"),
        ({"name": "x", "config": {"connector.class": "NoSuch"}}, "no connector named 'NoSuch'"),
        ({"name": "x", "config": {"connector.class": "FileStreamSource", "tasks.max": "0"}}, "error(s)"),
    ],
)
def test_a_bad_create_request_gets_the_reason(api: Api, body: Any, said: str):
    answer = api.post("/connectors", body, headers={"Content-Type": "application/json"})
    assert answer.status == 400
    assert said in answer.message
    assert api.get("/connectors").body == []


def test_a_name_that_is_taken_is_a_conflict(api: Api, config: Config):
    api.post("/connectors", {"name": "c", "config": config})
    answer = api.post("/connectors", {"name": "c", "config": config})
    assert answer.status == 409
    assert "already exists" in answer.message


def test_numbers_and_booleans_are_taken_as_the_texts_that_they_are(api: Api):
    body = b'{"connector.class": "FileStreamSource", "file": "f", "topic": true, "tasks.max": 2, "batch.size": 3, "x": 1.10e2}'
    answer = api.put("/connectors/c/config", body)
    assert answer.status == 201
    assert answer.body["config"] == {
        "connector.class": "FileStreamSource", "file": "f", "topic": "true", "tasks.max": "2", "batch.size": "3", "x": "1.10e2",
        "name": "c",
    }  # fmt: skip


def test_putting_a_config_creates_first_and_replaces_then(api: Api, config: Config):
    first = api.put("/connectors/c/config", config)
    assert (first.status, first.headers["Location"]) == (201, f"{api.url}/connectors/c")
    second = api.put("/connectors/c/config", {**config, "batch.size": 5, "name": "c"})
    assert (second.status, second.body["config"]["batch.size"]) == (200, "5")
    assert second.body["tasks"] == [{"connector": "c", "task": 0}]


def test_putting_a_config_refuses_another_name_and_a_wrapped_config(api: Api, config: Config):
    assert "make them equal" in api.put("/connectors/c/config", {**config, "name": "d"}).message
    assert "configuration itself" in api.put("/connectors/c/config", {"config": config}).message


def test_a_patch_sets_and_removes_properties_and_keeps_the_rest(api: Api, config: Config):
    api.put("/connectors/c/config", {**config, "extra": "x"})
    answer = api.patch("/connectors/c/config", {"extra": None, "batch.size": 7})
    assert (answer.status, answer.body["config"]) == (200, {**config, "name": "c", "batch.size": "7"})


def test_a_patch_cannot_rename(api: Api, config: Config):
    api.put("/connectors/c/config", config)
    answer = api.patch("/connectors/c/config", {"name": "d"})
    assert answer.status == 400
    assert "cannot be changed" in answer.message


def test_expanding_shows_the_requested_parts_of_each_connector(api: Api, config: Config):
    api.post("/connectors", {"name": "c", "config": config})
    assert api.get("/connectors").body == ["c"]
    both = api.get("/connectors?expand=info&expand=status").body
    assert both == {"c": {"info": api.get("/connectors/c").body, "status": api.get("/connectors/c/status").body}}
    assert api.get("/connectors?expand=info,status").body == {"c": {}}


def test_a_status_shows_no_trace_where_nothing_failed(api: Api, config: Config):
    api.post("/connectors", {"name": "c", "config": config})
    state = {"state": "RUNNING", "worker_id": "127.0.0.1:8083", "version": "1.0"}
    assert api.get("/connectors/c/status").body == {
        "name": "c", "connector": state, "tasks": [{"id": 0, **state}], "type": "source",
    }  # fmt: skip
    assert api.get("/connectors/c/tasks/0/status").body == {"id": 0, **state}


def test_a_failed_task_shows_its_trace(api: Api, config: Config):
    api.post("/connectors", {"name": "c", "config": {**config, "offsets.storage.topic": config["topic"]}})
    task = api.get("/connectors/c/tasks/0/status").body
    assert (task["state"], task["trace"]) == ("FAILED", "why")


def test_pausing_stopping_and_resuming_answer_without_a_body(api: Api, herder: ModelHerder, config: Config):
    api.post("/connectors", {"name": "c", "config": config})
    for verb, status, state in (
        ("pause", 202, TargetState.PAUSED), ("resume", 202, TargetState.STARTED), ("stop", 204, TargetState.STOPPED),
    ):  # fmt: skip
        answer = api.put(f"/connectors/c/{verb}")
        assert (answer.status, answer.text) == (status, "")
        assert herder.known["c"].target is state


def test_restarts_answer_with_the_states_where_tasks_are_meant(api: Api, config: Config):
    api.post("/connectors", {"name": "c", "config": config})
    assert api.post("/connectors/c/restart").status == 204
    assert api.post("/connectors/c/restart?includeTasks=banana").status == 204
    assert api.post("/connectors/c/tasks/0/restart").status == 204
    answer = api.post("/connectors/c/restart?includeTasks=True")
    assert answer.status == 202
    assert [answer.body["connector"]["state"], answer.body["tasks"][0]["state"]] == ["RESTARTING", "RESTARTING"]
    only_failed = api.post("/connectors/c/restart?onlyFailed=true").body
    assert [only_failed["connector"]["state"], only_failed["tasks"][0]["state"]] == ["RUNNING", "RUNNING"]


def test_the_topics_of_an_unknown_connector_are_empty(api: Api, config: Config):
    assert api.get("/connectors/nope/topics").body == {"nope": {"topics": []}}
    assert api.put("/connectors/nope/topics/reset").status == 202
    api.post("/connectors", {"name": "c", "config": config})
    assert api.get("/connectors/c/topics").body == {"c": {"topics": ["lines"]}}
    assert api.put("/connectors/c/topics/reset").status == 202
    assert api.get("/connectors/c/topics").body == {"c": {"topics": []}}


def test_open_transactions_are_shown_with_the_tasks_last_commits(api: Api, config: Config):
    assert api.post("/connectors", {"name": "lines", "config": config}).status == 201
    body = api.get("/connectors/lines/transactions").body
    assert body["name"] == "lines"
    (task,) = body["tasks"]
    assert task == {
        "id": 0,
        "worker_id": "127.0.0.1:8083",
        "transactional_id": "group-lines-0",
        "state": "IN_TRANSACTION",
        "producer_id": 1000,
        "producer_epoch": 7,
        "open_since": 1_700_000_001_000,
        "records": 2,
        "bytes": 99,
        "last_commit": {
            "at": 1_700_000_000_000,
            "records": 3,
            "offsets": [{"partition": {"p": "a"}, "offset": {"o": 3}}],
        },
    }


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/connectors/nope"),
        ("GET", "/connectors/nope/config"),
        ("GET", "/connectors/nope/status"),
        ("GET", "/connectors/nope/tasks"),
        ("GET", "/connectors/nope/offsets"),
        ("GET", "/connectors/nope/transactions"),
        ("DELETE", "/connectors/nope"),
        ("DELETE", "/connectors/nope/offsets"),
        ("PUT", "/connectors/nope/pause"),
        ("POST", "/connectors/nope/restart"),
        ("POST", "/connectors/nope/tasks/0/restart"),
        ("GET", "/connectors/nope/tasks/one/status"),
        ("GET", "/nope"),
        ("GET", "/connectors/nope/tasks-config"),
    ],
)
def test_unknown_resources_are_not_found(api: Api, method: str, path: str):
    answer = api.request(method, path)
    assert answer.status == 404
    assert answer.message


def test_offsets_of_a_stopped_connector_can_be_altered_and_reset(api: Api, config: Config):
    api.post("/connectors", {"name": "c", "config": config})
    partition = {"filename": config["file"]}
    assert api.get("/connectors/c/offsets").body == {"offsets": [{"partition": partition, "offset": {"position": 14}}]}
    wanted = {"offsets": [{"partition": partition, "offset": {"position": 4}}]}
    refused = api.patch("/connectors/c/offsets", wanted)
    assert refused.status == 400
    assert "STOPPED" in refused.message
    api.put("/connectors/c/stop")
    assert "altered successfully" in api.patch("/connectors/c/offsets", wanted).body["message"]
    assert api.get("/connectors/c/offsets").body == wanted
    assert "reset successfully" in api.delete("/connectors/c/offsets").body["message"]
    assert api.get("/connectors/c/offsets").body == {"offsets": []}


@pytest.mark.parametrize("query", ["", "?limit=5"])
def test_half_a_surrogate_pair_in_an_offset_is_shown_as_it_is(
    api: Api, herder: ModelHerder, config: Config, query: str
):
    api.post("/connectors", {"name": "c", "config": config})
    half = ConnectorOffset({"filename": config["file"]}, {"position": "\ud800"})
    herder.set_offset("c", half)
    assert api.get(f"/connectors/c/offsets{query}").body["offsets"] == [
        {"partition": half.partition, "offset": half.offset}
    ]


def test_many_offsets_are_sent_in_parts_and_shown_in_pages(api: Api, config: Config):
    api.post("/connectors", {"name": "c", "config": config})
    assert api.put("/connectors/c/stop").status == 204
    offsets = [{"partition": {"filename": f"t{number:04}ä"}, "offset": {"position": number}} for number in range(1_234)]
    assert api.delete("/connectors/c/offsets").status == 200
    assert api.patch("/connectors/c/offsets", {"offsets": offsets}).status == 200

    everything = api.get("/connectors/c/offsets")
    assert everything.body == {"offsets": offsets}
    assert everything.headers["Content-Type"].startswith("application/json")
    assert everything.headers["Transfer-Encoding"] == "chunked"
    shown, after = [], ""
    while after is not None:
        page = api.get(f"/connectors/c/offsets?limit=500&after={quote(after)}").body
        shown.append(page["offsets"])
        after = page.get("next")
    assert [len(part) for part in shown] == [500, 500, 234]
    assert [offset for part in shown for offset in part] == offsets


@pytest.mark.parametrize("limit", ["0", "-1", "x", "10001", "1" * 5_000, "²"])
def test_an_invalid_page_limit_is_refused(api: Api, config: Config, limit: str):
    api.post("/connectors", {"name": "c", "config": config})

    answer = api.get(f"/connectors/c/offsets?limit={quote(limit)}")

    assert answer.status == 400
    assert "limit must be a number from 1 to 10000" in answer.body["message"]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 400 + ".0"])
def test_an_offset_beyond_every_double_is_refused_instead_of_stored_as_infinity(
    api: Api, config: dict[str, str], number: str
) -> None:
    assert api.post("/connectors", {"name": "c", "config": config}).status == 201
    assert api.put("/connectors/c/stop").status == 204
    body = f'{{"offsets": [{{"partition": {{"p": 1}}, "offset": {{"position": {number}}}}}]}}'.encode()

    answer = api.patch("/connectors/c/offsets", body, headers={"Content-Type": "application/json"})

    assert answer.status == 400
    assert "too large for a double" in answer.body["message"]
    assert "Infinity" not in api.get("/connectors/c/offsets").text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "names no offsets"),
        ({"offsets": []}, "send DELETE"),
        ({"offsets": {}}, "names no offsets"),
        ({"offsets": [1]}, "offsets[0] must be a JSON object"),
        ({"offsets": [{"offset": {}}]}, "offsets[0].partition must be a JSON object, not null"),
        ({"offsets": [{"partition": {}, "offset": 1}]}, "offsets[0].offset must be a JSON object, not a number"),
        ({"offsets": [{"partition": {}, "ofset": {}}]}, 'offsets[0] has the field "ofset"'),
    ],
)
def test_bad_offsets_are_refused_with_the_reason(api: Api, config: Config, body: Any, said: str):
    api.post("/connectors", {"name": "c", "config": config, "initial_state": "STOPPED"})
    answer = api.patch("/connectors/c/offsets", body)
    assert answer.status == 400
    assert said in answer.message
