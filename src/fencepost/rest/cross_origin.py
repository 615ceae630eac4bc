"""Refuses requests from pages of other sites, and requests under a host name that is not the worker's.

A browser sends requests to any reachable address on behalf of any page, so a page of another site could restart
connectors. In such a request, the browser names the page's origin in the header Origin. But if the page's own host name
resolves to the loopback address (DNS rebinding), the worker would seem to be of the same origin. So in that case the
name in the header Host is checked.

Other programs are not affected: they send no Origin, and their Host header has the name in the URL that they were
given.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Final

from aiohttp import hdrs, web
from aiohttp.typedefs import Middleware

from fencepost.config.rest_config import ALLOWED_HOSTS, ALLOWED_ORIGINS, ANY, CrossOrigin

_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.]+\]|[^:\[\]/@]+?)\.?(?::(?P<port>[0-9]*))?")
_ORIGIN: Final = re.compile(r"(?P<scheme>https?)://(?P<address>.*)")
_PORTS: Final = {"http": "80", "https": "443"}

_PAGE: Final = "/ui"

_FETCH_SITE: Final = "Sec-Fetch-Site"
_FETCH_MODE: Final = "Sec-Fetch-Mode"
_FETCH_DESTINATION: Final = "Sec-Fetch-Dest"
_OWN_SITE: Final = "same-origin"
# The value that browsers send if the user typed the address or opened a bookmark.
_NO_SITE: Final = "none"

# The same lists as in Connect's server, plus the header for a password.
_METHODS: Final = ("GET", "POST", "HEAD")
_HEADERS: Final = "X-Requested-With, Content-Type, Accept, Origin, Authorization"
_PREFLIGHT_SECONDS: Final = 60

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class OwnAddresses:
    """The addresses of a worker: `names` are host names, and `origins` are like http://host:port, in lower case.

    `loopback` are the loopback addresses that the worker listens on.
    """

    names: Collection[str] = ()
    origins: Collection[str] = ()
    loopback: Collection[Address] = ()


def access(config: CrossOrigin, own: OwnAddresses) -> Middleware:
    """Return the middleware that refuses requests with 403, and answers preflight requests from allowed origins."""

    @web.middleware
    async def checked(request: web.Request, handler: Handler) -> web.StreamResponse:
        _check_host(request, config, own)
        origins = request.headers.getall(hdrs.ORIGIN, [])
        origin = origins[0] if origins else None
        if len(origins) > 1:
            raise _refused("pages of several origins")
        if origin is None:
            _check_site(request, config)
        elif not is_allowed(origin, config):
            _check_origin(request, origin, own)
        elif request.method == hdrs.METH_OPTIONS and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers:
            return web.Response(headers=_preflight(config))
        return await handler(request)

    return checked


def allow_reading(config: CrossOrigin) -> Callable[[web.Request, web.StreamResponse], Awaitable[None]]:
    """Return a function that allows pages of the allowed origins to read a response.

    The function is called before the response is sent.
    """

    async def allow(request: web.Request, response: web.StreamResponse) -> None:
        origin = request.headers.get(hdrs.ORIGIN)
        if origin is not None and is_allowed(origin, config):
            response.headers[hdrs.ACCESS_CONTROL_ALLOW_ORIGIN] = origin
            response.headers[hdrs.VARY] = hdrs.ORIGIN

    return allow


def is_allowed(origin: str, config: CrossOrigin) -> bool:
    """Return whether pages of an origin may use the API."""
    return ANY in config.origins or origin.lower() in config.origins


def is_known_host(header: str, config: CrossOrigin, own: OwnAddresses) -> bool:
    """Return whether a Host header has a name of this machine or of the worker, or an allowed name.

    Any port is allowed.
    """
    match = _HOST.fullmatch(header)
    if match is None:
        return False
    name = match["name"].lower()
    return name == "localhost" or name in own.names or name in config.hosts or _is_loopback(name.strip("[]"))


def is_own(origin: str, url: str, own: OwnAddresses) -> bool:
    """Return whether an origin is the worker's own: `url`, which the client used (http://host), or an address in `own`.

    Behind a proxy that ends TLS, the scheme of the page differs from the worker's. Then either `Sec-Fetch-Site`, which
    browsers send to https addresses, shows that the page is the worker's, or the origin must be allowed by its name.
    """
    given = _with_port(origin.lower())
    return given is not None and given in {_with_port(url.lower()), *map(_with_port, own.origins)}


def _with_port(url: str) -> tuple[str, str, str] | None:
    """Return the scheme, the name and the port of an origin; None if the text is not an origin."""
    match = _ORIGIN.fullmatch(url)
    address = None if match is None else _HOST.fullmatch(match["address"])
    if match is None or address is None:
        return None
    return match["scheme"], address["name"], address["port"] or _PORTS[match["scheme"]]


def _is_loopback(name: str) -> bool:
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _check_host(request: web.Request, config: CrossOrigin, own: OwnAddresses) -> None:
    if ANY in config.hosts or not (config.hosts or _came_to(request) in own.loopback):
        return
    for header in request.headers.getall(hdrs.HOST, []):
        if not is_known_host(header, config, own):
            raise web.HTTPForbidden(
                text=f"The header Host of this request is {_shown(header)}, which is not a name of this worker. If it is, "
                f"for example the name of a proxy, add it to {ALLOWED_HOSTS}"
            )


def _came_to(request: web.Request) -> Address | None:
    name = None if request.transport is None else request.transport.get_extra_info("sockname")
    return None if name is None else (name[0], name[1])


def _check_origin(request: web.Request, origin: str, own: OwnAddresses) -> None:
    # Only browsers set this header, and it stays right if a proxy changes the header Host.
    if request.headers.getall(_FETCH_SITE, []) == [_OWN_SITE]:
        return
    if not is_own(origin, f"{request.scheme}://{request.headers.get(hdrs.HOST, '')}", own):
        raise _refused(f"a page of {_shown(origin)}")


def _check_site(request: web.Request, config: CrossOrigin) -> None:
    """Refuse requests from pages of other sites that have no Origin, such as a request for an image.

    Links to the page at /ui may pass.
    """
    headers = request.headers
    sites = headers.getall(_FETCH_SITE, [])
    if ANY in config.origins or all(site in (_OWN_SITE, _NO_SITE) for site in sites):
        return
    follows_link = headers.get(_FETCH_MODE) == "navigate" and headers.get(_FETCH_DESTINATION) == "document"
    if not (follows_link and request.method in (hdrs.METH_GET, hdrs.METH_HEAD) and request.path.rstrip("/") == _PAGE):
        raise _refused("a page of another site")


def _refused(whose: str) -> web.HTTPForbidden:
    return web.HTTPForbidden(
        text=f"This request was sent by {whose}, which is not this worker's. If it may use the API, add its origin "
        f"(https://host:port) to {ALLOWED_ORIGINS}"
    )


def _preflight(config: CrossOrigin) -> dict[str, str]:
    return {
        hdrs.ACCESS_CONTROL_ALLOW_METHODS: ", ".join(config.methods or _METHODS),
        hdrs.ACCESS_CONTROL_ALLOW_HEADERS: _HEADERS,
        hdrs.ACCESS_CONTROL_MAX_AGE: str(_PREFLIGHT_SECONDS),
    }


def _shown(header: str) -> str:
    return repr(header[:200])
