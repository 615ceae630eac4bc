"""Listens for requests, and determines the address at which the other workers of the group reach this one.

The ports are opened before most of the worker's modules are imported, and requests wait until there is a herder. So the
modules that answer requests are imported in `start`.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import ssl
import weakref
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final, cast

from aiohttp import web

from fencepost.api.errors import ConfigError
from fencepost.config.rest_config import CREDENTIALS, EVERYWHERE, LISTENERS, Listener, RestConfig
from fencepost.herder.peers.rest_client import REQUEST_TIMEOUT_SECONDS, RestClient
from fencepost.kafka.config.security import TlsConfig
from fencepost.rest import responses
from fencepost.rest.connections import Connections
from fencepost.rest.protocol import MAX_BODY_BYTES, HttpProtocol
from fencepost.rest.responses import error_response, json_response

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

    from fencepost.herder.interface import Herder
    from fencepost.rest.cross_origin import OwnAddresses
    from fencepost.rest.page import PageResource

_log: Final = logging.getLogger(__name__)

_BACKLOG: Final = 128
_ALL_INTERFACES: Final = ("", "0.0.0.0", "::")  # noqa: S104 - compared with, not bound
_SHUTDOWN_SECONDS: Final = 5.0

_STARTING: Final = "The worker is starting"

RequestHandler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
"""An application's request handler, as aiohttp's server calls it."""

_LISTENING: Final[weakref.WeakSet[socket.socket]] = weakref.WeakSet()
"""The sockets on which this process listens, or has listened."""


@dataclass(frozen=True, slots=True)
class _Bound:
    listener: Listener
    socket: socket.socket
    tls: ssl.SSLContext | None

    @property
    def port(self) -> int:
        port: int = self.socket.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        """An address at which clients reach the listener, without a slash at its end."""
        host = self.listener.host
        return str(replace(self.listener, host=_own_address() if host in _ALL_INTERFACES else host, port=self.port))

    def __str__(self) -> str:
        return str(replace(self.listener, port=self.port))


class _Endpoint:
    """Sockets that are served by one application after the other.

    The sockets stay open throughout. If they were closed with an application's server, a connection that the server is
    just accepting might get no answer.
    """

    def __init__(self, bound: Sequence[_Bound]) -> None:
        self._bound = bound
        self._runners: list[web.AppRunner] = []
        self._accepts = False
        self._successor: asyncio.Future[RequestHandler] | None = None

    async def announce(self, connections: Connections) -> None:
        """Accept requests, which wait for `start`.

        `GET /` answers 503 at once, because creating a herder takes a while.
        """
        successor: asyncio.Future[RequestHandler] = asyncio.get_running_loop().create_future()
        await self.answer(_starting_app(successor), connections)
        self._successor = successor

    async def answer(self, app: web.Application, connections: Connections) -> None:
        """Let an application answer new connections, and the requests that wait."""
        runner = web.AppRunner(app, shutdown_timeout=_SHUTDOWN_SECONDS)
        await runner.setup()
        self._runners.append(runner)
        if self._successor is not None:
            self._successor.set_result(cast("web.Server", runner.server).request_handler)
            self._successor = None
        if not self._accepts:
            self._accepts = True
            for bound in self._bound:
                connections.accept(bound.socket, bound.tls, self._protocol)

    async def stop(self) -> None:
        if self._successor is not None:
            self._successor.cancel()
        for runner in self._runners:
            await runner.cleanup()
        for bound in self._bound:
            bound.socket.close()

    def _protocol(self, connections: Connections) -> HttpProtocol:
        server = cast("web.Server", self._runners[-1].server)
        return HttpProtocol(server, connections, asyncio.get_running_loop())


class RestServer:
    """A worker's REST API, on the event loop on which it is started.

    server = RestServer(RestConfig.from_properties(properties, where=path))     # opens the ports
    server.advertised_url                                                       # http://host:port
    await server.announce()                                                     # answers: the worker is starting
    await server.start(herder, worker.metrics.registry)                         # answers
    await server.stop()

    Without `announce`, requests that arrive before `start` wait for it.
    """

    def __init__(self, config: RestConfig) -> None:
        """Raises ConfigError for an address that cannot be used, and for invalid certificates."""
        self._config = config
        self.client = RestClient(client_tls(config.tls))
        with ExitStack() as undo:
            self._bound = _bind_all("listeners", config.listeners, config.tls, undo, any_port=config.any_port)
            admin = _bind_all("admin.listeners", config.admin_listeners or (), config.admin_tls, undo)
            undo.pop_all()
        self._page: PageResource | None = None
        self._connections: Connections | None = None
        self._admin_bound = admin
        self._main, self._admin = _Endpoint(self._bound), _Endpoint(admin)

    @property
    def advertised_url(self) -> str:
        """The address under which other workers reach this one, without a slash at its end."""
        scheme = self._config.advertised_scheme
        bound = next(bound for bound in self._bound if bound.listener.scheme == scheme)
        host = self._config.advertised_host or bound.listener.host
        if host in _ALL_INTERFACES:
            host = _own_address()
        return str(Listener(scheme, host, self._config.advertised_port or bound.port))

    async def announce(self) -> None:
        """Accept requests, which wait for `start`.

        `GET /` answers 503 at once, because creating a herder takes a while.
        """
        connections = self._accepting()
        for endpoint in (self._main, self._admin):
            await endpoint.announce(connections)

    async def start(self, herder: Herder, registry: CollectorRegistry) -> None:
        """Answer requests."""
        from fencepost.rest.app import Gate, make_app  # noqa: PLC0415 - see the module
        from fencepost.rest.resources import Resources  # noqa: PLC0415 - see the module

        connections = self._accepting()
        gate = Gate(
            self.client, self._config.credentials, cross_origin=self._config.cross_origin, own=self._own_addresses()
        )
        resources = Resources(herder, registry)
        self._page = resources.page
        self._page.start()
        here = resources.admin if self._config.admin_listeners is None else []
        await self._main.answer(make_app([*resources.public, *here], gate), connections)
        await self._admin.answer(make_app(resources.admin, gate), connections)
        _log.info("The REST API answers at %s", ", ".join(map(str, self._bound)))
        _log.info("The page for browsers is at %s", ", ".join(f"{bound.url}/ui" for bound in self._bound))
        if self._config.loopback_by_default and herder.peers is not None:
            _log.info(
                "Only this machine reaches the REST API, because no password is asked for and %s is not set. A group "
                "on several machines needs the line %s=%s in the worker's configuration; %s asks for passwords",
                LISTENERS, LISTENERS, EVERYWHERE, CREDENTIALS,
            )  # fmt: skip

    async def stop(self) -> None:
        """Finish the requests in progress, for a few seconds at most, and close the ports."""
        if self._page is not None:
            self._page.close()
        if self._connections is not None:
            await self._connections.stop()
        for endpoint in (self._main, self._admin):
            await endpoint.stop()
        await self.client.close()

    def _own_addresses(self) -> OwnAddresses:
        from fencepost.rest.cross_origin import OwnAddresses  # noqa: PLC0415 - see the module

        bound = [*self._bound, *self._admin_bound]
        named = [replace(each.listener, port=each.port) for each in bound if each.listener.host not in _ALL_INTERFACES]
        hosts = [each.host for each in named] + ([self._config.advertised_host] if self._config.advertised_host else [])
        addresses = [each.socket.getsockname()[:2] for each in bound]
        return OwnAddresses(
            names=frozenset(host.lower() for host in hosts),
            origins=frozenset(str(url).lower() for url in [*named, self.advertised_url]),
            loopback=frozenset(address for address in addresses if ip_address(address[0]).is_loopback),
        )

    def _accepting(self) -> Connections:
        if self._connections is None:
            self._connections = Connections()
        return self._connections


def _starting_app(successor: asyncio.Future[RequestHandler]) -> web.Application:
    """Return an application whose requests wait for its successor.

    The application answers immediately only at / and /health, which tools request first: the answer says that the
    worker is starting. If `successor` is cancelled, there will be no other application.
    """

    async def answer(request: web.Request) -> web.StreamResponse:
        response = await _starting(request, successor)
        # If the client stayed connected, it would never reach the next application.
        response.force_close()
        return response

    app = web.Application(client_max_size=MAX_BODY_BYTES)
    app.router.add_route("*", "/{path:.*}", answer)
    return app


async def _starting(request: web.Request, successor: asyncio.Future[RequestHandler]) -> web.StreamResponse:
    if request.path == "/health":
        return json_response(responses.health("starting", _STARTING), status=503)
    if request.path != "/":
        await asyncio.wait([successor], timeout=REQUEST_TIMEOUT_SECONDS)
    if successor.done() and not successor.cancelled():
        return await successor.result()(request)
    return error_response(503, f"{_STARTING}: ask again soon")


def client_tls(properties: Mapping[str, str]) -> ssl.SSLContext | None:
    """Return the TLS settings for requests to workers with HTTPS addresses; None if there is no `ssl.*` property."""
    return TlsConfig.from_properties(properties).context() if properties else None


def _bind_all(
    name: str, listeners: Sequence[Listener], tls: Mapping[str, str], undo: ExitStack, *, any_port: bool = False
) -> Sequence[_Bound]:
    bound = []
    for listener in listeners:
        context = None
        if listener.scheme == "https":
            context = TlsConfig.from_properties(tls).server_context(client_auth=tls.get("ssl.client.auth", "none"))
        opened = _bind_any(name, listener) if any_port else _bind(name, listener)
        undo.callback(opened.close)
        bound.append(_Bound(listener, opened, context))
    return bound


def _bind_any(name: str, listener: Listener) -> socket.socket:
    """Listen on the listener's port, or on any free port if that one is taken."""
    try:
        return _bind(name, listener)
    except ConfigError:
        opened = _bind(name, replace(listener, port=0))
        _log.warning(
            "Another program has port %d, so the REST API is at %s. Requests to port %d, which the commands of fencepost "
            "send unless --url is given, reach the other program. Set %s to choose a port that must be free",
            listener.port, replace(listener, port=opened.getsockname()[1]), listener.port, name,
        )  # fmt: skip
        return opened


def _bind(name: str, listener: Listener) -> socket.socket:
    try:
        opened = socket.create_server(
            (listener.host, listener.port),
            family=socket.AF_INET6 if ":" in listener.host else socket.AF_INET,
            backlog=_BACKLOG,
        )
        _LISTENING.add(opened)
        return opened  # noqa: TRY300 - what follows is about the call above
    except OSError as error:
        remedy = (
            f"{listener.host} is not an address of this machine: name one of its own, or 0.0.0.0 for all of them"
            if error.errno == errno.EADDRNOTAVAIL
            else "If another program has the port, stop it or choose another port"
        )
        raise ConfigError(
            f"Cannot listen on {listener}, which the property {name} names: {error.strerror or error}. {remedy}",
            name=name,
        ) from error


def _leave_ports() -> None:
    """In a child process that a connector forked, close the ports: they would block the worker's next start."""
    for opened in list(_LISTENING):
        with suppress(OSError):
            os.close(opened.detach())


os.register_at_fork(after_in_child=_leave_ports)


def _own_address() -> str:
    try:
        return socket.gethostbyname(socket.gethostname())
    except OSError:
        return "127.0.0.1"
