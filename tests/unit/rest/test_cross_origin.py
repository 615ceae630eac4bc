"""Other sites' pages cannot use a worker unless they are allowed to; other clients can, as without a browser."""

from __future__ import annotations

import asyncio
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.rest_config import CrossOrigin, RestConfig
from fencepost.herder.errors import NotLeaderError
from fencepost.rest.cross_origin import OwnAddresses, is_known_host, is_own
from tests.support.model_herder import ModelHerder
from tests.support.rest import Api, RestApis

EVIL = "https://evil.example"
FRIEND = "https://tools.example:8443"
REQUESTS = [
    ("GET", "/"),
    ("GET", "/connectors"),
    ("POST", "/connectors/c/restart"),
    ("PUT", "/connectors/c/pause"),
    ("DELETE", "/connectors/c"),
    ("GET", "/health"),
    ("GET", "/metrics"),
    ("GET", "/ui/"),
    ("GET", "/ui/api/overview"),
    ("GET", "/ui/api/events"),
    ("PUT", "/ui/api/transactions/t/abort"),
    ("GET", "/admin/loggers"),
    ("GET", "/nowhere"),
]
IMAGE = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors", "Sec-Fetch-Dest": "image"}
LINK = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
PREFLIGHT = {"Access-Control-Request-Method": "PUT", "Access-Control-Request-Headers": "content-type"}


@pytest.mark.parametrize("origin", [EVIL, "null", "http://localhost:1", "chrome-extension://abc", "", "evil"])
@pytest.mark.parametrize(("method", "path"), REQUESTS)
def test_requests_of_other_sites_pages_are_refused(api: Api, method: str, path: str, origin: str):
    answer = api.request(method, path, headers={"Origin": origin})
    assert answer.status == 403
    assert "access.control.allow.origin" in answer.message
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_page_of_another_site_restarts_and_deletes_nothing(apis: RestApis, config: dict[str, str]):
    herder = ModelHerder()
    api = apis.serve(herder)
    assert api.post("/connectors", {"name": "c", "config": config}).status == 201
    for method, path in (("DELETE", "/connectors/c"), ("PUT", "/connectors/c/stop")):
        assert api.request(method, path, headers={"Origin": EVIL}).status == 403
    assert api.get("/connectors").body == ["c"]


@pytest.mark.parametrize(("method", "path"), REQUESTS[:5])
def test_a_request_for_content_embedded_by_a_page_is_refused(api: Api, method: str, path: str):
    assert api.request(method, path, headers=IMAGE).status == 403
    assert api.request(method, path, headers={**IMAGE, "Sec-Fetch-Site": "same-site"}).status == 403
    frame = {**LINK, "Sec-Fetch-Dest": "iframe"}
    assert api.request(method, path, headers=frame).status == 403


@pytest.mark.parametrize(("method", "path"), [("DELETE", "/connectors/c"), ("GET", "/connectors"), ("POST", "/ui")])
def test_a_link_of_another_site_leads_nowhere_else(api: Api, method: str, path: str):
    assert api.request(method, path, headers=LINK).status == 403


@pytest.mark.parametrize("site", ["CROSS-SITE", "cross-site, same-origin", "same-site", "anything"])
def test_a_request_of_an_unknown_site_is_refused(api: Api, site: str):
    assert api.get("/connectors", headers={"Sec-Fetch-Site": site}).status == 403


def test_a_link_of_another_site_leads_to_the_page(api: Api):
    assert api.get("/ui/", headers=LINK).status == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Origin": "http://127.0.0.1:{port}"},
        {"Origin": "http://localhost:9999", "Host": "localhost:9999"},
        {"Origin": "http://localhost", "Host": "localhost"},
        {"Origin": "http://worker.example", "Host": "worker.example:80"},
        {"Origin": "http://WORKER.example:8083"},
        {"Origin": "https://proxy.example", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"},
    ],
)
def test_requests_of_the_workers_page_and_of_programs_are_allowed(apis: RestApis, headers: dict[str, str]):
    advertised = {"rest.advertised.host.name": "Worker.Example", "rest.advertised.port": "8083"}
    apis.serve(ModelHerder(), advertised)
    local = Api(apis, _bound_url(apis))
    given = {name: text.format(port=urlsplit(local.url).port) for name, text in headers.items()}
    assert local.get("/connectors", headers=given).status == 200
    assert local.delete("/connectors/c", headers=given).status == 404


def _bound_url(apis: RestApis) -> str:
    return str(apis._servers[-1]._bound[0])


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403),
        ("evil.example:8083", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("10.0.0.1", 403),
        ("a@b", 403),
        ("localhost", 200),
        ("localhost:9999", 200),
        ("LocalHost.", 200),
        ("127.0.0.1", 200),
        ("127.9.9.9:1", 200),
        ("[::1]:8083", 200),
    ],
)
def test_a_loopback_listener_takes_only_known_hosts(api: Api, host: str, status: int):
    for path in ("/connectors", "/health", "/ui/"):
        answer = api.get(path, headers={"Host": host})
        assert answer.status == status
        assert status == 200 or "rest.allowed.hosts" in answer.message


def test_further_hosts_can_be_allowed(apis: RestApis):
    api = apis.serve(ModelHerder(), {"rest.allowed.hosts": "Proxy.example, [fe80::1]"})
    allowed = {
        host: api.get("/connectors", headers={"Host": host}).status for host in ("proxy.example", "x", "[fe80::1]:1")
    }
    assert allowed == {"proxy.example": 200, "x": 403, "[fe80::1]:1": 200}
    anywhere = apis.serve(ModelHerder(), {"rest.allowed.hosts": "*"})
    assert anywhere.get("/connectors", headers={"Host": "x"}).status == 200


def test_a_public_listener_accepts_any_host_unless_hosts_are_configured(apis: RestApis):
    listeners = {"listeners": "http://0.0.0.0:0"}
    for given, status in (({}, 200), ({"rest.allowed.hosts": "proxy.example"}, 403)):
        apis.serve(ModelHerder(), {**listeners, **given})
        port = apis._servers[-1]._bound[0].port
        api = Api(apis, f"http://127.0.0.1:{port}")
        assert api.get("/health", headers={"Host": f"10.1.2.3:{port}"}).status == status
        assert api.get("/health").status == 200


def test_a_request_of_http_1_0_needs_no_host(apis: RestApis, api: Api):
    async def answer() -> bytes:
        reader, writer = await asyncio.open_connection(*api.url.removeprefix("http://").split(":"))
        writer.write(b"GET /connectors HTTP/1.0\r\n\r\n")
        received = await reader.read()
        writer.close()
        return received

    assert apis.call(answer()).split()[1] == b"200"


def test_pages_of_an_allowed_origin_may_read_and_write_as_with_connect(apis: RestApis):
    properties = {"access.control.allow.origin": f"https://other.example, {FRIEND}/"}
    api = apis.serve(ModelHerder(), {**properties, "access.control.allow.methods": "get,PUT"})
    read = api.get("/connectors", headers={"Origin": FRIEND})
    assert (read.status, read.headers["Access-Control-Allow-Origin"], read.headers["Vary"]) == (200, FRIEND, "Origin")
    missing = api.put("/connectors/c/pause", headers={"Origin": FRIEND})
    assert (missing.status, missing.headers["Access-Control-Allow-Origin"]) == (404, FRIEND)
    preflight = api.request("OPTIONS", "/connectors", headers={"Origin": FRIEND, **PREFLIGHT})
    assert preflight.status == 200
    assert preflight.headers["Access-Control-Allow-Methods"] == "GET, PUT"
    assert "Content-Type" in preflight.headers["Access-Control-Allow-Headers"]
    assert api.get("/connectors", headers={"Origin": EVIL}).status == 403
    assert api.request("OPTIONS", "/connectors", headers={"Origin": EVIL, **PREFLIGHT}).status == 403
    assert api.get("/connectors", headers={"Origin": "null"}).status == 403


def test_any_origin_can_be_allowed(apis: RestApis):
    api = apis.serve(ModelHerder(), {"access.control.allow.origin": "*"})
    assert api.get("/connectors", headers={"Origin": EVIL}).headers["Access-Control-Allow-Origin"] == EVIL
    assert api.get("/connectors", headers=IMAGE).status == 200
    preflight = api.request("OPTIONS", "/connectors", headers={"Origin": EVIL, **PREFLIGHT})
    assert preflight.headers["Access-Control-Allow-Methods"] == "GET, POST, HEAD"


def test_an_options_request_without_an_origin_is_answered_as_before(api: Api):
    answer = api.request("OPTIONS", "/connectors")
    assert (answer.status, answer.headers["Allow"]) == (200, "GET, HEAD, OPTIONS, POST")


def test_a_preflight_needs_no_password(apis: RestApis, tmp_path: Path):
    users = tmp_path / "users.properties"
    users.write_text("ann=secret\n")
    properties = {"rest.basic.auth.credentials.file": str(users), "access.control.allow.origin": FRIEND}
    api = apis.serve(ModelHerder(), properties)
    assert api.request("OPTIONS", "/connectors", headers={"Origin": FRIEND, **PREFLIGHT}).status == 200
    assert api.get("/connectors", headers={"Origin": FRIEND}).status == 401


def test_requests_of_pages_are_forwarded_to_the_leader(apis: RestApis, config: dict[str, str]):
    leader = apis.serve(ModelHerder())
    follower = ModelHerder()
    follower.elsewhere = NotLeaderError("Not the leader", forward_url=leader.url)
    api = apis.serve(follower)
    own = {"Origin": api.url, "Host": urlsplit(api.url).netloc}
    assert api.post("/connectors", {"name": "c", "config": config}, headers=own).status == 201


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("rest.allowed.hosts", "http://proxy.example"),
        ("rest.allowed.hosts", "proxy.example:80"),
        ("access.control.allow.origin", "tools.example"),
        ("access.control.allow.origin", "https://*.example"),
        ("access.control.allow.origin", "https://tools.example/page"),
        ("access.control.allow.methods", "GET;PUT"),
    ],
)
def test_a_malformed_property_is_named(name: str, text: str):
    with pytest.raises(ConfigError, match=name):
        RestConfig.from_properties({name: text}, where="worker.properties")


@pytest.mark.parametrize(
    ("origin", "url", "own"),
    [
        ("http://a:80", "http://a", True),
        ("https://a", "https://a:443", True),
        ("https://a", "http://a", False),
        ("https://a", "http://a:443", False),
        ("http://a", "https://a:80", False),
        ("http://a", "http://a:8083", False),
        ("http://a:8083", "http://a:8084", False),
        ("http://a.b", "http://a", False),
        ("http://[::1]:8083", "http://[::1]:8083", True),
        ("file://a", "http://a", False),
        ("http://named:1", "http://a", True),
        ("https://named:1", "http://a", False),
        ("http://a@b", "http://a", False),
        ("http://[::1", "http://[::1]", False),
        ("http://a@b", "http://a@b", False),
    ],
)
def test_an_origin_is_compared_with_the_clients_url_of_the_worker(origin: str, url: str, own: bool):
    assert is_own(origin, url, OwnAddresses(origins={"http://named:1"})) is own


@pytest.mark.parametrize("origin", ["https://127.0.0.1:{port}", "https://localhost:{port}"])
def test_an_https_origin_is_not_a_workers_that_listens_with_http(api: Api, origin: str):
    port = urlsplit(api.url).port
    given = origin.format(port=port)
    answer = api.get("/connectors", headers={"Origin": given, "Host": urlsplit(given).netloc})
    assert answer.status == 403
    assert "access.control.allow.origin" in answer.message


def test_the_names_of_a_worker_are_known_hosts():
    own = OwnAddresses(names={"worker.example"})
    assert is_known_host("Worker.Example:8083", CrossOrigin(), own)
    assert not is_known_host("other.example", CrossOrigin(), own)
