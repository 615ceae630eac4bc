"""The choice among several versions of a Java class."""

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


def test_a_class_that_cannot_be_asked_hides_no_other(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.ERROR):
        found = with_versions(PLUGINS, version_of)
    assert [version for _, version in found] == ["1.10.0.Final", "1.10", "1.9.0.Final", UNKNOWN]
    assert "acme.Source in d cannot be used: a jar is missing" in caplog.text


def test_a_single_class_is_not_asked():
    def fails(plugin: JavaPlugin) -> str:
        raise AssertionError(plugin)

    assert choose(PLUGINS[:1], "[2,)", fails) is PLUGINS[0]
    assert choose([], None, fails) is None
