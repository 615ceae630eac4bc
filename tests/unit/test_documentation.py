"""What the pages show is what the code is."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_of_properties_is_what_the_definitions_give() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "generate.py"))["page"]()

    assert (ROOT / "docs" / "configuration.md").read_text() == page, "run: .venv/bin/python docs/generate.py"


def test_the_page_of_metrics_is_what_the_definitions_give() -> None:
    page = runpy.run_path(str(ROOT / "docs" / "generate.py"))["metrics_page"]()

    assert (ROOT / "docs" / "metrics.md").read_text() == page, "run: .venv/bin/python docs/generate.py"


def test_the_connector_in_the_readme_is_the_example() -> None:
    blocks = (ROOT / "README.md").read_text().split("```python\n")[1:]
    example = (ROOT / "examples" / "counter.py").read_text()

    assert any(block.partition("```")[0].strip() in example for block in blocks)
