"""The API's addresses, its access control, and its answers to slow or failed requests."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import socket
import subprocess
import sys
from dataclasses import replace
from urllib.parse import urlsplit

import pytest
from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer
from prometheus_client import CollectorRegistry

from fencepost.api.errors import ConfigError
from fencepost.config import rest_config
from fencepost.config.rest_config import RestConfig
from fencepost.herder.errors import RebalanceNeededError, RequestFailedError, ServiceUnavailableError
from fencepost.herder.peers.rest_client import RestClient
from fencepost.rest.app import Gate, Route, make_app
from fencepost.rest.protocol import MAX_BODY_BYTES
from fencepost.rest.server import RestServer
from tests.support.model_herder import ModelConnectors, ModelHerder
from tests.support.rest import ANY_PORT, Api, RestApis


def _failing(error: Exception) -> ModelHerder:
    class Failing(ModelConnectors):
        async def names(self) -> list[str]:
            raise error

    herder = ModelHerder()
    herder.connectors = Failing(herder)
    return herder


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (ServiceUnavailableError("starting"), 503, "starting"),
        (RebalanceNeededError("rebalance"), 409, "rebalance"),
        (RequestFailedError("lost leadership"), 500, "lost leadership"),
        (RuntimeError("secret"), 500, "fault of this worker: RuntimeError"),
    ],
)
def test_errors_of_the_herder_have_their_statuses(apis: RestApis, error: Exception, status: int, said: str):
    answer = apis.serve(_failing(error)).get("/connectors")
    assert answer.status == status
    assert said in answer.message
    assert "secret" not in answer.text


def test_an_address_of_another_machine_is_told_from_a_port_that_is_taken():
    """192.0.2.1 is reserved for documentation, so no machine has it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = {}
        for host in ("127.0.0.1", "192.0.2.1"):
            rest = RestConfig.from_properties({"listeners": f"http://{host}:{port}"}, where="w")
            with pytest.raises(ConfigError, match=f"Cannot listen on http://{host}:{port}, ") as caught:
                RestServer(rest)
            said[host] = str(caught.value)
    assert said["127.0.0.1"].endswith("If another program has the port, stop it or choose another port")
    assert said["192.0.2.1"].endswith(
        "192.0.2.1 is not an address of this machine: name one of its own, or 0.0.0.0 for all of them"
    )


def test_a_child_that_a_connector_forked_keeps_no_port():
    """Runs in a separate process: a fork of this one would copy the locks of all its threads."""
    script = """
import asyncio, os, signal
from fencepost.config.rest_config import RestConfig
from fencepost.rest.server import RestServer

def listen(port):
    return RestServer(RestConfig.from_properties({"listeners": f"http://127.0.0.1:{port}"}, where="worker.properties"))

first = listen(0)
port = first.advertised_url.rpartition(":")[2]
ends = os.pipe()
child = os.fork()
if child == 0:
    os.write(ends[1], b"!")
    signal.pause()
os.read(ends[0], 1)
try:
    asyncio.run(first.stop())
    asyncio.run(listen(port).stop())
    print("listened again")
finally:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
"""
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert run.stdout == "listened again\n", run.stderr


def test_a_request_that_takes_too_long_gets_the_reason():
    async def never(request: web.Request) -> web.Response:
        await asyncio.Event().wait()
        raise AssertionError(request)

    async def scenario() -> None:
        app = make_app([Route("GET", "/slow", never)], Gate(RestClient(), timeout_seconds=0.01))
        async with TestClient(TestServer(app)) as client:
            answer = await client.get("/slow")
            assert answer.status == 500
            assert "not completed within" in (await answer.json())["message"]

    asyncio.run(scenario())


def test_a_body_that_is_too_large_is_refused(api: Api):
    assert api.post("/connectors", b" " * (MAX_BODY_BYTES + 1)).status == 413


def test_a_body_that_contradicts_its_content_encoding_is_refused(api: Api, caplog: pytest.LogCaptureFixture):
    answer = api.post("/connectors", b"abc", headers={"Content-Encoding": "gzip"})
    assert answer.status == 400
    assert "cannot be read" in answer.message
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01garbage\r\n\r\n",
        b"BREW / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET http://[::1/ HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nX: " + b"a" * 70_000 + b"\r\n\r\n",
        b"POST /connectors HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        b"POST /connectors HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_malformed_http_is_answered_in_json_and_not_logged(
    apis: RestApis, api: Api, caplog: pytest.LogCaptureFixture, sent: bytes
):
    async def answer() -> bytes:
        reader, writer = await asyncio.open_connection(*api.url.removeprefix("http://").split(":"))
        writer.write(sent)
        received = await reader.read()
        writer.close()
        return received

    received: bytes = apis.call(answer())
    assert int(received.split()[1]) == 400
    assert json.loads(received.partition(b"\r\n\r\n")[2])["error_code"] == 400
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []


@pytest.mark.parametrize(
    ("properties", "advertised"),
    [
        ({"listeners": "http://127.0.0.1:0", "rest.advertised.host.name": "worker-1"}, "http://worker-1"),
        ({"listeners": "http://127.0.0.1:0"}, "http://127.0.0.1"),
        ({"listeners": "http://[::1]:0"}, "http://[::1]"),
    ],
)
def test_others_reach_a_worker_by_its_advertised_address(apis: RestApis, properties: dict[str, str], advertised: str):
    assert apis.serve(ModelHerder(), properties).url.rpartition(":")[0] == advertised


def test_a_worker_on_all_interfaces_advertises_an_address_that_others_can_use(apis: RestApis):
    url = apis.serve(ModelHerder(), {"listeners": "http://:0"}).url
    assert urlsplit(url).hostname not in (None, "", "0.0.0.0")
    assert apis.serve(ModelHerder(), {"listeners": "http://:0", "rest.advertised.port": "1234"}).url.endswith(":1234")


@pytest.mark.parametrize("listener", [ANY_PORT, "http://:0"])
def test_the_log_names_the_address_of_the_page(apis: RestApis, caplog: pytest.LogCaptureFixture, listener: str):
    caplog.set_level(logging.INFO, "fencepost.rest")
    apis.serve(ModelHerder(), {"listeners": listener})
    (page,) = re.findall(r"The page for browsers is at (http://\S+/ui)$", caplog.text, re.MULTILINE)
    assert apis.request("GET", page).text.startswith("<!doctype html>")


def test_a_port_that_is_taken_is_named():
    with socket.create_server(("127.0.0.1", 0)) as taken:
        config = RestConfig.from_properties({"listeners": f"http://127.0.0.1:{taken.getsockname()[1]}"}, where="w")
        with pytest.raises(ConfigError, match=f"127.0.0.1:{taken.getsockname()[1]}"):
            RestServer(config)


def test_a_standalone_worker_whose_usual_port_is_taken_warns_with_its_other_one(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """`fencepost connectors` asks the default port: it would reach the worker that has it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        monkeypatch.setattr(rest_config, "_LOOPBACK", f"http://127.0.0.1:{port}")
        server = RestServer(RestConfig.from_properties({}, where="w", alone=True))
        [warning] = [record for record in caplog.records if record.levelname == "WARNING"]
        assert (
            f"Another program has port {port}, so the REST API is at {server.advertised_url}." in warning.getMessage()
        )
        assert not server.advertised_url.endswith(f":{port}")
        with pytest.raises(ConfigError, match=f"Cannot listen on http://127.0.0.1:{port}"):
            RestServer(RestConfig.from_properties({}, where="w"))
        asyncio.run(server.stop())


async def _status(session: ClientSession, url: str) -> tuple[int, object]:
    async with session.get(url) as answer:
        return answer.status, await answer.json()


def test_a_worker_without_a_herder_says_that_it_is_starting_and_then_answers():
    async def scenario() -> None:
        server = RestServer(RestConfig.from_properties({"listeners": ANY_PORT}, where="worker.properties"))
        url, address = server.advertised_url, urlsplit(server.advertised_url)
        async with ClientSession() as session:
            await server.announce()
            status, body = await _status(session, f"{url}/health")
            assert (status, body) == (503, {"status": "starting", "message": "The worker is starting"})
            status, body = await _status(session, f"{url}/")
            assert (status, body) == (503, {"error_code": 503, "message": "The worker is starting: ask again soon"})
            await server.start(ModelHerder(), CollectorRegistry())
            assert await _status(session, f"{url}/connectors") == (200, [])
        await server.stop()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((address.hostname, address.port))

    asyncio.run(scenario())


def test_a_request_that_comes_before_there_is_a_herder_waits_for_it():
    async def scenario() -> None:
        server = RestServer(RestConfig.from_properties({"listeners": ANY_PORT}, where="worker.properties"))
        properties = {"connector.class": "FileStreamSource", "file": "/in", "topic": "t"}
        config = {"name": "c", "config": properties}
        async with ClientSession() as session:
            await server.announce()
            posted = asyncio.ensure_future(session.post(f"{server.advertised_url}/connectors", json=config))
            missing = asyncio.ensure_future(_status(session, f"{server.advertised_url}/connectors/none"))
            # The worker has received both requests when it answers this one.
            assert (await _status(session, f"{server.advertised_url}/health"))[0] == 503
            await server.start(ModelHerder(), CollectorRegistry())
            async with await posted as answer:
                assert answer.status == 201
            assert (await missing)[0] == 404
        await server.stop()

    asyncio.run(scenario())


def test_a_request_that_waits_for_a_herder_is_answered_when_the_worker_stops():
    async def scenario() -> None:
        server = RestServer(RestConfig.from_properties({"listeners": ANY_PORT}, where="worker.properties"))
        async with ClientSession() as session:
            await server.announce()
            waiting = asyncio.ensure_future(_status(session, f"{server.advertised_url}/connectors"))
            assert (await _status(session, f"{server.advertised_url}/health"))[0] == 503
            await server.stop()
            assert (await waiting)[0] == 503

    asyncio.run(scenario())


@pytest.mark.parametrize("turns", range(0, 20, 2))
def test_a_client_that_connects_as_the_worker_starts_gets_an_answer(turns: int):
    async def scenario() -> None:
        server = RestServer(RestConfig.from_properties({"listeners": ANY_PORT}, where="worker.properties"))
        address = urlsplit(server.advertised_url)
        await server.announce()
        starting = asyncio.ensure_future(server.start(ModelHerder(), CollectorRegistry()))
        for _ in range(turns):
            await asyncio.sleep(0)  # number of steps in which one application replaces the other
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        await starting
        writer.write(b"GET /connectors HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        async with asyncio.timeout(30):
            answer = await reader.read()
        writer.close()
        await server.stop()
        assert answer.startswith(b"HTTP/1.1 200")

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ("", b"415"),
        ("Content-Type:\r\n", b"415"),
        ("Content-Type: text/plain\r\n", b"415"),
        ("Content-Type: application/json; charset=utf-8\r\n", b"400"),
    ],
)
def test_a_body_must_say_that_it_is_json(headers: str, status: bytes):
    """Browsers do not set this content type in requests of other sites' pages without permission."""

    async def scenario() -> bytes:
        server = RestServer(RestConfig.from_properties({"listeners": ANY_PORT}, where="worker.properties"))
        await server.start(ModelHerder(), CollectorRegistry())
        address = urlsplit(server.advertised_url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        head = (
            f"POST /connectors HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: 2\r\n\r\n"
        )
        writer.write(head.encode() + b"{}")
        answer = await reader.read()
        writer.close()
        await server.stop()
        return answer

    assert asyncio.run(scenario()).startswith(b"HTTP/1.1 " + status)


@pytest.mark.parametrize("default", [True, False])
def test_a_worker_on_loopback_by_default_logs_the_line_that_changes_it(caplog: pytest.LogCaptureFixture, default: bool):
    async def scenario() -> None:
        config = RestConfig.from_properties({"listeners": ANY_PORT}, where="worker.properties")
        server = RestServer(replace(config, loopback_by_default=default))
        await server.start(ModelHerder(), CollectorRegistry())
        await server.stop()

    with caplog.at_level(logging.INFO):
        asyncio.run(scenario())
    assert ("the line listeners=http://:8083" in caplog.text) is default


def test_a_worker_that_never_got_a_herder_gives_its_port_back():
    async def scenario() -> None:
        server = RestServer(RestConfig.from_properties({"listeners": ANY_PORT}, where="worker.properties"))
        address = urlsplit(server.advertised_url)
        await server.announce()
        await server.stop()
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((address.hostname, address.port))

    asyncio.run(scenario())


def _imported_by(module: str) -> set[str]:
    """The imported modules of fencepost, and the other packages."""
    program = f"import sys, {module}; print(*sys.modules)"
    names = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True).stdout.split()
    return {name if name.startswith("fencepost") else name.partition(".")[0] for name in names}


def test_answering_needs_neither_spark_nor_arrow_nor_a_kafka_client():
    imported = _imported_by("fencepost.rest.resources")
    assert "aiohttp" in imported
    assert not {"pyspark", "pyarrow", "numpy", "kafka"} & imported


def test_listening_does_not_import_the_code_that_answers():
    """A starting worker must answer health requests soon, and importing the rest takes a second."""
    imported = _imported_by("fencepost.rest.server")
    assert "aiohttp" in imported
    needless = {"prometheus_client", *(f"fencepost.{name}" for name in ("engine", "storage", "herder.interface"))}
    assert not {"pyspark", "pyarrow", "numpy", "kafka", "fencepost.rest.app", *needless} & imported
