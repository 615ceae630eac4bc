"""Prepares error texts for logs and statuses."""

from __future__ import annotations

import re
from typing import Final

LEFT_OUT: Final = re.compile(r" \.\.\. \(\d+ characters left out\) \.\.\. ")
"""Matches the text that `shortened` puts in place of the omitted middle."""


def printable(text: str) -> str:
    """Return a text with control and format characters escaped, except line ends and tabs, for logs in terminals."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in "\n\t" else c.encode("unicode_escape").decode() for c in text)


def shortened(text: str, longest: int) -> str:
    """Return a text. If it has more than `longest` characters, its middle is omitted, and the number omitted is shown.

    Hide passwords before calling this: a password that is cut in half is not found any more.
    """
    half = longest // 2
    left_out = len(text) - 2 * half
    return text if left_out <= 0 else f"{text[:half]} ... ({left_out} characters left out) ... {text[-half:]}"
