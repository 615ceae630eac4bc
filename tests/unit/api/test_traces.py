"""Errors are shortened so that they fit into a status and a line of the log."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from fencepost.api.errors import describe_error
from fencepost.api.secrets import HIDDEN, SECRETS
from fencepost.api.traces import format_trace


def test_any_trace_fits_into_a_status() -> None:
    trace = format_trace(ValueError("x" * 3_000_000 + "the end"))

    assert len(trace) < 70_000
    assert trace.startswith("ValueError: xxx")
    assert "characters left out" in trace
    assert trace.rstrip().endswith("the end")


def test_a_message_fits_into_a_line() -> None:
    assert len(describe_error(ValueError("x" * 3_000_000))) < 10_000
    assert describe_error(ValueError("x" * 3000)) == "ValueError: " + "x" * 3000


def test_control_characters_of_an_error_are_shown_escaped() -> None:
    error = ValueError("bad \x1b[2J\u202e\x00 \u00e9\n\tat x.f(x.java:1)")
    assert describe_error(error) == "ValueError: bad \\x1b[2J\\u202e\\x00 \u00e9 at x.f(x.java:1)"
    assert format_trace(error) == "ValueError: bad \\x1b[2J\\u202e\\x00 \u00e9\n\tat x.f(x.java:1)\n"


@pytest.mark.parametrize("shown", [describe_error, format_trace])
@pytest.mark.parametrize(
    "secret", ["hunter-of-the-cut", "hunter of\tthe\ncut and more", "hunter 'of' \\ \u202e \"cut\""]
)
def test_no_part_of_a_secret_stays_where_a_text_is_cut(shown: Callable[[BaseException], str], secret: str) -> None:
    SECRETS.learn({secret: HIDDEN})
    for padding in range(0, len(secret), 2):
        # Whatever the limits are, each cut goes through a secret.
        text = "." * padding + secret * (300_000 // len(secret))
        told = shown(ValueError(text)) + shown(KeyError(text))
        assert "characters left out" in told
        assert re.findall("hun|nter|cut", told) == []
