"""The messages of a block are found, whichever bytes their rows have."""

from __future__ import annotations

import struct
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.api.errors import RetriableError
from fencepost.connectors.postgres.changes.connection import PostgresError
from fencepost.connectors.postgres.changes.stream.replication_frames import find_frames, whole_transactions
from tests.unit.connectors.postgres.changes.messages import (
    ACCOUNTS,
    begin,
    buffer,
    commit,
    frame,
    insert,
    keepalive,
    logged,
)

_LOOKS_LIKE_A_MESSAGE = frame(b"w" + bytes(40)) + b"d\0\0\0\x05k"
_PAYLOADS = st.lists(
    st.one_of(
        st.binary(max_size=60).map(lambda body: b"w" + bytes(24) + body),
        st.binary(max_size=60).map(lambda body: b"w" + bytes(24) + body + _LOOKS_LIKE_A_MESSAGE),
        st.just(b"k" + bytes(17)),
    ),
    max_size=20,
)


@given(_PAYLOADS, st.integers(0, 40))
def test_complete_messages_are_found_and_the_cut_one_is_left(payloads: list[bytes], cut: int):
    frames = [frame(payload) for payload in payloads]
    data = buffer(*frames)
    filled = max(0, len(data) - 64 - cut)
    ends = [sum(map(len, frames[: n + 1])) for n in range(len(frames))]
    complete = [end for end in ends if end <= filled]

    starts, end = find_frames(data, filled)

    assert starts.tolist() == [0, *complete][: len(complete)]
    assert end == (complete[-1] if complete else 0)


def test_a_message_of_sixteen_megabytes_is_found():
    messages = [keepalive(1), frame(b"w" + bytes(1 << 24)), keepalive(2)]
    starts, end = find_frames(buffer(*messages), sum(map(len, messages)))
    assert len(starts) == 3
    assert end == sum(map(len, messages))


@pytest.mark.parametrize("kind", [b"N", b"S", b"A"])
def test_messages_that_may_come_at_any_time_are_skipped(kind: bytes):
    other = kind + struct.pack(">I", 40) + b"d\0\0\0\x16k" + bytes(30)
    messages = [other, keepalive(1), other, other, keepalive(2), other]
    ends = list(accumulate(map(len, messages)))

    starts, end = find_frames(buffer(*messages), ends[-1])
    assert (starts.tolist(), end) == ([ends[0], ends[3]], ends[-1])

    starts, end = find_frames(buffer(*messages), ends[-1] - 1)
    assert (starts.tolist(), end) == ([ends[0], ends[3]], ends[4])


@pytest.mark.parametrize(
    ("fields", "error", "message"),
    [
        (b"SFATAL\0VFATAL\0C57P01\0Mterminating connection", RetriableError, "FATAL: terminating connection"),
        (
            b"VERROR\0C22021\0Minvalid byte\0Wslot x",
            PostgresError,
            r"invalid byte \(slot x\). The server cannot send this",
        ),
        (b"VERROR\0CXX000\0Mcould not map", RetriableError, "could not map"),
    ],
)
def test_an_error_of_the_server_is_raised(fields: bytes, error: type[Exception], message: str):
    answer = b"E" + struct.pack(">I", len(fields) + 6) + fields + b"\0\0"
    # Bytes left over from the previous block do not belong to this message.
    data = buffer(keepalive(1), answer, b"Wno\0Mno\0C57P01\0")
    with pytest.raises(error, match=message):
        find_frames(data, len(data) - 64)


def test_a_transaction_that_does_not_end_in_the_block_is_left_for_the_next():
    whole = [begin(100), insert(ACCOUNTS, ["1", "a", None]), commit(100, 110)]
    begun = [begin(120), insert(ACCOUNTS, ["2", "b", None])]
    data = buffer(*whole, *begun)
    starts, end = find_frames(data, len(data) - 64)

    kept, cut = whole_transactions(data, starts, end, full=False)

    assert len(kept) == 3
    assert cut == sum(map(len, whole))


def test_a_transaction_that_fills_the_block_is_decoded_in_parts():
    begun = [begin(120), insert(ACCOUNTS, ["2", "b", None])]
    data = buffer(*begun)
    starts, end = find_frames(data, len(data) - 64)
    assert whole_transactions(data, starts, end, full=False)[1] == 0
    assert whole_transactions(data, starts, end, full=True)[1] == end


def test_messages_outside_transactions_are_kept():
    messages = [commit(100, 110), keepalive(120), logged(b"Y" + bytes(20))]
    data = buffer(*messages)
    starts, end = find_frames(data, len(data) - 64)
    assert whole_transactions(data, starts, end, full=False)[1] == end
