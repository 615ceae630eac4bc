from __future__ import annotations

from typing import Any

import pytest

from fencepost.api import ddl
from fencepost.api.ddl import parse_ddl
from tests.support.counting import CountedText, work_of


class Text(str):
    """Counts the characters that are copied out of it."""

    __slots__ = ()
    copied = 0

    def __getitem__(self, key: Any) -> str:
        found = super().__getitem__(key)
        Text.copied += len(found)
        return found


class Name(CountedText):
    """The name of a column, which stays one where its quotes are taken away."""

    __slots__ = ()

    def replace(self, *given: Any) -> Name:
        return Name(super().replace(*given))


@pytest.mark.parametrize("columns", [10, 1_000])
def test_a_schema_is_not_copied_for_each_of_its_columns(columns: int):
    Text.copied = 0
    text = Text(", ".join(f"c{number} BIGINT" for number in range(columns)))
    assert len(parse_ddl(text).names) == columns  # type: ignore[attr-defined]
    assert Text.copied <= len(text)


def test_four_times_the_columns_take_four_times_the_work(monkeypatch: pytest.MonkeyPatch):
    token = ddl._Parser._token

    def named(parser: Any, expected: str) -> tuple[str, str, int]:
        kind, text, position = token(parser, expected)
        return kind, Name(text) if expected == "the name of a column" else text, position

    monkeypatch.setattr(ddl._Parser, "_token", named)
    few, many = (
        work_of(lambda text=text: ddl._Parser(text).schema())  # type: ignore[misc]
        for text in (", ".join(f"c{number} BIGINT" for number in range(columns)) for columns in (100, 400))
    )
    assert many < 5 * few
