"""The settings for reaching a schema registry: addresses, logins, TLS and times. They come from properties."""

from __future__ import annotations

import base64
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.api.secrets import HIDDEN, SECRETS
from fencepost.config.properties import below
from fencepost.kafka.config.security import TlsConfig, parse_jaas

URL: Final = "schema.registry.url"
SSL: Final = "schema.registry.ssl."
REQUEST_HEADER: Final = "request.header."
_CONTENT_HEADERS: Final = frozenset({"content-length", "content-type", "host", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class RegistryUrl:
    """An address without a login, the header with the login, and the address in a form that may be shown."""

    address: str
    shown: str
    authorization: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class OAuthSettings:
    """A token endpoint, and the client to which it gives tokens."""

    endpoint: str
    client_id: str
    client_secret: str = field(repr=False)
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The settings for reaching a registry.

    Equal settings share a client and its cached ids. Names of times end with their unit.
    """

    urls: tuple[RegistryUrl, ...]
    randomize: bool = False
    connect_timeout_s: float = 60.0
    read_timeout_s: float = 60.0
    max_retries: int = 3
    retry_wait_ms: int = 1000
    retry_max_wait_ms: int = 20_000
    proxy: str | None = None
    header_items: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    oauth: OAuthSettings | None = None
    token_buffer_s: float = 300.0
    url_property: str = URL
    tls: TlsConfig | None = field(default=None, repr=False)

    @property
    def headers(self) -> dict[str, str]:
        """The headers of each request besides the API's own."""
        return dict(self.header_items)

    @property
    def needs_tls(self) -> bool:
        """Whether an address uses TLS."""
        addresses = [*(url.address for url in self.urls), *([self.oauth.endpoint] if self.oauth is not None else [])]
        return any(address.startswith("https:") for address in addresses)

    @classmethod
    def of(
        cls, values: Mapping[str, Any], properties: Mapping[str, str], *, url_property: str = URL
    ) -> RegistrySettings:
        """Read the settings: defined properties from the parsed `values`, properties with free names from `properties`.

        `url_property` is the name of the address's property in the user's configuration, for messages. From now on, the
        passwords are hidden in messages. Raises ConfigError that names a property.
        """
        headers = _headers(properties)
        bearer, oauth = _bearer(values)
        authorization = bearer or _basic(values, properties)
        if oauth is not None or bearer:
            headers |= _cloud_headers(values)
        SECRETS.learn(dict.fromkeys((value for _, value in headers.items()), HIDDEN))
        from_url = str(values["basic.auth.credentials.source"]).upper() == "URL"
        urls = tuple(_url(text, authorization, from_url=from_url) for text in values[URL] if text)
        if not urls:
            raise ConfigError(f"The property {URL} names no address: add one, such as http://registry:8081", name=URL)
        return cls(
            urls=urls,
            randomize=values["schema.registry.url.randomize"] or values["url.randomize"],
            connect_timeout_s=values["http.connect.timeout.ms"] / 1000,
            read_timeout_s=values["http.read.timeout.ms"] / 1000,
            max_retries=values["max.retries"],
            retry_wait_ms=values["retries.wait.ms"],
            retry_max_wait_ms=values["retries.max.wait.ms"],
            proxy=_proxy(values),
            header_items=tuple(sorted(headers.items())),
            oauth=oauth,
            token_buffer_s=float(values["bearer.auth.cache.expiry.buffer.seconds"]),
            url_property=url_property,
            tls=_tls(properties),
        )


def _url(text: str, authorization: str, *, from_url: bool) -> RegistryUrl:
    parts = urllib.parse.urlsplit(text.strip())
    login = ""
    if parts.username is not None:
        user, password = urllib.parse.unquote(parts.username), urllib.parse.unquote(parts.password or "")
        SECRETS.learn(dict.fromkeys((secret for secret in (password, parts.password or "") if secret), HIDDEN))
        login = basic_login(f"{user}:{password}")
    shown = urllib.parse.urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path.rstrip("/"), "", ""))
    try:
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.query or parts.fragment:
        raise ConfigError(
            f"{URL} has {shown!r}, which is not an address of a registry: write http://host:port or https://host:port, "
            "several of them with commas between",
            name=URL,
        )
    return RegistryUrl(shown, shown, authorization or (login if from_url else ""))


def basic_login(user_info: str) -> str:
    """Return the header of a login with `user:password`."""
    return f"Basic {base64.b64encode(user_info.encode()).decode()}"


def _basic(values: Mapping[str, Any], properties: Mapping[str, str]) -> str:
    source = str(values["basic.auth.credentials.source"]).upper()
    user_info: str | None = None
    if source == "USER_INFO":
        user_info = values["schema.registry.basic.auth.user.info"] or values["basic.auth.user.info"]
        if not user_info or ":" not in user_info:
            raise ConfigError(
                "basic.auth.credentials.source=USER_INFO needs basic.auth.user.info=user:password",
                name="basic.auth.user.info",
            )
    elif source == "SASL_INHERIT":
        options = parse_jaas(properties.get("sasl.jaas.config"))
        user_info = f"{options.get('username', '')}:{options.get('password', '')}"
    if user_info is None:
        return ""
    header = basic_login(user_info)
    SECRETS.learn(dict.fromkeys((user_info, user_info.partition(":")[2], header.partition(" ")[2]), HIDDEN))
    return header


def _bearer(values: Mapping[str, Any]) -> tuple[str, OAuthSettings | None]:
    """Return the header with a fixed token, or the endpoint that gives tokens."""
    source = values["bearer.auth.credentials.source"].upper()
    token, endpoint = values["bearer.auth.token"], values["bearer.auth.issuer.endpoint.url"]
    if source == "STATIC_TOKEN":
        if token:
            SECRETS.learn({token: HIDDEN})
        return (f"Bearer {token}", None) if token else ("", None)
    needed = ("bearer.auth.issuer.endpoint.url", "bearer.auth.client.id", "bearer.auth.client.secret")
    missing = [name for name in needed if not values[name]]
    if missing:
        raise ConfigError(f"bearer.auth.credentials.source=OAUTHBEARER needs {', '.join(missing)}", name=missing[0])
    if urllib.parse.urlsplit(endpoint).scheme not in ("http", "https"):
        raise ConfigError(
            "bearer.auth.issuer.endpoint.url is not an http or https address", name="bearer.auth.issuer.endpoint.url"
        )
    SECRETS.learn({values["bearer.auth.client.secret"]: HIDDEN})
    return "", OAuthSettings(
        endpoint, values["bearer.auth.client.id"], values["bearer.auth.client.secret"], values["bearer.auth.scope"]
    )


def _cloud_headers(values: Mapping[str, Any]) -> dict[str, str]:
    named = {
        "target-sr-cluster": values["bearer.auth.logical.cluster"],
        "Confluent-Identity-Pool-Id": values["bearer.auth.identity.pool.id"],
    }
    return {name: value for name, value in named.items() if value}


def _headers(properties: Mapping[str, str]) -> dict[str, str]:
    headers = below(properties, REQUEST_HEADER)
    for name, value in headers.items():
        if not name or not name.isascii() or any(not c.isprintable() or c in " :" for c in name) or "\n" in value:
            raise ConfigError(f"{REQUEST_HEADER}{name} is not the name of an HTTP header", name=REQUEST_HEADER + name)
        if name.lower() in _CONTENT_HEADERS:
            raise ConfigError(
                f"{REQUEST_HEADER}{name} is set by the client itself: remove it", name=REQUEST_HEADER + name
            )
    return headers


def _proxy(values: Mapping[str, Any]) -> str | None:
    host, port = values["proxy.host"], values["proxy.port"]
    if not host:
        return None
    if port <= 0:
        raise ConfigError("proxy.host needs proxy.port", name="proxy.port")
    return f"http://{host}:{port}"


def _tls(properties: Mapping[str, str]) -> TlsConfig | None:
    given = {f"ssl.{name}": value for name, value in below(properties, SSL).items()}
    if not given:
        return None
    SECRETS.learn_properties(given)
    try:
        return TlsConfig.from_properties(given)
    except ConfigError as error:
        blamed = None if error.name is None else f"schema.registry.{error.name}"
        raise ConfigError(f"schema.registry.ssl.*: {error}", name=blamed) from error
