"""Requests from one worker of a group to another: forwarded requests, and internal ones, which are signed (KIP-507)."""

from __future__ import annotations

import json
import ssl
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from fencepost.api.foreign_json import parse_json
from fencepost.herder.errors import (
    BadRequestError,
    ForbiddenError,
    HerderError,
    MissingRightError,
    NotFoundError,
    RebalanceNeededError,
    RequestFailedError,
    ServiceUnavailableError,
)
from fencepost.herder.peers.request_signing import SIGNATURE_ALGORITHM, signed_headers

REQUEST_TIMEOUT_SECONDS: Final = 90.0
"""The total time limit of a request, as in Connect. A fencing round is one request."""

MISSING_RIGHT_HEADER: Final = "X-Fencepost-Missing-Right"
"""The header of a 500 answer caused by a missing ACL, for which Connect has no separate status."""

UNANSWERED: Final = (
    "Check that worker, and restart it if its process hangs or has lost its network: the group then goes on without it. It may "
    "still do what was asked: look before you send the request again"
)
"""The advice about a worker that accepts connections, and does not answer."""

_CONNECT_TIMEOUT_SECONDS: Final = 10.0

_ERRORS: Final[Mapping[int, type[HerderError]]] = {
    400: BadRequestError,
    403: ForbiddenError,
    404: NotFoundError,
    409: RebalanceNeededError,
    503: ServiceUnavailableError,
}


@dataclass(frozen=True, slots=True)
class Signer:
    """Signs requests with the group's session key."""

    key: bytes = field(repr=False)
    algorithm: str = SIGNATURE_ALGORITHM


@dataclass(frozen=True, slots=True)
class WorkerResponse:
    """The answer of another worker."""

    status: int
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)

    @property
    def message(self) -> str:
        """The message of an error in Connect's format; if the body has another format, the unchanged body."""
        try:
            return str(parse_json(self.body)["message"])
        except (ValueError, KeyError, TypeError):
            return self.body.decode("utf-8", "replace") or "no message"


class RestClient:
    """Sends requests to the workers of a group, on one event loop."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls` has the settings for workers with HTTPS addresses."""
        self._tls = tls
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        signer: Signer | None = None,
    ) -> WorkerResponse:
        """Send a request to an address that is already percent-encoded. The request is signed if there is a `signer`.

        Raises RebalanceNeededError if the worker cannot be reached. Raises RequestFailedError if it does not answer;
        then the request may have been processed.
        """
        try:
            async with self._open().request(
                method,
                URL(url, encoded=True),
                headers=headers,
                data=body,
                ssl=self._tls or True,
                allow_redirects=False,
                middlewares=() if signer is None else (_signing(signer, body or b""),),
            ) as response:
                return WorkerResponse(response.status, response.headers, await response.read())
        except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError) as error:
            raise RequestFailedError(
                f"The worker at {url} is not trusted, or does not trust this one ({error}): check the ssl.* properties "
                "of both"
            ) from error
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise RebalanceNeededError(
                f"The request cannot be completed now, because the worker at {url} cannot be reached ({connection_failure(error)}): ask "
                "again when the group has rebalanced without it. If that does not help, check its "
                "listeners, rest.advertised.host.name, rest.advertised.port and rest.advertised.listener"
            ) from error
        except TimeoutError:
            raise RequestFailedError(
                f"The worker at {url} did not answer within {REQUEST_TIMEOUT_SECONDS:.0f} s. {UNANSWERED}"
            ) from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise RequestFailedError(
                f"The worker at {url} did not answer ({error}); it may have done what was asked: look before asking again"
            ) from error

    async def fence_zombie_source_tasks(self, leader_url: str, connector: str, signer: Signer | None) -> None:
        """Ask the leader to fence former generations of a connector's tasks. Raises the leader's error."""
        await self._internal("PUT", f"{_connector_url(leader_url, connector)}/fence", b"", signer)

    async def put_task_configs(
        self, leader_url: str, connector: str, configs: Sequence[Mapping[str, str]], signer: Signer | None
    ) -> None:
        """Send a connector's task configurations to the leader. Raises the leader's error."""
        body = json.dumps([dict(config) for config in configs], ensure_ascii=False).encode()
        await self._internal("POST", f"{_connector_url(leader_url, connector)}/tasks", body, signer)

    async def task_transactions(
        self, url: str, connector: str, signer: Signer | None, authorization: str | None
    ) -> list[Any]:
        """Request the transactions of a connector's tasks on another worker. Raises that worker's error.

        `authorization` has the credentials of the requesting user.
        """
        address = f"{_connector_url(url, connector)}/transactions/local"
        answer = await self._internal("GET", address, b"", signer, authorization)
        try:
            bodies = parse_json(answer.body)
        except ValueError as error:
            raise RequestFailedError(f"The worker at {url} answered something else than JSON") from error
        return bodies if isinstance(bodies, list) else [bodies]

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def _internal(
        self, method: str, url: str, body: bytes, signer: Signer | None, authorization: str | None = None
    ) -> WorkerResponse:
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if authorization is not None:
            headers["Authorization"] = authorization
        response = await self.request(method, url, headers=headers, body=body or None, signer=signer)
        if response.status >= 300:
            kind = _ERRORS.get(response.status, RequestFailedError)
            if MISSING_RIGHT_HEADER in response.headers:
                kind = MissingRightError
            raise kind(f"{method} {url} was answered with status {response.status}: {response.message}")
        return response

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            timeout = aiohttp.ClientTimeout(total=REQUEST_TIMEOUT_SECONDS, sock_connect=_CONNECT_TIMEOUT_SECONDS)
            self._session = aiohttp.ClientSession(timeout=timeout)
        return self._session


def _signing(signer: Signer, body: bytes) -> aiohttp.ClientMiddlewareType:
    """Return the middleware that signs each attempt separately.

    If the connection is lost, aiohttp sends a PUT again, but the leader accepts each signature only once.
    """

    async def sign(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        now_ms = time.time_ns() // 1_000_000
        path = request.url.raw_path
        request.headers.update(signed_headers(request.method, path, body, signer.key, signer.algorithm, now_ms=now_ms))
        return await handler(request)

    return sign


def _connector_url(worker_url: str, connector: str) -> str:
    return f"{worker_url.rstrip('/')}/connectors/{quote(connector, safe='')}"


def connection_failure(error: Exception) -> str:
    """Return why a connection failed. aiohttp's own text mentions TLS even if the address is not HTTPS."""
    return str(error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error)
