"""Names of scripts, blocks and properties in regular expressions, as in Java 25."""

from __future__ import annotations

import pytest

from fencepost.config.java_regex import JavaRegex
from fencepost.config.unicode_names import BLOCKS, PROPERTIES, SCRIPTS, is_block


def test_all_unicode_names_of_java_are_known():
    assert (len(SCRIPTS), len(BLOCKS)) == (334, 782)
    assert all(name == name.upper() for name in SCRIPTS | BLOCKS | PROPERTIES)


@pytest.mark.parametrize(
    "name", ["Latin-1 Supplement", "Latin-1Supplement", "LATIN_1_SUPPLEMENT", "greek", "Greek and Coptic"]
)
def test_a_block_has_several_spellings(name: str):
    assert is_block(name)


@pytest.mark.parametrize(
    "name", ["IsGreek", "IsGrek", "InGreek", "IsAlphabetic", "IsEmoji", "IsLu", "sc=latin", "BLK=Basic Latin", "gc=Lu"]
)
def test_a_known_name_is_accepted(name: str):
    JavaRegex(rf"\p{{{name}}}\P{{{name}}}")


@pytest.mark.parametrize(
    "name", ["IsGreeek", "InLatin", "Is", "In", "sc=", "sc=Basic Latin", "blk=Latin", "isGreek", "IsGREEK!"]
)
def test_an_unknown_name_is_refused_at_its_place(name: str):
    with pytest.raises(ValueError, match=r"unknown property of characters .*, at character 2"):
        JavaRegex(rf"a\p{{{name}}}")
