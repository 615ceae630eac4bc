"""HTTP requests to one of several addresses, with limits that protect the worker from a server.

A login is meant only for the configured address, so redirects are not followed. The size and time of an answer are
limited: a server that sends endlessly, or very slowly, does not block the worker.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fencepost.api.errors import ConfigError, describe_error
from fencepost.api.extras import how_to_install
from fencepost.converters.registry.errors import RegistryAnswerError
from fencepost.converters.registry.settings import RegistrySettings

if TYPE_CHECKING:
    import urllib3

LONGEST_ANSWER: Final = 16 * 1024 * 1024
"""The maximum size of an answer, in bytes. Schemas have only kilobytes."""

_PIECE: Final = 64 * 1024


class TransportError(Exception):
    """A server could not be reached, or did not answer in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer of the server at `address`, which contains no login and may be shown."""

    address: str
    status: int
    content_type: str
    body: bytes = field(repr=False)


class HttpClient:
    """Connections to the addresses of a registry, and to its token endpoint. Thread-safe."""

    def __init__(self, settings: RegistrySettings) -> None:
        """Raises ConfigError if the library is missing, or if certificates cannot be used."""
        self._settings = settings
        self._lib = _urllib3()
        options: dict[str, Any] = {
            "timeout": self._lib.Timeout(connect=settings.connect_timeout_s, read=settings.read_timeout_s),
            "retries": False,
            "maxsize": 4,
        }
        if settings.needs_tls:
            options["ssl_context"] = (
                settings.tls.context() if settings.tls is not None else ssl.create_default_context()
            )
        if settings.tls is not None and not settings.tls.check_hostname:
            options["assert_hostname"] = False
        self._pool: urllib3.PoolManager
        if settings.proxy is None:
            self._pool = self._lib.PoolManager(**options)
        else:
            self._pool = self._lib.ProxyManager(settings.proxy, **options)

    def request(self, position: int, method: str, path: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request to the address at an index.

        Raises TransportError, and RegistryAnswerError for an answer that is too long.
        """
        url = self._settings.urls[position]
        login = {"Authorization": url.authorization} if url.authorization else {}
        return self.send(method, url.address + path, url.shown, body, {**login, **headers})

    def send(self, method: str, url: str, shown: str, body: bytes | None, headers: Mapping[str, str]) -> Answer:
        """Send a request to any address. Raises the errors of `request`.

        The result and error messages name the address as `shown`.
        """
        deadline = time.monotonic() + self._settings.connect_timeout_s + self._settings.read_timeout_s
        try:
            response = self._pool.request(
                method, url, body=body, headers=dict(headers), preload_content=False, redirect=False, retries=False
            )
            try:
                content = self._read(response, shown, deadline)
            finally:
                response.close()
        except (self._lib.exceptions.HTTPError, OSError) as error:
            raise TransportError(f"{shown} did not answer: {describe_error(error)}") from error
        return Answer(shown, response.status, response.headers.get("Content-Type", "").lower(), content)

    def close(self) -> None:
        """Close the connections."""
        self._pool.clear()

    def _read(self, response: Any, shown: str, deadline: float) -> bytes:
        pieces, size = [], 0
        while piece := response.read1(_PIECE, decode_content=False):
            pieces.append(piece)
            size += len(piece)
            if size > LONGEST_ANSWER:
                raise RegistryAnswerError(
                    f"The schema registry {shown} answered with more than {LONGEST_ANSWER} bytes, which no registry does: "
                    f"check {self._settings.url_property}"
                )
            if time.monotonic() > deadline:
                raise TransportError(f"{shown} did not end its answer in time (http.read.timeout.ms)")
        return b"".join(pieces)


def _urllib3() -> Any:
    try:
        import urllib3  # noqa: PLC0415 - optional, and executors need none
    except ImportError:
        raise ConfigError(
            f"A converter with a schema registry needs urllib3, which is not installed: {how_to_install('registry')}"
        ) from None
    return urllib3
