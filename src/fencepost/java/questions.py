"""Questions about Java plugins that are not started. One JVM answers them, which all plugins share; each has a new object."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from functools import lru_cache
from typing import Any, Final

from fencepost.api.errors import FencepostError
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.java.jvm import JVMS, QUESTIONS

_ANSWER_S: Final = 80.0
"""Less than a request to the worker may take, so that its answer says what was slow."""


def ask(plugin: JavaPlugin, settings: JavaSettings, question: str, **request: Any) -> dict[str, Any]:
    """Ask the JVM about a plugin. Raises JavaError, JvmEndedError, and what the start of a JVM raises.

    FencepostError if the Java code does not return. It runs until the JVM ends, soon after its last question.
    """
    called = f"{question}() of {plugin.java_class}"
    with ExitStack() as stack:
        jvm = JVMS.lease(QUESTIONS, settings)
        stack.callback(JVMS.release, jvm)
        channel = stack.enter_context(closing(jvm.channel()))
        channel.limit(_ANSWER_S)
        try:
            return channel.call(question, f"{called} failed", **location(plugin), base=plugin.base, **request)[0]
        except TimeoutError:
            raise FencepostError(
                f"{called} did not return within {_ANSWER_S:g} s: look for what it waits for, such as a database"
            ) from None


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
