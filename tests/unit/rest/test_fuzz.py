"""Whatever a client sends, the answer is not that the worker failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.model_herder import ModelHerder
from tests.support.rest import Api, RestApis

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
CONNECTOR = {"connector.class": "FileStreamSource", "topic": "t"}

segments = st.one_of(
    st.sampled_from(["known", "unknown", "0", "FileStreamSource", "root", "%FF", "%2F", "%25", "%00", "%ED%A0%80"]),
    st.text(min_size=1, max_size=8).map(lambda text: quote(text.encode("utf-8", "replace"), safe="")),
)
paths = st.one_of(
    st.sampled_from(["/", "/health", "/metrics", "/connectors", "/connector-plugins", "/admin/loggers"]),
    st.builds(
        lambda name, rest: f"/connectors/{name}{rest}",
        segments,
        st.sampled_from(
            ["", "/config", "/status", "/tasks", "/topics", "/topics/reset", "/offsets", "/restart", "/pause", "/stop",
             "/resume", "/fence", "/tasks/0/status", "/tasks/999999999/restart", "/tasks/-1/status"]
        ),
    ),
    st.builds(
        lambda name, rest: f"/connector-plugins/{name}/config{rest}", segments, st.sampled_from(["", "/validate"])
    ),
    st.builds(lambda name: f"/admin/loggers/{name}", segments),
    st.lists(segments, min_size=1, max_size=4).map(lambda parts: "/" + "/".join(parts)),
)  # fmt: skip
queries = st.sampled_from(
    ["", "?expand=status", "?expand=", "?includeTasks=true", "?onlyFailed=banana", "?forward=x", "?version=1", "?%FF=%",
     "?scope=cluster", "?connectorsOnly=false"]
)  # fmt: skip

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
properties = st.sampled_from(
    ["name", "connector.class", "tasks.max", "transforms", "predicates", "transforms.a.type", "key.converter",
     "topic.creation.groups", "exactly.once.support", "producer.override.acks", "batch.size", "file",
     "value.converter.schemas.enable", "transforms.a.predicate"]
)  # fmt: skip
values = st.sampled_from(["a", "known", "", "JsonConverter", "Cast$Value", "a,b", "1", "required"]) | json_values
configs = st.dictionaries(properties, values, max_size=4).map(lambda given: {**CONNECTOR, **given})
offsets = st.fixed_dictionaries({"partition": json_values, "offset": json_values})
creations = st.fixed_dictionaries(
    {"name": values, "config": configs},
    optional={"initial_state": st.sampled_from(["PAUSED", "stopped"]) | json_values},
)
alterations = st.fixed_dictionaries({"offsets": st.lists(offsets, max_size=2) | json_values})
levels = st.fixed_dictionaries({"level": st.sampled_from(["INFO", "no"]) | json_values})
encoded = (
    st.sampled_from([configs, creations, alterations, levels, json_values])
    .flatmap(lambda kind: kind)
    .map(lambda body: json.dumps(body).encode())
)
bodies = st.one_of(st.none(), st.binary(max_size=12), encoded)


def operation(method: str, path: str, body: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[str, str, object]]:
    """Requests that are nearly right."""
    return st.tuples(st.just(method), st.just(path), body | json_values)


operations = st.one_of(
    operation("POST", "/connectors", creations),
    operation("PUT", "/connectors/known/config", configs),
    operation("PATCH", "/connectors/known/config", configs),
    operation("PATCH", "/connectors/known/offsets", alterations),
    operation("PUT", "/connector-plugins/FileStreamSource/config/validate", configs),
    operation("PUT", "/admin/loggers/some.logger", levels),
    operation("POST", "/connectors/known/tasks", st.lists(configs, max_size=2)),
).map(lambda asked: (*asked[:2], json.dumps(asked[2]).encode(), {}))
headers = st.dictionaries(
    st.sampled_from(["Accept", "Content-Type", "X-Connect-Authorization", "X-Connect-Request-Signature-Algorithm"]),
    st.sampled_from(["application/json", "*/*", "text/plain", ";", "HmacSHA256", "AAAA", "=", "a/b;q=0"]),
    max_size=3,
)


@pytest.fixture(scope="module")
def worker() -> Iterator[tuple[Api, ModelHerder]]:
    with RestApis() as apis:
        herder = ModelHerder()
        yield apis.serve(herder), herder


anything = st.tuples(st.sampled_from(METHODS), st.builds(str.__add__, paths, queries), bodies, headers)


@settings(max_examples=250, suppress_health_check=list(HealthCheck))
@given(operations | anything)
def test_no_request_makes_the_worker_fail(
    worker: tuple[Api, ModelHerder], request: tuple[str, str, bytes | None, dict[str, str]]
):
    api, herder = worker
    method, path, body, given_headers = request
    if "known" not in herder.known:
        assert api.post("/connectors", {"name": "known", "config": CONNECTOR}).status == 201
        assert api.put("/connectors/known/stop").status == 204
    answer = api.request(method, path, body, headers=given_headers)
    assert answer.status < 500, answer.text
    if answer.status >= 400 and method != "HEAD":
        assert answer.message
