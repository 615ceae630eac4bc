"""The CSV grammar of splitter, reader and task, compared with Python's `csv`. `make fuzz` runs more cases."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.csv_files import Case, check, check_task

SEEDS = st.integers(0, 1 << 40)


@settings(max_examples=150)
@given(seed=SEEDS)
def test_random_csv_is_read_as_python_does_wherever_it_is_cut(seed: int) -> None:
    check(Case.of(seed))


@settings(max_examples=25)
@given(seed=SEEDS)
def test_a_task_reads_random_csv_as_python_does_wherever_a_file_grows(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    check_task(Case.of(seed), tmp_path_factory.mktemp("csv"))
