"""The last committed record of a key, although other producers' transactions are open."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord, FetchedRecords, TransactionMarker
from fencepost.kafka.consumer.last_record import LastRecord

_KEYS = (b"mine", b"another", b"third")
"""Each transactional id has one producer, whose id is its index."""


def _record(offset: int, producer: int, *, transactional: bool = True) -> ConsumedRecord:
    value = b"%d" % offset
    return ConsumedRecord("t", 0, offset, 0, _KEYS[producer], value, (), (producer, 0), transactional)


def _marker(offset: int, producer: int, *, committed: bool) -> TransactionMarker:
    return TransactionMarker("t", 0, offset, producer, 0, committed)


def _part(*entries: ConsumedRecord | TransactionMarker) -> FetchedRecords:
    records = [entry for entry in entries if isinstance(entry, ConsumedRecord)]
    markers = [entry for entry in entries if isinstance(entry, TransactionMarker)]
    return FetchedRecords(records, None, markers)


@given(
    st.lists(st.tuples(st.integers(0, 2), st.sampled_from(["write", "plain", "commit", "abort"])), max_size=40),
    st.sets(st.integers(0, 39)),
)
def test_the_last_record_comes_from_the_last_commit(steps: list[tuple[int, str]], cuts: set[int]):
    log: list[ConsumedRecord | TransactionMarker] = []
    open_record: ConsumedRecord | None = None
    committed: ConsumedRecord | None = None
    for offset, (producer, step) in enumerate(steps):
        if step in ("commit", "abort"):
            log.append(_marker(offset, producer, committed=step == "commit"))
        else:
            log.append(_record(offset, producer, transactional=step == "write"))
        if producer == 0:
            match step:
                case "write":
                    open_record = _record(offset, 0)
                case "plain":
                    committed = _record(offset, 0, transactional=False)
                case _:
                    committed = open_record if step == "commit" and open_record else committed
                    open_record = None
    found = LastRecord(_KEYS[0])
    edges = [0, *sorted(cut for cut in cuts if cut < len(log)), len(log)]
    for start, end in pairwise(edges):
        found.take(_part(*log[start:end]), stable=False)
    assert found.committed == committed
    assert found.is_decided == (open_record is None)


def test_records_before_the_first_open_transaction_count():
    found = LastRecord(_KEYS[0])
    found.take(_part(_record(0, 0), _record(1, 1)), stable=True)
    assert found.committed == _record(0, 0)
    # The marker of an earlier record may come behind another producer's open transaction.
    found.take(_part(_record(2, 2), _marker(3, 0, committed=True)), stable=False)
    assert found.committed == _record(0, 0)
    assert found.is_decided
