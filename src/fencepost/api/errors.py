"""The base class of fencepost's exceptions, and the exceptions that a connector author may raise or see.

    FencepostError
    ├── ConfigError          a property is missing, malformed or contradicts another
    ├── DataError            a record, row or file does not fit its declaration
    ├── RetriableError       a temporary failure: the same operation may succeed later
    ├── IllegalStateError    a call that is not allowed in the current state
    └── PluginError          code of a plugin violates its contract

Other packages add subclasses. A message says what happened, to which connector, task or topic, and what can be done
about it. It can be shown to an operator unchanged.
"""

from __future__ import annotations

from typing import Final

from fencepost.api.secrets import SECRETS
from fencepost.api.texts import printable, shortened
from fencepost.api.traces import plugin_location

_LONGEST_MESSAGE: Final = 8 * 1024


class FencepostError(Exception):
    """The base class of all fencepost errors. It is never raised itself."""


class ConfigError(FencepostError):
    """A property is missing, malformed, or contradicts another.

    `name` is the property, if a single property is wrong.
    """

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class DataError(FencepostError):
    """A record, row or file does not fit its declaration. A retry does not help.

    `name` is the property that the data do not fit, if it is a single property.
    """

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class RetriableError(FencepostError):
    """A temporary failure. A source task that raises it from `poll` is polled again after a pause."""


class IllegalStateError(FencepostError):
    """A call is not allowed in the current state, for example commit and abort of the same record."""


class PluginError(FencepostError):
    """Code of a connector or another plugin violates its contract.

    The code returned an invalid value, or raised an exception that would end a thread or the process. The plugin's
    author must correct it.
    """


def describe_error(error: BaseException) -> str:
    """Return an error in one line.

    For errors that are not fencepost's own, the line includes the type: `KeyError: 'id'`.

    For errors from a plugin's code, the line includes the location: `KeyError: 'id' (/plugins/counter.py:12)`. If a
    message has more than 8 Ki characters, its middle is omitted. Passwords are hidden.
    """
    message = printable(shortened(" ".join(SECRETS.hidden(_text(error)).split()), _LONGEST_MESSAGE))
    if isinstance(error, FencepostError):
        return message
    described = f"{type(error).__name__}: {message}" if message else type(error).__name__
    location = plugin_location(error)
    return described if location is None else f"{described} ({location})"


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException as broken:  # noqa: BLE001 - a plugin's __str__ may raise anything
        return f"an error that has no text: its __str__ raised {type(broken).__name__}"
