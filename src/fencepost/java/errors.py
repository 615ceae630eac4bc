"""Errors of the JVM of a Java connector, and of the code that runs in it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fencepost.api.errors import FencepostError, RetriableError

# The pattern excludes `Could not initialize class x.Y`, because such a class exists.
_MISSING: Final = re.compile(r"\b(?:NoClassDefFoundError|ClassNotFoundException): ([\w.$/]+)$", re.MULTILINE)
_CAUSE: Final = "Caused by: "
_OF_JAVA: Final = ("java.", "jdk.", "sun.")


class JavaError(FencepostError):
    """Java code of a plugin threw an exception. The message quotes it; a note contains Java's stack trace."""

    unsupported = False
    """Whether the exception is an UnsupportedOperationException."""


class JvmEndedError(FencepostError):
    """The JVM of a Java connector ended, was killed, or did not start. A restart uses another JVM."""


class _RetriableJavaError(JavaError, RetriableError):
    """A RetriableException of Java."""


def java_error(what: str, answer: Mapping[str, Any]) -> JavaError:
    """Return the error in an answer of the JVM. `what` names the call."""
    kind = _RetriableJavaError if answer["retriable"] else JavaError
    advice = _advice(answer)
    said = f"{answer['error'].rstrip('.')}. {advice}" if advice else answer["error"]
    error = kind(f"{what}: {said}")
    error.unsupported = answer["unsupported"]
    error.add_note(answer["trace"])
    return error


def _advice(answer: Mapping[str, Any]) -> str:
    """Return advice if a class was not found. The causes in the trace may also name such a class."""
    causes = [line.removeprefix(_CAUSE) for line in answer["trace"].splitlines() if line.startswith(_CAUSE)]
    found = _MISSING.search("\n".join([answer["error"], *causes]))
    name = "" if found is None else found[1].replace("/", ".")
    if not name or name.startswith(_OF_JAVA):
        return ""
    return (
        f"No jar in the plugin's folder of plugin.path has the class {name}: put all jars of the plugin's archive there, "
        "and restart the worker"
    )
