"""The order of versions of Python packages and of Java plugins."""

from __future__ import annotations

import itertools
import subprocess

import pytest

from fencepost.config.version_order import MavenVersion, is_version, newest_first, versions
from fencepost.embedded.jars import class_path
from fencepost.embedded.java import find_java
from fencepost.java.host_jar import CONNECT

SHAPES = [
    "1", "1.0", "1.0.0", "1.0.1", "1.1", "1.2", "1.9", "1.10", "2", "3.7.0.Final", "3.7.0.CR1", "3.7.0.Beta2", "3.7.0.Beta10",
    "3.7.0.Alpha1", "3.7.1.Final", "3.10.0.Final", "7.6.0-ccs", "7.6.1-ccs", "1.0-SNAPSHOT", "1.0-rc1", "1.0-rc-2",
    "1.0-alpha-1", "1.0a1", "1.0b2", "1.0m3", "1.0-ga", "1.0.RELEASE", "1.0-sp1", "1.0-foo", "1.0-1", "1.0-2", "1.0-jre8",
    "33.4.0-jre", "33.4.0-android", "20240101.1", "1.0.0-beta.2", "1.0.0-beta.11", "1.0x", "1..2",
]  # fmt: skip


def test_java_versions_are_ordered_as_by_maven():
    """`main` of Maven's own class compares each version with the next one, and prints the result."""
    java = find_java()
    pairs = list(itertools.product(SHAPES, repeat=2))
    jars = ":".join(map(str, class_path(java, CONNECT)))
    command = [str(java.executable), "-cp", jars, "org.apache.maven.artifact.versioning.ComparableVersion"]
    command += [text for pair in pairs for text in pair]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    compared = [line.split() for line in printed.splitlines() if line.startswith("   ")][::2]
    assert [(first, second) for first, _, second in compared] == pairs
    signs = {"<": (True, False), "==": (False, True), ">": (False, False)}
    wrong = [
        (first, sign, second)
        for first, sign, second in compared
        if (MavenVersion(first) < MavenVersion(second), MavenVersion(first) == MavenVersion(second)) != signs[sign]
    ]
    assert not wrong, "\n".join(map(str, wrong))


def test_versions_of_python_packages_are_compared_as_such():
    first, second = versions(["1.2.dev1", "1.2"])
    assert first < second
    first, second, _ = versions(["1.2.dev1", "1.2", "3.7.0.Final"])
    assert first > second


def test_the_newest_version_comes_first_and_items_without_one_last():
    found = newest_first(["undefined", "1.9.0.Final", "1.10.0.Final", "1.9", ""], lambda text: text)
    assert found == ["1.10.0.Final", "1.9.0.Final", "1.9", "undefined", ""]


@pytest.mark.parametrize(("text", "expected"), [("1", True), ("3.7.0.Final", True), ("1.x", False), ("", False), ("9" * 5000, False)])  # fmt: skip
def test_a_text_is_a_version_or_not(text: str, expected: bool):
    assert is_version(text) == expected
