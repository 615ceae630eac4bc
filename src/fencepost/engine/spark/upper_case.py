"""Finds where Spark's upper() differs from Python's: they know different versions of Unicode."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import types as t

from fencepost.engine.spark.arrow_rows import frame_from_arrow
from fencepost.engine.spark.local_rows import local_rows

_SURROGATES: Final = range(0xD800, 0xE000)
_BETWEEN: Final = "\x01"
_TOGETHER: Final = 512
"""The number of characters in one text: of rows there are few, then."""

_OF_LANGUAGES: Final = "i\u0307 \u03ac \u0587"
"""A letter of each language (Turkish, Azeri, Lithuanian, Greek, Armenian) whose upper case is another one in that language."""


@lru_cache(maxsize=4)
def upper_exceptions(session: SparkSession, settings: int) -> Mapping[str, str] | None:
    """Return the characters whose upper case in a session with these settings differs from Python's, with Spark's.

    Spark is asked for each character of Unicode, which takes 0.3 s; a character's upper case does not depend on the
    others in the text. None if the JVM's language has rules of its own: Spark applies them only to texts that are not
    ASCII, and some of them depend on other characters.
    """
    del settings
    if _upper(session, [_OF_LANGUAGES]) != [_OF_LANGUAGES.upper()]:
        return None
    characters = [chr(code) for code in range(1_114_112) if code not in _SURROGATES and chr(code) != _BETWEEN]
    texts = [_BETWEEN.join(characters[start : start + _TOGETHER]) for start in range(0, len(characters), _TOGETHER)]
    found = [character for text in _upper(session, texts) for character in text.split(_BETWEEN)]
    return {given: upper for given, upper in zip(characters, found, strict=True) if upper != given.upper()}


def _upper(session: SparkSession, texts: list[str]) -> list[str]:
    frame = frame_from_arrow(
        session, pa.RecordBatch.from_pydict({"c": pa.array(texts)}), t.StructType().add("c", "string")
    )
    made = frame.selectExpr("upper(c)")
    table = local_rows(made)
    upper: list[str] = (made.toArrow() if table is None else table).column(0).to_pylist()
    return upper
