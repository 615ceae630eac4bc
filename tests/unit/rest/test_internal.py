"""Requests between workers: who may send them, and how their client treats the answers."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable

import pytest

from fencepost.api.errors import FencepostError
from fencepost.herder.core.transaction_info import TaskTransactionInfo
from fencepost.herder.errors import (
    BadRequestError,
    ForbiddenError,
    MissingRightError,
    NotFoundError,
    NotLeaderError,
    RebalanceNeededError,
    RequestFailedError,
)
from fencepost.herder.peers.request_signing import (
    ALGORITHM_HEADER,
    BOUND_SIGNATURE_HEADER,
    ID_HEADER,
    SIGNATURE_HEADER,
    TIME_HEADER,
    VALID_MS,
    AcceptedRequests,
    SignedRequest,
    signature_headers,
    signed_headers,
)
from fencepost.herder.peers.rest_client import RestClient, Signer
from fencepost.kafka.admin.fencing import FencingTimeoutError
from fencepost.kafka.errors import AuthorizationError
from tests.support.model_herder import SESSION_KEY, ModelHerder
from tests.support.refusals import refusal
from tests.support.rest import Api, RestApis
from tests.support.workers import signed

Config = dict[str, str]
Headers = dict[str, str]

NOW = 1_800_000_000_000
FENCE = ("PUT", "/connectors/c/fence")


def _headers(signature: str, algorithm: str = "HmacSHA256") -> dict[str, str]:
    return {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: algorithm}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (dict, 400),
        (lambda: {SIGNATURE_HEADER: "AAAA"}, 400),
        (lambda: _headers("AAAA"), 403),
        (lambda: _headers("AAAA", "HmacMD5"), 400),
        (lambda: _headers("not base64!"), 400),
        (lambda: signed(*FENCE, b"", b"another key"), 403),
        (lambda: signature_headers(b"", SESSION_KEY, "HmacSHA512"), 400),
        (lambda: signature_headers(b"", SESSION_KEY), 400),
        (lambda: signed(*FENCE, b"", SESSION_KEY), 404),
    ],
)
def test_the_signature_is_checked_before_the_connector(api: Api, headers: Callable[[], Headers], status: int):
    """The headers are made in the test itself, because a signature expires within minutes."""
    assert api.put("/connectors/c/fence", headers=headers()).status == status


def test_a_recorded_request_is_refused_for_another_connector(api: Api, herder: ModelHerder, config: Config):
    for name in ("c", "d"):
        assert api.post("/connectors", {"name": name, "config": config}).status == 201
    fence, tasks = signed(*FENCE, b"", SESSION_KEY), signed("POST", "/connectors/c/tasks", b"[{}]", SESSION_KEY)
    assert api.put("/connectors/c/fence", headers=fence).status == 204
    assert api.post("/connectors/c/tasks", b"[{}]", headers=tasks).status == 204
    answers = (
        api.put("/connectors/d/fence", headers=fence),
        api.post("/connectors/d/tasks", b"[{}]", headers=tasks),
        api.put("/connectors/c/fence", b"[{}]", headers=tasks),
    )
    assert [(answer.status, "made for another request" in answer.text) for answer in answers] == [(403, True)] * 3
    without = {name: fence[name] for name in (SIGNATURE_HEADER, ALGORITHM_HEADER)}
    assert api.put("/connectors/d/fence", headers=without).status == 400
    assert (herder.fenced, herder.known["d"].tasks) == (["c"], 1)


def test_where_there_are_workers_of_java_the_body_is_enough(api: Api, herder: ModelHerder, config: Config):
    assert api.post("/connectors", {"name": "c", "config": config}).status == 201
    herder.bound = False
    assert api.put("/connectors/c/fence", headers=signature_headers(b"", SESSION_KEY)).status == 204
    assert api.put("/connectors/c/fence", headers=signed("PUT", "/x", b"", SESSION_KEY)).status == 403


@pytest.mark.parametrize(
    ("changed", "error", "said"),
    [
        ({}, None, ""),
        ({BOUND_SIGNATURE_HEADER: None}, BadRequestError, "came without"),
        ({TIME_HEADER: None}, BadRequestError, "came without"),
        ({TIME_HEADER: "soon"}, BadRequestError, "came without"),
        ({ID_HEADER: None}, BadRequestError, "came without"),
        ({ID_HEADER: "1\n2"}, BadRequestError, "came without"),
        ({ID_HEADER: "1"}, ForbiddenError, "another request"),
        ({TIME_HEADER: str(NOW + 1)}, ForbiddenError, "another request"),
        ({BOUND_SIGNATURE_HEADER: "not base64!"}, BadRequestError, "is not base64"),
    ],
)
def test_method_path_time_and_id_are_signed(changed: dict[str, str | None], error: type[Exception] | None, said: str):
    headers = signed_headers(*FENCE, b"", SESSION_KEY, now_ms=NOW) | changed
    request = SignedRequest.of(*FENCE, b"", {name: value for name, value in headers.items() if value is not None})
    if error is None:
        request.verify(SESSION_KEY, now_ms=NOW, bound=True)
    else:
        with pytest.raises(error, match=said):
            request.verify(SESSION_KEY, now_ms=NOW, bound=True)


@pytest.mark.parametrize("late_ms", [-VALID_MS - 1, -VALID_MS, VALID_MS, VALID_MS + 1])
def test_a_request_is_good_for_some_minutes_by_either_clock(late_ms: int):
    request = SignedRequest.of(*FENCE, b"", signed_headers(*FENCE, b"", SESSION_KEY, now_ms=NOW))
    if abs(late_ms) <= VALID_MS:
        request.verify(SESSION_KEY, now_ms=NOW + late_ms, bound=True)
    else:
        with pytest.raises(ForbiddenError, match="set the clocks"):
            request.verify(SESSION_KEY, now_ms=NOW + late_ms, bound=True)


def test_the_error_says_whose_clock_is_ahead():
    request = SignedRequest.of(*FENCE, b"", signed_headers(*FENCE, b"", SESSION_KEY, now_ms=NOW))
    for late_ms, said in ((-1_200_000, "1200 s ahead of"), (1_200_000, "1200 s behind")):
        with pytest.raises(ForbiddenError, match=said):
            request.verify(SESSION_KEY, now_ms=NOW + late_ms, bound=True)


def test_tasks_that_start_in_the_same_millisecond_are_both_fenced():
    accepted = AcceptedRequests()
    for _ in range(2):
        request = SignedRequest.of(*FENCE, b"", signed_headers(*FENCE, b"", SESSION_KEY, now_ms=NOW))
        assert refusal(request.verify, SESSION_KEY, now_ms=NOW, bound=True) is None
        assert refusal(accepted.accept, request, now_ms=NOW) is None


def test_a_request_is_accepted_once_while_its_signature_is_valid():
    accepted = AcceptedRequests()
    headers = signed_headers(*FENCE, b"", SESSION_KEY, now_ms=NOW)
    request = SignedRequest.of(*FENCE, b"", headers)
    accepted.accept(request, now_ms=NOW - VALID_MS)
    accepted.accept(SignedRequest.of(*FENCE, b"", signed_headers(*FENCE, b"", SESSION_KEY, now_ms=NOW + 1)), now_ms=NOW)
    for now_ms in (NOW - VALID_MS, NOW, NOW + VALID_MS):
        with pytest.raises(ForbiddenError, match="replays"):
            accepted.accept(request, now_ms=now_ms)


def test_a_signature_that_is_spelt_otherwise_is_the_same():
    """In Base64, the last character before the padding has unused bits."""
    headers = signed_headers(*FENCE, b"", SESSION_KEY, now_ms=NOW)
    given = headers[BOUND_SIGNATURE_HEADER]
    assert given.endswith("=")
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    other = f"{given[:-2]}{alphabet[alphabet.index(given[-2]) ^ 1]}="
    copy = SignedRequest.of(*FENCE, b"", headers | {BOUND_SIGNATURE_HEADER: other})
    copy.verify(SESSION_KEY, now_ms=NOW, bound=True)
    accepted = AcceptedRequests()
    accepted.accept(SignedRequest.of(*FENCE, b"", headers), now_ms=NOW)
    with pytest.raises(ForbiddenError, match="replays"):
        accepted.accept(copy, now_ms=NOW)


def test_a_request_signature_is_invalid_as_a_body_signature():
    """A signature over method, path, time and body must not be valid for a body with these bytes."""
    headers = signed_headers(*FENCE, b"", SESSION_KEY, now_ms=NOW)
    spelt = "\n".join((*FENCE, str(NOW), "")).encode()
    forged = {SIGNATURE_HEADER: headers[BOUND_SIGNATURE_HEADER], ALGORITHM_HEADER: "HmacSHA256"}
    with pytest.raises(ForbiddenError):
        SignedRequest.of(*FENCE, spelt, forged).verify(SESSION_KEY, now_ms=NOW)


def test_requests_are_refused_before_the_session_key_is_known(api: Api, herder: ModelHerder):
    herder.session_key = None
    assert api.put("/connectors/c/fence", headers=signed(*FENCE, b"", SESSION_KEY)).status == 503


def test_a_signature_matches_javas_for_the_body():
    # RFC 4231, test case 2.
    headers = signature_headers(b"what do ya want for nothing?", b"Jefe")
    expected = bytes.fromhex("5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843")
    assert base64.b64decode(headers[SIGNATURE_HEADER]) == expected
    assert headers[ALGORITHM_HEADER] == "HmacSHA256"


def test_a_changed_body_does_not_match_its_signature():
    headers = signature_headers(b"[]", SESSION_KEY)
    request = SignedRequest.of(*FENCE, b"[{}]", headers)
    with pytest.raises(ForbiddenError):
        request.verify(SESSION_KEY, now_ms=NOW)


def test_workers_hand_task_configs_to_the_leader_and_have_it_fence(
    apis: RestApis, api: Api, herder: ModelHerder, config: Config
):
    name = "a/b ü"
    assert api.post("/connectors", {"name": name, "config": config}).status == 201

    async def scenario() -> None:
        client, signer = RestClient(), Signer(SESSION_KEY)
        try:
            await client.put_task_configs(f"{api.url}/", name, [{"task": "ü"}, {}, {}], signer)
            await client.fence_zombie_source_tasks(api.url, name, signer)
        finally:
            await client.close()

    apis.call(scenario())
    assert herder.known[name].tasks == 3
    assert herder.fenced == [name]


def test_a_request_that_is_sent_again_is_signed_again(apis: RestApis):
    """The leader may have received the first attempt, whose connection was lost."""
    ids: list[str] = []

    async def attempt(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        ids.append(next(line.split()[1] for line in head.splitlines() if line.startswith(ID_HEADER)))
        if len(ids) > 1:
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
        writer.close()

    async def scenario() -> None:
        client = RestClient()
        server = await asyncio.start_server(attempt, "127.0.0.1")
        try:
            host, port = server.sockets[0].getsockname()
            await client.fence_zombie_source_tasks(f"http://{host}:{port}", "c", Signer(SESSION_KEY))
        finally:
            await client.close()
            server.close()

    apis.call(scenario())
    assert len(set(ids)) == len(ids) == 2


def test_workers_show_each_other_their_open_transactions(apis: RestApis, api: Api, config: Config):
    assert api.post("/connectors", {"name": "a/b", "config": config}).status == 201
    assert api.get("/connectors/a%2Fb/transactions/local").status == 400

    async def scenario() -> list[TaskTransactionInfo]:
        client = RestClient()
        try:
            found = await client.task_transactions(api.url, "a/b", Signer(SESSION_KEY), None)
            return [TaskTransactionInfo.from_json(body) for body in found]
        finally:
            await client.close()

    (transaction,) = apis.call(scenario())
    assert (transaction.transactional_id, transaction.producer_id, transaction.records) == ("group-a/b-0", 1000, 2)
    assert transaction.last_commit is not None
    assert transaction.last_commit.offsets == [{"partition": {"p": "a"}, "offset": {"o": 3}}]


@pytest.mark.parametrize(
    ("connector", "key", "error"),
    [("nope", SESSION_KEY, NotFoundError), ("nope", b"x", ForbiddenError), ("nope", None, BadRequestError)],
)
def test_errors_of_the_leader_are_raised(
    apis: RestApis, api: Api, connector: str, key: bytes | None, error: type[Exception]
):
    async def scenario() -> None:
        client = RestClient()
        try:
            signer = None if key is None else Signer(key)
            with pytest.raises(error, match=connector):
                await client.fence_zombie_source_tasks(api.url, connector, signer)
            with pytest.raises(RebalanceNeededError, match=r"cannot be reached \(.*Connect call failed"):
                await client.fence_zombie_source_tasks("http://127.0.0.1:1", connector, signer)
        finally:
            await client.close()

    apis.call(scenario())


@pytest.mark.parametrize(
    ("refusal", "said"),
    [
        (FencingTimeoutError("g-c-0", 30_000, "no answer yet"), "Check the health of the brokers"),
        (AuthorizationError("transactional id g-c-0", "WRITE and DESCRIBE"), "WRITE and DESCRIBE on transactional id"),
        (RequestFailedError("The task count of connector c could not be written"), "could not be written"),
    ],
)
def test_a_failure_to_fence_earlier_tasks_is_reported_with_its_reason(
    api: Api, herder: ModelHerder, config: Config, refusal: FencepostError, said: str
):
    assert api.post("/connectors", {"name": "c", "config": config}).status == 201
    herder.refusal = refusal
    answer = api.put("/connectors/c/fence", headers=signed(*FENCE, b"", SESSION_KEY))
    assert (answer.status, said in answer.body["message"]) == (500, True)


def test_a_right_missing_on_the_leader_is_named_over_two_hops(
    apis: RestApis, api: Api, herder: ModelHerder, config: Config
):
    assert api.post("/connectors", {"name": "c", "config": config}).status == 201
    herder.refusal = AuthorizationError("TransactionalId group-c-0", "WRITE and DESCRIBE")
    follower = ModelHerder()
    follower.elsewhere = NotLeaderError("Only the leader", forward_url=api.url)

    async def scenario(url: str) -> None:
        client = RestClient()
        try:
            with pytest.raises(
                MissingRightError, match=r"status 500: .* WRITE and DESCRIBE on TransactionalId group-c-0"
            ):
                await client.fence_zombie_source_tasks(url, "c", Signer(SESSION_KEY))
        finally:
            await client.close()

    for url in (api.url, apis.serve(follower).url):
        apis.call(scenario(url))


@pytest.mark.parametrize("body", [None, {}, [1], [{"a": None}], b"["])
def test_malformed_task_configs_are_refused(api: Api, body: object):
    content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    headers = signed("POST", "/connectors/c/tasks", content or b"", SESSION_KEY)
    assert api.post("/connectors/c/tasks", content, headers=headers).status == 400
