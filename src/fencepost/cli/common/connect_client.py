"""A client of Kafka Connect's REST API, for workers of fencepost or Java."""

from __future__ import annotations

import asyncio
import base64
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

import aiohttp
from yarl import URL

from fencepost.api.errors import ConfigError, FencepostError
from fencepost.api.foreign_json import parse_json
from fencepost.herder.peers.rest_client import connection_failure

# A worker answers within 90 s, at least with an error.
_ANSWER_SECONDS: Final = 100.0
_CONNECT_SECONDS: Final = 10.0
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 3.0
_CONFLICT: Final = 409


class RequestRefusedError(FencepostError):
    """A worker answered with an error. `status` is the HTTP status."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status

    @property
    def of_rebalance(self) -> bool:
        """Whether the reason is a rebalance.

        Connect uses the same status for a connector name that is already taken.
        """
        return self.status == _CONFLICT and "already exists" not in str(self)


class WorkerUnreachableError(FencepostError):
    """No answer arrived, or the answer is not from Kafka Connect's REST API.

    If the request was `sent`, it may have been processed.
    """

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class ConnectClient:
    """A blocking client. If a worker is busy with a rebalance (409), the request is retried, with growing pauses.

    client = ConnectClient("http://127.0.0.1:8083", "http://127.0.0.1:8084", retry_seconds=30)
    client.ask("GET", connector_path("lines", "status"))        # the JSON of the answer, None if it has none

    The client talks to one of the addresses. If a worker cannot be reached, the client changes to the next address.
    """

    def __init__(self, *urls: str, retry_seconds: float, answer_seconds: float = _ANSWER_SECONDS) -> None:
        """An address may contain a user and a password. Raises ConfigError for an invalid address."""
        self._bases = deque(map(_base, urls))
        self._retry_seconds = retry_seconds
        self._answer_seconds = answer_seconds

    @property
    def shown_url(self) -> str:
        """The address in use, without its password."""
        return str(self._bases[0].with_user(None)).rstrip("/")

    def at(self, netloc: str) -> ConnectClient:
        """Return a client for another worker of the group, with the same scheme, user and password."""
        base = self._bases[0]
        host, _, port = netloc.rpartition(":")
        return ConnectClient(str(base.with_host(host.strip("[]")).with_port(int(port))), retry_seconds=0)

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str | list[str]] | None = None,
        *,
        patient: bool = False,
    ) -> Any:
        """Send a request. With `patient`, it is also retried if no worker answers, or if a worker answers 5xx.

        Raises RequestRefusedError for a status of at least 400, WorkerUnreachableError for no answer.
        """
        return json_of(asyncio.run(self._ask(method, path, body, query, patient=patient)), self.shown_url)

    async def request(self, method: str, path: str, query: Mapping[str, str | list[str]] | None = None) -> Any:
        """Send a request as `ask` does, in a running event loop. Raises the errors of `ask`."""
        return json_of(await self._ask(method, path, None, query, patient=False), self.shown_url)

    def text(self, path: str) -> str:
        """Return a worker's answer to a GET, which may be other text than JSON. Raises the errors of `ask`."""
        return asyncio.run(self._ask("GET", path, None, None, patient=False))

    async def _ask(
        self, method: str, path: str, body: Any, query: Mapping[str, str | list[str]] | None, *, patient: bool
    ) -> str:
        deadline = time.monotonic() + self._retry_seconds
        pause = _FIRST_PAUSE_SECONDS
        timeout = aiohttp.ClientTimeout(total=self._answer_seconds, sock_connect=_CONNECT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                try:
                    return await self._ask_any(session, method, path, body, query)
                except RequestRefusedError as refusal:
                    passes = refusal.of_rebalance or (patient and refusal.status >= 500)
                    if not passes or time.monotonic() + pause > deadline:
                        raise
                except WorkerUnreachableError:
                    if not patient or time.monotonic() + pause > deadline:
                        raise
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _ask_any(
        self,
        session: aiohttp.ClientSession,
        method: str,
        path: str,
        body: Any,
        query: Mapping[str, str | list[str]] | None,
    ) -> str:
        """Return the answer of the first reachable worker, beginning with the address in use."""
        for left in reversed(range(len(self._bases))):
            url = URL(str(self._bases[0]).rstrip("/") + path, encoded=True)
            try:
                status, text = await self._send(session, method, url.with_query(query) if query else url, body)
            except WorkerUnreachableError as error:
                # A request that was sent may have been processed. Only a GET, which changes nothing, is sent again.
                if not left or (error.sent and method != "GET"):
                    raise
                self._bases.rotate(-1)
                continue
            if status < 400:
                return text
            raise RequestRefusedError(f"{_message(text)} (status {status} from {self.shown_url})", status)
        raise AssertionError("a client has an address")

    async def _send(self, session: aiohttp.ClientSession, method: str, url: URL, body: Any) -> tuple[int, str]:
        headers = {"Accept": "application/json"}
        if url.user is not None:
            # aiohttp sends a URL's credentials in ISO 8859-1, and workers ask for UTF-8.
            credentials = f"{url.user}:{url.password or ''}".encode()
            headers["Authorization"] = f"Basic {base64.b64encode(credentials).decode()}"
        try:
            async with session.request(method, url.with_user(None), json=body, headers=headers) as response:
                return response.status, await response.text("utf-8", "replace")
        except TimeoutError:
            raise WorkerUnreachableError(
                f"The worker at {self.shown_url} did not answer in time; it may still process the request: check "
                "before you send it again",
                sent=True,
            ) from None
        except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError) as error:
            raise WorkerUnreachableError(
                f"The worker at {self.shown_url} is not trusted ({error}): if its certificate is signed by a "
                "private authority, set the environment variable SSL_CERT_FILE to the authority's PEM file"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WorkerUnreachableError(
                f"The worker at {self.shown_url} cannot be reached ({connection_failure(error)}): start it, or name another with --url or "
                "FENCEPOST_URL",
                sent=not isinstance(error, aiohttp.ClientConnectorError),
            ) from error


def json_of(text: str, url: str) -> Any:
    """Return a worker's answer, None if it is empty. Raises WorkerUnreachableError for anything but JSON."""
    try:
        return parse_json(text) if text else None
    except ValueError:
        raise WorkerUnreachableError(
            f"The server at {url} is not a worker: name a worker with --url or FENCEPOST_URL"
        ) from None


def _base(url: str) -> URL:
    try:
        base = URL(url.rstrip("/"))
    except ValueError:
        base = URL()
    if base.scheme not in ("http", "https") or not base.host:
        raise ConfigError(f"{url!r} is not an address of a worker, such as http://127.0.0.1:8083")
    return base


def connector_path(name: str, *rest: str) -> str:
    """Return the path of a connector, or of a resource below it."""
    return "/".join(["/connectors", quote(name, safe=""), *rest])


def _message(text: str) -> str:
    try:
        return str(parse_json(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or "no reason given"
