"""The JDBC drivers of databases other than PostgreSQL. Spark loads a driver by its class name."""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import ConfigError
from fencepost.connectors.jdbc.properties import URL

_DRIVERS: Final = {
    "db2": "com.ibm.db2.jcc.DB2Driver",
    "mariadb": "org.mariadb.jdbc.Driver",
    "mysql": "com.mysql.cj.jdbc.Driver",
    "oracle": "oracle.jdbc.OracleDriver",
    "sqlite": "org.sqlite.JDBC",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
_SQLITE: Final = "jdbc:sqlite:"
_RESOURCE: Final = ":resource:"
_FILE_URI: Final = "file:"


def driver_class(url: str) -> str:
    """Return the driver's class name for a JDBC URL. Raises ConfigError for an unknown database."""
    kind = url.split(":")[1]
    if kind not in _DRIVERS:
        raise ConfigError(
            f"The property {URL} is for a database {kind!r}, which is not known: there are postgresql, {', '.join(_DRIVERS)}",
            name=URL,
        )
    return _DRIVERS[kind]


def check_url(url: str, allowed: AllowedPaths) -> None:
    """Raise ConfigError for an unknown database, or for a database whose file may not be read."""
    driver_class(url)
    if url.lower().startswith(_SQLITE):
        try:
            allowed.check(_sqlite_file(url[len(_SQLITE) :]))
        except ConfigError as error:
            raise ConfigError(f"The property {URL} is refused. {error}", name=URL) from None


def _sqlite_file(name: str) -> str:
    """Return the path that SQLite opens for a name (https://www.sqlite.org/uri.html). Raises ConfigError."""
    if name.lower().startswith(_RESOURCE):
        raise ConfigError(f"{_RESOURCE} makes the driver fetch a URL: give the path of the database's file")
    path = name.partition("?")[0]
    if not path.startswith(_FILE_URI):
        return path
    path = path.removeprefix(_FILE_URI).partition("#")[0]
    if path.startswith("//"):
        # The text between // and the next / is a host: empty or localhost.
        path = "/" + path[2:].partition("/")[2]
    path = unquote(path)
    if "\0" in path:
        raise ConfigError("The path of the database's file has a NUL, at which SQLite ends it: remove %00")
    return path
