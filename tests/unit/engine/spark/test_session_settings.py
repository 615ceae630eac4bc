"""A session's settings: the user's settings replace the defaults, except those that could write a batch twice."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from fencepost.api.errors import ConfigError
from fencepost.embedded.java import Java
from fencepost.engine.spark.session import make_java_home
from fencepost.engine.spark.session_settings import check_settings, session_settings


def test_a_local_session_stays_on_loopback_and_has_slots_to_spare():
    settings = session_settings({}, cores=2)
    assert settings["spark.master"] == "local[16]"
    assert settings["spark.default.parallelism"] == "2"
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.task.maxFailures"] == "1"


def test_options_of_the_jvm_are_not_split_at_a_space_in_a_path():
    (option,) = session_settings({})["spark.driver.extraJavaOptions"].split()
    assert option.startswith("-Dlog4j2.configurationFile=file:///")


def test_the_users_settings_win_and_others_are_left_out():
    given = {"spark.master": "spark://h:7077", "spark.driver.memory": "2g", "topic": "t", "bootstrap.servers": "b:9092"}
    settings = session_settings(given, cores=2)
    assert settings["spark.driver.memory"] == "2g"
    assert "topic" not in settings
    assert "spark.driver.bindAddress" not in settings
    assert "spark.python.unix.domain.socket.enabled" not in settings
    assert "spark.default.parallelism" not in settings


@pytest.mark.parametrize(
    ("name", "value"), [("spark.speculation", "true"), ("spark.stage.maxConsecutiveAttempts", "4")]
)
def test_settings_that_would_write_twice_are_refused(name: str, value: str):
    with pytest.raises(ConfigError, match=f"{name}={value} cannot be used") as caught:
        session_settings({name: value})
    assert caught.value.name == name


def test_a_users_session_with_speculation_is_refused():
    with pytest.raises(ConfigError, match="speculation"):
        check_settings({"spark.speculation": "TRUE"})


@pytest.mark.parametrize("given", [{}, {"spark.stage.maxConsecutiveAttempts": "4"}])
def test_a_session_of_the_users_own_must_not_run_a_stage_again(given: dict[str, str]):
    with pytest.raises(ConfigError, match=r"spark\.stage\.maxConsecutiveAttempts=4.*Set .*=1") as caught:
        check_settings(given)
    assert caught.value.name == "spark.stage.maxConsecutiveAttempts"
    check_settings({"spark.stage.maxConsecutiveAttempts": "1"})


def test_connectors_folders_come_before_the_users_import_path():
    settings = session_settings({"spark.executorEnv.PYTHONPATH": "/mine"}, import_path=["/plugins/a", "/plugins/b"])
    assert settings["spark.executorEnv.PYTHONPATH"] == "/plugins/a:/plugins/b:/mine"


@pytest.mark.parametrize(("version", "dropped"), [(17, ["vector"]), (25, ["vector", "action"])])
def test_java_is_not_started_with_modules_that_it_lacks(tmp_path: Path, version: int, dropped: list[str]) -> None:
    (tmp_path / "jdk" / "bin").mkdir(parents=True)
    program = tmp_path / "jdk" / "bin" / "java"
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o700)
    home = make_java_home(Java(tmp_path / "jdk", version, bundled=True), tmp_path / "home")
    vector, action = "--add-modules=jdk.incubator.vector", "--add-opens=java.base/sun.security.action=ALL-UNNAMED"

    asked = subprocess.run([f"{home}/bin/java", vector, action, "Main"], check=True, capture_output=True, text=True)

    expected = [argument for argument in (vector, action, "Main") if not any(word in argument for word in dropped)]
    assert asked.stdout.split() == expected
