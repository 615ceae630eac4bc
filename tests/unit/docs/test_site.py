"""`make docs` builds the site, and fails for a broken link."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fencepost import SourceBatch

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
    reference = html.unescape((site / "reference.html").read_text())

    for shown in ("partitions_follow_task_configs", "SourceBatch", "run_task", "RetriableError"):
        assert shown in reference, shown
    assert (SourceBatch.__doc__ or "").splitlines()[0] in reference


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
    page = (site / "configuration.html").read_text().replace("<wbr>", "")

    (row,) = re.findall(r"<tr>\s*<td[^>]*><code>offset.storage.partitions</code></td>.*?</tr>", page, re.DOTALL)
    assert re.findall(r'data-label="(\w*)"', row) == ["property", "type", "default", "meaning"]
    assert '<table data-kind="properties">' in page


def test_a_long_name_in_a_table_wraps_between_its_words_and_is_found_whole(site: Path) -> None:
    assert "cluster/<wbr>test_<wbr>mixed_<wbr>group.<wbr>py::<wbr>test_<wbr>" in (site / "kip-618.html").read_text()
    assert "cluster/test_mixed_group.py::test_" in (site / "search" / "search_index.json").read_text()
    assert "<code>connector_<wbr>type</code>" in (site / "metrics.html").read_text()


def test_the_columns_of_metrics_have_widths_that_fit_their_names(site: Path) -> None:
    assert '<table data-kind="metrics">' in (site / "metrics.html").read_text()
    assert 'table[data-kind="metrics"] th:nth-child(1) { width: ' in (site / "site.css").read_text()


def test_a_long_default_is_in_the_widest_column(site: Path) -> None:
    page = (site / "configuration.html").read_text()
    defaults = re.findall(r'<td data-label="default">(.*?)</td>', page, re.DOTALL)
    assert len(defaults) > 100
    assert max(len(re.sub(r"<[^>]+>", "", default)) for default in defaults) < 100


class Tables(HTMLParser):
    """Finds what site.css leaves wide on a narrow screen: tables with a class, and cells without a label."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.complaints: list[str] = []
        self.cells = 0
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "table" and given.get("class"):
            self.complaints.append(f"a table of class {given['class']}")
        if tag == "td":
            self.cells += 1
            self.complaints += [] if "data-label" in given else ["a cell without the name of its column"]


def test_all_tables_of_all_pages_become_narrow_on_a_telephone(site: Path) -> None:
    pages = {page: Tables(page.read_text()) for page in site.rglob("*.html")}
    assert sum(page.cells for page in pages.values()) > 1_000
    assert {page.name: found.complaints for page, found in pages.items() if found.complaints} == {}


def test_the_theme_breaks_words_that_are_longer_than_a_line(site: Path) -> None:
    (theme,) = (site / "assets" / "stylesheets").glob("main.*.css")
    (rule,) = re.findall(r"\.md-typeset\{([^}]*hyphens[^}]*|[^}]*overflow-wrap[^}]*)\}", theme.read_text())
    assert "overflow-wrap:break-word" in rule


def test_rows_of_tables_become_cards_on_a_telephone() -> None:
    style = (ROOT / "docs" / "site.css").read_text()
    _, _, narrow = style.partition("@media screen and (max-width: 44.9em)")
    for rule in (
        "thead { display: none; }",
        "tr { display: block;",
        "td { display: block;",
        "content: attr(data-label)",
    ):
        assert rule in narrow
    for broken in (".md-typeset code", ".md-typeset table:not([class]) td"):
        assert f"{broken} {{ overflow-wrap: anywhere;" in style
