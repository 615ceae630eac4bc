"""Converts a JVM's answers to the definitions and check results of a Java connector's properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from fencepost.api.config_def import ConfigDef, ConfigValue


def definitions(keys: Iterable[Mapping[str, Any]]) -> ConfigDef:
    """Return the definitions. Java's validators and recommenders stay in the JVM; `validate` uses them there."""
    found = ConfigDef(others_allowed=True)
    for key in keys:
        found.define(
            key["name"],
            ConfigDef.Type(key["type"]),
            ConfigDef.NO_DEFAULT if key["required"] else key["default"],
            ConfigDef.Importance(key["importance"]),
            key["documentation"] or "",
            group=key["group"],
            order_in_group=key["order"],
            width=ConfigDef.Width(key["width"]),
            display_name=key["display"] or "",
            dependents=key["dependents"],
        )
    return found


def findings(values: Iterable[Mapping[str, Any]]) -> list[ConfigValue]:
    """Return the properties with the values and errors that Java found."""
    return [ConfigValue(one["name"], one["value"], one["recommended"], one["errors"], one["visible"]) for one in values]
