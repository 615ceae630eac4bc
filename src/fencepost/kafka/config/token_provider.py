"""Tokens for SASL/OAUTHBEARER: from a token endpoint (client credentials, KIP-768), or unsigned for development.

RFC 6749 section 4.4 defines the grant, RFC 7515 the format of an unsigned token.
"""

from __future__ import annotations

import base64
import json
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from http.client import HTTPMessage
from typing import IO, Final

from kafka.net.sasl.oauth import AbstractTokenProvider  # noqa: TID251 - SASL's mechanisms, which do no I/O

from fencepost.kafka.config.oauth import ENDPOINT, OAuthConfig
from fencepost.kafka.errors import AuthenticationError, BrokerUnavailableError

_TIMEOUT_S: Final = 10
_UNSIGNED_LIFETIME_S: Final = 3600


class TokenProvider(AbstractTokenProvider):  # type: ignore[misc] # kafka-python has no types
    """Provides kafka-python's mechanism with the tokens of an OAuthConfig."""

    def __init__(self, config: OAuthConfig) -> None:
        super().__init__()
        self._config = config

    def token(self) -> str:
        """Return a token that is valid for a while. Raises AuthenticationError or BrokerUnavailableError."""
        if self._config.subject is not None:
            return _unsigned(self._config.subject)
        return self._fetch(str(self._config.endpoint))

    def _fetch(self, endpoint: str) -> str:
        form = {"grant_type": "client_credentials"}
        if self._config.scope:
            form["scope"] = self._config.scope
        credentials = base64.b64encode(f"{self._config.client_id}:{self._config.client_secret}".encode()).decode()
        request = urllib.request.Request(  # noqa: S310 - from_properties lets http and https pass only
            endpoint,
            urllib.parse.urlencode(form).encode(),
            {"Authorization": f"Basic {credentials}", "Accept": "application/json"},
        )
        try:
            with urllib.request.build_opener(_SameOrigin).open(request, timeout=_TIMEOUT_S) as response:
                return str(json.load(response)["access_token"])
        except urllib.error.HTTPError as error:
            error.close()
            raise AuthenticationError(
                f"The token endpoint {endpoint} refused the client {self._config.client_id} with HTTP {error.code}: "
                "check clientId, clientSecret and scope in sasl.jaas.config"
            ) from error
        except OSError as error:
            raise BrokerUnavailableError(
                f"The token endpoint {endpoint} cannot be reached ({error}): check {ENDPOINT}", address=endpoint
            ) from error
        except (ValueError, KeyError) as error:
            raise AuthenticationError(
                f"The token endpoint {endpoint} answered without an access_token: check {ENDPOINT}"
            ) from error


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    """Follows redirects only to the same scheme, host and port, because the client's secret is sent along."""

    def redirect_request(  # noqa: PLR0917 - the library's
        self, req: urllib.request.Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
    ) -> urllib.request.Request | None:
        """Return the request that follows a redirect. Raises AuthenticationError for another origin."""
        if _origin(newurl) != _origin(req.full_url):
            fp.close()
            raise AuthenticationError(
                f"The token endpoint {req.full_url} redirects to another server, {_origin(newurl)}, which is not given "
                f"the client's secret: set {ENDPOINT} to the address that is meant"
            )
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def _origin(url: str) -> str:
    parts = urllib.parse.urlsplit(url)
    return f"{parts.scheme}://{parts.hostname}:{parts.port or {'http': 80, 'https': 443}.get(parts.scheme)}"


def _unsigned(subject: str) -> str:
    issued = int(time.time())
    claims = {"sub": subject, "iat": issued, "exp": issued + _UNSIGNED_LIFETIME_S}
    return f"{_encode({'alg': 'none'})}.{_encode(claims)}."


def _encode(part: Mapping[str, object]) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
