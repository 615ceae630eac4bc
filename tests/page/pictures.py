"""The pictures of the page: one of each view for the docs, and on request its looks in each scheme and width."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.page.chromium import Tab

WIDE: Final = 1280
NARROW: Final = 390
SCHEMES: Final = ("light", "dark")
_HEIGHT: Final = 900


@dataclass(frozen=True)
class Pictures:
    """Folders of pictures. `looks` gets each view in both schemes at both widths, if it is not None."""

    docs: Path
    looks: Path | None

    def __post_init__(self) -> None:
        """Create the folders."""
        for folder in filter(None, (self.docs, self.looks)):
            folder.mkdir(parents=True, exist_ok=True)

    async def take(self, tab: Tab, view: str) -> None:
        """Make the docs' picture of a view, in light and wide, and its looks. The tab is wide and light afterwards."""
        await self._take(tab, self.docs / f"{view}.png", "light", WIDE)
        await self.look(tab, view)

    async def look(self, tab: Tab, view: str) -> None:
        """Make the looks of a view. The tab is wide and light afterwards."""
        if self.looks is not None:
            for scheme in SCHEMES:
                for width in (WIDE, NARROW):
                    await self._take(tab, self.looks / f"{view}-{scheme}-{width}.png", scheme, width)
        await set_look(tab, "light", WIDE)

    async def _take(self, tab: Tab, path: Path, scheme: str, width: int) -> None:
        await set_look(tab, scheme, width)
        await tab.screenshot(path)


async def set_look(tab: Tab, scheme: str, width: int) -> None:
    """Set the scheme and the width, and wait until plots have been drawn for them."""
    await tab.scheme(scheme)
    await tab.size(width, _HEIGHT)
    await tab.wait_for(f"[...document.querySelectorAll('canvas')].every((each) => each.clientWidth < {width})")
    await tab.value("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
