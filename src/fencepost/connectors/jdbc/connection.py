"""Connections to PostgreSQL from a JDBC URL, by psycopg.

jdbc:postgresql://host:port,host:port/database?sslmode=verify-full&sslrootcert=/etc/ca.pem
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl, unquote

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import ConfigError, DataError, FencepostError, RetriableError
from fencepost.connectors.jdbc.properties import PASSWORD, POSTGRES_PREFIX, URL, USER
from fencepost.connectors.postgres.server.connect import VALUE_FORMS, WITHOUT_TIMEOUTS, connect, load_driver

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

_ADDRESS: Final = re.compile(r"//(?P<hosts>[^/?]*)(?:/(?P<database>[^?]*))?")
_HOST: Final = re.compile(r"(?P<name>\[[0-9a-fA-F:.%]+\]|[^:]*)(?::(?P<port>\d+))?")

# The names of JDBC's parameters, and the corresponding names of libpq's parameters.
_PARAMETERS: Final = {
    "user": "user", "password": "password", "sslmode": "sslmode", "sslrootcert": "sslrootcert", "sslcert": "sslcert",
    "sslkey": "sslkey", "sslpassword": "sslpassword", "ApplicationName": "application_name",
    "connectTimeout": "connect_timeout", "loginTimeout": "connect_timeout", "options": "options",
    "channelBinding": "channel_binding", "gssEncMode": "gssencmode",
}  # fmt: skip
_FILES: Final = ("sslrootcert", "sslcert", "sslkey")
_TARGETS: Final = {
    "any": "any", "primary": "primary", "master": "primary", "secondary": "standby", "slave": "standby",
    "preferSecondary": "prefer-standby", "preferSlave": "prefer-standby",
}  # fmt: skip

_SETTINGS: Final = VALUE_FORMS | {
    "client_encoding": "UTF8",
    "xmlbinary": "base64",
    "default_transaction_read_only": "on",
}
_SESSION: Final = "; ".join([*(f"set {name} = '{value}'" for name, value in _SETTINGS.items()), WITHOUT_TIMEOUTS])
_CORRECTED: Final = f"{URL}, {USER} and {PASSWORD}"


@dataclass(frozen=True)
class PostgresAddress:
    """The address of a database, as connection parameters of libpq.

    `name` is for messages. The object can be pickled.
    """

    name: str
    parameters: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, values: Mapping[str, Any], allowed: AllowedPaths) -> PostgresAddress:
        """Return the address in the connector's properties. Raises ConfigError."""
        url = str(values[URL])
        match = _ADDRESS.match(url.removeprefix(POSTGRES_PREFIX))
        if not url.startswith(POSTGRES_PREFIX) or match is None:
            raise ConfigError(f"The property {URL} is not of the form jdbc:postgresql://host:port/database", name=URL)
        parameters = _hosts(match["hosts"]) | _parameters(url.partition("?")[2], allowed)
        if database := unquote(match["database"] or ""):
            parameters["dbname"] = database
        for name, parameter in ((USER, "user"), (PASSWORD, "password")):
            if values[name] is not None:
                parameters[parameter] = str(values[name])
        parameters.setdefault("dbname", parameters.get("user", "postgres"))
        where = f"{parameters['host']}:{parameters['port']}/{parameters['dbname']}"
        return cls(where, parameters)

    def connect(self) -> Connection:
        """Open a connection in autocommit mode. Raises ConfigError or RetriableError."""
        driver = load_driver()
        try:
            connection: Connection = connect(
                self.parameters, f"Cannot connect to PostgreSQL at {self.name}", _CORRECTED
            )
            connection.execute(_SESSION)
        except driver.OperationalError as error:
            raise RetriableError(f"Cannot use the connection to PostgreSQL at {self.name}: {_first(error)}") from error
        except driver.Error as error:
            raise ConfigError(f"Cannot use the connection to PostgreSQL at {self.name}: {error}", name=URL) from error
        return connection


@contextmanager
def translated(what: str, address: PostgresAddress, *, on_loss: Callable[[], object]) -> Iterator[None]:
    """Convert errors of psycopg: to RetriableError for a lost connection, after a call of `on_loss`, else to DataError.

    `what` names the table or query in messages.
    """
    driver = load_driver()
    try:
        yield
    except FencepostError:
        raise
    except (driver.errors.InsufficientPrivilege, driver.errors.UndefinedTable, driver.errors.UndefinedColumn) as error:
        raise DataError(f"{what} of PostgreSQL at {address.name} cannot be read any more: {_first(error)}") from error
    except (driver.OperationalError, driver.InterfaceError) as error:
        on_loss()
        raise RetriableError(f"Reading {what} of PostgreSQL at {address.name} failed: {_first(error)}") from error
    except driver.Error as error:
        raise DataError(f"Reading {what} of PostgreSQL at {address.name} failed: {_first(error)}") from error


def _first(error: Exception) -> str:
    return " ".join(str(error).split())


def _hosts(text: str) -> dict[str, str]:
    names, ports = [], []
    if "@" in text:
        # The message does not contain the text before the @: it may be a password, and messages are stored and logged.
        raise ConfigError(
            f"The property {URL} has a user before its host, which JDBC URLs do not have: set {USER} and {PASSWORD}",
            name=URL,
        )
    for part in (text or "localhost").split(","):
        match = _HOST.fullmatch(part)
        if match is None:
            raise ConfigError(f"The property {URL} has {part!r} where a host and a port belong", name=URL)
        names.append(unquote(match["name"]).strip("[]") or "localhost")
        ports.append(match["port"] or "5432")
    return {"host": ",".join(names), "port": ",".join(ports)}


def _parameters(query: str, allowed: AllowedPaths) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        if name in _PARAMETERS:
            found[_PARAMETERS[name]] = value
        elif name == "ssl":
            if value.lower() in ("", "true"):
                found.setdefault("sslmode", "verify-full")
        elif name == "currentSchema":
            found["options"] = f"{found.get('options', '')} -c search_path={_escaped(value)}".strip()
        elif name == "targetServerType" and value in _TARGETS:
            found["target_session_attrs"] = _TARGETS[value]
        else:
            raise ConfigError(
                f"The property {URL} has the parameter {name}, which is not supported: remove it", name=URL
            )
    for name in _FILES:
        if name in found:
            try:
                allowed.check(found[name])
            except ConfigError as error:
                raise ConfigError(f"The parameter {name} of the property {URL} is refused. {error}", name=URL) from None
    return found


def _escaped(value: str) -> str:
    return re.sub(r"([\\\s])", r"\\\1", value)
