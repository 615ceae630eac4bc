"""The worker's REST API: its listeners, its advertised address and its users, under Connect's property names."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.secrets import HIDDEN, SECRETS
from fencepost.config.properties import below, load_properties
from fencepost.config.validators import not_blank, one_of

_T = ConfigDef.Type
_I = ConfigDef.Importance
LISTENERS: Final = "listeners"
ADMIN_LISTENERS: Final = "admin.listeners"
CREDENTIALS: Final = "rest.basic.auth.credentials.file"
ALLOWED_HOSTS: Final = "rest.allowed.hosts"
ALLOWED_ORIGINS: Final = "access.control.allow.origin"
_ALLOWED_METHODS: Final = "access.control.allow.methods"
_EXTENSIONS: Final = "rest.extension.classes"
_JAVA_BASIC_AUTH: Final = "BasicAuthSecurityRestExtension"
_URL: Final = re.compile(
    r"(?P<scheme>https?)://(?:\[(?P<six>[0-9a-f:]+)\]|(?P<host>[^:/\[\]]*)):(?P<port>[0-9]{1,5})/?"
)

_ORIGIN: Final = re.compile(r"https?://[^/,\s*]+")
_METHOD: Final = re.compile(r"[A-Za-z]+")

ANY: Final = "*"
"""Stands for all hosts, or all origins."""

EVERYWHERE: Final = "http://:8083"
_LOOPBACK: Final = "http://127.0.0.1:8083"

PREFIXES: Final = ("listeners.https.", "admin.listeners.https.")
"""Prefixes of the properties that configure TLS for listeners."""


def rest_config_def() -> ConfigDef:
    """Return the definitions of the properties of the REST API."""
    return _define_access(_define_listeners(ConfigDef()))


def _define_listeners(definitions: ConfigDef) -> ConfigDef:
    return (
        definitions
        .define(
            LISTENERS, _T.LIST, None, _I.LOW,
            "The addresses to listen on, comma-separated, as http://host:port or https://host:port. An empty host is "
            "all interfaces; port 0 is any free port. TLS is configured by listeners.https.ssl.*, else by ssl.*. Unset: "
            f"{_LOOPBACK}, which other machines cannot reach, or {EVERYWHERE} with {CREDENTIALS}. A standalone worker "
            f"listens on {_LOOPBACK} unless this is set, or on another port if that one is taken, which the log names.",
        )
        .define(
            ADMIN_LISTENERS, _T.LIST, None, _I.LOW,
            "Addresses for /admin alone. Unset: /admin is served on `listeners`; empty: /admin is disabled.",
        )
        .define(
            "rest.advertised.host.name", _T.STRING, None, _I.LOW,
            "The host name under which the other workers of the group reach this one.", validator=not_blank,
        )
        .define(
            "rest.advertised.port", _T.INT, None, _I.LOW,
            "The port under which the other workers of the group reach this one.",
        )
        .define(
            "rest.advertised.listener", _T.STRING, None, _I.LOW,
            "Which listener the other workers use: http or https. Unset: http, if there is such a listener.",
            validator=_http_or_https,
        )
    )  # fmt: skip


def _define_access(definitions: ConfigDef) -> ConfigDef:
    return (
        definitions
        .define(
            CREDENTIALS, _T.STRING, None, _I.MEDIUM,
            "A properties file of users and passwords, one user=password a line. With it, requests need one of them "
            "by HTTP basic authentication, except those between workers, and /health.", validator=not_blank,
        )
        .define(
            ALLOWED_HOSTS, _T.LIST, "", _I.LOW,
            "Further host names in the header Host of requests, without ports, such as a proxy's; * is any. "
            "Unset: a listener on a loopback address takes localhost, loopback addresses, and the names in listeners and "
            "rest.advertised.host.name; other listeners take any. If it is set, it applies to all listeners.",
        )
        .define(
            ALLOWED_ORIGINS, _T.STRING, "", _I.LOW,
            "The origins whose web pages may use the API, comma-separated, as https://host:port; * is any. Requests "
            "from pages of all other origins are refused.",
        )
        .define(
            _ALLOWED_METHODS, _T.STRING, "", _I.LOW,
            "The HTTP methods that pages of the origins in access.control.allow.origin may use, comma-separated. "
            "Unset: GET, POST and HEAD.",
        )
        .define(
            _EXTENSIONS, _T.LIST, "", _I.LOW,
            "Java's REST extensions, which are not run. BasicAuthSecurityRestExtension stands for "
            f"{CREDENTIALS}, which must be set with it. A worker with any other extension does not start.",
        )
    )  # fmt: skip


def _http_or_https(name: str, value: str | None) -> None:
    if value is not None:
        one_of(["http", "https"])(name, value)


@dataclass(frozen=True, slots=True)
class Listener:
    """An address to listen on. An empty host means all interfaces; port 0 means any free port."""

    scheme: str
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class CrossOrigin:
    """Names under which the worker may be addressed, and origins whose pages may use the API, in lower case; or ANY.

    `methods` are the HTTP methods that pages of these origins may use; if empty, the usual ones.
    """

    hosts: Collection[str] = ()
    origins: Collection[str] = ()
    methods: Sequence[str] = ()

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> CrossOrigin:
        """Read the values of the properties. Raises ConfigError that names the property."""
        hosts = [host.strip().lower() for host in values[ALLOWED_HOSTS]]
        origins = [origin.lower().removesuffix("/") for origin in _split(values[ALLOWED_ORIGINS])]
        methods = [method.upper() for method in _split(values[_ALLOWED_METHODS])]
        for host in hosts:
            if host != ANY and (not host or "/" in host or (":" in host and not host.startswith("["))):
                raise ConfigError(
                    f"{host!r} in the property {ALLOWED_HOSTS} is not a host name: leave out scheme and port, and put "
                    "brackets around an IPv6 address",
                    name=ALLOWED_HOSTS,
                )
        for origin in origins:
            if origin != ANY and not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"{origin!r} in the property {ALLOWED_ORIGINS} is not an origin: write https://host or "
                    "https://host:port, or * for any",
                    name=ALLOWED_ORIGINS,
                )
        for method in methods:
            if not _METHOD.fullmatch(method):
                raise ConfigError(
                    f"{method!r} in the property {_ALLOWED_METHODS} is not a method", name=_ALLOWED_METHODS
                )
        return cls(frozenset(hosts), frozenset(origins), tuple(methods))


def _split(text: str | None) -> list[str]:
    return [part.strip() for part in (text or "").split(",") if part.strip()]


@dataclass(frozen=True, slots=True)
class RestConfig:
    """The REST API's configuration, checked."""

    listeners: Sequence[Listener]
    loopback_by_default: bool
    """Whether `listeners` is the loopback address only because it is not set and no password is required."""
    any_port: bool
    """Whether any free port may be used if the port of `listeners` is taken, because no port was configured."""
    admin_listeners: Sequence[Listener] | None
    """None: /admin is served on `listeners`; empty: it is disabled."""
    advertised_host: str | None
    advertised_port: int | None
    advertised_scheme: str
    cross_origin: CrossOrigin
    credentials: Mapping[str, str] | None = field(repr=False)
    """Passwords by user; None: no authentication."""
    tls: Mapping[str, str] = field(repr=False)
    """Java's `ssl.*` properties for HTTPS, for listeners and for requests to other workers."""
    admin_tls: Mapping[str, str] = field(repr=False)

    @classmethod
    def from_properties(cls, properties: Mapping[str, str], *, where: str, alone: bool = False) -> RestConfig:
        """Read the properties of a worker.

        `alone` means that it is standalone, so that no other worker has to reach it.

        Raises ConfigError that names the property and `where` it is.
        """
        try:
            values = rest_config_def().parse(properties)
            credentials = _credentials(values[CREDENTIALS], values[_EXTENSIONS])
            SECRETS.learn(dict.fromkeys((credentials or {}).values(), HIDDEN))
            unset = values[LISTENERS] is None
            loopback = alone or credentials is None
            usual = [_LOOPBACK if loopback else EVERYWHERE]
            listeners = _listeners(usual if unset else values[LISTENERS])
            admin = values[ADMIN_LISTENERS]
            return cls(
                listeners=listeners,
                loopback_by_default=unset and loopback,
                any_port=unset and alone,
                admin_listeners=None if admin is None else [_listener(ADMIN_LISTENERS, text) for text in admin],
                advertised_host=values["rest.advertised.host.name"],
                advertised_port=values["rest.advertised.port"],
                advertised_scheme=_advertised(values["rest.advertised.listener"], listeners),
                cross_origin=CrossOrigin.of(values),
                credentials=credentials,
                tls=_tls(properties, "listeners.https."),
                admin_tls=_tls(properties, "admin.listeners.https."),
            )
        except ConfigError as error:
            raise ConfigError(f"{where}: {error}", name=error.name) from None


def _listeners(texts: Sequence[str]) -> Sequence[Listener]:
    if not texts:
        raise ConfigError("The property listeners is empty: name an address, or remove it", name=LISTENERS)
    return [_listener(LISTENERS, text) for text in texts]


def _listener(name: str, text: str) -> Listener:
    match = _URL.fullmatch(text.strip().lower())
    if match is None or int(match["port"]) > 65535:
        raise ConfigError(
            f"{text!r} in the property {name} is not an address to listen on: write http://host:port or "
            "https://host:port, with an empty host for all interfaces",
            name=name,
        )
    return Listener(match["scheme"], match["six"] or match["host"] or "", int(match["port"]))


def _advertised(asked: str | None, listeners: Sequence[Listener]) -> str:
    name = "rest.advertised.listener"
    schemes = [listener.scheme for listener in listeners]
    if asked is None:
        return "http" if "http" in schemes else "https"
    if asked.lower() not in schemes:
        raise ConfigError(f"The property {name} is {asked}, but listeners has no such address: add one", name=name)
    return asked.lower()


def _credentials(path: str | None, extensions: Sequence[str]) -> Mapping[str, str] | None:
    # An extension may restrict access, so it must not be left out silently.
    others = [extension for extension in extensions if not extension.endswith(_JAVA_BASIC_AUTH)]
    if others:
        raise ConfigError(
            f"{_EXTENSIONS} names {', '.join(others)}, but REST extensions in Java are not run: remove them. To ask for "
            f"users and passwords, set {CREDENTIALS}; for any other check of requests, put a proxy before the worker",
            name=_EXTENSIONS,
        )
    if path is not None:
        return load_properties(path)
    if any(extension.endswith(_JAVA_BASIC_AUTH) for extension in extensions):
        raise ConfigError(
            f"{_EXTENSIONS} asks for basic authentication, but no users are given: set {CREDENTIALS} to a file of "
            "user=password lines, such as the one that Java's PropertyFileLoginModule reads",
            name=CREDENTIALS,
        )
    return None


def _tls(properties: Mapping[str, str], prefix: str) -> Mapping[str, str]:
    """Return the `ssl.*` properties with the prefix. If none is set, return those without it, as in Connect."""
    return below(properties, prefix) or {k: v for k, v in properties.items() if k.startswith("ssl.")}
