"""bench/growth.py runs to its end, with sizes too small for real figures."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
SIZES = {"connectors": [2], "tasks": [3], "partitions": [5], "topics": [1, 2], "files": [4]}


def test_each_part_of_the_growth_bench_prints_its_rows(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    growth, worker = map(importlib.import_module, ("growth", "growth_worker"))
    monkeypatch.setattr(worker, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(worker, "IDLE_SECONDS", 0.1)
    sizes = [text for part, some in SIZES.items() for text in (f"--{part}", *map(str, some))]
    monkeypatch.setattr("sys.argv", ["growth.py", *sizes])
    growth.main()
    printed = capsys.readouterr().out
    *tables, told = printed.split("\n\n")
    rows = [[int(size) for size in re.findall(r"^ +(\d+) ", table, re.MULTILINE)] for table in tables]
    assert rows == list(SIZES.values())
    assert re.fullmatch(
        r"Rows that grow faster than their size: \d+\nRows whose worker fell out of its group: 0\n", told
    )
