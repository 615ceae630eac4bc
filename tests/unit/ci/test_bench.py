"""What `make bench` runs."""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, Self

import pytest

ROOT = Path(__file__).parents[3]
BENCH = ROOT / "bench"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Imports a benchmark."""
    monkeypatch.syspath_prepend(str(BENCH))

    def load(name: str) -> ModuleType:
        return importlib.import_module(name)

    return load


def test_the_benchmarks_that_make_bench_runs_exist_and_are_listed(bench: Any) -> None:
    run = bench("run")
    assert set(re.findall(r"\[(\w+)\]", run.__doc__)) == run.BENCHMARKS.keys()
    assert all((BENCH / script).is_file() for script, *_ in run.BENCHMARKS.values())


def test_make_bench_runs_each_program_of_the_folder(bench: Any) -> None:
    programs = {path.name for path in BENCH.glob("*.py") if '__name__ == "__main__"' in path.read_text()}
    assert {script for script, *_ in bench("run").BENCHMARKS.values()} == programs - {"run.py"}


def test_make_bench_measures_growth_with_sizes_that_show_a_wall(
    bench: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    growth = bench("growth")
    sizes: dict[str, list[int]] = {part: [] for part in growth.PARTS}

    def measured(part: str, size: int) -> dict[str, float]:
        sizes[part].append(size)
        return figures(growth, part, size)

    monkeypatch.setattr(growth, "EmbeddedBroker", lambda _: _Broker())
    monkeypatch.setattr(
        growth, "PARTS", {part: lambda _, size, part=part: measured(part, size) for part in growth.PARTS}
    )
    monkeypatch.setattr("sys.argv", bench("run").BENCHMARKS["growth"])
    assert growth.main() == 0
    assert capsys.readouterr().out
    assert (max(sizes["connectors"]), max(sizes["tasks"]), max(sizes["files"])) == (400, 500, 4_000)
    assert all(max(some) / min(some) >= 4 for some in sizes.values())


def test_what_failed_is_named_at_the_end(
    bench: Any, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run = bench("run")
    for name, code in (("good", 0), ("bad", 1)):
        (tmp_path / f"{name}.py").write_text(f"raise SystemExit({code})\n")
    monkeypatch.setattr(run, "FOLDER", tmp_path)
    monkeypatch.setattr(run, "BENCHMARKS", {"good": ["good.py"], "bad": ["bad.py"]})
    assert run.main([]) == 1
    assert capfd.readouterr().out.endswith("\nFailed: bad\n")


def figures(growth: Any, part: str, size: int, **others: float) -> dict[str, float]:
    """A row in which each cost is in proportion to the size, or stays if it must, except others."""
    linear = {name: 100.0 * (1 if name in growth.STEADY else size) for name in growth.COMPARED[part]}
    return {**linear, "lost": 0.0, **others}


Grow = Callable[..., tuple[int, str]]


@pytest.fixture
def grow(bench: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Grow:
    """Runs one part of the growth bench, whose rows are given by size; returns the exit code and the output."""
    growth = bench("growth")

    def grow(part: str, rows: Mapping[int, Mapping[str, float]]) -> tuple[int, str]:
        monkeypatch.setattr(growth, "EmbeddedBroker", lambda _: _Broker())
        monkeypatch.setattr(growth, "PARTS", {part: lambda _, size: rows[size]})
        monkeypatch.setattr("sys.argv", ["growth.py", part, f"--{part}", *map(str, rows)])
        return growth.main(), capsys.readouterr().out

    return grow


@pytest.mark.parametrize(
    ("part", "column"),
    [
        *(("connectors", name) for name in ("CPU s", "MB added", "threads", "descriptors", "idle cores")),
        *(("tasks", name) for name in ("CPU s", "MB added", "threads", "connections", "idle cores")),
        *(("partitions", name) for name in ("CPU ms", "their CPU ms", "MB added", "bytes shown")),
        ("topics", "CPU s"),
        *(("files", name) for name in ("CPU s", "its CPU s", "MB added", "idle cores", "config bytes")),
    ],
)
def test_a_quadratic_cost_fails_the_bench_of_what_grows(bench: Any, grow: Grow, part: str, column: str) -> None:
    growth = bench("growth")
    for power, code in ((1.0, 0), (2.0, 1)):
        rows = {size: figures(growth, part, size, **{column: 100.0 * size**power}) for size in (250, 1_000)}
        found, printed = grow(part, rows)
        assert found == code
        assert printed.count("<-- grows") == code
        assert f"Rows that grow faster than their size: {code}\n" in printed


@pytest.mark.parametrize(("part", "column"), [("partitions", "its CPU ms"), ("tasks", "descriptors after")])
def test_a_cost_that_must_stay_fails_the_bench_if_it_is_linear(bench: Any, grow: Grow, part: str, column: str) -> None:
    """Some growth may be chance."""
    growth = bench("growth")
    for power, code in ((0.0, 0), (0.4, 0), (1.0, 1)):
        rows = {size: figures(growth, part, size, **{column: 50.0 * size**power}) for size in (250, 1_000)}
        assert grow(part, rows)[0] == code


def test_a_worker_that_falls_out_of_its_group_fails_the_bench(bench: Any, grow: Grow) -> None:
    growth = bench("growth")
    for part in growth.PARTS:
        code, printed = grow(part, {250: figures(growth, part, 250, lost=1.0)})
        assert code == 1
        assert printed.count("<-- lost") == 1
        assert printed.endswith(
            "Rows that grow faster than their size: 0\nRows whose worker fell out of its group: 1\n"
        )


def test_costs_below_what_can_be_measured_do_not_fail_the_bench(bench: Any, grow: Grow) -> None:
    """The CPU of a new file is a difference, which may be negative."""
    growth = bench("growth")
    small = {"its CPU s": -0.1, "idle cores": 0.001, "MB added": 0.5}
    rows = {
        250: figures(growth, "files", 250, **small),
        1_000: figures(growth, "files", 1_000, **{name: cost + 0.1 for name, cost in small.items()}),
    }
    rows[1_000]["idle cores"] = 0.02
    assert grow("files", rows)[0] == 0


def test_each_program_that_burns_cpu_has_a_session_of_its_own(bench: Any) -> None:
    """Linux gives each session the same share of a core."""
    growth_worker = bench("growth_worker")
    burners = [growth_worker.burner() for _ in range(2)]
    try:
        assert len({os.getsid(0), *(os.getsid(burner.pid) for burner in burners)}) == 3
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


class _Broker:
    """A broker that nothing asks."""

    bootstrap_servers = "127.0.0.1:1"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
