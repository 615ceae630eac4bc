"""The end of a `with` block closes the object, if it can be closed."""

from __future__ import annotations

import pytest

from fencepost.api.closing import Closing


class _Counting(Closing):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_the_end_of_a_with_block_closes_the_object():
    with _Counting() as counting:
        assert counting.closed == 0
    assert counting.closed == 1


def test_an_exception_in_the_block_passes_after_the_close():
    counting = _Counting()
    with pytest.raises(KeyError), counting:
        raise KeyError
    assert counting.closed == 1
