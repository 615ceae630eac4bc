"""The pipeline of a Java connector, which runs in its JVM: transforms, predicates and converters need Java's schemas."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.config.connector_config import ConnectorConfig, PluginSpec, TransformSpec
from fencepost.config.error_handling import Tolerance
from fencepost.config.plugin_sources import PluginSources
from fencepost.config.plugins import ROLES, PluginKind, find_plugin, sources_of
from fencepost.java.plugins import JavaPart
from fencepost.java.questions import location

_TYPE: Final = "converter.type"
_VERSION: Final = "plugin.version"


def java_pipeline(connector: ConnectorConfig, defaults: Mapping[str, str], sources: PluginSources) -> dict[str, Any]:
    """Return the pipeline of a Java connector in the form for the host. `defaults` are the worker's converters.

    Raises ConfigError, which names the property, for a plugin that is not in Java.
    """
    finder = _Finder(sources_of(connector.properties, sources))
    converters = {}
    for role, kind in ROLES.items():
        spec = connector.converter(role, defaults)
        own = {**spec.properties, _TYPE: role.partition(".")[0]}
        converters[role] = finder.part(kind, PluginSpec(spec.type, own), role)
    transforms = connector.transforms[: len(connector.transforms) - len(python_steps(connector, sources))]
    errors = connector.errors
    return {
        "converters": converters,
        "transforms": [finder.step(spec) for spec in transforms],
        "errors": {
            "tolerates": errors.tolerance is Tolerance.ALL,
            "letters": errors.dead_letter_topic is not None,
            "contents": errors.log_enable and errors.log_include_messages,
            "retry.timeout.ms": errors.retry_timeout_ms,
            "retry.delay.max.ms": errors.retry_delay_max_ms,
        },
    }


def python_steps(connector: ConnectorConfig, sources: PluginSources) -> tuple[TransformSpec, ...]:
    """Return the Python transforms of a Java connector. They run in the worker, after those in the connector's JVM.

    Raises ConfigError if a Java transform follows a Python one.
    """
    of_connector = sources_of(connector.properties, sources)
    found: list[TransformSpec] = []
    for spec in connector.transforms:
        name = f"transforms.{spec.alias}.type"
        in_java = issubclass(
            find_plugin(
                PluginKind.TRANSFORMATION,
                spec.transform.type,
                property_name=name,
                sources=of_connector,
                version=spec.transform.properties.get(_VERSION),
            ),
            JavaPart,
        )
        if not in_java:
            found.append(spec)
        elif found:
            raise ConfigError(
                f"The transform {spec.alias} is in Java and runs in the connector's JVM, so it cannot follow "
                f"{found[-1].alias}, which is in Python and runs in the worker: put those in Java first in the property transforms",
                name="transforms",
            )
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Finder:
    sources: PluginSources

    def part(self, kind: PluginKind, spec: PluginSpec, property_name: str) -> dict[str, Any]:
        """Return a plugin with its properties. Raises ConfigError."""
        version = spec.properties.get(_VERSION)
        found = find_plugin(kind, spec.type, property_name=property_name, sources=self.sources, version=version)
        if not issubclass(found, JavaPart):
            raise ConfigError(
                f"The {kind.label} {spec.type}, given by the property {property_name}, is in Python, and the pipeline of "
                "this connector runs in its JVM: take one in Java",
                name=property_name,
            )
        return {**location(found.plugin), "properties": dict(spec.properties)}

    def step(self, spec: TransformSpec) -> dict[str, Any]:
        """Return a transform, with its predicate if it has one. Raises ConfigError."""
        step = self._typed(PluginKind.TRANSFORMATION, spec.transform, f"transforms.{spec.alias}.type")
        step["alias"] = spec.alias
        if spec.predicate is not None:
            predicate = self._typed(PluginKind.PREDICATE, spec.predicate, f"predicates.{spec.predicate_alias}.type")
            step["predicate"] = predicate | {"alias": spec.predicate_alias}
            step["negate"] = spec.negate
        return step

    def _typed(self, kind: PluginKind, spec: PluginSpec, property_name: str) -> dict[str, Any]:
        """Return a plugin whose properties include its type, as in Connect, by the plain name of the class."""
        part = self.part(kind, spec, property_name)
        return part | {"properties": {**part["properties"], "type": part["class"]}}
