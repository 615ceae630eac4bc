"""The format of the log on stderr."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from fencepost.api.plugin_calls import call_plugin
from fencepost.cli.common.logs import log_to_stderr
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import log_context
from fencepost.herder.requests.logger_registry import LoggerRegistry

LOG = logging.getLogger("fencepost.tests")


@pytest.fixture(autouse=True)
def same_levels() -> Iterator[None]:
    levels = {name: logging.getLogger(name).level for name in ("", "fencepost", "kafka", "py4j")}
    yield
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


@pytest.fixture
def begin(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Set the log up in a format, as at the start of a process."""

    def set_up(log_format: str, *, tracebacks: bool = False) -> None:
        # Pytest adds its own handlers after fixtures have run.
        monkeypatch.setattr(logging.getLogger(), "handlers", [])
        log_to_stderr("INFO", log_format, tracebacks=tracebacks)

    return set_up


def _fail(message: str) -> None:
    LOG.error("It failed:\n%s", message, exc_info=RuntimeError(message))


def test_a_line_of_text_begins_with_its_subject(begin: Callable[[str], None], capsys: pytest.CaptureFixture[str]):
    begin("text")
    LOG.info("started")
    with log_context(ConnectorTaskId("c", 0)):
        _fail("no\ndatabase")
    first, second = capsys.readouterr().err.splitlines()
    assert first.endswith("INFO    started (fencepost.tests)")
    assert "ERROR   [c|task-0] It failed: no database (fencepost.tests)" in second


def test_a_line_of_text_cannot_control_a_terminal(begin: Callable[[str], None], capsys: pytest.CaptureFixture[str]):
    begin("text")
    LOG.info("read %s", "a\x1b[2J\u202eb")
    assert "read a\\x1b[2J\\u202eb (" in capsys.readouterr().err


def test_json_is_an_object_in_each_line(begin: Callable[[str], None], capsys: pytest.CaptureFixture[str]):
    begin("json")
    LOG.debug("not told")
    with log_context("c"):
        LOG.warning("a %s", "line")
    with log_context(ConnectorTaskId("c", 0)):
        _fail("no\ndatabase")
    first, second = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert first.pop("timestamp").endswith("+00:00")
    assert first == {"level": "WARNING", "logger": "fencepost.tests", "connector": "c", "message": "a line"}
    assert (second["connector"], second["task"], second["message"]) == ("c", 0, "It failed:\nno\ndatabase")
    assert second["exception"].startswith("RuntimeError: no")


def _break_plugin() -> None:
    raise ValueError("no table")


@pytest.mark.parametrize("log_format", ["json", "text"])
def test_the_trace_of_a_plugins_error_is_the_plugins(
    begin: Callable[..., None], capsys: pytest.CaptureFixture[str], log_format: str
):
    begin(log_format, tracebacks=True)
    try:
        call_plugin("start() of connector c", _break_plugin)
    except ValueError:
        LOG.exception("It failed")
    told = capsys.readouterr().err
    assert "_break_plugin" in told
    assert "plugin_calls.py" not in told


def test_the_root_logger_has_the_requested_level(begin: Callable[[str], None]):
    begin("text")
    assert LoggerRegistry().level("root").level == "INFO"


def test_other_loggers_are_shown_from_warnings_up(begin: Callable[[str], None], capsys: pytest.CaptureFixture[str]):
    begin("text")
    other = logging.getLogger(f"others.{uuid4().hex}")
    other.info("quiet")
    other.warning("told")
    (line,) = capsys.readouterr().err.splitlines()
    assert "told" in line


@pytest.mark.parametrize("above", [True, False])
def test_other_loggers_are_shown_from_the_level_an_operator_set(
    begin: Callable[[str], None], capsys: pytest.CaptureFixture[str], above: bool
):
    begin("text")
    package = f"others.{uuid4().hex}"
    LoggerRegistry().set_level(package if above else f"{package}.module", "info")
    logging.getLogger(f"{package}.module").info("heard")
    assert "heard" in capsys.readouterr().err


def test_other_loggers_are_shown_where_the_root_level_was_changed(
    begin: Callable[[str], None], capsys: pytest.CaptureFixture[str]
):
    begin("text")
    logging.getLogger().setLevel(logging.DEBUG)
    logging.getLogger(f"others.{uuid4().hex}").debug("heard")
    assert "heard" in capsys.readouterr().err
