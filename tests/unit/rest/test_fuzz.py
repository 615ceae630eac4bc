"""No request of a client makes the worker answer that it failed."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.model_herder import ModelHerder
from tests.support.rest import Api, RestApis
from tests.support.rest_fuzz import CONNECTOR, Request, requests


@pytest.fixture(scope="module")
def worker() -> Iterator[tuple[Api, ModelHerder]]:
    with RestApis() as apis:
        herder = ModelHerder()
        yield apis.serve(herder), herder


@settings(max_examples=300, suppress_health_check=list(HealthCheck))
@given(requests("known"))
def test_no_request_makes_the_worker_fail(worker: tuple[Api, ModelHerder], request: Request):
    api, herder = worker
    if "known" not in herder.known:
        assert api.post("/connectors", {"name": "known", "config": CONNECTOR}).status == 201
        assert api.put("/connectors/known/stop").status == 204
    answer = api.request(request.method, request.path, request.body, headers=request.headers)
    assert answer.status < 500, answer.text
    if answer.status >= 400 and request.method != "HEAD":
        assert answer.message
