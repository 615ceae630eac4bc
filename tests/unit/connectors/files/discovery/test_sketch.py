from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.connectors.distribution import mixed
from fencepost.connectors.files.discovery.sketch import Numbers, Sketch


def numbers(first: int, end: int) -> Numbers:
    return mixed(np.arange(first, end, dtype=np.uint64), 7)


@given(common=st.integers(0, 5_000), alone=st.integers(0, 600), others=st.integers(0, 600), first=st.integers(0, 2**62))
def test_the_numbers_that_only_one_set_has_are_found(common: int, alone: int, others: int, first: int) -> None:
    ends = np.cumsum([first, alone, common, others]).tolist()
    sketch = Sketch.from_text(Sketch.of(numbers(ends[0], ends[2])).in_text())
    found = sketch.differences(numbers(ends[1], ends[3]))
    assert found is not None
    assert set(found.tolist()) == {*numbers(ends[0], ends[1]).tolist(), *numbers(ends[2], ends[3]).tolist()}


@pytest.mark.parametrize("count", [1_500, 100_000])
def test_1_500_differences_are_found_and_too_many_are_known_to_be(count: int) -> None:
    found = Sketch.of(numbers(0, 30_000)).differences(numbers(count // 2, 30_000 + count // 2))
    assert (found is None) == (count > 1_500)


@pytest.mark.parametrize("text", ["", "?", "AAAA", "ü"])
def test_an_invalid_sketch_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        Sketch.from_text(text)
