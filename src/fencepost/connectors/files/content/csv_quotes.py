r"""Finds which quotes in CSV open and close fields, and thus which line ends are part of a field.

pyarrow's parser uses the same grammar. Python's `csv` does too, with the exceptions in docs/connectors/file.md. A quote
opens a field only as the field's first character. Elsewhere outside of quotes, a quote is an ordinary character:

    FIELD_BEGIN --quote--> QUOTED                    delimiter, line end: to FIELD_BEGIN from all states but QUOTED
         |                  | ^
         |              quote quote
      any other             v |
         +--> FIELD <--any-- CLOSED
              other

An escape character makes the next character part of the field, in each state.

The state after a quote depends only on the previous quotes and the characters right before them. So only quotes are
examined, with a few numpy operations on all of them.
"""

from __future__ import annotations

import codecs
import operator
from dataclasses import dataclass
from functools import reduce
from typing import Final

import numpy as np
import numpy.typing as npt

BYTE_ORDER_MARK: Final = codecs.BOM_UTF8

_LF: Final = 10
_CR: Final = 13
_SEARCHED_AT_ONCE: Final = 1 << 18

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Quoting:
    """The ASCII characters that delimit and quote fields; `quote` and `escape` may be None."""

    delimiter: int = ord(",")
    quote: int | None = ord('"')
    escape: int | None = None


@dataclass(frozen=True, slots=True)
class OpenEnd:
    """The quote or escape character, at `position`, that keeps the last field of a text open."""

    position: int
    is_quote: bool


def positions_of(array: Bytes, *codes: int) -> Positions:
    """Return the positions of bytes with any of these codes, in ascending order.

    A block is compared in parts, to save time: if the results of a whole block were in memory at once, this memory
    would be returned to the system after each call, and the system would clear it before the next call.
    """
    found = [np.empty(0, np.int64)]
    for first in range(0, len(array), _SEARCHED_AT_ONCE):
        part = array[first : first + _SEARCHED_AT_ONCE]
        found.append(np.flatnonzero(reduce(operator.or_, (part == code for code in codes))) + first)
    return np.concatenate(found)


def without_escaped(array: Bytes, escape: int) -> Bytes:
    """Return the bytes with each escaped character replaced by 0."""
    active = _active_escapes(array, escape)
    if not len(active):
        return array
    plain = array.copy()
    plain[active[active + 1 < len(array)] + 1] = 0
    return plain


def _active_escapes(array: Bytes, escape: int) -> Positions:
    positions = positions_of(array, escape)
    begins = np.append(np.True_, np.diff(positions) > 1)[: len(positions)]
    run = np.maximum.accumulate(np.where(begins, np.arange(len(positions)), 0))
    active: Positions = positions[(np.arange(len(positions)) - run) % 2 == 0]
    return active


def outside_quotes(plain: Bytes, ends: Positions, quoting: Quoting, begin: int) -> Flags:
    """Return, for each line end, whether it is outside of quotes. `ends` are in ascending order.

    `plain` are the block's bytes, in which escaped characters are replaced. They contain at least one quote. The first
    field starts at `begin`.
    """
    assert quoting.quote is not None  # noqa: S101 - there is one
    quotes = positions_of(plain, quoting.quote)
    before = np.searchsorted(quotes, ends)
    if _are_pairs(plain, quotes, quoting, begin):
        return np.equal(before % 2, 0)
    # No quoted field is open before the first quote.
    is_open = np.append(np.False_, _opening(plain, quotes, quoting, begin))
    return np.logical_not(is_open[before])


def open_end(record: bytes | bytearray, quoting: Quoting, begin: int = 0) -> OpenEnd | None:
    """Return the quote or escape character that keeps the last record open at its end, None if the record is complete.

    Only the last record of a file can be open.
    """
    plain = np.frombuffer(record, np.uint8)
    if quoting.escape is not None and record.find(bytes([quoting.escape])) >= 0:
        active = _active_escapes(plain, quoting.escape)
        if active[-1] == len(record) - 1:
            return OpenEnd(len(record) - 1, is_quote=False)
        plain = without_escaped(plain, quoting.escape)
    if quoting.quote is None or record.find(bytes([quoting.quote])) < 0:
        return None
    quotes = np.flatnonzero(plain == quoting.quote)
    opening = _opening(plain, quotes, quoting, begin)
    if not len(quotes) or not opening[-1]:
        return None
    at_begin = _at_field_begin(plain, quotes, quoting, begin)
    return OpenEnd(int(quotes[opening & at_begin][-1]), is_quote=True)


def _are_pairs(plain: Bytes, quotes: Positions, quoting: Quoting, begin: int) -> bool:
    """Return whether the quotes simply alternate between opening and closing.

    Two quotes in a row within a field count as a closing and an opening quote. The check is cheap, and the result is
    True for the output of most programs.
    """
    opening = quotes[::2]
    if not len(opening):
        return True
    allowed = _after(quoting)
    allowed[quoting.quote] = True
    if opening[0] == begin:
        opening = opening[1:]
    elif opening[0] == 0:
        return False
    return bool(allowed.take(plain.take(opening - 1)).all())


def _after(quoting: Quoting) -> Flags:
    """Return for each byte whether a field may begin after it."""
    table = np.zeros(256, np.bool_)
    table[[quoting.delimiter, _LF, _CR]] = True
    return table


def _at_field_begin(plain: Bytes, quotes: Positions, quoting: Quoting, begin: int) -> Flags:
    """Return which quotes are the first character of a field, provided that they are not within quotes."""
    found: Flags = _after(quoting).take(plain.take(quotes - 1, mode="wrap"))
    found[:1] = (quotes[:1] == begin) | (found[:1] & (quotes[:1] > 0))
    return found


def _opening(plain: Bytes, quotes: Positions, quoting: Quoting, begin: int) -> Flags:
    """Return, for each quote, whether the state after it is QUOTED.

    A head is a quote that may open a field (`heads`). A run is a head and all quotes before the next head. The effect
    of a run's quotes depends only on the state before the run. In the state QUOTED, the head closes a field; in all
    other states, it opens a field. The next quotes alternately open and close. The alternation ends at the first quote
    that comes after a closing quote, but not directly after it (`loose`). This quote and the later quotes of the run
    are ordinary characters.
    """
    count = len(quotes)
    at_begin = _at_field_begin(plain, quotes, quoting, begin)
    heads = np.flatnonzero(at_begin)
    if not len(heads):
        return np.zeros(count, np.bool_)
    run = np.cumsum(at_begin) - 1
    # For quotes before the first head, `run` is wrong. They open no field, so their flags are cleared at the end.
    odd: Flags = np.equal((np.arange(count) - heads[run]) % 2, 1)
    loose = ~at_begin & (plain.take(quotes - 1, mode="wrap") != quoting.quote)
    ends = np.append(heads[1:], count)
    # For each run, the index in `quotes` at which the alternation ends. It depends on whether the run's head opens or
    # closes a field.
    if_opens = np.minimum(_next_of(np.flatnonzero(loose & ~odd), heads, count), ends)
    if_closes = np.minimum(_next_of(np.flatnonzero(loose & odd), heads, count), ends)
    # If a run ends within quotes, the next head closes.
    even_length = (ends - heads) % 2 == 0
    flips = ~even_length & (if_opens == ends)
    keeps = even_length & (if_closes == ends)
    closes = _states_before(flips, keeps)[run]
    until = np.where(closes, if_closes[run], if_opens[run])
    open_after: Flags = np.logical_and(np.equal(odd, closes), np.arange(count) < until)
    open_after[: int(heads[0])] = False
    return open_after


def _next_of(positions: Positions, since: Positions, none: int) -> Positions:
    """Return, for each position in `since`, the first of `positions` at or after it, or `none`."""
    found: Positions = np.append(positions, none)[np.searchsorted(positions, since)]
    return found


def _states_before(flips: Flags, keeps: Flags) -> Flags:
    """Return the state before each step of a sequence. A step flips the state, keeps it, or else clears it.

    The state is clear before the first step.
    """
    flipped: Positions = np.cumsum(flips)
    since = np.maximum.accumulate(np.where(flips | keeps, 0, flipped))
    after: Flags = np.equal((flipped - since) % 2, 1)
    return np.append(np.False_, after[:-1])
