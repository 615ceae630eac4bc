"""Connections with slow clients, and requests when there are no file descriptors left."""

from __future__ import annotations

import asyncio
import logging
import resource
import socket
import ssl
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing
from pathlib import Path
from urllib.parse import urlsplit

import psutil
import pytest
from prometheus_client import CollectorRegistry

from fencepost.config import file_descriptors
from fencepost.config.rest_config import RestConfig
from fencepost.rest import protocol, spare_descriptors
from fencepost.rest.server import RestServer
from tests.support.descriptors import few_descriptors, take_descriptors
from tests.support.model_herder import ModelConnectors, ModelHerder
from tests.support.rest import ANY_PORT
from tests.support.security import make_certificate

few = pytest.fixture(few_descriptors)

CLOSED_SECONDS = protocol.HEAD_TIMEOUT_SECONDS * 2 / 3

GET = b"GET /connectors HTTP/1.1\r\nHost: localhost\r\n\r\n"
BODY = b"PUT /connectors/c/config HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{"
UNWANTED_BODY = b"GET /connectors HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n{"


class _Gated(ModelConnectors):
    """Answers the list of connectors only once the gate is open."""

    def __init__(self, herder: ModelHerder) -> None:
        super().__init__(herder)
        self.gate = asyncio.Event()
        self.asked = asyncio.Semaphore(0)

    async def names(self) -> Sequence[str]:
        self.asked.release()
        await self.gate.wait()
        return ["c"]


class _Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def ask(self, request: bytes = GET) -> bytes:
        """Return the status line of the answer; empty if the connection was closed."""
        self.writer.write(request)
        try:
            async with asyncio.timeout(30):
                return await self.reader.readline()
        except ConnectionError:
            return b""

    async def is_closed(self) -> bool:
        """Return True once the connection is closed, which must happen before its maximum age."""
        try:
            async with asyncio.timeout(CLOSED_SECONDS):
                while await self.reader.read(1000):
                    pass
        except ConnectionError:
            pass
        return True


class _Served:
    def __init__(self, server: RestServer, most: int) -> None:
        self.most = most
        url = urlsplit(server.advertised_url)
        self.address = url.hostname, url.port

    @asynccontextmanager
    async def connected(self, tls: ssl.SSLContext | None = None) -> AsyncIterator[_Client]:
        reader, writer = await asyncio.open_connection(*self.address, ssl=tls)
        yield _Client(reader, writer)
        writer.transport.abort()


@pytest.fixture
def few_requests() -> Iterator[None]:
    """Let the API accept few connections only; the test itself may open many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (psutil.Process().num_fds() + 8, hard))
    most = file_descriptors.for_requests()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_descriptors, "for_requests", lambda: most)
        yield


@asynccontextmanager
async def _serving(herder: ModelHerder, **properties: str) -> AsyncIterator[_Served]:
    given = {"listeners": ANY_PORT} | properties
    server = RestServer(RestConfig.from_properties(given, where="worker.properties"))
    await server.start(herder, CollectorRegistry())
    yield _Served(server, file_descriptors.for_requests())
    await server.stop()


@pytest.mark.usefixtures("few_requests")
@pytest.mark.parametrize("sent", [b"", b"GET /conn", GET[:-2], BODY, UNWANTED_BODY], ids=str)
def test_connections_that_wait_for_their_clients_leave_room_for_others(sent: bytes):
    async def scenario() -> None:
        async with _serving(ModelHerder()) as served, AsyncExitStack() as stack:
            waiting = []
            for _ in range(served.most * 3):
                waiting.append(client := await stack.enter_async_context(served.connected()))
                client.writer.write(sent)
            async with served.connected() as other:
                assert (await other.ask()).split()[1] == b"200"
            assert all([await client.is_closed() for client in waiting[: served.most]])

    asyncio.run(scenario())


@pytest.mark.usefixtures("few_requests")
def test_connections_that_are_kept_alive_leave_room_for_others():
    async def scenario() -> None:
        async with _serving(ModelHerder()) as served, AsyncExitStack() as stack:
            kept = [await stack.enter_async_context(served.connected()) for _ in range(served.most)]
            for client in kept:
                assert (await client.ask()).split()[1] == b"200"
            for _ in range(served.most):
                async with served.connected() as other:
                    assert (await other.ask()).split()[1] == b"200"

    asyncio.run(scenario())


@pytest.mark.usefixtures("few_requests")
def test_tls_handshakes_that_wait_for_their_clients_leave_room_for_others(tmp_path: Path):
    authorities, key_store = make_certificate(tmp_path)
    properties = {"listeners": "https://127.0.0.1:0", "listeners.https.ssl.keystore.location": str(key_store)}

    async def scenario() -> None:
        async with _serving(ModelHerder(), **properties) as served, AsyncExitStack() as stack:
            waiting = [await stack.enter_async_context(served.connected()) for _ in range(served.most * 3)]
            async with served.connected(ssl.create_default_context(cafile=str(authorities))) as other:
                assert (await other.ask()).split()[1] == b"200"
            assert all([await client.is_closed() for client in waiting[: served.most]])

    asyncio.run(scenario())


@pytest.mark.usefixtures("few_requests")
def test_requests_in_progress_are_not_closed_for_others():
    async def scenario() -> None:
        herder = ModelHerder()
        herder.connectors = gated = _Gated(herder)
        async with _serving(herder) as served, AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(served.connected()) for _ in range(served.most * 2)]
            asking = [asyncio.ensure_future(client.ask()) for client in clients]
            async with asyncio.timeout(30):
                for _ in range(served.most + 1):
                    await gated.asked.acquire()
            # The others wait in the system's accept queue: a connection is accepted only if one can be closed for it.
            gated.gate.set()
            assert [(await answer).split()[1] for answer in asking] == [b"200"] * len(clients)

    asyncio.run(scenario())


def test_a_client_that_sends_its_request_in_many_pieces_is_answered():
    async def scenario() -> None:
        async with _serving(ModelHerder()) as served, served.connected() as client:
            for piece in GET[:-1]:
                client.writer.write(bytes([piece]))
                await client.writer.drain()
                await asyncio.sleep(0)
            assert (await client.ask(GET[-1:])).split()[1] == b"200"

    asyncio.run(scenario())


@pytest.mark.parametrize("sent", [b"", b"GET /conn", GET])
def test_a_connection_without_a_whole_request_is_closed_after_a_while(monkeypatch: pytest.MonkeyPatch, sent: bytes):
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_SECONDS", 0.2)

    async def scenario() -> None:
        async with _serving(ModelHerder()) as served, served.connected() as client:
            client.writer.write(sent)
            assert await client.is_closed()

    asyncio.run(scenario())


def test_a_request_in_progress_may_take_longer_than_its_head(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(protocol, "HEAD_TIMEOUT_SECONDS", 0.05)

    async def scenario() -> None:
        herder = ModelHerder()
        herder.connectors = gated = _Gated(herder)
        async with _serving(herder) as served, served.connected() as client, served.connected() as idle:
            asking = asyncio.ensure_future(client.ask())
            # The idle connection was accepted later, so the busy one would be closed before it.
            assert await idle.is_closed()
            gated.gate.set()
            assert (await asking).split()[1] == b"200"

    asyncio.run(scenario())


def test_a_quarter_of_the_descriptors_is_for_requests(few: int):
    assert file_descriptors.for_requests() == few // 4


def test_connections_are_accepted_when_all_other_files_are_open(few: int, caplog: pytest.LogCaptureFixture):
    def told() -> list[str]:
        return [record.getMessage() for record in caplog.records if record.name == spare_descriptors.__name__]

    async def scenario() -> None:
        async with _serving(ModelHerder()) as served:
            with ExitStack() as stack:
                clients = [stack.enter_context(closing(socket.socket())) for _ in range(10)]
                # A thread of an earlier test may close a file just now, which frees a descriptor for the client.
                while not told():
                    take_descriptors(stack, file_descriptors.free())
                    await _ask(clients.pop(), served)

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert [str(few) in message for message in told()] == [True]


async def _ask(client: socket.socket, served: _Served) -> None:
    client.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(client, served.address)
    await loop.sock_sendall(client, GET)
    async with asyncio.timeout(30):
        assert (await loop.sock_recv(client, 100)).split()[1] == b"200"
