"""Versions and ranges that a configuration asks for."""

from __future__ import annotations

import pytest

from fencepost.api.errors import ConfigError
from fencepost.config.version_range import VersionRange


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ("1.2", "1.2"),
        ("1.2", "1.2.0"),
        (" 1.2 ", "1.2"),
        ("latest", "0.0.1"),
        ("[1.2]", "1.2"),
        ("[1.2,2.0)", "1.2"),
        ("[1.2,2.0)", "1.10"),
        ("[1.2, 2.0]", "2.0"),
        ("(1.2,)", "7"),
        ("(,1.0]", "1.0"),
        ("[1,2),[3,4)", "3.5"),
        ("(,)", "1"),
        ("1.2-SNAPSHOT", "1.2-SNAPSHOT"),
        ("undefined", "undefined"),
        ("[3.6,4.0)", "3.7.0.Final"),
        ("3.7", "3.7.0.Final"),
        ("[7.5.1-ccs,)", "7.10.0-ccs"),
    ],
)
def test_a_range_includes_a_version(asked: str, version: str) -> None:
    assert VersionRange.of("p", asked).has(version)


@pytest.mark.parametrize(
    ("asked", "version"),
    [
        ("1.2", "1.3"),
        ("[1.2]", "1.2.1"),
        ("[1.2,2.0)", "2.0"),
        ("(1.2,2.0)", "1.2"),
        ("[1.2,2.0)", "2.0.0"),
        ("[1,2),[3,4)", "2.5"),
        ("[1.2,2.0)", "undefined"),
        ("nonsense", "1.2"),
        ("[1.2,)", "1.2.dev1"),
        ("(3.7,4.0)", "3.7.0.Final"),
        ("[3.7,4.0)", "3.7.0-SNAPSHOT"),
        ("[1.2,)", "9" * 5000),
        ("9" * 5000, "1.2"),
    ],
)
def test_a_range_excludes_a_version(asked: str, version: str) -> None:
    assert not VersionRange.of("p", asked).has(version)


@pytest.mark.parametrize(
    "asked", ["[1.2", "[1.2,2.0)x", "(1.2)", "[]", "[2,1]", "[a,b]", "[1,2,3]", "[1,2)[3,4)", "(1.2]"]
)
def test_an_invalid_range_is_refused_with_its_property_and_an_example(asked: str) -> None:
    with pytest.raises(ConfigError, match=r"connector\.plugin\.version.*\[1\.2,2\.0\)") as refused:
        VersionRange.of("connector.plugin.version", asked)
    assert refused.value.name == "connector.plugin.version"
