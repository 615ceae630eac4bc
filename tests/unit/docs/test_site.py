"""`make docs`: the site is built, and a link that leads nowhere is an error."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def _build(root: Path, site: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(site)]
    return subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    built = _build(ROOT, site)
    assert built.returncode == 0, built.stdout + built.stderr
    return site


def test_the_reference_has_the_docstrings_of_the_api(site: Path) -> None:
    reference = (site / "reference.html").read_text()

    for shown in ("partitions_follow_task_configs", "SourceBatch", "run_task", "RetriableError"):
        assert shown in reference, shown
    assert "with the offsets after them" in reference


def test_each_page_of_the_guide_exists(site: Path) -> None:
    pages = {page.stem for page in (ROOT / "docs" / "guide").glob("*.md")} - {"README"}

    assert pages <= {page.stem for page in (site / "guide").glob("*.html")}
    assert (site / "guide" / "index.html").exists()


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'<(?:script|img|iframe)[^>]* src="(https?:[^"]*)', page.read_text())
        loaded += re.findall(r'<link[^>]* href="(https?:[^"]*)', page.read_text())
        assert not loaded, page


@pytest.mark.parametrize("link", ["no-such-page.md", "../no-such-file.py", "index.md#no-such-heading"])
def test_a_link_that_leads_nowhere_is_refused(tmp_path: Path, link: str) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copy(ROOT / "docs" / "hooks.py", tmp_path / "docs")
    (tmp_path / "docs" / "index.md").write_text(f"# A page\n\nA [link]({link}).\n")
    config = (ROOT / "mkdocs.yml").read_text()
    (tmp_path / "mkdocs.yml").write_text(config[: config.index("nav:")])

    built = _build(tmp_path, tmp_path / "site")

    assert built.returncode != 0
    assert link.partition("#")[0] in built.stdout + built.stderr


def test_cells_of_tables_carry_the_names_of_their_columns(site: Path) -> None:
    page = (site / "configuration.html").read_text()

    (row,) = re.findall(r"<tr>\s*<td[^>]*><code>offset.storage.partitions</code></td>.*?</tr>", page, re.DOTALL)
    assert re.findall(r'data-label="(\w*)"', row) == ["property", "type", "default", "meaning"]
    assert '<table data-kind="properties">' in page


def test_a_long_name_in_a_table_wraps_between_its_words_and_is_found_whole(site: Path) -> None:
    assert "cluster/<wbr>test_<wbr>mixed_<wbr>group.<wbr>py::<wbr>test_<wbr>" in (site / "kip-618.html").read_text()
    assert "cluster/test_mixed_group.py::test_" in (site / "search" / "search_index.json").read_text()
