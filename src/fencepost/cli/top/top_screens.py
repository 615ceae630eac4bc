"""The screens that `fencepost top` shows over its table. Importing this raises ModuleNotFoundError without textual."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.events import Resize
from textual.screen import ModalScreen
from textual.widgets import Footer, Static

from fencepost.cli.top.top_view import hidden_text, worker_lines

# The border and the margin on both sides of the list, and a scrollbar.
_BESIDE_THE_LIST: Final = 6


class TraceScreen(ModalScreen[None]):
    """A screen that shows a text over the table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,t,enter", "app.pop_screen", "Back"),
        Binding("ctrl+c", "app.quit", show=False, priority=True),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Lay out the text."""
        with VerticalScroll(can_focus=True):
            yield Static(Text(self._text), id="trace")
        yield Footer(compact=True, show_command_palette=False)


class WorkersScreen(ModalScreen[None]):
    """A list of all workers over the table. It is scrolled by the cursor keys."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,w,enter", "app.pop_screen", "Back"),
        Binding("ctrl+c", "app.quit", show=False, priority=True),
    ]

    def __init__(self, answer: Mapping[str, Any]) -> None:
        """Show the workers of this overview, until `show` brings another one."""
        super().__init__()
        self._answer = answer
        self._list = Static(id="all-workers")
        self._scroll = VerticalScroll(self._list, can_focus=True)

    def compose(self) -> ComposeResult:
        """Lay out the list."""
        yield self._scroll
        yield Footer(compact=True, show_command_palette=False)

    def on_mount(self) -> None:
        """Show the first lines."""
        self.watch(self._scroll, "scroll_y", self._show_hidden)
        self.show(self._answer)

    def on_resize(self, _: Resize) -> None:
        """Show the lines in another width."""
        self.show(self._answer)

    def show(self, answer: Mapping[str, Any]) -> None:
        """Show the workers of an overview."""
        self._answer = answer
        self._list.update(Text("\n".join(worker_lines(answer, self.app.size.width - _BESIDE_THE_LIST))))
        self.call_after_refresh(self._show_hidden)

    def _show_hidden(self) -> None:
        count = len(self._answer["workers"])
        hidden = hidden_text(count, round(self._scroll.scroll_y), self._scroll.scrollable_content_region.height)
        self._scroll.border_title = "Workers: connectors (c), tasks (t), version, uptime"
        self._scroll.border_subtitle = hidden
