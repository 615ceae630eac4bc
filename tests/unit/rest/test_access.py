"""Who may send requests: users, certificates, the admin listener, and workers with signatures."""

from __future__ import annotations

import base64
import socket
import ssl
from pathlib import Path

import pytest
from aiohttp import ClientError

from fencepost.api.errors import ConfigError
from fencepost.config.rest_config import RestConfig
from fencepost.herder.errors import NotLeaderError
from fencepost.rest.server import RestServer
from tests.support.model_herder import SESSION_KEY, ModelHerder
from tests.support.rest import ANY_PORT, RestApis
from tests.support.security import make_certificate
from tests.support.workers import signed

ANY_HTTPS_PORT = "https://127.0.0.1:0"


def test_users_are_authenticated_by_name_and_password(apis: RestApis, tmp_path: Path):
    users = tmp_path / "users.properties"
    users.write_text("ann=s3cret: ü\nbob=other\n", encoding="utf-8")
    api = apis.serve(ModelHerder(), {"rest.basic.auth.credentials.file": str(users)})

    def status(path: str, credentials: str | None, method: str = "GET") -> int:
        headers = {}
        if credentials is not None:
            headers["Authorization"] = f"Basic {base64.b64encode(credentials.encode()).decode()}"
        return api.request(method, path, headers=headers).status

    assert status("/connectors", "ann:s3cret: ü") == 200
    assert status("/connectors", "ann:other") == 401
    assert status("/connectors", "eve:") == 401
    assert status("/connectors", None) == 401
    assert status("/nope", None) == 401
    assert status("/health", None) == 200
    assert status("/connectors/c/fence", None, "PUT") == 400
    refused = api.get("/connectors", headers={"Authorization": "Basic %%%"})
    assert refused.status == 401
    assert refused.headers["WWW-Authenticate"].startswith("Basic")


def test_credentials_go_along_to_the_leader(apis: RestApis, tmp_path: Path):
    users = tmp_path / "users.properties"
    users.write_text("ann=secret\n")
    properties = {"rest.basic.auth.credentials.file": str(users)}
    leader = apis.serve(ModelHerder(), properties)
    follower = ModelHerder()
    follower.elsewhere = NotLeaderError("Not the leader", forward_url=leader.url)
    headers = {"Authorization": f"Basic {base64.b64encode(b'ann:secret').decode()}"}
    assert apis.serve(follower, properties).delete("/connectors/c", headers=headers).status == 404


def _https(folder: Path, **more: str) -> dict[str, str]:
    authorities, key_store = make_certificate(folder)
    given = {"keystore.location": str(key_store), "truststore.location": str(authorities), **more}
    return {"listeners": ANY_HTTPS_PORT} | {f"listeners.https.ssl.{name}": value for name, value in given.items()}


def _trusting(properties: dict[str, str]) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=properties["listeners.https.ssl.truststore.location"])


def test_https_listeners_serve_and_workers_forward_over_them(apis: RestApis, tmp_path: Path):
    properties = _https(tmp_path)
    leader = apis.serve(ModelHerder(), properties)
    assert leader.url.startswith("https://127.0.0.1:")
    assert leader.get("/connectors", tls=_trusting(properties)).status == 200
    follower = ModelHerder()
    follower.elsewhere = NotLeaderError("Not the leader", forward_url=leader.url)
    answer = apis.serve(follower, properties).delete("/connectors/c", tls=_trusting(properties))
    assert answer.status == 404


def test_clients_must_present_a_certificate_if_required(apis: RestApis, tmp_path: Path):
    properties = _https(tmp_path, **{"client.auth": "required"})
    worker = apis.serve(ModelHerder(), properties)
    trusting = _trusting(properties)
    with pytest.raises((ClientError, OSError)):
        worker.get("/connectors", tls=trusting)
    trusting.load_cert_chain(properties["listeners.https.ssl.keystore.location"])
    assert worker.get("/connectors", tls=trusting).status == 200


def test_a_worker_that_is_not_trusted_gets_no_request(apis: RestApis, tmp_path: Path):
    (tmp_path / "other").mkdir()
    leader = apis.serve(ModelHerder(), _https(tmp_path))
    follower = ModelHerder()
    follower.elsewhere = NotLeaderError("Not the leader", forward_url=leader.url)
    answer = apis.serve(follower, {**_https(tmp_path / "other"), "listeners": ANY_PORT}).delete("/connectors/c")
    assert answer.status == 500


def test_without_admin_listeners_no_admin_endpoints_exist(apis: RestApis):
    assert apis.serve(ModelHerder(), {"admin.listeners": ""}).get("/admin/loggers").status == 404


def test_admin_answers_only_at_its_own_listener(apis: RestApis):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    api = apis.serve(ModelHerder(), {"admin.listeners": f"http://127.0.0.1:{port}"})
    assert api.get("/admin/loggers").status == 404
    assert apis.request("GET", f"http://127.0.0.1:{port}/admin/loggers").status == 200
    assert apis.request("GET", f"http://127.0.0.1:{port}/connectors").status == 404


def test_read_requests_need_a_user_even_if_signed(apis: RestApis, tmp_path: Path):
    users = tmp_path / "users.properties"
    users.write_text("ann=secret\n")
    api = apis.serve(ModelHerder(), {"rest.basic.auth.credentials.file": str(users)})
    headers = signed("GET", "/connectors/c/transactions/local", b"", SESSION_KEY)
    assert api.get("/connectors/c/transactions/local", headers=headers).status == 401
    assert api.get("/connectors/c/transactions", headers=headers).status == 401


def test_an_internal_request_needs_no_user_but_a_signature(apis: RestApis, tmp_path: Path):
    users = tmp_path / "users.properties"
    users.write_text("ann=secret\n")
    api = apis.serve(ModelHerder(), {"rest.basic.auth.credentials.file": str(users)})
    assert api.put("/connectors/c/fence", headers=signed("PUT", "/connectors/c/fence", b"", SESSION_KEY)).status == 404


def test_an_https_listener_without_a_certificate_is_refused():
    config = RestConfig.from_properties({"listeners": ANY_HTTPS_PORT}, where="w")
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location"):
        RestServer(config)
