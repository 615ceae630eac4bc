"""Languages whose upper-case rules Python does not have: Spark evaluates upper() in a JVM with that language."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from fencepost.engine.engine import SparkEngine
from fencepost.engine.spark.upper_case import upper_exceptions

ROOT = Path(__file__).parents[4]
IN_TURKISH = """
from pyspark.sql import SparkSession
from tests.broker.engine.spark.test_arrow_plans import planned, sql
options = {"spark.ui.enabled": "false", "spark.driver.extraJavaOptions": "-Duser.language=tr"}
session = SparkSession.builder.master("local[1]").config(map=options).getOrCreate()
upper = [row[0] for row in session.sql("SELECT upper(c) FROM VALUES ('i'), ('i\u00fc') AS t(c)").collect()]
plans = [planned(session, sql(value=f"struct({value} AS s)")) is None for value in ("upper(value.s)", "value.s")]
print(ascii((upper, plans)))
"""


def test_a_jvm_with_upper_case_of_its_own_language_evaluates_it():
    """Turkish has a capital I with a dot. Spark uses it for the i of texts with non-ASCII letters only."""
    command = [sys.executable, "-c", IN_TURKISH]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=240, cwd=ROOT)
    assert run.stdout.strip() == ascii((["I", "\u0130\u00dc"], [True, False]))


@pytest.mark.parametrize("language", ["az", "lt", "el", "hy", "tr"])
def test_each_language_with_an_upper_case_of_its_own_is_found(engine: SparkEngine, language: str):
    session = engine.session()
    locales: Any = session.sparkContext._jvm.java.util.Locale  # type: ignore[union-attr]
    before = locales.getDefault()
    locales.setDefault(locales.forLanguageTag(language))
    try:
        assert upper_exceptions.__wrapped__(session, 0) is None
    finally:
        locales.setDefault(before)
