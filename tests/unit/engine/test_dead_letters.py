from __future__ import annotations

import json
from typing import Any

import pytest

from fencepost.engine.dead_letters import plain_bytes


def _refuse_constant(name: str) -> Any:
    raise AssertionError(f"{name} is not JSON")


@pytest.mark.parametrize(
    ("number", "text"), [(float("nan"), "NaN"), (float("inf"), "Infinity"), (float("-inf"), "-Infinity")]
)
def test_numbers_that_json_does_not_have_are_texts_as_of_the_json_converter(number: float, text: str):
    value = {"plain": 1.5, "f": number, "many": [number, {"deep": (number, None)}]}
    found = json.loads(plain_bytes(value) or b"", parse_constant=_refuse_constant)
    assert found == {"plain": 1.5, "f": text, "many": [text, {"deep": [text, None]}]}
