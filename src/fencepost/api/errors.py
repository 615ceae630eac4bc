"""The root of fencepost's exceptions, and those that a connector author may raise or see.

    FencepostError
    ├── ConfigError          a property is missing, malformed or contradicts another
    ├── DataError            a record, row or file does not fit what was declared
    ├── RetriableError       a passing failure: what was asked may be asked again as it is
    ├── IllegalStateError    a call at a time at which it makes no sense
    └── PluginError          code of a plugin does what its contract does not allow

Other packages add their own below these. A message says what happened, to which connector, task or topic, and what
to do about it; it is written to be shown to an operator as it stands.
"""

from __future__ import annotations

from typing import Final

from fencepost.api.secrets import SECRETS
from fencepost.api.texts import printable, shortened
from fencepost.api.traces import plugin_location

_LONGEST_MESSAGE: Final = 8 * 1024


class FencepostError(Exception):
    """Anything that fencepost reports; never raised itself."""


class ConfigError(FencepostError):
    """A property is missing, malformed, or contradicts another.

    `name` is the property, where there is a single one to blame.
    """

    def __init__(self, message: str, *, name: str | None = None) -> None:
        super().__init__(message)
        self.name = name


class DataError(FencepostError):
    """A record, row or file does not fit what was declared of it. Trying again does not help."""


class RetriableError(FencepostError):
    """A passing failure. A source task that raises it from `poll` is polled again after a pause."""


class IllegalStateError(FencepostError):
    """A call came at a time at which it makes no sense, for example commit and abort of the same record."""


class PluginError(FencepostError):
    """Code of a connector or another plugin does what its contract does not allow.

    It returned what it must not, or raised what would end a thread or the process. Its author has to mend it.
    """


def describe_error(error: BaseException) -> str:
    """Return an error in one line. Others than fencepost's own are told with their type: `KeyError: 'id'`.

    What the code of a plugin raised is told with its place: `KeyError: 'id' (/plugins/counter.py:12)`. Of a message with
    more than 8 Ki characters the middle is left out. Passwords are hidden.
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
