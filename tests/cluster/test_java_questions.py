"""A validation creates Java plugins to ask them. Their objects do not pile up in the JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.api.errors import FencepostError
from fencepost.config.java_plugins import SOURCE_CONNECTOR, TRANSFORMATION, JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.java import questions
from fencepost.java.questions import ask
from tests.support.java_plugins import HOSTILE, ODD, WILD, plugin_path
from tests.support.processes import wait_for


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    return plugin_path(tmp_path)


def plugin(folder: Path, java_class: str, base: str) -> JavaPlugin:
    return JavaPlugin(java_class, folder, tuple(folder.iterdir()), base)


def test_connectors_that_checked_a_configuration_are_garbage(plugins: Path):
    connector = plugin(plugins / "hostile", WILD, SOURCE_CONNECTOR)
    for _ in range(100):
        ask(connector, JavaSettings(), "validate", config={"topic": "t"})
    (found,) = ask(connector, JavaSettings(), "validate", config={"wild": "count"})["values"]
    assert found["errors"] == ["1 of 101"]


def test_a_transform_that_answered_is_closed(plugins: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "java")
    ask(plugin(plugins / "transforms", ODD, TRANSFORMATION), JavaSettings(), "validate", config={"how": "drop"})
    wait_for(lambda: "An Odd is closed: null" in caplog.text, what="the end of the transform")


def test_a_question_that_is_not_answered_ends_with_an_error(plugins: Path, monkeypatch: pytest.MonkeyPatch):
    connector, config = plugin(plugins / "hostile", HOSTILE, SOURCE_CONNECTOR), {"topic": "t"}
    assert ask(connector, JavaSettings(), "exactlyOnceSupport", config=config) == {"answer": "SUPPORTED"}
    monkeypatch.setattr(questions, "_ANSWER_S", 0.2)
    hanging = {**config, "behaviour": "hang in connector.validate"}
    with pytest.raises(FencepostError, match=r"validate\(\) of hostile.HostileConnector did not return within 0.2 s"):
        ask(connector, JavaSettings(), "validate", config=hanging)
    monkeypatch.undo()
    assert ask(connector, JavaSettings(), "exactlyOnceSupport", config=config) == {"answer": "SUPPORTED"}
