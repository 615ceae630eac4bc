"""An older variant of MurmurHash3 for 64-bit machines, as an expression of Spark's SQL.

Debezium's `io.debezium.util.MurmurHash3` computes this variant with the seed 9001, and uses the upper half of the first
64 bits. The variant differs from the final version (https://github.com/aappleby/smhasher) in two ways: the multipliers
change with each block of 16 bytes, and the bytes of an incomplete last block are signed.
"""

from __future__ import annotations

from typing import Final

_SEED: Final = 9001
_START: Final = {
    "h1": -7824752305899900300 ^ _SEED,
    "h2": 6371974587529090045 ^ _SEED,
    "c1": -8663945395140668459,
    "c2": 5545529020109919103,
}
_AFTER_BLOCK: Final = {"h1": (3, 1390208809), "h2": (3, 944331445), "c1": (5, 2071795100), "c2": (5, 1808688022)}
"""For each part of the state, the factor and the summand that are applied at the end of a block."""


def murmur_of(digits: str) -> str:
    """Return an expression for the hash of bytes: a BIGINT of 32 bits.

    `digits` is an expression for the bytes as hexadecimal digits in upper case.
    """
    start = ", ".join(f"'{name}', {value}" for name, value in _START.items())
    mixed = _sum(_mixed("h"), _mixed(_sum("e", "h")))
    ended = _let(
        "e", f"s.h2 ^ length({digits}) div 2", _let("h", _sum("s.h1", "e"), f"shiftrightunsigned({mixed}, 32)")
    )
    blocks = f"regexp_extract_all({digits}, '.{{1,32}}', 0)"
    return f"aggregate({blocks}, named_struct({start}), (s, b) -> {_after_block()}, s -> {ended})"


def _after_block() -> str:
    """Return an expression for the state after a block `b` of digits."""
    first = _sum(f"s.h1 ^ {_scrambled('left(b, 16)', 's.c1', 's.c2')}", "s.h2")
    second = _sum(f"{_rotated('s.h2', 41)} ^ {_scrambled('substring(b, 17)', 's.c2', 's.c1')}", "a")
    parts = {"h1": "a", "h2": second, "c1": "s.c1", "c2": "s.c2"}
    fields = (
        f"'{name}', {_wrapped(f'{_wide(parts[name])} * {factor} + {summand}')}"
        for name, (factor, summand) in _AFTER_BLOCK.items()
    )
    return _let("a", first, f"named_struct({', '.join(fields)})")


def _scrambled(half: str, before: str, after: str) -> str:
    """Return an expression for the bytes of half a block as one number, lowest byte first, multiplied and rotated."""
    byte = "CAST(conv(x, 16, 10) AS BIGINT) - CASE WHEN length(b) < 32 AND x >= '80' THEN 256 ELSE 0 END"
    shifted = f"transform(regexp_extract_all({half}, '..', 0), (x, i) -> shiftleft({byte}, 8 * i))"
    word = f"aggregate({shifted}, CAST(0 AS BIGINT), (k, x) -> k ^ x)"
    return _product(_rotated(_product(word, before), 23), after)


def _mixed(value: str) -> str:
    last = "k ^ shiftrightunsigned(k, 33)"
    factors = "array(-49064778989728563, -4265267296055464877)"
    return f"aggregate({factors}, {value}, (k, m) -> {_product(last, 'm')}, k -> {last})"


def _let(name: str, value: str, body: str) -> str:
    """Return an expression that names a value, so that the value is computed only once."""
    return f"transform(array({value}), {name} -> {body})[0]"


def _rotated(value: str, bits: int) -> str:
    return _let("r", value, f"shiftleft(r, {bits}) | shiftrightunsigned(r, {64 - bits})")


def _sum(one: str, other: str) -> str:
    return _wrapped(f"{_wide(one)} + {_wide(other)}")


def _product(one: str, other: str) -> str:
    return _wrapped(f"{_wide(one)} * {_wide(other)}")


def _wide(value: str) -> str:
    """Return a BIGINT as a decimal, because Spark refuses BIGINT sums and products of more than 64 bits."""
    return f"CAST({value} AS DECIMAL(19, 0))"


def _wrapped(value: str) -> str:
    """Return the lowest 64 bits of a decimal as a BIGINT."""
    return f"CAST(pmod({value} + {1 << 63}, {1 << 64}) - {1 << 63} AS BIGINT)"
