"""CPU time a record takes in the record batch encoder and the partitioner.

Run: .venv/bin/python bench/encoder.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import pyarrow as pa

from fencepost.kafka.producer.partitioner import murmur2
from fencepost.kafka.records.columns import HEADERS, Records
from fencepost.kafka.records.compression import Compression
from fencepost.kafka.records.record_batch import encode, split_by_bytes

ROUNDS = 15
REPEATS = 20
BATCH = 10_000
SMALL_BATCH = 100
LIMIT = 2 * 1024 * 1024


def nanoseconds(records: int, run: Callable[[], object], repeats: int = REPEATS) -> tuple[float, float]:
    """Median and spread (half the distance of the quartiles) of a record's CPU time."""
    run()
    times = []
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        for _ in range(repeats):
            run()
        times.append((time.process_time_ns() - start) / repeats / records)
    low, middle, high = statistics.quantiles(times, n=4)
    return middle, (high - low) / 2


def column(lengths: np.ndarray[tuple[int], np.dtype[np.int64]]) -> pa.Array:
    """Random values of these lengths."""
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    data = np.random.default_rng(0).bytes(int(offsets[-1]))
    return pa.Array.from_buffers(pa.binary(), len(lengths), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def encoded(records: Records, compression: Compression = Compression.NONE) -> list[memoryview]:
    return encode(
        records,
        producer_id=1,
        producer_epoch=1,
        base_sequence=0,
        transactional=True,
        compression=compression,
        now_ms=1_700_000_000_000,
    )


def shapes() -> dict[str, Records]:
    random = np.random.default_rng(1)
    even, uneven = column(np.full(BATCH, 100)), column(random.integers(20, 180, BATCH))
    keys = column(random.integers(5, 30, BATCH))
    times = pa.array(1_700_000_000_000 + np.sort(random.integers(0, 60_000, BATCH)))
    headers = pa.array([[{"key": "source", "value": b"bench"}] * (row % 3) for row in range(BATCH)], HEADERS)
    return {
        "values of 100 bytes": Records(even),
        "values of 20-180 bytes": Records(uneven),
        "the same, with timestamps": Records(uneven, timestamp=times),
        "the same, with keys of 5-29 bytes": Records(uneven, key=keys),
        "the same, with 0-2 headers": Records(uneven, headers=headers),
    }


def settle_the_allocator() -> int:
    """Free a few megabytes once, as every process that reads data has: glibc keeps freed memory from then on."""
    return len(bytearray(2 * LIMIT))


def main() -> None:
    settle_the_allocator()
    print(f"{'encode':40} ns of CPU a record, +- spread")
    for name, records in shapes().items():
        middle, spread = nanoseconds(BATCH, partial(encoded, records))
        print(f"{name:40} {middle:8.1f} +- {spread:.1f}")
    small = Records(column(np.full(SMALL_BATCH, 100)))
    middle, spread = nanoseconds(SMALL_BATCH, lambda: encoded(small))
    print(f"{'a batch of 100 values':40} {middle:8.1f} +- {spread:.1f}")
    print("\nother steps, 10,000 records")
    records = shapes()["values of 20-180 bytes"]
    middle, spread = nanoseconds(BATCH, lambda: list(split_by_bytes(records, LIMIT)))
    print(f"{'split by bytes':40} {middle:8.1f} +- {spread:.1f}")
    for name, lengths in (("8", np.full(BATCH, 8)), ("5-29", np.random.default_rng(2).integers(5, 30, BATCH))):
        keys = column(lengths)
        middle, spread = nanoseconds(BATCH, partial(murmur2, keys))
        print(f"{f'hash keys of {name} bytes':40} {middle:8.1f} +- {spread:.1f}")
    lines = Records(
        pa.array([b'{"id": %d, "name": "name-%d", "amount": %.2f}' % (n, n % 97, n / 7) for n in range(BATCH)])
    )
    plain = sum(map(len, encoded(lines)))
    for codec in Compression:
        size = sum(map(len, encoded(lines, codec)))
        middle, spread = nanoseconds(BATCH, partial(encoded, lines, codec), repeats=3)
        print(f"{f'JSON lines, {codec}, to {size / plain:.0%}':40} {middle:8.1f} +- {spread:.1f}")


if __name__ == "__main__":
    main()
