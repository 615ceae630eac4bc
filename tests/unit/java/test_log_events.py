"""Lines of a JVM's output become log events, whatever Java code prints."""

from __future__ import annotations

import logging

import pytest

from fencepost.java.jvm import log_event


def test_an_event_has_the_level_logger_label_and_text_of_its_line():
    line = '\x01WARN io.acme.Task "rows-0" a \\"word\\"\\n\\tand more\\n'
    assert log_event(line) == (logging.WARNING, "io.acme.Task", "rows-0", 'a "word"\n\tand more')


def test_a_label_may_have_any_characters():
    line = '\x01INFO io.acme.Task "a] \\"b\\" [c-0" text'
    assert log_event(line) == (logging.INFO, "io.acme.Task", 'a] "b" [c-0', "text")


def test_a_line_that_is_no_event_is_output():
    assert log_event("printed \\") == (logging.INFO, "output", "", "printed \\")


@pytest.mark.parametrize("end", ["\\", "\\u", "\\u00", 'a "', "\\q"])
def test_a_piece_of_an_event_that_ends_within_an_escape_is_an_event(end: str):
    assert log_event(f'\x01INFO io.acme.Task "rows-0" one{end}') == (
        logging.INFO,
        "io.acme.Task",
        "rows-0",
        f"one{end}",
    )
