from __future__ import annotations

import pytest

from fencepost.herder.core.observation import message_line, message_of


def test_a_message_is_found_in_traces_of_java_and_of_python():
    assert message_of("java.io.IOException: gone\n\tat a.B.c") == "java.io.IOException: gone"
    assert message_of("Traceback (most recent call last):\n  File x\nValueError: no\nmore") == "ValueError: no"
    assert message_of(" \n") is None


def test_a_long_message_is_cut_to_keep_the_table_of_connectors_readable():
    message = message_of("ValueError: " + "x" * 10_000)

    assert message is not None
    assert message.startswith("ValueError: xxx")
    assert message.endswith(" ...")
    assert len(message) == 500


CAUSE = "\nThe above exception was the direct cause of the following exception:\n\n"
CONTEXT = "\nDuring handling of the above exception, another exception occurred:\n\n"


@pytest.mark.parametrize(
    ("trace", "line"),
    [
        ("Traceback (most recent call last):\n  File x\n    f()\nOSError: it\nbroke\n", "OSError: it"),
        ("java.io.IOException: it\n\tat x.f(x.java:1)\n", "java.io.IOException: it"),
        ("Traceback (most recent call last):", "Traceback (most recent call last):"),
        (f"ImportError: cause\n{CAUSE}ConfigError: the error\nmore\n", "ConfigError: the error"),
        (f"KeyError: cause\n{CONTEXT}Traceback (most recent call last):\n  File x\nOSError: it\n", "OSError: it"),
        (f"KeyError: first\n{CAUSE}OSError: second\n{CAUSE}ConfigError: third\n", "ConfigError: third"),
        ("", ""),
    ],
    ids=["frames", "Java", "no error", "cause without frames", "context", "two causes", "empty"],
)
def test_the_message_of_a_trace_is_the_one_of_the_error_not_of_its_cause(trace: str, line: str) -> None:
    assert message_line(trace) == line
