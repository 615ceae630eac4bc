"""The end of a `with` block closes what it has."""

from __future__ import annotations

import pytest

from fencepost.api.closing import Closing


class _Counting(Closing):
    closed = 0

    def close(self) -> None:
        self.closed += 1


def test_the_end_of_a_block_closes():
    with _Counting() as counting:
        assert counting.closed == 0
    assert counting.closed == 1


def test_an_exception_in_the_block_passes_after_the_close():
    counting = _Counting()
    with pytest.raises(KeyError), counting:
        raise KeyError
    assert counting.closed == 1
