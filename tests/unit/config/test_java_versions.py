"""The choice of one of several versions of a Java class."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from fencepost.api.errors import FencepostError
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_versions import UNKNOWN, choose, with_versions

VERSIONS = {"a": "1.9.0.Final", "b": "1.10.0.Final", "c": "1.10", "d": ""}
PLUGINS = [JavaPlugin("acme.Source", Path(folder), ()) for folder in VERSIONS]


def version_of(plugin: JavaPlugin) -> str:
    version = VERSIONS[plugin.location.name]
    if not version:
        raise FencepostError("a jar is missing")
    return version


@pytest.mark.parametrize(
    ("asked", "folder"),
    [(None, "b"), ("latest", "b"), ("[1,1.10)", "a"), ("1.9", "a"), ("[2,)", "b"), ("[2", "b"), ("undefined", "d")],
)
def test_the_newest_that_is_asked_for_is_chosen_else_the_newest_of_all(asked: str | None, folder: str):
    chosen = choose(PLUGINS, asked, version_of)
    assert chosen is not None
    assert chosen.location.name == folder


def test_a_class_whose_version_is_unreadable_hides_no_other(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR):
        found = with_versions(PLUGINS, version_of)
    assert [version for _, version in found] == ["1.10.0.Final", "1.10", "1.9.0.Final", UNKNOWN]
    assert "acme.Source in d cannot be used: a jar is missing" in caplog.text


def test_two_folders_with_one_version_are_warned_of_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    plugins = [JavaPlugin("acme.Source", tmp_path / name, ()) for name in ("new", "old", "other", "another")]
    versions = {"new": "2.0", "old": "1.0", "other": "2.0", "another": "2.0"}
    for _ in range(2):
        assert choose(plugins, None, lambda plugin: versions[plugin.location.name]) is plugins[0]
    [warning] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert warning.getMessage() == (
        f"The Java class acme.Source has the version 2.0 in several places: {tmp_path / 'new'} is used, and not "
        f"{tmp_path / 'another'}, {tmp_path / 'other'}. Move all but one of them out of plugin.path, and restart the worker"
    )
    caplog.clear()
    assert choose(plugins, "1.0", lambda plugin: versions[plugin.location.name]) is plugins[1]
    assert not caplog.records


def test_a_single_class_is_not_asked_for_its_version():
    def fails(plugin: JavaPlugin) -> str:
        raise AssertionError(plugin)

    assert choose(PLUGINS[:1], "[2,)", fails) is PLUGINS[0]
    assert choose([], None, fails) is None
