"""The forms of the page: their fields, buttons and results."""

from __future__ import annotations

import json
from typing import Final

from tests.page.chromium import Tab

OUTCOME: Final = "document.querySelector('form > p [role=status]')?.textContent.trim()"
"""An expression: what the form to create a connector says of its fields."""


def button(text: str) -> str:
    """An expression: the button with a text."""
    return f"[...document.querySelectorAll('button')].find((each) => each.textContent === {text!r})"


async def choose(tab: Tab, plugin: str) -> None:
    """Choose the first connector whose option contains a text."""
    option = f"[...document.getElementById('plugin').options].find((each) => each.textContent.includes({plugin!r}))"
    await tab.wait_for(f"document.getElementById('plugin') !== null && {option} !== undefined")
    await tab.value(
        f"(() => {{ const plugin = document.getElementById('plugin'); plugin.value = {option}.value;"
        " plugin.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


async def type_into(tab: Tab, name: str, text: str) -> None:
    """Replace the text in the field of a property."""
    await write(tab, f"document.getElementById('config-{name}')", text)


async def write(tab: Tab, field: str, text: str) -> None:
    """Replace the text in a field, which an expression returns."""
    await tab.value(
        f"(() => {{ const field = {field}; field.value = {json.dumps(text)};"
        " field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
