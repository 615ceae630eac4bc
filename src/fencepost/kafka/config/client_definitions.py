"""The definitions of the properties of Kafka's Java clients, with their handling in fencepost.

Types, defaults and importances come from Kafka 4.1, listed in `client_definitions.csv`; a default there may be `(none)`
or, for a required property, `(required)`.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import Any, Final

from fencepost.api.config_def import ConfigDef, ConfigKey, parse_type
from fencepost.kafka.config import client_properties as known

_TABLE: Final = "client_definitions.csv"
_DEFAULTS: Final[Mapping[str, Any]] = {"(none)": None, "(required)": ConfigDef.NO_DEFAULT}


def client_definition(client: str, name: str) -> ConfigKey | None:
    """Return the definition of a client's property; None if the client does not have the property.

    `client` is producer, consumer or admin.
    """
    return _definitions().get((client, name))


@cache
def _definitions() -> Mapping[tuple[str, str], ConfigKey]:
    found = {}
    text = resources.files(__package__).joinpath(_TABLE).read_text(encoding="utf-8")
    for row in csv.DictReader(text.splitlines()):
        key = _key(row)
        for client in row["clients"].split():
            found[client, key.name] = key
    return found


def _key(row: Mapping[str, str]) -> ConfigKey:
    name, kind, default = row["name"], ConfigDef.Type(row["type"]), row["default"]
    key = ConfigKey(
        name,
        kind,
        _DEFAULTS[default] if default in _DEFAULTS else parse_type(name, default, kind),
        ConfigDef.Importance(row["importance"]),
        display_name=name,
    )
    return replace(key, documentation=_documentation(name, row["documentation"]))


def _documentation(name: str, said: str) -> str:
    """Return a property's documentation.

    If fencepost does not use the property, the documentation says what happens to a given value.
    """
    used = known.CLIENT.keys().get(name) or known.PRODUCER.keys().get(name)
    if used is not None:
        return used.documentation
    if name in known.FORCED:
        return f"{said} fencepost sets it itself: a given value is ignored."
    if name in known.NO_COUNTERPART:
        return f"{said} It is refused: {known.NO_COUNTERPART[name]}."
    if name in known.WITHOUT_EFFECT:
        return f"{said} It is accepted without effect."
    return said
