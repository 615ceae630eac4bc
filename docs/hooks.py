"""Hooks of mkdocs: links to files that are not pages become text, and cells of tables know their column's name."""

from __future__ import annotations

import itertools
import re
from html import escape
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

DOCS = Path(__file__).parent
_TABLE = re.compile(r"<table>.*?</table>", re.DOTALL)
_HEADING = re.compile(r"<th(?: [^>]*)?>(.*?)</th>", re.DOTALL)
_ROW = re.compile(r"<tr>.*?</tr>", re.DOTALL)
_CELL = re.compile(r"<td")
_TAG = re.compile(r"<[^>]+>")
# Where a name may wrap, for example the path of a test. Shorter names fit into each column.
_LONG_NAME = re.compile(r"<code>([^<\s]{12,})</code>")
_BREAK = re.compile(r"(?<=[_/.:])(?=\w)")
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page without links that lead out of docs/. Raises PluginError for a file that does not exist."""
    folder = (DOCS / page.file.src_uri).parent

    def checked(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(DOCS) and target.suffix == ".md":
            return link[0]
        if not target.exists():
            raise PluginError(f"{page.file.src_uri} links to {link[2]}, which does not exist")
        return link[1]

    return _LINK.sub(checked, markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Return a page whose cells carry the names of their columns, which narrow screens show in place of a head.

    Tables of properties and of metrics have a mark, which gives their columns fixed widths. Long names wrap between
    their words.
    """
    return _TABLE.sub(lambda table: _labelled(table[0]), html)


def _labelled(table: str) -> str:
    labels = [escape(_TAG.sub("", heading), quote=True) for heading in _HEADING.findall(table)]
    for first, kind in (("property", "properties"), ("metric", "metrics")):
        if labels[:2] == [first, "type"]:
            table = table.replace("<table>", f'<table data-kind="{kind}">', 1)

    def row(found: re.Match[str]) -> str:
        names = itertools.chain(labels, itertools.repeat(""))
        return _CELL.sub(lambda cell: f'{cell[0]} data-label="{next(names)}"', found[0])

    return _LONG_NAME.sub(lambda name: f"<code>{_BREAK.sub('<wbr>', name[1])}</code>", _ROW.sub(row, table))
