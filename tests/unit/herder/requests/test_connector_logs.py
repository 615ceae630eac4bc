"""Log lines of connectors, which a worker keeps for its page."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from fencepost.api.secrets import HIDDEN, SECRETS
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.log_context import log_context
from fencepost.herder.requests.connector_logs import ConnectorLogs, LogLimits

_log = logging.getLogger("somebodys.connector")


@pytest.fixture
def logs() -> Iterator[ConnectorLogs]:
    yield from _started(LogLimits(lines=10, ring_bytes=10_000, all_bytes=20_000))


def _started(limits: LogLimits) -> Iterator[ConnectorLogs]:
    logs = ConnectorLogs(limits)
    logs.start()
    yield logs
    logs.stop()


def _say(connector: str, message: str, level: int = logging.WARNING) -> None:
    with log_context(connector):
        _log.log(level, "%s", message)


def _messages(logs: ConnectorLogs, connector: str) -> list[str]:
    return [line.message for line in logs.lines(connector)]


def test_lines_have_level_and_task_and_belong_to_their_connector(logs: ConnectorLogs) -> None:
    with log_context(ConnectorTaskId("c", 3)):
        _log.error("failed %d times", 2)
    _say("c", "of the connector")
    _log.warning("about nothing")

    assert [(line.level, line.task, line.message) for line in logs.lines("c")] == [
        ("ERROR", 3, "failed 2 times"),
        ("WARNING", None, "of the connector"),
    ]
    assert logs.lines("other") == []


def test_a_trace_is_kept_with_its_line(logs: ConnectorLogs) -> None:
    with log_context("c"):
        try:
            int("none")
        except ValueError:
            _log.exception("It broke")

    (message,) = _messages(logs, "c")
    assert message.startswith("It broke\nTraceback")
    assert message.endswith("ValueError: invalid literal for int() with base 10: 'none'")


def test_passwords_are_hidden_also_those_that_are_learnt_later(logs: ConnectorLogs) -> None:
    SECRETS.learn({"open-sesame-1": HIDDEN})
    _say("c", "login open-sesame-1" + "x" * 20_000)
    _say("c", "login open-sesame-2")
    SECRETS.learn({"open-sesame-2": HIDDEN})

    assert "sesame" not in "".join(_messages(logs, "c"))


def test_the_newest_lines_of_a_connector_are_kept(logs: ConnectorLogs) -> None:
    for number in range(25):
        _say("c", f"line {number}")
    assert _messages(logs, "c") == [f"line {number}" for number in range(15, 25)]

    for number in range(4):
        _say("c", f"{number}" * 2_500)
    assert [message[:1] for message in _messages(logs, "c")] == ["1", "2", "3"]


def test_a_noisy_connector_does_not_push_out_the_others(logs: ConnectorLogs) -> None:
    _say("quiet", "once")
    for number in range(50):
        _say("noisy", f"{number}" * 1_000)
        _say("loud", f"{number}" * 1_000)

    assert _messages(logs, "quiet") == ["once"]


def test_thousands_of_connectors_keep_to_the_limit_of_all(logs: ConnectorLogs) -> None:
    names = [f"c-{number}" for number in range(3_000)]
    for name in names:
        _say(name, "x" * 400)

    kept = sum(len(message) + 300 for name in names for message in _messages(logs, name))
    assert kept <= 20_000
    assert _messages(logs, names[-1]) == ["x" * 400]


def test_after_the_stop_nothing_is_kept(logs: ConnectorLogs) -> None:
    logs.stop()
    _say("c", "late")

    assert logs.lines("c") == []


def test_control_characters_are_escaped(logs: ConnectorLogs) -> None:
    _say("c", "red \x1b[31m\u202e")

    assert _messages(logs, "c") == ["red \\x1b[31m\\u202e"]
