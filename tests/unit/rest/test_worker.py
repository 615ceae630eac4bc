"""The worker itself over REST: version, health, metrics, plugins, loggers, and rules for every path."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from uuid import uuid4

import pytest

from fencepost.herder.core.mixed_group import MixedGroup
from fencepost.herder.entities import HealthStatus, PluginInfo, TaskState, WorkerHealth
from fencepost.rest import responses
from tests.support.model_herder import ModelHerder
from tests.support.rest import Api

CONFIG = {"connector.class": "FileStreamSource", "file": "/in", "topic": "t"}


@pytest.fixture
def logger() -> Iterator[str]:
    name = f"tests.{uuid4().hex}"
    yield name
    logging.getLogger(name).setLevel(logging.NOTSET)


def test_the_root_names_a_connect_version_that_tools_know(api: Api):
    body = api.get("/").body
    assert body["version"].startswith("4.1.")
    assert body["commit"].startswith("fencepost-")
    assert body["kafka_cluster_id"] == "cluster-1"


def test_the_root_shows_which_workers_break_exactly_once_delivery(api: Api, herder: ModelHerder):
    others = ("http://a:1/", "http://c:1/")
    herder.group = MixedGroup("preparing", breaking=others[:1], unknown=("http://b:1/",), other_topics=others)
    body = api.get("/").body
    assert body["exactly_once_source_support"] == "preparing"
    assert body["workers_breaking_exactly_once"] == ["http://a:1/"]
    assert body["workers_of_unknown_support"] == ["http://b:1/"]
    assert body["workers_with_other_topics"] == ["http://a:1/", "http://c:1/"]


@pytest.mark.parametrize(
    ("health", "status"), [(HealthStatus.HEALTHY, 200), (HealthStatus.STARTING, 503), (HealthStatus.UNHEALTHY, 503)]
)
def test_health_shows_the_reason(api: Api, herder: ModelHerder, health: HealthStatus, status: int):
    herder.worker_health = WorkerHealth(health, "because")
    answer = api.get("/health")
    assert (answer.status, answer.body) == (status, {"status": health, "message": "because"})


def test_metrics_are_prometheus_text(api: Api):
    answer = api.get("/metrics")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")


def test_plugins_are_connectors_unless_all_are_requested(api: Api):
    assert {plugin["type"] for plugin in api.get("/connector-plugins").body} == {"source"}
    everything = api.get("/connector-plugins?connectorsOnly=false").body
    assert {"source", "converter", "header_converter", "transformation", "predicate"} == {p["type"] for p in everything}


def test_a_plugin_without_a_version_is_listed_without_one_as_in_connect():
    assert responses.plugin(PluginInfo("a.A", "source", "undefined")) == {"class": "a.A", "type": "source"}
    assert responses.plugin(PluginInfo("a.A", "source", "1.2")) == {"class": "a.A", "type": "source", "version": "1.2"}


def test_a_state_without_a_version_is_shown_without_one_as_in_connect():
    assert "version" not in responses.task_status(TaskState(0, "RUNNING", "w", version="undefined"))


def test_a_plugin_shows_its_properties_under_its_alias(api: Api):
    keys = {key["name"]: key for key in api.get("/connector-plugins/FileStreamSource/config").body}
    del keys["topic"]["documentation"]
    assert keys["topic"] == {
        "name": "topic", "type": "STRING", "required": True, "default_value": None, "importance": "HIGH",
        "group": None, "width": "NONE", "display_name": "topic", "dependents": [], "order": -1,
    }  # fmt: skip
    assert api.get("/connector-plugins/Nope/config").status == 404
    assert api.get("/connector-plugins/FileStreamSource/config?version=9.9.9").status == 400


def test_validating_counts_errors_and_shows_them_on_their_properties(api: Api):
    answer = api.put("/connector-plugins/FileStreamSource/config/validate", CONFIG)
    assert answer.status == 200
    assert answer.body["error_count"] == 1
    values = {info["value"]["name"]: info["value"] for info in answer.body["configs"]}
    assert values["name"]["errors"]
    assert values["topic"] == {"name": "topic", "value": "t", "recommended_values": [], "errors": [], "visible": True}


@pytest.mark.parametrize(
    ("plugin", "body"),
    [
        ("FileStreamSource", {"name": "v"}),
        ("FileSource", CONFIG),
        ("Nope", {"connector.class": "Nope"}),
        ("FileStreamSource", None),
    ],
)
def test_an_invalid_validation_request_is_a_bad_request(api: Api, plugin: str, body: object):
    assert api.put(f"/connector-plugins/{plugin}/config/validate", body).status == 400


def test_a_level_is_set_on_this_worker_or_on_all(api: Api, logger: str):
    assert api.get(f"/admin/loggers/{logger}").status == 404
    assert api.put(f"/admin/loggers/{logger}", {"level": "debug"}).body == [logger]
    shown = api.get(f"/admin/loggers/{logger}").body
    assert shown["level"] == "DEBUG"
    assert api.get("/admin/loggers").body[logger] == shown
    everywhere = api.put(f"/admin/loggers/{logger}?scope=cluster", {"level": "WARN"})
    assert (everywhere.status, everywhere.text) == (204, "")
    assert api.get(f"/admin/loggers/{logger}").body["level"] == "WARN"
    assert api.put(f"/admin/loggers/{logger}", {"level": "LOUD"}).status == 400
    assert api.put(f"/admin/loggers/{logger}", {"lvl": "INFO"}).status == 400


def test_a_slash_at_the_end_changes_nothing(api: Api):
    assert api.get("/connectors/").body == []
    assert api.get("/connector-plugins/").status == 200


def test_options_and_405_name_the_allowed_methods(api: Api):
    options = api.request("OPTIONS", "/connectors")
    assert (options.status, options.text) == (200, "")
    assert set(options.headers["Allow"].split(", ")) == {"GET", "HEAD", "POST", "OPTIONS"}
    refused = api.delete("/connectors")
    assert refused.status == 405
    assert {"GET", "POST"} <= set(refused.headers["Allow"].split(","))
    assert "DELETE" in refused.message


def test_head_is_get_without_a_body(api: Api):
    answer = api.request("HEAD", "/connectors")
    assert (answer.status, answer.text) == (200, "")


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ("*/*", 200), ("application/*;q=0.8", 200), ("text/html, application/json", 200), ("text/plain", 406),
        ("application/json;q=0", 406), (";", 406), ("", 200),
    ],
)  # fmt: skip
def test_only_json_answers_can_be_requested(api: Api, accept: str, status: int):
    assert api.get("/connectors", headers={"Accept": accept}).status == status


def test_only_json_bodies_are_accepted(api: Api):
    answer = api.post("/connectors", b"{}", headers={"Content-Type": "text/plain"})
    assert answer.status == 415
    assert "application/json" in answer.message


@pytest.mark.parametrize("level", [logging.INFO, logging.DEBUG])
def test_an_unread_body_that_cannot_be_decoded_ends_the_connection(
    api: Api, caplog: pytest.LogCaptureFixture, level: int
):
    """Otherwise the client's next request on this connection is never answered."""
    with caplog.at_level(level, logger="fencepost.rest.protocol"):
        for _ in range(3):
            answer = api.request("DELETE", "/nowhere", b"no gzip" * 9_000, headers={"Content-Encoding": "gzip"})
            assert answer.status == 404
            assert api.get("/health").status == 200
