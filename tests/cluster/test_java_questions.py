"""A validation creates Java plugins to call them. They do not pile up in the JVM."""

from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.api.errors import FencepostError
from fencepost.config.java_plugins import SOURCE_CONNECTOR, TRANSFORMATION, JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.java import questions
from fencepost.java.errors import JvmEndedError
from fencepost.java.questions import ask
from tests.support.java_plugins import HOSTILE, ODD, WILD, plugin_path
from tests.support.processes import wait_for


@pytest.fixture
def plugins(tmp_path: Path) -> Path:
    return plugin_path(tmp_path)


def plugin(folder: Path, java_class: str, base: str) -> JavaPlugin:
    return JavaPlugin(java_class, folder, tuple(folder.iterdir()), base)


def test_connectors_created_for_validation_are_garbage_collected(plugins: Path):
    connector = plugin(plugins / "hostile", WILD, SOURCE_CONNECTOR)
    for _ in range(100):
        ask(connector, JavaSettings(), "validate", config={"topic": "t"})
    (found,) = ask(connector, JavaSettings(), "validate", config={"wild": "count"})["values"]
    assert found["errors"] == ["1 of 101"]


def test_a_transform_is_closed_after_its_validation(plugins: Path, caplog: pytest.LogCaptureFixture):
    caplog.set_level("INFO", "java")
    ask(plugin(plugins / "transforms", ODD, TRANSFORMATION), JavaSettings(), "validate", config={"how": "drop"})
    wait_for(lambda: "An Odd is closed: null" in caplog.text, what="the end of the transform")


def test_a_validation_that_is_not_answered_ends_with_an_error(plugins: Path, monkeypatch: pytest.MonkeyPatch):
    connector, config = plugin(plugins / "hostile", HOSTILE, SOURCE_CONNECTOR), {"topic": "t"}
    assert ask(connector, JavaSettings(), "exactlyOnceSupport", config=config) == {"answer": "SUPPORTED"}
    monkeypatch.setattr(questions, "_ANSWER_S", 0.2)
    hanging = {**config, "behaviour": "hang in connector.validate"}
    with pytest.raises(FencepostError, match=r"validate\(\) of hostile.HostileConnector did not return within 0.2 s"):
        ask(connector, JavaSettings(), "validate", config=hanging)
    monkeypatch.undo()
    assert ask(connector, JavaSettings(), "exactlyOnceSupport", config=config) == {"answer": "SUPPORTED"}


@pytest.mark.parametrize(
    ("behaviour", "words"),
    [
        ("exit in connector.validate", "printed before the end"),
        ("leak in connector.validate", "Terminating due to java.lang.OutOfMemoryError: Java heap space"),
        ("exit in connector.exactlyOnceSupport", "printed before the end"),
        ("exit in connector.canDefineTransactionBoundaries", "printed before the end"),
        ("exit in connector.alterOffsets", "printed before the end"),
    ],
)
def test_a_question_that_ends_its_jvm_is_an_error_and_the_next_is_answered(plugins: Path, behaviour: str, words: str):
    connector, java = plugin(plugins / "hostile", HOSTILE, SOURCE_CONNECTOR), JavaSettings(heap="64m")
    question = behaviour.rpartition(".")[2]
    config, more = {"topic": "t", "behaviour": behaviour}, {"offsets": []} if question == "alterOffsets" else {}
    with pytest.raises(JvmEndedError, match=r"JVM that is asked .* exited with status 3\. Its last words:") as error:
        ask(connector, java, question, config=config, **more)
    assert words in str(error.value)
    # The next one may be about a plugin of somebody else.
    (found, *_) = ask(plugin(plugins / "transforms", ODD, TRANSFORMATION), java, "config")["keys"]
    assert found["name"] == "how"
