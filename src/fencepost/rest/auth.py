"""Basic authentication of the public part of the API.

Requests between workers that change something are signed instead, as in Kafka Connect, and a worker's health needs no
authentication. Requests that only read need a user even if they are signed: a worker that asks another on behalf of a
user forwards the user's credentials.
"""

from __future__ import annotations

import hmac
import re
from collections.abc import Mapping
from typing import Final

from aiohttp import BasicAuth, hdrs, web

_OPEN: Final = (
    ("GET", re.compile(r"/health/?")),
    ("HEAD", re.compile(r"/health/?")),
    ("PUT", re.compile(r"/connectors/[^/]+/fence/?")),
    ("POST", re.compile(r"/connectors/[^/]+/tasks/?")),
)


def authenticate(request: web.Request, credentials: Mapping[str, str]) -> None:
    """Raise 401 unless a request names one of the users, by name and password, or needs none."""
    if any(request.method == method and path.fullmatch(request.rel_url.raw_path) for method, path in _OPEN):
        return
    if not _known(request.headers.get(hdrs.AUTHORIZATION, ""), credentials):
        raise web.HTTPUnauthorized(
            text="This worker asks for a user's name and password: send them by HTTP basic authentication",
            headers={hdrs.WWW_AUTHENTICATE: 'Basic realm="fencepost", charset="UTF-8"'},
        )


def _known(header: str, credentials: Mapping[str, str]) -> bool:
    try:
        given = BasicAuth.decode(header, encoding="utf-8")
    except ValueError:
        return False
    expected = credentials.get(given.login)
    # Always compared, so that the time does not reveal which names exist.
    same = hmac.compare_digest(given.password.encode(), (expected or "").encode())
    return same and expected is not None
