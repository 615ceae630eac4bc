"""Messages about Java exceptions: the exception's own text, and a remedy if a class is missing."""

from __future__ import annotations

import pytest

from fencepost.api.errors import RetriableError
from fencepost.java.errors import java_error

ADVICE = (
    ". No jar in the plugin's folder of plugin.path has the class org.postgresql.Driver: put all jars of the plugin's "
    "archive there, and restart the worker"
)


def said(error: str, trace: str = "", *, retriable: bool = False) -> str:
    answer = {"error": error, "trace": trace, "retriable": retriable, "unsupported": False}
    found = java_error("start() failed", answer)
    assert isinstance(found, RetriableError) is retriable
    return str(found)


@pytest.mark.parametrize(
    "error",
    [
        "java.lang.NoClassDefFoundError: org/postgresql/Driver",
        "java.lang.ClassNotFoundException: org.postgresql.Driver",
        "org.apache.kafka.common.KafkaException: java.lang.NoClassDefFoundError: org/postgresql/Driver",
    ],
)
def test_a_missing_class_is_answered_with_where_its_jar_goes(error: str):
    assert said(error) == f"start() failed: {error}{ADVICE}"


def test_a_missing_class_is_found_among_the_causes():
    trace = (
        "org.acme.Failed: no driver\n\tat org.acme.Source.start(Source.java:3)\n"
        "Caused by: java.lang.ClassNotFoundException: org.postgresql.Driver\n\tat java.base/java.net.URLClassLoader\n"
    )
    assert (
        said("org.acme.Failed: no driver.", trace, retriable=True)
        == f"start() failed: org.acme.Failed: no driver{ADVICE}"
    )


@pytest.mark.parametrize(
    "error",
    [
        "java.lang.NoClassDefFoundError: Could not initialize class org.postgresql.Driver",
        "java.lang.ClassNotFoundException: java.sql.Driver",
        "java.lang.IllegalStateException: x",
    ],
)
def test_another_error_has_no_advice_about_jars(error: str):
    assert said(error) == f"start() failed: {error}"
