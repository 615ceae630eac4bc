from __future__ import annotations

from decimal import Decimal

import pytest

from fencepost.api.foreign_json import parse_json


@pytest.mark.parametrize("text", ['{"a": [1, null]}', b'{"a": [1, null]}'])
def test_json_is_parsed_from_text_and_bytes(text: str | bytes) -> None:
    assert parse_json(text) == {"a": [1, None]}


def test_the_caller_decides_how_fractions_are_parsed() -> None:
    assert parse_json("[0.1]", parse_float=Decimal) == [Decimal("0.1")]


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, '{"a":' * 100_000, b"\xff"])
def test_invalid_json_is_a_value_error(text: str | bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the messages are Python's, but for the nested ones
        parse_json(text)
