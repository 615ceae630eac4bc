"""Reading ahead changes neither the rows nor the end or error of a read."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.engine.read_ahead import read_ahead


@given(st.lists(st.integers(), max_size=20), st.integers(1, 4))
def test_items_come_in_their_order(items: list[int], depth: int):
    assert list(read_ahead(iter(items), depth)) == items


def test_an_error_comes_after_the_items_before_it():
    def failing() -> Iterator[int]:
        yield 1
        raise ValueError("two")

    items = read_ahead(failing())
    assert next(items) == 1
    with pytest.raises(ValueError, match="two"):
        next(items)


def test_reading_ends_when_the_items_are_not_consumed_any_more():
    closed = threading.Event()

    def endless() -> Iterator[int]:
        try:
            while True:
                yield 1
        finally:
            closed.set()

    source = endless()
    items = read_ahead(source)
    assert next(items) == 1
    items.close()  # type: ignore[attr-defined]
    source.close()
    assert closed.is_set()
