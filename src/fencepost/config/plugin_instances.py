"""Creates converters, transforms, predicates and config providers, and reads their definitions, by `plugin_calls`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.plugin_calls import call_plugin, kind_of, refuse_answer
from fencepost.config.java_properties import open_prefixes, takes_any_property, without_effect
from fencepost.config.plugins import PluginKind
from fencepost.config.unknown_properties import unknown_properties

VERSION: Final = "plugin.version"
"""The property of every plugin that says which version of the plugin is requested."""


def new_plugin(kind: PluginKind, plugin: type[Any]) -> Any:
    """Return an instance of a plugin's class. Raises the errors of `call_plugin`."""
    return call_plugin(f"The constructor of the {kind.label} {plugin.__name__}", plugin)


def plugin_definitions(kind: PluginKind, plugin: type[Any]) -> ConfigDef:
    """Return the definitions of a plugin's own properties.

    Raises the errors of `call_plugin`, and PluginError if the plugin returns anything else.
    """
    what = f"config() of the {kind.label} {plugin.__name__}"
    instance = new_plugin(kind, plugin)
    answer: Any = call_plugin(what, instance.config)
    if not isinstance(answer, ConfigDef):
        refuse_answer(what, instance.config, kind_of(answer), "a fencepost.ConfigDef, such as ConfigDef().define(...)")
    return answer


def unknown_of_plugin(kind: PluginKind, plugin: type[Any], given: Iterable[str]) -> dict[str, str | None]:
    """Return the given properties that a plugin does not have, as `unknown_properties` does.

    Raises the errors of `plugin_definitions`.
    """
    defined = plugin_definitions(kind, plugin).keys()
    if takes_any_property(plugin, defined):
        return {}
    return unknown_properties(given, {*defined, *without_effect(plugin), VERSION}, open_prefixes=open_prefixes(plugin))
