"""The answer about tasks whose workers cannot be reached."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest
from aiohttp import encode_basic_auth

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.core.transaction_info import TaskTransactionInfo
from fencepost.herder.distributed.transaction_requests import ask
from fencepost.herder.peers.rest_client import RestClient, Signer
from fencepost.herder.requests.local_transactions import merge
from tests.support.model_herder import SESSION_KEY, ModelHerder
from tests.support.rest import RestApis

TASKS = [ConnectorTaskId("c", number) for number in range(3)]


def here(number: int) -> TaskTransactionInfo:
    return TaskTransactionInfo(number, "a:1", f"g-c-{number}", "READY", 1, 2, None, 0, 0)


def test_a_worker_that_does_not_answer_hides_its_own_tasks_only():
    owners = dict(zip(TASKS, ["a:1", "b:1", ""], strict=True))
    answers: dict[str, list[TaskTransactionInfo] | str] = {"a:1": [here(0)], "b:1": "gone"}
    first, second, third = merge(owners, answers, "g")
    assert first == here(0)
    assert second == TaskTransactionInfo(1, "b:1", "g-c-1", error="gone")
    assert third.error == "The task does not run: its status says why"


def test_a_task_that_has_moved_since_its_last_status_is_found_where_it_is():
    owners = dict(zip(TASKS, ["b:1", "b:1", "b:1"], strict=True))
    answers: dict[str, list[TaskTransactionInfo] | str] = {"a:1": [here(2)], "b:1": "gone"}
    assert [found.state for found in merge(owners, answers, "g")] == [None, None, "READY"]


async def _asked(
    url: str, key: bytes | None = SESSION_KEY, authorization: str | None = None, seconds: float = 60
) -> list[TaskTransactionInfo] | str:
    client = RestClient()
    try:
        return await ask(client, url, "c", None if key is None else Signer(key), authorization, seconds=seconds)
    finally:
        await client.close()


def test_the_reason_why_a_worker_cannot_be_reached_is_shown():
    with RestApis() as apis, socket.create_server(("127.0.0.1", 0)) as hanging:
        assert "cannot be reached" in apis.call(_asked("http://127.0.0.1:1"))
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        assert "did not answer within 0.1 s" in apis.call(_asked(url, seconds=0.1))
        assert "signature is wrong" in apis.call(_asked(apis.serve(ModelHerder()).url, key=b"another"))


def test_another_worker_gets_the_users_credentials_and_the_signature(tmp_path: Path):
    users = tmp_path / "users.properties"
    users.write_text("ann=secret\n")
    ann = encode_basic_auth("ann", "secret")
    with RestApis() as apis:
        url = apis.serve(ModelHerder(), {"rest.basic.auth.credentials.file": str(users)}).url
        assert "There is no connector c" in apis.call(_asked(url, authorization=ann))
        assert "status 401" in apis.call(_asked(url))
        assert "status 400" in apis.call(_asked(url, key=None, authorization=ann))


def test_settings_of_another_version_are_ignored():
    with pytest.raises(TypeError):
        TaskTransactionInfo.from_json({"id": 0, "worker_id": "a:1", "transactional_id": "g-c-0", "new_field": 1})


@pytest.mark.parametrize("body", ["text", [1], None, {}, {"id": 1, "more": 2}, {"last_commit": "yesterday"}])
def test_an_unknown_transaction_type_is_a_type_error(body: Any):
    with pytest.raises(TypeError):
        TaskTransactionInfo.from_json(body)
