"""What can go wrong with the JVM of a Java connector, and with the code in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fencepost.api.errors import FencepostError, RetriableError


class JavaError(FencepostError):
    """Java code of a plugin threw an exception. The message quotes it, a note has Java's stack trace."""

    unsupported = False
    """Whether it is an UnsupportedOperationException."""


class JvmEndedError(FencepostError):
    """The JVM of a Java connector ended, was killed, or did not start. A restart gets another JVM."""


class _RetriableJavaError(JavaError, RetriableError):
    """A RetriableException of Java."""


def java_error(what: str, answer: Mapping[str, Any]) -> JavaError:
    """Return the error in an answer of the JVM. `what` names the call."""
    kind = _RetriableJavaError if answer["retriable"] else JavaError
    error = kind(f"{what}: {answer['error']}")
    error.unsupported = answer["unsupported"]
    error.add_note(answer["trace"])
    return error
