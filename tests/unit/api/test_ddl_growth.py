from __future__ import annotations

from typing import Any

import pytest

from fencepost.api.ddl import parse_ddl


class Text(str):
    """Counts the characters that were copied out of it."""

    __slots__ = ()
    copied = 0

    def __getitem__(self, key: Any) -> str:
        found = super().__getitem__(key)
        Text.copied += len(found)
        return found


@pytest.mark.parametrize("columns", [10, 1_000])
def test_a_schema_is_not_copied_for_each_of_its_columns(columns: int):
    Text.copied = 0
    text = Text(", ".join(f"c{number} BIGINT" for number in range(columns)))
    assert len(parse_ddl(text).names) == columns  # type: ignore[attr-defined]
    assert Text.copied <= len(text)
