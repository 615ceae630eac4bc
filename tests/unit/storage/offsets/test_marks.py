"""What the headers of offset records say, whoever wrote them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.storage.offsets.marks import (
    COMMIT_TIME,
    COMMITTED_BY,
    COPIED_FROM,
    FORMER_TOPICS,
    CommitAuthor,
    OffsetMark,
    Origin,
    mark_of,
)

_READ_AT = 1_700_000_000_000


@given(
    st.integers(0, 10**18 - 1),
    st.sampled_from([None, Origin("own"), Origin("own", "cluster")]),
    st.sampled_from([None, CommitAuthor("group-c-0", "1.2.3"), CommitAuthor("my group-my c-0", "1")]),
    st.frozensets(st.sampled_from([Origin("own"), Origin("own", "cluster"), Origin("other")])),
)
def test_a_mark_is_read_as_it_was_written(
    time: int, origin: Origin | None, author: CommitAuthor | None, former: frozenset[Origin]
) -> None:
    mark = OffsetMark(time, origin, author, former)
    assert mark_of(mark.headers(), _READ_AT) == mark


@pytest.mark.parametrize("time", [b"", b"-1", b"soon", b"\xb2", b"1.5", b"9" * 19, b"9" * 5000])
def test_an_invalid_commit_time_is_replaced_by_the_timestamp(time: bytes) -> None:
    assert mark_of([(COMMIT_TIME, time)], _READ_AT) == OffsetMark(_READ_AT)


@given(
    st.lists(
        st.tuples(
            st.sampled_from([COMMIT_TIME, COMMITTED_BY, COPIED_FROM, FORMER_TOPICS, "x"]), st.none() | st.binary()
        )
    )
)
def test_arbitrary_headers_are_handled(headers: list[tuple[str, bytes | None]]) -> None:
    assert mark_of(headers, _READ_AT).time >= 0
