"""Bearer tokens from a token endpoint, with the client credentials grant (RFC 6749, section 4.4)."""

from __future__ import annotations

import threading
import time
import urllib.parse
from typing import Final

from fencepost.api.foreign_json import parse_json
from fencepost.api.secrets import SECRETS
from fencepost.converters.registry.errors import RegistryAccessError, RegistryUnavailableError
from fencepost.converters.registry.http import HttpClient, TransportError
from fencepost.converters.registry.settings import RegistrySettings, basic_login

_UNTOLD_LIFETIME_S: Final = 3600.0


class TokenSource:
    """Keeps a token until shortly before it expires. Thread-safe."""

    def __init__(self, settings: RegistrySettings, http: HttpClient) -> None:
        self._settings = settings
        self._http = http
        self._lock = threading.Lock()
        self._token: str | None = None
        self._until = 0.0

    def token(self) -> str:
        """Return a token.

        Raises RegistryAccessError if the endpoint refuses, RegistryUnavailableError if it does not answer.
        """
        with self._lock:
            if self._token is None or time.monotonic() >= self._until:
                self._token = self._fetch()
            return self._token

    def forget(self) -> None:
        """Forget the token, because the registry refused it."""
        with self._lock:
            self._token = None

    def _fetch(self) -> str:
        oauth = self._settings.oauth
        if oauth is None:
            raise RegistryAccessError("There is no token endpoint: set bearer.auth.issuer.endpoint.url")
        form = {"grant_type": "client_credentials"} | ({"scope": oauth.scope} if oauth.scope else {})
        credentials = ":".join(urllib.parse.quote(part, safe="") for part in (oauth.client_id, oauth.client_secret))
        headers = {
            "Authorization": basic_login(credentials),
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        }
        try:
            answer = self._http.send(
                "POST", oauth.endpoint, oauth.endpoint, urllib.parse.urlencode(form).encode(), headers
            )
        except TransportError as error:
            raise RegistryUnavailableError(
                f"The token endpoint of the schema registry cannot be asked: {error}. Check bearer.auth.issuer.endpoint.url"
            ) from error
        if answer.status == 429 or answer.status >= 500:
            raise RegistryUnavailableError(
                f"The token endpoint {oauth.endpoint} of the schema registry answered {answer.status}: it is asked again"
            )
        try:
            found = parse_json(answer.body) if answer.status == 200 else {}
            token, lifetime = found["access_token"], float(found.get("expires_in", _UNTOLD_LIFETIME_S))
        except (ValueError, KeyError, TypeError, AttributeError):
            token, lifetime = "", 0.0
        if not isinstance(token, str) or not token:
            raise RegistryAccessError(
                f"The token endpoint {oauth.endpoint} of the schema registry gave no token to the client "
                f"{oauth.client_id} (it answered {answer.status}): check bearer.auth.client.id, "
                "bearer.auth.client.secret and bearer.auth.scope",
                status=answer.status,
            )
        # A token whose lifetime is shorter than the buffer is used for half of its lifetime.
        SECRETS.learn_renewed(f"{oauth.endpoint} {oauth.client_id}", token)
        self._until = time.monotonic() + max(lifetime - self._settings.token_buffer_s, lifetime / 2)
        return token
