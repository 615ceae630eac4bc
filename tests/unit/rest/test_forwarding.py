"""Requests reach the worker that can carry them out, over at most two hops."""

from __future__ import annotations

import asyncio

import pytest

from fencepost.herder.errors import NotAssignedError, NotLeaderError
from fencepost.rest.forwarding import next_hop
from tests.support.model_herder import SESSION_KEY, ModelHerder
from tests.support.rest import RestApis
from tests.support.workers import signed

Config = dict[str, str]


def _follower(leader_url: str | None) -> ModelHerder:
    """A herder that is not the leader, and takes another worker for the leader."""
    herder = ModelHerder()
    herder.elsewhere = NotLeaderError("This worker is not the leader", forward_url=leader_url)
    return herder


def test_a_follower_answers_as_the_leader_does_with_its_own_address(
    apis: RestApis, herder: ModelHerder, config: Config
):
    follower = apis.serve(_follower(apis.serve(herder).url))
    created = follower.post("/connectors", {"name": "a/b ü", "config": config})
    assert (created.status, created.body["name"]) == (201, "a/b ü")
    assert created.headers["Location"] == f"{follower.url}/connectors/a%2Fb%20%C3%BC"
    assert follower.post("/connectors", {"name": "a/b ü", "config": config}).status == 409
    assert list(herder.known) == ["a/b ü"]
    gone = follower.delete("/connectors/a%2Fb%20%C3%BC")
    assert (gone.status, gone.text) == (204, "")
    assert herder.known == {}


def test_errors_of_the_leader_are_returned_unchanged(apis: RestApis, herder: ModelHerder):
    leader = apis.serve(herder)
    follower = apis.serve(_follower(leader.url))
    assert follower.delete("/connectors/nope").text == leader.delete("/connectors/nope").text


def test_a_forwarded_request_keeps_its_query(apis: RestApis, herder: ModelHerder, config: Config):
    follower = apis.serve(_follower(apis.serve(herder).url))
    follower.post("/connectors", {"name": "c", "config": config})
    answer = follower.post("/connectors/c/restart?includeTasks=true&onlyFailed=false")
    assert (answer.status, answer.body["tasks"][0]["state"]) == (202, "RESTARTING")


def test_a_request_is_taken_to_the_worker_that_runs_the_connector(apis: RestApis, herder: ModelHerder, config: Config):
    owner = apis.serve(herder)
    owner.post("/connectors", {"name": "c", "config": config})
    leader = ModelHerder()
    leader.elsewhere = NotAssignedError("Another worker runs it", forward_url=owner.url)
    assert apis.serve(leader).post("/connectors/c/restart").status == 204
    assert leader.passed_on == 1


def test_a_forwarded_request_keeps_its_signature(apis: RestApis, herder: ModelHerder, config: Config):
    follower = apis.serve(_follower(apis.serve(herder).url))
    follower.post("/connectors", {"name": "c", "config": config})
    assert (
        follower.put("/connectors/c/fence", headers=signed("PUT", "/connectors/c/fence", b"", SESSION_KEY)).status
        == 204
    )
    assert (
        follower.put("/connectors/c/fence", headers=signed("PUT", "/connectors/c/fence", b"", b"another")).status == 403
    )
    assert herder.fenced == ["c"]


def test_two_workers_that_see_each_other_as_the_leader_stop_after_two_hops(apis: RestApis):
    first, second = _follower(None), _follower(None)
    first_api, second_api = apis.serve(first), apis.serve(second)
    first.elsewhere = NotLeaderError("Not the leader", forward_url=second_api.url)
    second.elsewhere = NotLeaderError("Not the leader", forward_url=first_api.url)
    answer = first_api.delete("/connectors/c")
    assert answer.status == 409
    assert "ask again" in answer.message
    assert (first.passed_on, second.passed_on) == (2, 1)


def test_without_a_known_leader_clients_are_to_ask_again(apis: RestApis):
    assert apis.serve(_follower(None)).delete("/connectors/c").status == 409


def test_while_a_dead_leader_is_still_in_the_group_clients_are_to_ask_again(apis: RestApis):
    answer = apis.serve(_follower("http://127.0.0.1:1")).delete("/connectors/c")
    assert answer.status == 409
    assert "rest.advertised" in answer.message


def test_a_leader_that_dies_over_a_request_may_have_carried_it_out(apis: RestApis):
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()
        await writer.wait_closed()

    server = apis.call(asyncio.start_server(hang_up, "127.0.0.1", 0))
    answer = apis.serve(_follower(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")).delete("/connectors/c")
    server.close()
    apis.call(server.wait_closed())
    assert answer.status == 500
    assert "look before asking again" in answer.message


@pytest.mark.parametrize(
    ("query", "hop"),
    [({}, "true"), ({"forward": "true"}, "false"), ({"forward": "false"}, None), ({"forward": "x"}, None)],
)
def test_each_hop_says_whether_there_may_be_another(query: dict[str, str], hop: str | None):
    assert next_hop(query) == hop
