"""The records of a fetched log that a read_committed consumer sees, for logs built batch by batch."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder

from fencepost.api.errors import DataError
from fencepost.kafka.consumer.fetch_decoder import DecodingBudget, FetchedRecords, SkippedBatch, read_fetched
from fencepost.kafka.records.compression import Compression, compress
from fencepost.kafka.records.varints import signed_varint

_CONTROL = 0x20
_ABORT, _COMMIT = 0, 1


@dataclass(frozen=True)
class _Aborted:
    producer_id: int
    first_offset: int
    marker_offset: int


@dataclass
class _Log:
    """A partition's log, and the expected result of a read_committed fetch from its beginning."""

    batches: list[bytes] = field(default_factory=list)
    offset: int = 0
    visible: list[tuple[int, bytes]] = field(default_factory=list)
    aborted: list[_Aborted] = field(default_factory=list)
    _open: dict[int, list[tuple[int, bytes]]] = field(default_factory=dict)

    @property
    def data(self) -> bytes:
        return b"".join(self.batches)

    def write(self, producer_id: int, values: list[bytes], *, transactional: bool = True) -> None:
        records = [(self.offset + index, value) for index, value in enumerate(values)]
        self._append(producer_id, [(None, value) for value in values], transactional=transactional)
        (self._open.setdefault(producer_id, []) if transactional else self.visible).extend(records)

    def write_compressed(self, values: list[bytes], compression: Compression) -> None:
        """Write a batch compressed with the given `compression.type`."""
        self.write(1, values, transactional=False)
        plain = self.batches.pop()
        header, content = bytearray(plain[:61]), bytes(compress(memoryview(plain[61:]), compression))
        struct.pack_into(">i", header, 8, len(header) + len(content) - 12)
        header[22] |= compression.code
        struct.pack_into(">I", header, 17, crc32c(bytes(header[21:]) + content))
        self.batches.append(bytes(header) + content)

    def end(self, producer_id: int, *, commit: bool) -> None:
        records = self._open.pop(producer_id, None)
        if records is None:
            return
        if commit:
            self.visible.extend(records)
        else:
            self.aborted.append(_Aborted(producer_id, records[0][0], self.offset))
        marker = struct.pack(">hh", 0, _COMMIT if commit else _ABORT)
        self._append(producer_id, [(marker, struct.pack(">hi", 0, 0))], transactional=True, control=True)

    def _append(
        self,
        producer_id: int,
        records: list[tuple[bytes | None, bytes]],
        *,
        transactional: bool,
        control: bool = False,
    ) -> None:
        builder = DefaultRecordBatchBuilder(2, 0, transactional, producer_id, 0, 0, 1 << 20)
        for index, (key, value) in enumerate(records):
            builder.append(index, 1000, key, value, [])
        batch = bytearray(builder.build())
        struct.pack_into(">q", batch, 0, self.offset)
        if control:
            batch[22] |= _CONTROL
        struct.pack_into(">I", batch, 17, crc32c(bytes(batch[21:])))
        self.batches.append(bytes(batch))
        self.offset += len(records)


def _emptied(batch: bytes) -> bytes:
    """Return a producer's last batch after compaction: its header without records."""
    header = bytearray(batch[:61])
    struct.pack_into(">i", header, 8, len(header) - 12)
    struct.pack_into(">i", header, 57, 0)
    struct.pack_into(">I", header, 17, crc32c(bytes(header[21:])))
    return bytes(header)


def _seen(log: _Log, data: bytes | None = None, from_offset: int = 0) -> list[tuple[int, bytes | None]]:
    fetched = read_fetched("t", 0, log.data if data is None else data, log.aborted, from_offset=from_offset)
    return [(record.offset, record.value) for record in fetched.records]


_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("write"), st.integers(0, 3), st.integers(1, 3)),
        st.tuples(st.just("plain"), st.integers(4, 5), st.integers(1, 3)),
        st.tuples(st.just("commit"), st.integers(0, 3), st.just(0)),
        st.tuples(st.just("abort"), st.integers(0, 3), st.just(0)),
    ),
    max_size=40,
)


def _play(steps: list[tuple[str, int, int]]) -> _Log:
    log = _Log()
    for action, producer_id, count in steps:
        match action:
            case "write" | "plain":
                values = [b"%d-%d" % (producer_id, log.offset + index) for index in range(count)]
                log.write(producer_id, values, transactional=action == "write")
            case _:
                log.end(producer_id, commit=action == "commit")
    # Close all transactions, because the broker returns nothing of open ones.
    for producer_id in range(4):
        log.end(producer_id, commit=False)
    return log


@given(_STEPS)
def test_exactly_committed_records_are_seen_in_any_interleaving(steps: list[tuple[str, int, int]]):
    log = _play(steps)
    assert _seen(log) == sorted(log.visible)


@given(_STEPS, st.data())
def test_a_read_in_parts_sees_the_same_as_one_read(steps: list[tuple[str, int, int]], data: st.DataObject):
    log = _play(steps)
    whole = data.draw(st.integers(0, len(log.batches)), label="whole batches in the first part")
    cut_off = b"".join(log.batches[whole:])[:20]
    first = read_fetched("t", 0, b"".join(log.batches[:whole]) + cut_off, log.aborted, from_offset=0)
    position = first.next_offset or 0
    # The broker lists the transactions whose abort marker is at the position or behind it.
    listed = [transaction for transaction in log.aborted if transaction.marker_offset >= position]
    rest = read_fetched("t", 0, b"".join(log.batches[whole:]), listed, from_offset=position)
    seen = [(record.offset, record.value) for record in first.records + rest.records]
    assert seen == sorted(log.visible)


@given(_STEPS)
def test_the_next_offset_is_after_the_last_batch_of_any_kind(steps: list[tuple[str, int, int]]):
    log = _play(steps)
    fetched = read_fetched("t", 0, log.data, log.aborted, from_offset=0)
    assert fetched.next_offset == (log.offset or None)


def test_a_position_within_a_batch_skips_earlier_records():
    log = _Log()
    log.write(1, [b"a", b"b", b"c"], transactional=False)
    assert _seen(log, from_offset=2) == [(2, b"c")]


@pytest.mark.parametrize("commit", [True, False])
def test_batches_that_compaction_emptied_are_read_over(*, commit: bool):
    log = _Log()
    log.write(1, [b"a"])
    log.end(1, commit=commit)
    log.write(2, [b"b"], transactional=False)
    data, marker, other = log.batches
    log.batches[:] = [_emptied(data), _emptied(marker), other]
    fetched = read_fetched("t", 0, log.data, [], from_offset=0)
    assert [record.value for record in fetched.records] == [b"b"]
    assert fetched.next_offset == log.offset
    assert fetched.markers == []


def test_a_truncated_batch_is_left_for_the_next_fetch():
    log = _Log()
    log.write(1, [b"a"], transactional=False)
    log.write(1, [b"b"], transactional=False)
    fetched = read_fetched("t", 0, log.data[:-1], [], from_offset=0)
    assert [record.value for record in fetched.records] == [b"a"]
    assert fetched.next_offset == 1


@pytest.mark.parametrize("data", [None, b""])
def test_an_empty_fetch_has_no_next_offset(data: bytes | None):
    assert read_fetched("t", 0, data, None, from_offset=5) == FetchedRecords([], None, [], [])


def test_a_corrupt_batch_is_named():
    log = _Log()
    log.write(1, [b"value"], transactional=False)
    damaged = log.data[:-1] + b"?"
    with pytest.raises(DataError, match=r"offset 0 of t-0 is corrupt"):
        _seen(log, damaged)


_KB = 1_024


@pytest.mark.parametrize("compression", Compression)
def test_a_batch_beyond_the_budget_is_skipped_and_the_others_are_read(compression: Compression):
    log = _Log()
    log.write(1, [b"before"], transactional=False)
    log.write_compressed([b"small", b"a" * 100 * _KB], compression)
    log.write(1, [b"after"], transactional=False)
    fetched = read_fetched("t", 0, log.data, [], from_offset=0, budget=DecodingBudget(50 * _KB))
    assert [record.value for record in fetched.records] == [b"before", b"after"]
    assert (fetched.skipped, fetched.next_offset) == ([SkippedBatch(0, 1, 2)], 4)


@pytest.mark.parametrize("compression", Compression)
def test_batches_that_exceed_the_budget_together_come_one_after_the_other(compression: Compression):
    log = _Log()
    for number in range(10):
        log.write_compressed([bytes([number]) * 20 * _KB], compression)
    seen, position = [], 0
    while position < 10:
        part = read_fetched(
            "t", 0, b"".join(log.batches[position:]), [], from_offset=position, budget=DecodingBudget(50 * _KB)
        )
        assert len(part.records) == 2
        seen += [record.value[0] for record in part.records if record.value]
        position = part.next_offset or 0
    assert seen == list(range(10))


def test_records_count_as_well_as_their_bytes():
    log = _Log()
    log.write(1, [b""] * 1_000, transactional=False)
    fetched = read_fetched("t", 0, log.data, [], from_offset=0, budget=DecodingBudget(50 * _KB))
    assert (fetched.records, fetched.skipped) == ([], [SkippedBatch(0, 0, 999)])


def test_a_spent_budget_leaves_a_partition_where_it_is():
    log, budget = _Log(), DecodingBudget(50 * _KB)
    log.write_compressed([b"a" * 40 * _KB], Compression.ZSTD)
    assert len(read_fetched("t", 0, log.data, [], from_offset=0, budget=budget).records) == 1
    assert read_fetched("t", 1, log.data, [], from_offset=0, budget=budget) == FetchedRecords([], None, [], [])


def _batch(record: bytes) -> bytes:
    """A batch of one record, given by the bytes after its length."""
    content = signed_varint(len(record)) + record
    checked = struct.pack(">hiqqqhii", 0, 0, 1_000, 1_000, -1, -1, -1, 1) + content
    return struct.pack(">qiibI", 0, len(checked) + 9, -1, 2, crc32c(checked)) + checked


def test_headers_count_as_what_they_take_in_memory():
    # Each header takes two bytes in the record, but a tuple in memory.
    record = b"\0\0\0" + signed_varint(-1) + signed_varint(0)
    data = _batch(record + signed_varint(10_000) + b"\0\1" * 10_000)
    fetched = read_fetched("t", 0, data, [], from_offset=0, budget=DecodingBudget(500 * _KB))
    assert (fetched.records, fetched.skipped, fetched.next_offset) == ([], [SkippedBatch(0, 0, 0)], 1)
    fetched = read_fetched("t", 0, data, [], from_offset=0, budget=DecodingBudget(5_000 * _KB))
    assert len(fetched.records[0].headers) == 10_000


def test_a_batch_that_cannot_be_read_is_skipped_with_a_budget_and_named_without_one():
    # Brokers accept a header whose name is not UTF-8.
    record = b"\0\0\0" + signed_varint(-1) + signed_varint(0) + signed_varint(1) + b"\2\xff\1"
    data = _batch(record)
    (skipped,) = read_fetched("t", 0, data, [], from_offset=0, budget=DecodingBudget(_KB)).skipped
    assert skipped[:3] == (0, 0, 0)
    assert "utf-8" in skipped.problem
    with pytest.raises(DataError, match=r"offsets 0 to 0 of t-0 cannot be read: .*utf-8"):
        read_fetched("t", 0, data, [], from_offset=0)
