"""Computes the partition of keys, as every Kafka client does, for whole columns of keys.

Kafka's clients hash the key's bytes with MurmurHash2 (32 bits, seed 0x9747b28c), drop the sign bit and take the
remainder (https://kafka.apache.org/documentation/#producerconfigs_partitioner.class). MurmurHash2 is Austin Appleby's,
in the public domain (https://github.com/aappleby/smhasher): each block of four bytes is scrambled separately and then
mixed into the hash, so the next blocks of all keys are processed together.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from fencepost.kafka.records.columns import OutgoingRecord, Records, byte_offsets, normalize_binary

_SEED = np.uint32(0x9747B28C)
_MULTIPLIER = np.uint32(0x5BD1E995)
_MIX = np.uint32(24)
_POSITIVE = 0x7FFFFFFF
_BLOCK = 4
_FEW = 8
"""For fewer keys than this, a numpy call for each block would be slower."""


def murmur2(keys: pa.Array) -> NDArray[np.int32]:
    """Return Kafka's hash of each key: bytes or text of any Arrow type. A null has the hash of the empty key."""
    column = normalize_binary(keys, "key")
    offsets = byte_offsets(column).astype(np.int64)
    data = np.frombuffer(column.buffers()[2] or b"", np.uint8)
    starts, lengths = offsets[:-1], np.diff(offsets)
    if column.null_count:
        lengths = np.where(column.is_null().to_numpy(zero_copy_only=False), 0, lengths)
    hashes = _mix_blocks(data, starts, lengths, _SEED ^ lengths.astype(np.uint32))
    hashes = _mix_tail(data, starts + (lengths & -_BLOCK), lengths & (_BLOCK - 1), hashes)
    hashes ^= hashes >> np.uint32(13)
    hashes *= _MULTIPLIER
    hashes ^= hashes >> np.uint32(15)
    return hashes.view(np.int32)


def partition_for_keys(keys: pa.Array, partitions: int) -> NDArray[np.int32]:
    """Return the partition of each key in a topic with this number of partitions. A null may get any partition."""
    return (murmur2(keys) & np.int32(_POSITIVE)) % np.int32(partitions)


def records_by_partition(records: Sequence[OutgoingRecord], partitions: int) -> dict[int, Records]:
    """Return the records for each partition of a topic with this number of partitions, in order.

    If a record names a partition that does not exist, the hash of its key determines the partition.
    """
    every = Records.of(records)
    if partitions == 1 and records:
        return {0: every}
    hashed = partition_for_keys(every.key, partitions)
    named = np.array([-1 if record.partition is None else record.partition for record in records], np.int64)
    targets = np.where((named >= 0) & (named < partitions), named, hashed)
    found = np.unique(targets).tolist()
    if len(found) == 1:
        return {found[0]: every}
    return {target: every.take(np.flatnonzero(targets == target)) for target in found}


def _mix_blocks(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], hashes: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Mix all complete blocks of all keys into the hashes."""
    blocks = lengths // _BLOCK
    most = int(blocks.max(initial=0))
    if not most:
        return hashes
    # A view in which a block can begin at any position of the data, because keys begin anywhere.
    window = np.ndarray(len(data) - _BLOCK + 1, "<u4", data, strides=(1,))
    if len(blocks) > _FEW and int(blocks.min()) == most:
        for block in range(most):
            hashes = _mixed(hashes, window[starts + _BLOCK * block])
        return hashes
    order = np.argsort(-blocks, kind="stable")
    starts, blocks, sorted_hashes = starts[order], blocks[order], hashes[order]
    # The number of keys with more than 0, 1, 2 ... blocks. Keys are sorted by length, the longest first.
    alive = len(blocks) - np.cumsum(np.bincount(blocks))[:-1]
    for block, count in enumerate(alive.tolist()):
        if count <= _FEW:
            _mix_long_keys(window, starts[:count], blocks[:count], block, sorted_hashes)
            break
        sorted_hashes[:count] = _mixed(sorted_hashes[:count], window[starts[:count] + _BLOCK * block])
    hashes[order] = sorted_hashes
    return hashes


def _mix_long_keys(
    window: NDArray[np.uint32],
    starts: NDArray[np.int64],
    blocks: NDArray[np.int64],
    done: int,
    hashes: NDArray[np.uint32],
) -> None:
    """Mix the remaining blocks of the few long keys into their hashes, key by key."""
    multiplier = int(_MULTIPLIER)
    for row, (start, count) in enumerate(zip(starts.tolist(), blocks.tolist(), strict=True)):
        value = int(hashes[row])
        for scrambled in _scrambled(window[start + _BLOCK * done : start + _BLOCK * count : _BLOCK]).tolist():
            value = (value * multiplier & 0xFFFFFFFF) ^ scrambled
        hashes[row] = value


def _mixed(hashes: NDArray[np.uint32], words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    return (hashes * _MULTIPLIER) ^ _scrambled(words)


def _scrambled(words: NDArray[np.uint32]) -> NDArray[np.uint32]:
    words = words * _MULTIPLIER
    words ^= words >> _MIX
    words *= _MULTIPLIER
    return words


def _mix_tail(
    data: NDArray[np.uint8], starts: NDArray[np.int64], lengths: NDArray[np.int64], hashes: NDArray[np.uint32]
) -> NDArray[np.uint32]:
    """Mix the one to three bytes after the last complete block of each key into the hashes."""
    for byte in (2, 1, 0):
        rows = np.flatnonzero(lengths > byte)
        hashes[rows] ^= data[starts[rows] + byte].astype(np.uint32) << np.uint32(8 * byte)
    hashes[rows] *= _MULTIPLIER
    return hashes
