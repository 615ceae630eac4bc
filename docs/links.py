"""A hook of mkdocs: links to files of the project that are not pages become text, after a check that the files exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError

DOCS = Path(__file__).parent
_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return a page without links that lead out of docs/."""
    folder = (DOCS / page.file.src_uri).parent

    def checked(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(DOCS) and target.suffix == ".md":
            return link[0]
        if not target.exists():
            raise PluginError(f"{page.file.src_uri} links to {link[2]}, which does not exist")
        return link[1]

    return _LINK.sub(checked, markdown)
