"""Connects to PostgreSQL through psycopg, an optional package, for both PostgreSQL sources.

If a connection fails, libpq gives the reason only as text, without an SQLSTATE, and the server's text is in the
server's language. A second login to get the SQLSTATE would count as a second wrong password and might lock the user
out. So the text is passed on and a later attempt is made, unless libpq itself says that the TLS settings are wrong.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from fencepost.api.errors import ConfigError, RetriableError
from fencepost.api.extras import how_to_install

if TYPE_CHECKING:
    import psycopg

_PARAMETERS: Final = {
    # A server that does not answer counts as lost after 20 s, also while sent data are not acknowledged.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "2",
    "tcp_user_timeout": "20000",
    "connect_timeout": "10",
    # An empty address makes libpq look the host up; without it, PGHOSTADDR in the process's environment would be used.
    "hostaddr": "",
}

VALUE_FORMS: Final = {
    "DateStyle": "ISO",
    "TimeZone": "UTC",
    "IntervalStyle": "iso_8601",
    "extra_float_digits": "3",
    "bytea_output": "hex",
}
"""The settings of each session: values are written in these forms, whatever the database or role has set."""

# Sessions hold a snapshot until its rows are in Kafka, and wait between polls, so timeouts are switched off. The
# statement uses the catalog, because older servers do not have all of these settings.
WITHOUT_TIMEOUTS: Final = (
    "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN "
    "('idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')"
)

# These are libpq's own texts. They are in English, because Python does not set the process's locale for messages.
_OF_TLS: Final = ("certificate", "private key", "does not support SSL")
_OF_SERVER: Final = "FATAL:"


class LoginRefusedError(RetriableError):
    """The server was reached, asked for a password, and then refused the connection."""


def load_driver() -> Any:
    """Return the module psycopg. Raises ConfigError if it is not installed."""
    try:
        import psycopg  # noqa: PLC0415 - an optional package
    except ImportError as error:
        raise ConfigError(
            f"Reading PostgreSQL needs the package psycopg on each worker ({error}): run: {how_to_install('postgres')}"
        ) from error
    return psycopg


def connect(parameters: Mapping[str, str], failure: str, settings: str) -> psycopg.Connection[Any]:
    """Return a connection in autocommit mode. libpq's `parameters` override the defaults.

    `failure` is the start of an error message, and `settings` names the properties that the user may correct. Raises
    RetriableError for a failed connection, as LoginRefusedError if a password was involved; ConfigError if the driver
    is not installed, and for wrong TLS settings; and psycopg's other errors.
    """
    driver = load_driver()
    try:
        # PGconn.connect is not used, because it blocks all threads of the process until the server answers.
        return cast("psycopg.Connection[Any]", driver.connect(autocommit=True, **_PARAMETERS | dict(parameters)))
    except driver.OperationalError as error:
        said = _line(str(error))
        if _OF_SERVER not in said and any(words in said for words in _OF_TLS):
            raise ConfigError(
                f"{failure}: {said}. Correct the settings for TLS in {settings}, or the server"
            ) from error
        kind = LoginRefusedError if _with_password(error) else RetriableError
        raise kind(
            f"{failure}: {said}. It is tried again. If the server refuses the login, correct {settings}, or the server"
        ) from error


def _with_password(error: psycopg.OperationalError) -> bool:
    connection = error.pgconn
    return connection is not None and bool(connection.used_password or connection.needs_password)


def _line(message: str) -> str:
    return " ".join(message.split()).rstrip(".") or "no reason given"
