"""Questions about Java plugins that are not started. One JVM answers them, which all plugins share; each has a new object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.java.jvm import JVMS, QUESTIONS


def ask(plugin: JavaPlugin, settings: JavaSettings, question: str, **request: Any) -> dict[str, Any]:
    """Ask the JVM about a plugin. Raises JavaError, JvmEndedError, and what the start of a JVM raises."""
    jvm = JVMS.lease(QUESTIONS, settings)
    try:
        channel = jvm.channel()
        try:
            what = f"{question}() of {plugin.java_class} failed"
            return channel.call(question, what, **location(plugin), base=plugin.base, **request)[0]
        finally:
            channel.close()
    finally:
        JVMS.release(jvm)


def location(plugin: JavaPlugin) -> dict[str, Any]:
    """Say in a request which class is meant."""
    return {"class": plugin.java_class, "jars": [str(jar) for jar in plugin.jars]}


@lru_cache(maxsize=1024)
def about(plugin: JavaPlugin, settings: JavaSettings) -> Mapping[str, Any]:
    """Ask for the version, and for the class of a connector's tasks. Raises as `ask`."""
    return ask(plugin, settings, "about")


@lru_cache(maxsize=1024)
def keys(plugin: JavaPlugin, settings: JavaSettings) -> Sequence[Mapping[str, Any]]:
    """Ask for the definitions of the plugin's own properties. Raises as `ask`."""
    found: Sequence[Mapping[str, Any]] = ask(plugin, settings, "config")["keys"]
    return found


def version(plugin: JavaPlugin, settings: JavaSettings) -> str:
    """Return the version that the class reports, "undefined" if it reports none. Raises as `ask`."""
    said: str = about(plugin, settings)["version"] or "undefined"
    return said
