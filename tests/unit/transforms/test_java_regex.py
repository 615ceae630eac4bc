"""Texts accepted as Java regular expressions, compared with Java."""

from __future__ import annotations

import random
import re
from collections.abc import Callable

import pytest
from pyspark.errors import IllegalArgumentException
from pyspark.sql import SparkSession

from fencepost import ConfigError
from fencepost.config.java_regex import JavaRegex, check_replacement, java_regex
from fencepost.config.unicode_names import BLOCKS, PROPERTIES, SCRIPTS
from tests.unit.transforms.support import Records, applied, predicate, step

VALID = (
    "", "a|b", "(a)(?<name>b)\\k<name>", "a++b*+c?+", "a{2,3}+", "(?>a|ab)c", "[a-c&&[^b]]", "[]a]", "[^]a]", "[a-]", "[\\d-z]",
    "\\p{L}\\pL\\P{Lu}\\p{Alpha}\\p{javaLowerCase}\\p{IsLatin}\\p{script=Latin}", "\\Qa.b\\E", "\\Q(", "(?i)a(?-i:b)", "(?<=ab?)c",
    "foo$", "\\x41\\x{1F600}\\u0041\\0101\\cA\\e\\h\\R", "{2}", "}", "]", "\\-\\ \\_", "\\2", "(?:)", "a{2}{3}",
    "\\p{gc=Lu}\\p{GC=L1}\\p{general_category=Nd}\\p{sc=Latin}\\p{blk=BasicLatin}\\p{Block=Greek}",
)  # fmt: skip
INVALID = (
    "(", ")", "[", "[a", "[]", "[^]", "*", "+a", "a**", "a|*", "(?i)*", "a{", "a{,3}", "a{3,2}", "a{99999999999}", "{x}", "\\",
    "\\q", "\\p{Foo}", "\\p", "\\k<n>", "(?<n>a)(?<n>b)", "(?<1>a)", "(?P<n>a)", "(?z)", "[b-a]", "[a-\\d]", "[\\b]",
    "\\x4", "\\u41", "\\E", "\\8a\\N", "[\\1]", "[[]a]", "\\p{gc=Foo}", "\\p{category=Lu}", "\\p{age=3}", "\\p{gc=}",
    "\\p{IsGreeek}", "\\p{InLatin}", "\\p{sc=Basic Latin}", "\\p{blk=Latin}", "\\p{Is}", "\\p{In}", "\\p{isGreek}",
)  # fmt: skip
PIECES = [
    *"ab1-.^$|()[]{}*+?\\&,<>=!:_ ", "(?:", "(?=", "(?<=", "(?<n>", "(?i)", "(?s:", "(?>", "\\d", "\\w", "\\b", "\\p{L}", "\\pL",
    "\\p{Alpha}", "\\p{Foo}", "\\Q", "\\E", "\\k<n>", "\\1", "\\x41", "\\u0041", "\\01", "\\cA", "{2}", "{2,}", "{2,3}", "{3,2}",
    "++", "*?", "[a-c]", "[^", "&&", "\\R", "\\z", "\\-", "[a-c&&[b]]", "\\h", "\\e", "\\q", "\\8",
]  # fmt: skip
CASES = 4_000
NARROWER = ("look-behind", "nothing before it", "the flag x")

Takes = Callable[[str], bool]


@pytest.fixture(scope="module")
def java(spark: SparkSession) -> Takes:
    pattern = spark._jvm.java.util.regex.Pattern  # type: ignore[union-attr]

    def takes(text: str) -> bool:
        try:
            pattern.compile(text)
        except IllegalArgumentException:
            return False
        return True

    return takes


def _problem(text: str) -> str | None:
    try:
        JavaRegex(text)
    except ValueError as error:
        return str(error)
    return None


@pytest.mark.parametrize("text", VALID)
def test_expressions_that_java_accepts_are_accepted(java: Takes, text: str) -> None:
    assert java(text)
    assert _problem(text) is None
    assert java(JavaRegex(text).whole)


@pytest.mark.parametrize("text", INVALID)
def test_expressions_that_java_refuses_are_refused(java: Takes, text: str) -> None:
    assert not java(text)
    assert re.search(r"at character \d+$", _problem(text) or "")


def test_names_of_scripts_and_blocks_are_taken_as_java_takes_them(java: Takes) -> None:
    """A newer Java than the running one knows more of them."""
    names = [f"Is{name}" for name in (*SCRIPTS, *PROPERTIES)] + [f"blk={name.lower()}" for name in BLOCKS]
    assert [name for name in names if _problem(rf"\p{{{name}}}")] == []
    assert len([name for name in names if java(rf"\p{{{name}}}")]) > 900
    others = [f"In{name}" for name in SCRIPTS] + [f"sc={name}" for name in BLOCKS] + [f"Is{name}x" for name in SCRIPTS]
    assert [name for name in others if java(rf"\p{{{name}}}") and _problem(rf"\p{{{name}}}")] == []


def test_random_expressions_are_taken_as_java_takes_them(java: Takes) -> None:
    rng = random.Random(7)
    for _ in range(CASES):
        text = "".join(rng.choice(PIECES) for _ in range(rng.randint(1, 7)))
        problem = _problem(text)
        if java(text):
            assert problem is None or any(narrower in problem for narrower in NARROWER), text
        else:
            # Java does not report this for every reference in a look-behind.
            assert problem is not None or "(?<=" in text, text


@pytest.mark.parametrize(
    ("regex", "replacement", "topic", "expected"),
    [
        ("a++b", "x", "aab", "x"),
        ("\\p{Lower}+-(?<rest>.*)", "${rest}", "ab-c", "c"),
        ("(.)(.*)", "$2$10", "abc", "bca0"),
        ("(.*)", "\\$1-\\\\", "abc", "$1-\\"),
        ("ab$", "x", "ab", "x"),
        ("a|ab", "x", "ab", "x"),
        ("a|b", "x", "ab", "ab"),
        ("\\Qa.b", "x", "a.b", "x"),
        ("(?i)AB", "x", "ab", "x"),
    ],
)
def test_topics_are_routed_as_java_reads_the_expression(
    spark: SparkSession, regex: str, replacement: str, topic: str, expected: str
) -> None:
    routed = step("RegexRouter", {"regex": regex, "replacement": replacement})
    assert applied(spark, Records("STRING", [{"topic": topic}]), routed, column="topic") == [expected]


@pytest.mark.parametrize(
    ("replacement", "said"),
    [
        ("$2", "only 1"),
        ("${m}", "group m"),
        ("$", r"\\\$"),
        ("a\\", "lone backslash"),
        ("\\1", r"write \$1"),
        ("$x", r"\\\$"),
    ],
)
def test_a_replacement_that_java_refuses_or_reads_otherwise_is_refused(replacement: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        step("RegexRouter", {"regex": "(?<n>a)", "replacement": replacement})
    assert refused.value.name == "replacement"
    check_replacement(JavaRegex("(?<n>a)"), "$1${n}\\$\\\\$12")


def test_an_invalid_expression_is_refused_at_its_property() -> None:
    with pytest.raises(ConfigError, match=r"closing parenthesis too many, at character 2") as refused:
        step("RegexRouter", {"regex": "a)", "replacement": "x"})
    assert refused.value.name == "regex"
    with pytest.raises(ConfigError, match=r"has an opening bracket that is not closed") as refused:
        predicate("TopicNameMatches", {"pattern": "[a"})
    assert refused.value.name == "pattern"


@pytest.mark.parametrize("text", ["(" * 2_000 + ")" * 2_000, "[" * 2_000 + "a" + "]" * 2_000], ids=["(", "["])
def test_an_expression_nested_too_deep_is_refused_at_its_property(text: str) -> None:
    with pytest.raises(ConfigError, match="too many parentheses or brackets within each other") as refused:
        java_regex("regex", text)
    assert refused.value.name == "regex"
