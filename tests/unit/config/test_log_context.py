"""The connector or task of a log line."""

from __future__ import annotations

import logging
import threading

from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import ContextFilter, in_context, log_context

TASK = ConnectorTaskId("c", 1)


def _context() -> tuple[object, ...]:
    record = logging.makeLogRecord({})
    assert ContextFilter().filter(record)
    fields = vars(record)
    return fields["connector"], fields["task"], fields["connector_context"]


def test_a_line_is_about_the_innermost_subject():
    assert _context() == (None, None, "")
    with log_context("c"):
        assert _context() == ("c", None, "[c|worker] ")
        with log_context(TASK):
            assert _context() == ("c", 1, "[c|task-1] ")
        assert _context() == ("c", None, "[c|worker] ")
    assert _context() == (None, None, "")


def test_a_function_takes_its_subject_to_another_thread():
    found: list[tuple[object, ...]] = []
    with log_context(TASK):
        carried = in_context(lambda: found.append(_context()))
        threads = [threading.Thread(target=carried), threading.Thread(target=lambda: found.append(_context()))]
    for thread in threads:
        thread.start()
        thread.join()
    assert found == [("c", 1, "[c|task-1] "), (None, None, "")]
