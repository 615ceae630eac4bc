"""The bench of what grows runs whole, with sizes that say nothing."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

BENCH = Path(__file__).parents[3] / "bench"
SIZES = {"connectors": [2], "tasks": [3], "partitions": [5], "topics": [1, 2], "files": [4]}


def test_each_part_of_the_bench_of_what_grows_prints_its_rows(
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
    rows = [[int(size) for size in re.findall(r"^ +(\d+) ", table, re.MULTILINE)] for table in printed.split("\n\n")]
    assert rows == list(SIZES.values())
