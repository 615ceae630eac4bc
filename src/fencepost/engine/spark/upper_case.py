"""Finds the characters for which Spark's upper() differs from Python's: they use different versions of Unicode."""

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
"""The number of characters that are put into one text, so that there are few rows."""

_OF_LANGUAGES: Final = "i\u0307 \u03ac \u0587"
"""Letters whose upper case differs in the rules of a language: Turkish, Azeri, Lithuanian, Greek or Armenian."""


@lru_cache(maxsize=4)
def upper_exceptions(session: SparkSession, settings: int) -> Mapping[str, str] | None:
    """Return the characters that Spark, with these settings, converts to another upper case than Python.

    Each character is mapped to Spark's upper case. Spark is asked for each character of Unicode, which takes 0.3 s.
    This suffices, because a character's upper case does not depend on the other characters in the text.

    Returns None if the JVM's language has its own rules. Spark applies such rules only to texts that are not ASCII. In
    some of these languages, a character's upper case depends on other characters in the text.
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
    result = frame.selectExpr("upper(c)")
    table = local_rows(result)
    upper: list[str] = (result.toArrow() if table is None else table).column(0).to_pylist()
    return upper
