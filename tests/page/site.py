"""The built site in Chromium: no page or table is wider than its place, has pale texts, or loads anything from other hosts.

.venv/bin/python -m tests.page.site build/site [--pictures FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final

from tests.page.chromium import Tab, chromium
from tests.page.looks import pale_texts

WIDTHS: Final = (1280, 390)
SCHEMES: Final = ("light", "dark")
_HEIGHT: Final = 900
# Progress is printed after this many pages.
_PAGES: Final = 20


async def check(site: Path, pictures: Path | None) -> list[str]:
    """Return one complaint per page, width and scheme that is wrong."""
    pages = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    complaints: list[str] = []
    with _served(site) as address:
        for scheme in SCHEMES:
            # The site remembers the color scheme of the first visit, so each scheme has its own browser profile.
            with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
                async with chromium(Path(profile)) as tab:
                    await tab.scheme(scheme)
                    for number, page in enumerate(pages):
                        if number % _PAGES == 0:
                            print(f"{scheme}: {number} of {len(pages)} pages", flush=True)
                        complaints += await _complaints(tab, address, page, scheme, pictures)
    return complaints


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def _served(site: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, directory=str(site))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


async def _complaints(tab: Tab, address: str, page: str, scheme: str, pictures: Path | None) -> list[str]:
    """Load a page once, because that is slow, and check it at each width."""
    tab.errors.clear()
    # In a window that grows, elements slide in from beyond its edge. So the window only shrinks.
    await tab.size(WIDTHS[0], _HEIGHT)
    await tab.open(f"{address}/{page}")
    await tab.wait_for(f"location.pathname === '/{page}' && document.readyState === 'complete'")
    pale = await pale_texts(tab, ":is(.md-content, .md-tabs)")
    found = [f"{page} in {scheme} has pale texts: {', '.join(dict.fromkeys(pale))}"] if pale else []
    for width in WIDTHS:
        await tab.size(width, _HEIGHT)
        name = f"{page} at {width} px"
        wide = await tab.value("document.documentElement.scrollWidth")
        hidden = await tab.value(
            "[...document.querySelectorAll('.md-content table, .md-content p, .md-content li')]"
            ".filter(part => part.getBoundingClientRect().right > innerWidth + 1).length"
        )
        cut = await tab.value(
            "[...document.querySelectorAll('.md-typeset__scrollwrap')]"
            ".filter(around => around.scrollWidth > around.clientWidth).length"
        )
        found += [f"{name} is {wide} px wide"] if wide > width else []
        found += [f"{name} has {cut} tables whose last columns are out of sight"] if cut else []
        found += [f"{name} has {hidden} parts beyond its right edge"] if hidden else []
        if pictures is not None:
            file = f"{page.removesuffix('.html').replace('/', '-')}-{width}-{scheme}.png"
            await tab.screenshot(pictures / file, whole=False)
    return found + [f"{page}: {error}" for error in tab.errors]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", type=Path)
    parser.add_argument("--pictures", type=Path)
    arguments = parser.parse_args()
    if arguments.pictures is not None:
        arguments.pictures.mkdir(parents=True, exist_ok=True)
    complaints = asyncio.run(check(arguments.site.resolve(), arguments.pictures))
    print("\n".join(complaints) or "Each page fits into its window.")
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
