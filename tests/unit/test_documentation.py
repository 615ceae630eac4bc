"""Facts in the documentation match the code."""

from __future__ import annotations

import ast
import re
import runpy
from pathlib import Path

import pytest

from tests.mutations.guards import GUARDS

ROOT = Path(__file__).parents[2]

ROWS = {"K": 9, "A": 5, "D": 7, "C": 8, "S": 1, "F": 8, "E": 9, "L": 6, "N": 5}
"""The number of KIP-618's promises of each kind, with those about failures and limits."""


def test_the_page_of_properties_matches_the_definitions() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "generate.py"))["page"]()

    assert (ROOT / "docs" / "configuration.md").read_text() == page, "run: .venv/bin/python docs/generate.py"


def test_the_page_of_metrics_matches_the_definitions() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "generate.py"))["metrics_page"]()

    assert (ROOT / "docs" / "metrics.md").read_text() == page, "run: .venv/bin/python docs/generate.py"


def test_the_connector_in_the_readme_is_the_example() -> None:
    blocks = (ROOT / "README.md").read_text().split("```python\n")[1:]
    example = (ROOT / "examples" / "counter.py").read_text()

    assert any(block.partition("```")[0].strip() in example for block in blocks)


@pytest.mark.parametrize("name", ["worker.properties", "file.properties"])
def test_a_file_in_the_readme_is_the_example(name: str) -> None:
    blocks = re.findall(r"```properties\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    (shown,) = [block for block in blocks if block.startswith(f"# examples/{name}\n")]

    assert _properties(shown) == _properties((ROOT / "examples" / name).read_text())


def _properties(text: str) -> list[str]:
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def _rows_of_kip_618() -> dict[str, str]:
    """The tests of each row, as the page lists them."""
    page = (ROOT / "docs" / "kip-618.md").read_text()
    return dict(re.findall(r"^\| ([A-Z]\d) \|.*\| ([^|]+) \|$", page, re.MULTILINE))


def test_every_promise_of_kip_618_has_its_row() -> None:
    assert list(_rows_of_kip_618()) == [
        f"{kind}{number + 1}" for kind, count in ROWS.items() for number in range(count)
    ]


@pytest.mark.parametrize(("row", "shown"), _rows_of_kip_618().items())
def test_every_row_names_existing_tests_and_one_on_a_real_broker_or_says_none(row: str, shown: str) -> None:
    named = re.findall(r"`([^`]+)::([^`]+)`", shown)
    for file, name in named:
        tests = ast.walk(ast.parse((ROOT / "tests" / file).read_text()))
        assert name in {test.name for test in tests if isinstance(test, ast.FunctionDef)}, f"{row}: {file}::{name}"
    real = [file for file, _ in named if file.startswith(("broker/", "cluster/", "chaos/"))]
    assert real or shown.startswith("Not "), row


def test_the_page_of_proofs_names_tests_and_mutations_that_exist() -> None:
    table = (ROOT / "docs" / "proofs.md").read_text().partition("| hole | cause | test | mutation |")[2]
    rows = [row.strip("| ").split(" | ") for row in table.partition("\n\n")[0].splitlines()[2:]]
    assert len(rows) > 50
    guards = {guard.name for guard in GUARDS}
    for hole, _, tests, mutations in rows:
        named = re.findall(r"`(\w+/[\w/]+)(?:::(\w+))?", tests)
        assert named, hole
        for file, name in named:
            assert re.search(rf"def {name or 'test'}", (ROOT / "tests" / f"{file}.py").read_text()), f"{file}::{name}"
        on_brokers = {name for name in mutations.split("; ") if not name.startswith("sim: ")}
        assert mutations == "-" or on_brokers <= guards, mutations


def test_the_page_of_architecture_names_modules_that_exist() -> None:
    """tests/broker/runtime/test_data_path.py compares the page's data path with a trace."""
    page = (ROOT / "docs" / "architecture.md").read_text()
    path = page.partition("## The control path of a PUT\n")[2].partition("\n## ")[0]
    steps = re.findall(r"^\d+\. `([\w/]+\.py)`", path, re.MULTILINE)

    assert len(set(steps)) == len(steps) == 36
    named = {*steps, *re.findall(r"`((?:[a-z_]+/)+[a-z_]+\.py)`", page)}
    missing = [name for name in named if not any((folder / name).exists() for folder in (ROOT, ROOT / "src/fencepost"))]
    assert missing == []


def test_names_of_tests_are_shorter_than_80_characters() -> None:
    names = (
        node.name
        for file in (ROOT / "tests").rglob("test_*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    )
    assert [name for name in names if len(name) >= 80] == []


def test_the_first_example_for_spark_is_the_example() -> None:
    first = (ROOT / "docs" / "spark.md").read_text().split("```python\n")[1].partition("```")[0]

    assert (ROOT / "examples" / "spark_sink.py").read_text().endswith(first)


def test_no_text_tells_users_to_install_an_unpublished_package() -> None:
    # The page for maintainers, who try what they have just uploaded.
    publishing = ROOT / "docs" / "releasing.md"
    folders = [
        ROOT / "README.md",
        *(ROOT / "docs").rglob("*.md"),
        *(ROOT / "src").rglob("*"),
        *(ROOT / "deploy").rglob("*"),
    ]
    texts = {
        path: path.read_bytes() for path in folders if path.is_file() and path.suffix != ".pyc" and path != publishing
    }
    told = re.compile(rb"pip\s+install\s+(-\S+\s+)*['\"]?fencepost\b|pypi\.org/project/fencepost")

    assert [str(path.relative_to(ROOT)) for path, text in texts.items() if told.search(text)] == []
