"""Pictures of commands' terminal output, as SVG."""

from __future__ import annotations

import io
import re
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import MONOKAI

from fencepost.cli.demo.demo import play
from fencepost.cli.top.top_app import TopApp

_WIDTH = 106
# The size of a terminal that nobody has changed.
_TOP = (80, 24)
_FONTS = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)


def picture_of_demo(path: Path) -> None:
    """Run the demo, and make a picture of its output."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_terminal=False)
    play(console)
    save(path, console.export_svg(title="fencepost demo", theme=MONOKAI))


async def picture_of_top(url: str, path: Path) -> None:
    """Make a picture of `fencepost top` once it has seen some rates."""
    app = TopApp(url)
    async with app.run_test(size=_TOP) as pilot:
        while len(app.rates.of("orders")) < 15:
            await pilot.pause(0.5)
        await pilot.press("down", "down", "space")
        while not app.rates.of("orders", 0):
            await pilot.pause(0.5)
        save(path, app.export_screenshot(title="fencepost top"))


def save(path: Path, svg: str) -> None:
    """Write a picture without the web fonts that it would load."""
    path.write_text(_FONTS.sub("", svg), encoding="utf-8")
