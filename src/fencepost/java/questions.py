"""Questions about Java plugins that are not started.

One JVM answers the questions about all plugins. Each question gets a new Java object.
"""

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
"""The time-out of a question. A request to the worker has a longer one, so its answer can name the slow question."""


def ask(plugin: JavaPlugin, settings: JavaSettings, question: str, **request: Any) -> dict[str, Any]:
    """Ask the JVM about a plugin. Raises JavaError, JvmEndedError, and the errors of a JVM's start.

    Raises FencepostError if the Java code does not return. That code runs until the JVM ends, soon after its last
    question.
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
    """Return the part of a request that says which class is meant."""
    return {"class": plugin.java_class, "jars": [str(jar) for jar in plugin.jars]}


@lru_cache(maxsize=1024)
def about(plugin: JavaPlugin, settings: JavaSettings) -> Mapping[str, Any]:
    """Ask for the version, and for the class of a connector's tasks. Raises the errors of `ask`."""
    return ask(plugin, settings, "about")


@lru_cache(maxsize=1024)
def keys(plugin: JavaPlugin, settings: JavaSettings) -> Sequence[Mapping[str, Any]]:
    """Ask for the definitions of the plugin's own properties. Raises the errors of `ask`."""
    found: Sequence[Mapping[str, Any]] = ask(plugin, settings, "config")["keys"]
    return found


def version(plugin: JavaPlugin, settings: JavaSettings) -> str:
    """Return the version that the class reports, "undefined" if it reports none. Raises the errors of `ask`."""
    said: str = about(plugin, settings)["version"] or "undefined"
    return said
