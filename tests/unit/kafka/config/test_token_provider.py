"""The client secret is sent to the configured token endpoint only."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from fencepost.kafka.config.oauth import OAuthConfig
from fencepost.kafka.config.token_provider import TokenProvider
from fencepost.kafka.errors import AuthenticationError


class Endpoint(HTTPServer):
    """Answers /token with a token, and any other path with a redirect to `target`."""

    target = "/token"

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Handler(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        assert isinstance(self.server, Endpoint)
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.asked.append(self.path)
        moved = self.path != "/token"
        self.send_response(302 if moved else 200)
        if moved:
            self.send_header("Location", self.server.target)
        self.end_headers()
        self.wfile.write(json.dumps({"access_token": "t"}).encode())

    def do_POST(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoints() -> Iterator[list[Endpoint]]:
    servers = [Endpoint(), Endpoint()]
    yield servers
    for server in servers:
        server.shutdown()
        server.server_close()


def test_a_redirect_to_another_server_is_refused(endpoints: list[Endpoint]) -> None:
    configured, other = endpoints
    configured.target = f"{other.url}/token"
    with pytest.raises(AuthenticationError, match="redirects to another server"):
        TokenProvider(OAuthConfig(f"{configured.url}/moved", "id", "secret")).token()
    assert other.asked == []


def test_a_redirect_to_the_same_server_is_followed(endpoints: list[Endpoint]) -> None:
    assert TokenProvider(OAuthConfig(f"{endpoints[0].url}/moved", "id", "secret")).token() == "t"
