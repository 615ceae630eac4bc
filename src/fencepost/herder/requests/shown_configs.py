"""Configurations in requests and answers: passwords are HIDDEN, and HIDDEN in a request means the stored value."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from fencepost.api.secrets import HIDDEN, hide, is_secret_name, secret_values
from fencepost.herder.errors import BadRequestError

_REFERENCE: Final = re.compile(r"\$\{[^}:]*:[^}]*\}")
"""A placeholder of a config provider, which is not a secret."""


def shown_config(config: Mapping[str, str], passwords: Iterable[str]) -> dict[str, str]:
    """Return a connector's configuration without the values of the properties that hold passwords."""
    secret = set(passwords)
    return {name: _shown(value) if name in secret else value for name, value in config.items()}


def shown_task_config(
    task: Mapping[str, str], connector: Mapping[str, str], passwords: Iterable[str]
) -> dict[str, str]:
    """Return a task's configuration without its passwords, and without its connector's passwords under any name."""
    names = set(passwords)
    secrets = {
        value: HIDDEN
        for name in names
        if name in connector and _shown(connector[name]) == HIDDEN
        for value in secret_values(name, connector[name])
    }
    return {
        name: _shown(value) if name in names or is_secret_name(name) else hide(value, secrets)
        for name, value in task.items()
    }


def restored_config(config: Mapping[str, str], stored: Mapping[str, str | None] | None) -> dict[str, str]:
    """Return a configuration from a request, with HIDDEN replaced by the stored passwords.

    Raises BadRequestError for a password that is not stored.
    """
    known = {name: value for name, value in (stored or {}).items() if value is not None}
    missing = [name for name, value in config.items() if value == HIDDEN and name not in known]
    if missing:
        raise BadRequestError(
            f"The value of {', '.join(missing)} is {HIDDEN}, which stands for the stored password, and there is "
            "none: set the password"
        )
    return {name: known[name] if value == HIDDEN else value for name, value in config.items()}


def check_passwords_stay_hidden(
    config: Mapping[str, str], kept: Iterable[str], passwords_before: Iterable[str], passwords_now: Iterable[str]
) -> None:
    """Raise BadRequestError if a stored password would be shown, because no plugin defines it as one any more.

    `kept` are the properties whose values are the stored ones, not from the request.
    """
    secret = set(kept) & set(passwords_before) - set(passwords_now)
    bared = sorted(name for name in secret if name in config and _shown(config[name]) == HIDDEN)
    if bared:
        raise BadRequestError(
            f"The stored configuration has a password in {', '.join(bared)}, which none of the plugins of the new one "
            "defines as a password, so that it would be shown: remove the property, or give its value"
        )


def _shown(value: str) -> str:
    return value if not value or _REFERENCE.fullmatch(value) else HIDDEN
