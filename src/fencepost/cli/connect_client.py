"""A client of Kafka Connect's REST API, for workers of fencepost or Java."""

from __future__ import annotations

import asyncio
import time
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
    """A worker answered with an error. `status` is that of HTTP."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class WorkerUnreachableError(FencepostError):
    """There was no answer, or not one of Kafka Connect's REST API. The request may have been processed."""


class ConnectClient:
    """A blocking client. If a worker is busy with a rebalance (409), the request is retried, with growing pauses.

    client = ConnectClient("http://127.0.0.1:8083", retry_seconds=30)
    client.ask("GET", connector_path("lines", "status"))        # the JSON of the answer, None if it has none
    """

    def __init__(self, url: str, *, retry_seconds: float) -> None:
        """`url` may contain a user and a password. Raises ConfigError for an invalid address."""
        try:
            self._base = URL(url.rstrip("/"))
        except ValueError:
            raise ConfigError(f"{url!r} is no address of a worker, such as http://127.0.0.1:8083") from None
        if self._base.scheme not in ("http", "https") or not self._base.host:
            raise ConfigError(f"{url!r} is no address of a worker, such as http://127.0.0.1:8083")
        self._retry_seconds = retry_seconds

    @property
    def shown_url(self) -> str:
        """The address without its password."""
        return str(self._base.with_user(None)).rstrip("/")

    def ask(self, method: str, path: str, body: Any = None, query: Mapping[str, str | list[str]] | None = None) -> Any:
        """Send a request.

        Raises RequestRefusedError for a status of at least 400, WorkerUnreachableError for no answer.
        """
        url = URL(str(self._base).rstrip("/") + path, encoded=True)
        return asyncio.run(self._ask(method, url.with_query(query) if query else url, body))

    async def _ask(self, method: str, url: URL, body: Any) -> Any:
        deadline = time.monotonic() + self._retry_seconds
        pause = _FIRST_PAUSE_SECONDS
        timeout = aiohttp.ClientTimeout(total=_ANSWER_SECONDS, sock_connect=_CONNECT_SECONDS)
        async with aiohttp.ClientSession(timeout=timeout) as session:
            while True:
                status, text = await self._send(session, method, url, body)
                if status < 400:
                    return self._parsed(text)
                message = _message(text)
                if not _passes(status, message) or time.monotonic() + pause > deadline:
                    raise RequestRefusedError(f"{message} (status {status} from {self.shown_url})", status)
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    async def _send(self, session: aiohttp.ClientSession, method: str, url: URL, body: Any) -> tuple[int, str]:
        headers = {"Accept": "application/json"}
        try:
            async with session.request(method, url, json=body, headers=headers) as response:
                return response.status, await response.text("utf-8", "replace")
        except TimeoutError:
            raise WorkerUnreachableError(
                f"The worker at {self.shown_url} did not answer in time; it may still process the request: check "
                "before you send it again"
            ) from None
        except (aiohttp.ClientSSLError, aiohttp.ClientConnectorCertificateError) as error:
            raise WorkerUnreachableError(
                f"The worker at {self.shown_url} is not trusted ({error}): if its certificate is signed by a "
                "private authority, set the environment variable SSL_CERT_FILE to the authority's PEM file"
            ) from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise WorkerUnreachableError(
                f"The worker at {self.shown_url} cannot be reached ({connection_failure(error)}): start it, or name another with --url or "
                "FENCEPOST_URL"
            ) from error

    def _parsed(self, text: str) -> Any:
        try:
            return parse_json(text) if text else None
        except ValueError:
            raise WorkerUnreachableError(
                f"What answers at {self.shown_url} is not a worker: name one with --url or FENCEPOST_URL"
            ) from None


def connector_path(name: str, *rest: str) -> str:
    """Return the path of a connector, or of a resource below it."""
    return "/".join(["/connectors", quote(name, safe=""), *rest])


def _message(text: str) -> str:
    try:
        return str(parse_json(text)["message"])
    except (ValueError, KeyError, TypeError):
        return text.strip() or "no reason given"


def _passes(status: int, message: str) -> bool:
    # Connect uses one status for a pending rebalance and for a name that is taken.
    return status == _CONFLICT and "already exists" not in message
