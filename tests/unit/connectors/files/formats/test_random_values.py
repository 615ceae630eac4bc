"""Random values in all file formats are read like Python reads them, or refused: see `tests/fuzz/values.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.values import check


@settings(max_examples=150)
@given(seed=st.integers(0, 2**32))
def test_random_values_are_read_as_python_reads_them(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    directory: Path = tmp_path_factory.mktemp("values")
    check(seed, directory / "data")
