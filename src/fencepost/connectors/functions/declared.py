"""The declarations in the decorator of a source function: its own properties, and its source partitions."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.api.plugin_calls import call_plugin, kind_of
from fencepost.api.record import SourcePartition
from fencepost.config.config_transformer import without_placeholders

Declared = ConfigDef | Mapping[str, Any] | None
"""A ConfigDef, or a dict whose keys are the names of properties.

Each value is the property's type or its default value, or a pair: the type or default value, and the documentation.
"""

PartitionsOf = Sequence[Any] | Callable[[Mapping[str, Any]], Sequence[Any]] | None
"""The source partitions, or a function of the configuration that returns them."""

SOURCE: Final = "source"
_PARTITION: Final = "partition"

_T: Final = ConfigDef.Type
_TYPES: Final = {str: _T.STRING, bool: _T.BOOLEAN, int: _T.LONG, float: _T.DOUBLE, list: _T.LIST}


def own_properties(declared: Declared) -> ConfigDef | None:
    """Return the definitions of a function's own properties, None if it declares none.

    In the short form, a type declares a required property; a value declares its default and its type: `{"url": str,
    "page.size": 100, "token": (ConfigDef.Type.PASSWORD, "The API's token")}`. Raises TypeError for any other form.
    """
    if declared is None or isinstance(declared, ConfigDef):
        return declared
    if not isinstance(declared, Mapping):
        raise TypeError(
            f"source(config=...) was given {kind_of(declared)}: it takes a dict of properties, or a ConfigDef"
        )
    definitions = ConfigDef()
    for name, given in declared.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"source(config=...) has the name {name!r}: names of properties are texts")
        value, text = given if isinstance(given, tuple) and len(given) == 2 else (given, "")
        kind = value if isinstance(value, _T) else _TYPES.get(value if isinstance(value, type) else type(value))
        if kind is None or not isinstance(text, str):
            raise TypeError(
                f"source(config=...) has {given!r} for the property {name}: it takes a type (str, int, float, bool, list, or "
                "one of ConfigDef.Type) for a required property, a value of such a type as its default, or a pair of "
                "either and a text that documents it"
            )
        default = ConfigDef.NO_DEFAULT if isinstance(value, type | _T) else value
        importance = ConfigDef.Importance.MEDIUM if default is not ConfigDef.NO_DEFAULT else ConfigDef.Importance.HIGH
        definitions.define(name, kind, default, importance, text)
    return definitions


def check_partitions(partitions: Any) -> None:
    """Raise TypeError for invalid source partitions."""
    if partitions is None or callable(partitions):
        return
    if isinstance(partitions, str | bytes | Mapping) or not isinstance(partitions, Sequence):
        raise TypeError(
            f"source(partitions=...) was given {kind_of(partitions)}: it takes a list of partitions, or a function of the "
            "configuration that returns one"
        )
    try:
        _checked(partitions, "source(partitions=...)")
    except ConfigError as error:
        raise TypeError(str(error)) from None


def partitions_of(partitions: PartitionsOf, config: Mapping[str, Any], function: str) -> list[str]:
    """Return the source partitions of a configuration, each as JSON.

    Raises ConfigError if there are none, for duplicates, and for values that source partitions cannot have. Raises the
    errors of the partitions function.
    """
    found: Any = partitions
    what = f"partitions of the source function {function}"
    if callable(partitions):
        found = call_plugin(f"The {what}", partitions, config)
    if isinstance(found, str | bytes | Mapping) or not isinstance(found, Sequence):
        raise ConfigError(f"The {what} are {kind_of(found)}: return a list of partitions")
    return _checked(found, f"The list of {what}")


def source_partition(function: str, partition: Any) -> SourcePartition:
    """Return the source partition for one declared partition, or for None if the function declares no partitions."""
    if partition is None:
        return {SOURCE: function}
    return {SOURCE: function} | (dict(partition) if isinstance(partition, Mapping) else {_PARTITION: partition})


def _checked(partitions: Sequence[Any], what: str) -> list[str]:
    if not partitions:
        raise ConfigError(f"{what} is empty, so there is nothing to read: give at least one partition")
    texts = []
    for partition in partitions:
        members = partition if isinstance(partition, Mapping) else {_PARTITION: partition}
        if not members or SOURCE in members or not all(map(_is_simple, [*members, *members.values()])):
            raise ConfigError(
                f"{what} has {partition!r}: a partition is a text, a number or a boolean, or a dict of them without the name "
                f"{SOURCE!r}"
            )
        text = json.dumps(dict(partition) if isinstance(partition, Mapping) else partition, sort_keys=True)
        texts.append(without_placeholders(text))
    if twice := next((text for text in texts if texts.count(text) > 1), None):
        raise ConfigError(f"{what} has {twice} twice: give each partition once")
    return texts


def _is_simple(value: object) -> bool:
    return isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))
