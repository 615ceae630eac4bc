"""What the page changes: a connector is created by the form, stopped, its offsets are edited and reset, and it is deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.page.chromium import Tab
from tests.page.looks import check_contrast

_BUTTON: Final = "[...document.querySelectorAll('button')].find((each) => each.textContent === {text!r})"
_OFFSET: Final = "[...document.querySelectorAll('td[data-label=committed]')].map((cell) => cell.textContent).join()"
_OUTCOME: Final = "document.querySelector('form > p [role=status]')?.textContent.trim()"
# Beyond 2^53: a browser that reads it as a number rounds it.
_LONG: Final = "9007199254740993"


async def check_changes(tab: Tab, url: str, source: Path, pictures: Path) -> None:
    """Create, change and delete a connector of `source`, a file of one line. Raises AssertionError."""
    await tab.size(1280, 900)
    await tab.open(f"{url}/ui/#/create")
    await _change_class(tab)
    await _fill(tab, source, pictures)
    await tab.value(f"{_button('Create')}.click()")
    await tab.wait_for("document.querySelector('h1').textContent.includes('by-form RUNNING')")
    await tab.wait_for(f"{_OFFSET}.includes('position')")
    await tab.value(f"{_button('Stop')}.click()")
    await tab.wait_for("document.querySelector('h1').textContent.includes('STOPPED')")
    await _edit_offset(tab, pictures)
    await _refuse(tab, "Reset all offsets", f"{_OFFSET} !== ''")
    await tab.value(f"{_button('Reset all offsets')}.click()")
    await tab.wait_for(f"{_OFFSET} === ''")
    await _refuse(tab, "Delete", "document.querySelector('h1').textContent.includes('by-form STOPPED')")
    await tab.value(f"{_button('Delete')}.click()")
    await tab.wait_for("location.hash === '#/' && !document.querySelector('main').textContent.includes('by-form')")
    # The refused offset, and what was asked while the connector was deleted.
    unexpected = [error for error in tab.errors if "status of 40" not in error]
    assert unexpected == [], unexpected
    tab.errors.clear()


async def _choose(tab: Tab, plugin: str) -> None:
    await tab.wait_for("document.querySelectorAll('#plugin option').length > 3")
    await tab.value(
        "(() => { const plugin = document.getElementById('plugin');"
        f" plugin.value = [...plugin.options].map((each) => each.value).find((name) => name.includes({plugin!r}));"
        " plugin.dispatchEvent(new Event('change', {bubbles: true})); })()"
    )


async def _change_class(tab: Tab) -> None:
    """A password that was typed for another class is not shown, and not sent unseen: it is among the other properties."""
    await _choose(tab, "JdbcSource")
    await tab.wait_for("document.getElementById('config-connection.password') !== null")
    await _type(tab, "connection.password", "typed-for-jdbc")
    await _choose(tab, "FileStreamSource")
    await tab.wait_for(
        "[...document.querySelectorAll('summary')].some((each) => each.textContent.includes('Other properties (1 set)'))"
    )
    assert await tab.value("document.getElementById('config-connection.password').type") == "password"
    await tab.value("document.querySelector('[aria-label=\"Remove connection.password\"]').click()")
    await tab.wait_for("document.getElementById('config-connection.password') === null")
    kept = await tab.value("JSON.stringify([{...localStorage}, {...sessionStorage}, location.href, document.cookie])")
    assert "typed-for-jdbc" not in kept


async def _fill(tab: Tab, source: Path, pictures: Path) -> None:
    await _choose(tab, "FileStreamSource")
    await tab.wait_for("document.getElementById('config-file') !== null")
    assert await tab.value("document.querySelectorAll('[aria-invalid=true]').length") == 0, "nobody has typed yet"
    await tab.wait_for(f"{_OUTCOME} === 'Still missing: name, file, topic.'")
    await _type(tab, "name", "by-form")
    await _type(tab, "file", str(source))
    await _type(tab, "topic", "by-form")
    await _type(tab, "tasks.max", "many")
    await tab.wait_for("document.getElementById('config-tasks.max').getAttribute('aria-invalid') === 'true'")
    await tab.wait_for("[...document.querySelectorAll('summary')].some((each) => each.textContent.includes('1 error'))")
    assert await tab.value(f"{_button('Create')}.disabled")
    await tab.wait_for(f"{_OUTCOME} === '1 property has an error: tasks.max.'")
    await tab.screenshot(pictures / "create.png")
    # The group of that property is folded until its name is chosen.
    await tab.value(f"{_button('tasks.max')}.click()")
    await tab.wait_for("document.activeElement.id === 'config-tasks.max' && document.activeElement.checkVisibility()")
    await check_contrast(tab)
    for width in (1280, 390):
        await tab.size(width, 900)
        assert await tab.value("document.documentElement.scrollWidth") <= width
    await tab.size(1280, 900)
    await _type(tab, "tasks.max", "1")
    await tab.wait_for(f"!{_button('Create')}.disabled")


async def _edit_offset(tab: Tab, pictures: Path) -> None:
    await tab.wait_for("document.querySelector('td button.small') !== null")
    await tab.value("document.querySelector('td button.small').click()")
    await tab.wait_for("document.querySelector('textarea') !== null")
    await tab.screenshot(pictures / "offsets.png")
    # An offset that the connector refuses stays as it was, and its words are shown.
    before = await tab.value(_OFFSET)
    await _write(tab, "document.querySelector('textarea')", json.dumps({"position": "far"}))
    await tab.value(f"{_button('Save this offset')}.click()")
    await tab.wait_for("document.querySelector('textarea') === null || document.body.textContent.includes('position')")
    assert await tab.value(_OFFSET) == before
    await tab.wait_for(f"!{_button('Save this offset')}.disabled")
    await _write(tab, "document.querySelector('textarea')", f'{{"position": {_LONG}}}')
    await tab.value(f"{_button('Save this offset')}.click()")
    await tab.wait_for(f"{_OFFSET}.includes('{_LONG}')")
    await _change_meanwhile(tab)


async def _change_meanwhile(tab: Tab) -> None:
    """The editor reports the changes of another tab, and asks before it overwrites them, also after a resume."""
    await tab.value("document.querySelector('td button.small').click()")
    await tab.wait_for("document.querySelector('textarea') !== null")
    path = "../connectors/by-form"
    await tab.value(
        f"fetch('{path}/offsets').then((answer) => answer.text()).then((text) => fetch('{path}/offsets', {{method: 'PATCH',"
        f" headers: {{'Content-Type': 'application/json'}}, body: text.replace('{_LONG}', '2')}})).then((answer) => answer.status)"
    )
    await tab.wait_for("document.body.textContent.includes('Meanwhile this offset became')")
    assert await tab.value(f"{_button('Save this offset')}.disabled")
    await tab.value(f"{_button('Change it nevertheless')}.click()")
    await tab.wait_for(f"!{_button('Save this offset')}.disabled")
    await tab.value(f"fetch('{path}/resume', {{method: 'PUT'}})")
    await tab.wait_for("document.body.textContent.includes('The connector is not stopped any more')")
    assert await tab.value(f"{_button('Save this offset')}.disabled")
    await tab.value(f"{_button('Cancel')}.click()")
    await tab.value(f"{_button('Stop')}.click()")
    await tab.wait_for("document.querySelector('h1').textContent.includes('STOPPED')")


async def _refuse(tab: Tab, text: str, unchanged: str) -> None:
    """The button asks, and does nothing after a no."""
    tab.confirms, asked = False, tab.dialogs
    await tab.value(f"{_button(text)}.click()")
    tab.confirms = True
    assert tab.dialogs == asked + 1, text
    assert await tab.value(unchanged)


def _button(text: str) -> str:
    return _BUTTON.format(text=text)


async def _type(tab: Tab, name: str, text: str) -> None:
    await _write(tab, f"document.getElementById('config-{name}')", text)


async def _write(tab: Tab, field: str, text: str) -> Any:
    return await tab.value(
        f"(() => {{ const field = {field}; field.value = {json.dumps(text)};"
        " field.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
