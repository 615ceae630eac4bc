"""Messages about a plugin that is not found: which name may be meant, and where the plugin should be put."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.config.java_plugins import java_sinks
from fencepost.config.unknown_properties import nearest

_DOMAINS: Final = ("com", "io", "net", "org")
_SINKS: Final = ("SinkConnector", "Sink")
_APICURIO: Final = "io.apicurio.registry.utils.converter."
OTHER_DATA: Final[Mapping[str, str]] = {
    f"{_APICURIO}ExtJsonConverter": (
        "it registers Connect's own schemas, for its own readers. Use JsonConverter, whose records have their schema, or "
        "JsonSchemaConverter"
    ),
    f"{_APICURIO}ProtobufConverter": "its messages are not those of Confluent's. Use ProtobufConverter with its readers",
}
"""Java converters without a counterpart here, each with the reason: no other converter writes the same bytes."""


def looks_java(name: str) -> bool:
    """Whether a name is a Java class, not a Python path: its package is an internet domain, or it is an inner class."""
    package, dot, last = name.rpartition(".")
    return bool(dot) and ("$" in last or (package.partition(".")[0] in _DOMAINS and last[:1].isupper()))


def ending(name: str, known: Collection[str]) -> str:
    """Return the end of a sentence about an unknown name: the known name that may be meant, or a full stop.

    The last parts of both names must be similar by themselves: a long common package makes any two names similar.
    """
    inner = sorted({each for each in known if name and each.startswith(f"{name}$")})
    if inner:
        return f": did you mean {' or '.join(inner)}?"
    alike = [each for each in known if each != name and nearest(_last(name), [_last(each)])]
    found = nearest(name, alike)
    return "." if found is None else f": did you mean {found}?"


def jars_advice(label: str) -> str:
    """Return the advice about a Java plugin that is in no jar, as the start of a sentence."""
    return f"Put a folder with the jars of the {label} into a directory of plugin.path and restart the worker"


def advice(label: str, name: str, remedy: str, *, in_jars: bool | None, is_near: bool) -> str:
    """Return the advice about a plugin that is neither registered nor in a module.

    `remedy` is the advice for a Python plugin. `in_jars` says whether the connector uses jars; None means that plugins
    of this kind are never in jars. `is_near` says that a similar name is known.
    """
    in_python = f"{remedy}, and give its alias or its Python path as package.module.Class"
    if looks_java(name):
        if in_jars:
            return jars_advice(label)
        runs = "The worker does not run" if in_jars is None else "Only Java connectors run with"
        return f"{runs} a {label} in Java: name one in Python, of these or your own"
    return f"{in_python}. For one in Java: {_lower(jars_advice(label))}" if in_jars and not is_near else in_python


def is_sink(name: str, directories: tuple[Path, ...]) -> bool:
    """Whether a class or alias is a sink connector, by its name or by the jars in directories."""
    return name.endswith(_SINKS) or name in java_sinks(directories)


def sink_error(name: str, property_name: str) -> ConfigError:
    """Return the error for a sink connector."""
    return ConfigError(
        f"{name}, given by the property {property_name}, is a sink connector, and fencepost runs source connectors only: "
        "let it stay in Kafka Connect",
        name=property_name,
    )


def not_in_module(label: str, base: type[Any], name: str, property_name: str, module: object) -> ConfigError:
    """Return the error for a class that is missing in an imported module. `base` is the base class of such plugins."""
    module_name, _, class_name = name.rpartition(".")
    known = [
        f"{module_name}.{each}"
        for each, value in getattr(module, "__dict__", {}).items()
        if isinstance(value, type) and issubclass(value, base) and not each.startswith("_")
    ]
    return ConfigError(
        f"The module {module_name} has no {class_name}, which the property {property_name} names as a "
        f"{label}{ending(name, known)} Check the spelling of {name}",
        name=property_name,
    )


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]
