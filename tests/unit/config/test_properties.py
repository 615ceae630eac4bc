from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import ConfigError
from fencepost.config.properties import load_connector_config, load_properties, parse_properties


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1", {"a": "1"}),
        ("a:1", {"a": "1"}),
        ("a 1", {"a": "1"}),
        ("  a \t=\f 1 ", {"a": "1 "}),
        ("a = = 1", {"a": "= 1"}),
        ("a", {"a": ""}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("# a=1\n  ! b=2\n\n \t\nc=3", {"c": "3"}),
        ("a=1,\\\n   2,\\\r\n\t3", {"a": "1,2,3"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("# no \\\na=1", {"a": "1"}),
        ("a=1\\\n# 2", {"a": "1# 2"}),
        ("a=1\\", {"a": "1"}),
        ("a\\ b\\=c\\:d=e", {"a b=c:d": "e"}),
        ("a=\\t\\n\\r\\f\\q\\\\", {"a": "\t\n\r\fq\\"}),
        ("a=\\u00e9\\uD83D\\uDE00", {"a": "é😀"}),
        ("a=1\na=2", {"a": "2"}),
        ("=1", {"": "1"}),
        # A line with only a backslash: the next line is not a continuation. javaproperties reads the comment as a
        # property.
        ("\\\n# b=2\na=1", {"a": "1"}),
        ("\\\n\n!b\na=1\n \\\r\n", {"a": "1"}),
        ("\\\n  a=1\\\n  # 2", {"a": "1# 2"}),
        ("a=1\\\n\nb=2", {"a": "1", "b": "2"}),
        ("a=1\\\n \\\n#2", {"a": "1#2"}),
        # Java's line ends and blanks are line feed, carriage return, space, tab and form feed.
        ("a\x0bb\x85c\u2028d\u00a0=1", {"a\x0bb\x85c\u2028d\u00a0": "1"}),
        ("\\#a=1\n\\u0020\\u003D=2\n\\!=3", {"#a": "1", " =": "2", "!": "3"}),
        ("a=\\ b \n\tc\f:\t=d", {"a": " b ", "c": "=d"}),
        ("a=\\U0041\\b\\0", {"a": "U0041b0"}),
    ],
)
def test_a_properties_text_is_read_as_java_reads_it(text: str, expected: dict[str, str]):
    assert parse_properties(text, where="worker.properties") == expected


@pytest.mark.parametrize("escape", ["\\u12", "\\uXYZW", "\\u", "\\u12 4", "\\u+041", "\\u\uff10\uff10\uff14\uff11"])
def test_a_malformed_escape_is_an_error_with_file_and_line(escape: str):
    with pytest.raises(ConfigError, match=r"worker\.properties, line 3: .*hexadecimal"):
        parse_properties(f"# comment\na=1\nb={escape}", where="worker.properties")


def _java_escape(text: str) -> str:
    """A key or a value as java.util.Properties.store writes it."""
    units = text.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02X}{units[i + 1]:02x}" for i in range(0, len(units), 2))


_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(_TEXT, _TEXT, max_size=8))
def test_files_stored_by_java_are_read_back(properties: dict[str, str]):
    stored = "\n".join(f"{_java_escape(key)}={_java_escape(value)}" for key, value in properties.items())
    assert parse_properties(stored, where="stored") == properties


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ConfigError, match=r"Cannot read .*nowhere\.properties: No such file"):
        load_properties(tmp_path / "nowhere.properties")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1"])
def test_a_file_is_read_as_utf_8_or_as_latin_1(tmp_path: Path, encoding: str):
    path = tmp_path / "worker.properties"
    path.write_bytes("café=crème".encode(encoding))
    assert load_properties(path) == {"café": "crème"}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"name": "c", "tasks.max": 2, "flag": True}, {"name": "c", "tasks.max": "2", "flag": "true"}),
        ({"name": "c", "config": {"tasks.max": 2}}, {"name": "c", "tasks.max": "2"}),
        ({"name": "c", "config": {"name": "c"}}, {"name": "c"}),
        ({"config": {"topic": "t"}}, {"topic": "t"}),
    ],
)
def test_a_connector_is_configured_by_flat_json_or_as_the_rest_api_takes_it(
    tmp_path: Path, document: object, expected: dict[str, str]
):
    path = tmp_path / "connector.json"
    path.write_text(json.dumps(document))
    assert load_connector_config(path) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"name": "c" "d"}', "line 1, column 14: not valid JSON"),
        ("[1]", "a connector configuration is a JSON object, this is a JSON list"),
        ('{"name": null}', "the value of name is null"),
        ('{"name": "c", "config": {"a": [1]}}', "the value of a is a JSON list"),
        ('{"name": "c", "config": {"name": "d"}}', "the name 'c' and the name 'd'"),
    ],
)
def test_a_malformed_connector_file_is_an_error_that_says_where(tmp_path: Path, text: str, message: str):
    path = tmp_path / "connector.json"
    path.write_text(text)
    with pytest.raises(ConfigError) as raised:
        load_connector_config(path)
    assert message in str(raised.value)
    assert str(path) in str(raised.value)
