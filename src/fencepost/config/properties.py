"""Configuration files: Java `.properties` (java.util.Properties), and connector configurations in JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.api.allowed_paths import ANYWHERE, AllowedPaths
from fencepost.api.errors import ConfigError

_BLANK: Final = " \t\f"
_ESCAPES: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_UNICODE_DIGITS: Final = 4


def load_properties(path: str | Path, allowed: AllowedPaths = ANYWHERE) -> dict[str, str]:
    """Return the properties of a file, in its order.

    The file is read as UTF-8, or, if it is not UTF-8, as ISO 8859-1, which is Java's own choice. Raises ConfigError
    that names the file, and the invalid line if there is one; also for a file that is not `allowed`.
    """
    return parse_properties(_read(path, allowed), where=str(path))


def below(properties: Mapping[str, str], prefix: str) -> dict[str, str]:
    """Return the properties whose names begin with `prefix`, without it."""
    return {name.removeprefix(prefix): value for name, value in properties.items() if name.startswith(prefix)}


def load_connector_config(path: str | Path) -> dict[str, str]:
    """Return a connector's configuration from a `.properties` file or from JSON (by the ending `.json`).

    JSON is either flat or in the format of the REST API, `{"name": ..., "config": {...}}`; numbers and booleans become
    text. Raises ConfigError that names the file.
    """
    if Path(path).suffix.lower() != ".json":
        return load_properties(path)
    text = _read(path)
    try:
        loaded = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"{path}, line {error.lineno}, column {error.colno}: not valid JSON: {error.msg}") from None
    return connector_config_from_json(loaded, where=str(path))


def required_property(config: Mapping[str, str], name: str, path: str | Path) -> str:
    """Return a property of a connector's file. Raises ConfigError that names the file if it is missing or empty."""
    if not config.get(name, "").strip():
        raise ConfigError(f"{path}: the property {name} is required: add '{name}=...'", name=name)
    return config[name]


def connector_config_from_json(loaded: Any, *, where: str) -> dict[str, str]:
    """Return a connector's configuration from parsed JSON; see `load_connector_config`. Raises ConfigError."""
    if not isinstance(loaded, dict):
        raise ConfigError(f"{where}: a connector configuration is a JSON object, this is {_json_type(loaded)}")
    if not isinstance(loaded.get("config"), dict):
        return _as_text(loaded, where)
    config = _as_text(loaded["config"], where)
    name = loaded.get("name", config.get("name"))
    if name is None:
        return config
    if config.setdefault("name", str(name)) != str(name):
        raise ConfigError(
            f"{where}: the name {name!r} and the name {config['name']!r} in its config differ: make them equal or "
            "leave one out",
            name="name",
        )
    return config


def parse_properties(text: str, *, where: str) -> dict[str, str]:
    r"""Return the properties in `text`; `where` names its origin in errors.

    The format is the one of java.util.Properties: comments begin with # or !, a line that ends in an odd number of
    backslashes continues in the next one, a key ends at the first unescaped =, : or blank, `\uXXXX` is a UTF-16 code
    unit, and the last of several equal keys wins. Raises ConfigError for a malformed `\u`.
    """
    properties: dict[str, str] = {}
    for number, line in _logical_lines(text):
        key, value = _split(line)
        place = f"{where}, line {number}"
        properties[_unescape(key, place)] = _unescape(value, place)
    return properties


def _read(path: str | Path, allowed: AllowedPaths = ANYWHERE) -> str:
    try:
        with allowed.open(str(path)) as file:
            raw = file.readall()
    except OSError as error:
        raise ConfigError(f"Cannot read {path}: {error.strerror}") from None
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return raw.decode("latin-1")


def _as_text(config: Mapping[str, Any], where: str) -> dict[str, str]:
    properties = {}
    for name, value in config.items():
        if isinstance(value, bool):
            properties[name] = str(value).lower()
        elif isinstance(value, str | int | float):
            properties[name] = str(value)
        else:
            raise ConfigError(
                f"{where}: the value of {name} is {_json_type(value)}; it must be text, a number or a boolean",
                name=name,
            )
    return properties


def _json_type(value: Any) -> str:
    return "null" if value is None else f"a JSON {type(value).__name__}"


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Yield each property's text with continuation lines joined, and the number of its first line.

    A line that only has a backslash is not continued: the next line is separate.
    """
    pending = ""
    first = 0
    for number, natural in enumerate(re.split(r"\r\n|\r|\n", text), start=1):
        line = natural.lstrip(_BLANK)
        if not pending:
            if not line or line[0] in "#!":
                continue
            first = number
        line = pending + line
        backslashes = len(line) - len(line.rstrip("\\"))
        pending = line[:-1] if backslashes % 2 else ""
        if not backslashes % 2:
            yield first, line
    if pending:
        yield first, pending


def _split(line: str) -> tuple[str, str]:
    end = 0
    while end < len(line) and line[end] not in _BLANK + "=:":
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return line[:end], rest


def _unescape(text: str, place: str) -> str:
    if "\\" not in text:
        return text
    plain = re.sub(r"\\(u.{0,4}|.|$)", lambda match: _escaped(match[1], place), text)
    # Java writes some characters as a surrogate pair: two escapes for one character.
    return plain.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _escaped(escape: str, place: str) -> str:
    if not escape.startswith("u"):
        return _ESCAPES.get(escape, escape)
    if not re.fullmatch(r"u[0-9a-fA-F]{4}", escape):
        raise ConfigError(
            f"{place}: '\\{escape}' is malformed: \\u takes {_UNICODE_DIGITS} hexadecimal digits; write \\\\ for a backslash"
        )
    return chr(int(escape[1:], 16))
