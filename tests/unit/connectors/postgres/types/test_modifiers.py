"""A numeric's type modifier has a precision, and a scale that may be negative."""

from __future__ import annotations

import pytest

from fencepost.connectors.postgres.types.modifiers import precision_and_scale


@pytest.mark.parametrize(
    ("modifier", "expected"),
    [
        (-1, None),
        (((10 << 16) | 2) + 4, (10, 2)),
        ((1000 << 16) + 4, (1000, 0)),
        (((2 << 16) | 4) + 4, (2, 4)),
        (((3 << 16) | (-2 & 0x7FF)) + 4, (3, -2)),
        (((1 << 16) | (-1000 & 0x7FF)) + 4, (1, -1000)),
    ],
)
def test_a_modifier_has_a_precision_and_a_scale(modifier: int, expected: tuple[int, int] | None):
    assert precision_and_scale(modifier) == expected
