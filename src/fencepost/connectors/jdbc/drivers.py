"""The JDBC drivers of databases other than PostgreSQL, which Spark loads by the names of their classes."""

from __future__ import annotations

from typing import Final

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


def driver_class(url: str) -> str:
    """Return the class of the driver for a JDBC URL. Raises ConfigError for a database that is not known."""
    kind = url.split(":")[1]
    if kind not in _DRIVERS:
        raise ConfigError(
            f"The property {URL} is for a database {kind!r}, which is not known: there are postgresql, {', '.join(_DRIVERS)}",
            name=URL,
        )
    return _DRIVERS[kind]


def check_url(url: str, allowed: AllowedPaths) -> None:
    """Raise ConfigError for a database that is not known, or whose file may not be read."""
    driver_class(url)
    if url.startswith(_SQLITE):
        path = url.removeprefix(_SQLITE).removeprefix("file:").partition("?")[0]
        try:
            allowed.check(path)
        except ConfigError as error:
            raise ConfigError(f"The property {URL} is refused. {error}", name=URL) from None
