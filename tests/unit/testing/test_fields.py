"""Fields that the conformance suite ignores in comparisons of values."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.testing.conformance.fields import named_fields, without

VALUE = {"id": 1, "meta": {"read_at": 7, "host": "h"}, "items": [{"read_at": 8, "n": 1}, {"n": 2}]}


def test_fields_have_dotted_names_at_any_depth() -> None:
    assert [name for name, _ in named_fields(VALUE)] == [
        *("id", "meta", "meta.read_at", "meta.host", "items", "items.read_at", "items.n", "items.n"),
    ]


@pytest.mark.parametrize(
    ("ignored", "left"),
    [
        ((), VALUE),
        (("read_at",), VALUE),
        (("meta.read_at", "items.read_at"), {"id": 1, "meta": {"host": "h"}, "items": [{"n": 1}, {"n": 2}]}),
        (("meta", "items"), {"id": 1}),
    ],
)
def test_only_the_named_fields_are_left_out(ignored: tuple[str, ...], left: Any) -> None:
    assert without(VALUE, ignored) == left


@pytest.mark.parametrize("value", ['{"id": 1, "read_at": 7}', b'{"id": 1, "read_at": 7}'])
def test_the_fields_of_a_json_text_are_left_out(value: Any) -> None:
    assert without(value, ("read_at",)) == {"id": 1}


@pytest.mark.parametrize("value", [None, 7, "text", "{no json", b"\xff", [1, 2]])
def test_a_value_without_fields_stays(value: Any) -> None:
    assert without(value, ("read_at",)) == value
