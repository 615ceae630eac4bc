"""How errors are shown: as much of them as fits into a status and a line of the log."""

from __future__ import annotations

from fencepost.api.errors import describe_error
from fencepost.api.traces import format_trace


def test_a_trace_fits_into_a_status_whatever_an_error_says() -> None:
    trace = format_trace(ValueError("x" * 3_000_000 + "the end"))

    assert len(trace) < 70_000
    assert trace.startswith("ValueError: xxx")
    assert "characters left out" in trace
    assert trace.rstrip().endswith("the end")


def test_a_message_fits_into_a_line() -> None:
    assert len(describe_error(ValueError("x" * 3_000_000))) < 10_000
    assert describe_error(ValueError("x" * 3000)) == "ValueError: " + "x" * 3000


def test_control_characters_of_an_error_are_shown_escaped() -> None:
    error = ValueError("bad \x1b[2J\u202e\x00 \u00e9")
    assert describe_error(error) == "ValueError: bad \\x1b[2J\\u202e\\x00 \u00e9"
    assert format_trace(error) == "ValueError: bad \\x1b[2J\\u202e\\x00 \u00e9\n"
