"""Checks of single values, for ConfigDef. Each raises ConfigError that names the property and the allowed values.

`blame` is for checks that concern several properties.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final

from fencepost.api.config_def import ConfigValue, Validator
from fencepost.api.errors import ConfigError

_LONGEST_NAME: Final = 1_000
"""The greatest length of a connector's name, in bytes.

A text in the group's protocol may have at most 32,767 bytes. The first line of an HTTP request may have 8,190 bytes,
and a percent-encoded byte takes three of them. A longer name would end the membership of all workers.
"""


def at_least(minimum: int, *, nullable: bool = True) -> Validator:
    """Allow numbers of at least `minimum`, and None if it is `nullable`."""

    def check(name: str, value: Any) -> None:
        if value is None and not nullable:
            raise ConfigError(f"The property {name} must have a value, of at least {minimum}", name=name)
        if value is not None and value < minimum:
            raise ConfigError(
                f"Invalid value {value} for the property {name}: it must be at least {minimum}", name=name
            )

    return check


def one_of(allowed: Sequence[str]) -> Validator:
    """Allow the listed texts, in upper, lower or mixed case."""
    lowered = {text.lower() for text in allowed}

    def check(name: str, value: Any) -> None:
        if str(value).lower() not in lowered:
            raise ConfigError(
                f"Invalid value {value!r} for the property {name}: it must be one of {', '.join(allowed)}", name=name
            )

    return check


def not_blank(name: str, value: Any) -> None:
    """Allow any text that is not empty or blank."""
    if value is not None and not str(value).strip():
        raise ConfigError(f"The property {name} is empty: give it a value, or remove it", name=name)


def not_empty(name: str, value: Any) -> None:
    """Raise ConfigError for an empty list of names, or one with an empty name."""
    if not value or not all(value):
        raise ConfigError(f"The property {name} must be a list of names, none of them empty", name=name)


def no_control_characters(name: str, value: Any) -> None:
    """Allow text that can be part of a URL or of a topic's key: not empty, no control characters."""
    not_blank(name, value)
    if value is not None and any(ord(character) < ord(" ") or ord(character) == 0x7F for character in str(value)):
        raise ConfigError(f"The property {name} must not contain control characters", name=name)


def python_regex(name: str, text: str, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[str]:
    r"""Return the value of a property as a Python regular expression. Raises ConfigError.

    Connect's users know Java's syntax, where \w, \d and case only cover ASCII; the same holds here. Sets within sets
    and intersections are refused, because Python would read their signs as plain characters.
    """
    try:
        if _has_nested_sets(text):
            raise ValueError("brackets or && within brackets: write \\[ or \\& for the characters themselves")  # noqa: TRY301
        return re.compile(text, flags | re.ASCII)
    except (re.error, ValueError, OverflowError, RecursionError) as error:
        raise ConfigError(
            f"Invalid value for the property {name}: {text[:200]!r} is not a regular expression that is supported: {error}",
            name=name,
        ) from None


def _has_nested_sets(text: str) -> bool:
    plain = re.sub(r"\\.", "__", text, flags=re.DOTALL)
    return any("[" in found[1] or "&&" in found[1] for found in re.finditer(r"\[\^?(\]?[^\]]*)", plain))


def connector_name(name: str, value: Any) -> None:
    """Allow text that no_control_characters allows, except names that are too long, or not possible in a URL's path."""
    no_control_characters(name, value)
    if value is not None and len(str(value).strip().encode(errors="replace")) > _LONGEST_NAME:
        raise ConfigError(
            f"The property {name} must have at most {_LONGEST_NAME:,} bytes: workers could not tell each other longer names. "
            "Choose a shorter one",
            name=name,
        )
    if value is not None and str(value).strip() in (".", ".."):
        raise ConfigError(
            f"The property {name} must not be {value.strip()!r}: the REST API could not be asked for the connector, because a "
            "URL cannot have it as a part of its path. Choose another name",
            name=name,
        )


def replication_factor(name: str, value: Any) -> None:
    """Allow a number of replicas of at least 1, or -1, which means the broker's default."""
    if value is not None and value != -1 and value < 1:
        raise ConfigError(
            f"Invalid value {value} for the property {name}: it must be at least 1, or -1 for the broker's default",
            name=name,
        )


def blame(values: Iterable[ConfigValue], check: Callable[[], object], needed: Collection[str] = ()) -> None:
    """Run a check. If it raises a ConfigError, add the error to the property that the error names.

    The check is omitted if one of the properties in `needed` is already known to be invalid.
    """
    if any(value.errors for value in values if value.name in needed):
        return
    try:
        check()
    except ConfigError as error:
        next(value for value in values if value.name == error.name).errors.append(str(error))
