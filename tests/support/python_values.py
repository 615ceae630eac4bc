"""How Python's own parsers read texts of CSV and JSON lines, in the grammar of docs/connectors/file.md."""

from __future__ import annotations

import json
import math
import re
import struct
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any, Final

REFUSED: Final = "refused"
BITS: Final = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
EXACT: Final = Context(prec=200)
MOST: Final = 38
BOOLEANS: Final = {"true": True, "True": True, "TRUE": True, "1": True, "false": False, "False": False, "FALSE": False, "0": False}  # fmt: skip
TEXTS: Final = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "STRING")
"""Types whose JSON values are strings."""

_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+", re.ASCII)
_DAY: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII)
_MOMENT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})([T ]([0-9]{2})(:([0-9]{2})(:([0-9]{2})(\.([0-9]{1,6}))?)?)?(Z|[+-][0-9]{2}(:?[0-9]{2})?)?)?",
    re.ASCII,
)
_NOT_FINITE: Final = re.compile(r"[+-]?(inf|infinity|nan)", re.IGNORECASE | re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def numbers_of(kind: str) -> tuple[int, int]:
    """The precision and scale of a DECIMAL."""
    precision, scale = re.findall(r"[0-9]+", kind)
    return int(precision), int(scale)


def csv_value(kind: str, text: str) -> Any:
    """The expected value of a CSV field."""
    if kind == "STRING":
        return text
    if kind == "BINARY":
        return text.encode()
    return _value(kind, text.strip(" \t"))


def json_value(kind: str, text: str) -> Any:
    """The expected value of a JSON value, given as its JSON text."""
    if text == "null":
        return None
    quoted = text.startswith('"')
    inner = json.loads(text) if quoted else text
    if kind == "STRING":
        return inner if quoted else REFUSED
    if kind in BITS:
        fits = re.fullmatch(r"-?[0-9]+", text) is not None
    elif kind in ("FLOAT", "DOUBLE"):
        fits = not quoted and not _is_zero_with_exponent(text)
    elif kind == "BOOLEAN":
        fits = text in ("true", "false")
    else:
        fits = quoted or kind not in TEXTS
    return _value(kind, inner) if fits else REFUSED


def _is_zero_with_exponent(text: str) -> bool:
    """Whether the number is a zero with an exponent so large that the DOUBLE parser refuses it."""
    mantissa, _, exponent = text.lower().partition("e")
    return (
        text not in ("true", "false")
        and float(text) == 0
        and int(exponent or 0) - len(mantissa.partition(".")[2]) > 308
    )


def _value(kind: str, text: str) -> Any:
    """The value that Python reads, if the text is in the documented grammar."""
    if kind in BITS:
        edge = 1 << (BITS[kind] - 1)
        return int(text) if _WHOLE.fullmatch(text) and -edge <= int(text) < edge else REFUSED
    if kind.startswith("DECIMAL"):
        return _decimal(kind, text)
    if kind in ("FLOAT", "DOUBLE"):
        return _float(kind, text)
    if kind == "BOOLEAN":
        return BOOLEANS.get(text, REFUSED)
    return _time(kind, text)


def _decimal(kind: str, text: str) -> Any:
    precision, scale = numbers_of(kind)
    if not _NUMBER.fullmatch(text):
        return REFUSED
    mantissa, _, exponent = text.lower().lstrip("+-").partition("e")
    whole, _, fraction = mantissa.partition(".")
    if len(exponent.lstrip("+-0")) > 6:
        return REFUSED
    places = len(fraction) - int(exponent or 0)
    # A decimal has at most 38 digits without leading zeros, with at most 38 after the point.
    if places > MOST or len(whole.lstrip("0")) + len(fraction) + max(0, -places) > MOST:
        return REFUSED
    number = Decimal(text)
    kept = number.quantize(Decimal(1).scaleb(-scale), context=EXACT)
    return kept if kept == number and kept.copy_abs() < Decimal(10) ** (precision - scale) else REFUSED


def _float(kind: str, text: str) -> Any:
    if _NOT_FINITE.fullmatch(text):
        return float(text)
    if not _NUMBER.fullmatch(text):
        return REFUSED
    number = float(text) if kind == "DOUBLE" else _float32(text)
    return REFUSED if math.isinf(number) else number


def _float32(text: str) -> float:
    """The nearest float32, which rounding to float64 first could miss."""
    twice = float(text)
    if abs(twice) >= 2.0**128 or twice == 0:
        return math.copysign(math.inf, twice) if twice else twice
    exact = Fraction(Decimal(text))
    try:
        bits = struct.unpack("<i", struct.pack("<f", abs(twice)))[0]
    except OverflowError:
        bits = 0x7F7FFFFF
    near = [n for n in (bits - 1, bits, bits + 1) if n >= 0]
    # 2^128 stands for infinity.
    values = [
        Fraction(2) ** 128 if n == 0x7F800000 else Fraction(struct.unpack("<f", struct.pack("<i", n))[0]) for n in near
    ]
    best = min(range(len(near)), key=lambda n: (abs(values[n] - abs(exact)), near[n] % 2))
    number = math.inf if values[best] == Fraction(2) ** 128 else float(values[best])
    return math.copysign(number, twice)


def _time(kind: str, text: str) -> Any:
    try:
        if kind == "DATE":
            return (date.fromisoformat(text) - _EPOCH.date()).days if _DAY.fullmatch(text) else REFUSED
        found = _MOMENT.fullmatch(text)
        if found is None or (kind == "TIMESTAMP_NTZ" and found[10]):
            return REFUSED
        day = date.fromisoformat(found[1])
        clock = (int(found[3] or 0), int(found[5] or 0), int(found[7] or 0), int((found[9] or "0").ljust(6, "0")))
        moment = datetime(day.year, day.month, day.day, *clock, tzinfo=_zone(found[10] or "Z")).astimezone(UTC)
    except (ValueError, OverflowError):
        return REFUSED
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _zone(text: str) -> timezone:
    if text == "Z":
        return UTC
    digits = text[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if minutes > 59:
        raise ValueError
    return timezone(timedelta(hours=hours, minutes=minutes) * (-1 if text[0] == "-" else 1))
