"""Changes made with the page: a connector is created, stopped, its offsets are edited and reset, it is deleted."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from tests.page.chromium import Tab
from tests.page.forms import OUTCOME, button, choose, type_into, write
from tests.page.looks import check_contrast
from tests.page.pictures import Pictures

_OFFSET: Final = "[...document.querySelectorAll('td[data-label=committed]')].map((cell) => cell.textContent).join()"
# Beyond 2^53 a browser would round the number.
_LONG: Final = "9007199254740993"


async def check_changes(tab: Tab, url: str, source: Path, pictures: Pictures) -> None:
    """Create, change and delete a connector of `source`, a file of one line. Raises AssertionError."""
    await tab.size(1280, 900)
    await tab.open(f"{url}/ui/#/create")
    await _change_class(tab)
    await _fill(tab, source, pictures)
    await tab.value(f"{button('Create')}.click()")
    await tab.wait_for("document.querySelector('h1').textContent.includes('by-form RUNNING')")
    await tab.wait_for(f"{_OFFSET}.includes('position')")
    await tab.value(f"{button('Stop')}.click()")
    await tab.wait_for("document.querySelector('h1').textContent.includes('STOPPED')")
    await _edit_offset(tab, pictures)
    await _refuse(tab, "Reset all offsets", f"{_OFFSET} !== ''")
    await tab.value(f"{button('Reset all offsets')}.click()")
    await tab.wait_for(f"{_OFFSET} === ''")
    await _refuse(tab, "Delete", "document.querySelector('h1').textContent.includes('by-form STOPPED')")
    await tab.value(f"{button('Delete')}.click()")
    await tab.wait_for("location.hash === '#/' && !document.querySelector('main').textContent.includes('by-form')")
    # Errors for the refused offset and for requests during the connector's deletion are expected.
    unexpected = [error for error in tab.errors if "status of 40" not in error]
    assert unexpected == [], unexpected
    tab.errors.clear()


async def _change_class(tab: Tab) -> None:
    """A password typed for another class is not shown, and not sent unseen: it is listed among the other properties."""
    await choose(tab, "JdbcSource")
    await tab.wait_for("document.getElementById('config-connection.password') !== null")
    await type_into(tab, "connection.password", "typed-for-jdbc")
    await choose(tab, "FileStreamSource")
    await tab.wait_for(
        "[...document.querySelectorAll('summary')].some((each) => each.textContent.includes('Other properties (1 set)'))"
    )
    assert await tab.value("document.getElementById('config-connection.password').type") == "password"
    await tab.value("document.querySelector('[aria-label=\"Remove connection.password\"]').click()")
    await tab.wait_for("document.getElementById('config-connection.password') === null")
    kept = await tab.value("JSON.stringify([{...localStorage}, {...sessionStorage}, location.href, document.cookie])")
    assert "typed-for-jdbc" not in kept


async def _fill(tab: Tab, source: Path, pictures: Pictures) -> None:
    await choose(tab, "FileStreamSource")
    await tab.wait_for("document.getElementById('config-file') !== null")
    assert await tab.value("document.querySelectorAll('[aria-invalid=true]').length") == 0, "nobody has typed yet"
    await tab.wait_for(f"{OUTCOME} === 'Still missing: name, file, topic.'")
    await type_into(tab, "name", "by-form")
    await type_into(tab, "file", str(source))
    await type_into(tab, "topic", "by-form")
    await type_into(tab, "tasks.max", "many")
    await tab.wait_for("document.getElementById('config-tasks.max').getAttribute('aria-invalid') === 'true'")
    await tab.wait_for("[...document.querySelectorAll('summary')].some((each) => each.textContent.includes('1 error'))")
    assert await tab.value(f"{button('Create')}.disabled")
    await tab.wait_for(f"{OUTCOME} === '1 property has an error: tasks.max.'")
    await pictures.take(tab, "create")
    # The property's group is collapsed until its name is selected.
    await tab.value(f"{button('tasks.max')}.click()")
    await tab.wait_for("document.activeElement.id === 'config-tasks.max' && document.activeElement.checkVisibility()")
    await check_contrast(tab)
    for width in (1280, 390):
        await tab.size(width, 900)
        assert await tab.value("document.documentElement.scrollWidth") <= width
    await tab.size(1280, 900)
    await type_into(tab, "tasks.max", "1")
    await tab.wait_for(f"!{button('Create')}.disabled")


async def _edit_offset(tab: Tab, pictures: Pictures) -> None:
    await tab.wait_for("document.querySelector('td button.small') !== null")
    await tab.value("document.querySelector('td button.small').click()")
    await tab.wait_for("document.querySelector('textarea') !== null")
    await pictures.take(tab, "offsets")
    # An offset that the connector refuses is unchanged, and the connector's message is shown.
    before = await tab.value(_OFFSET)
    await write(tab, "document.querySelector('textarea')", json.dumps({"position": "far"}))
    await tab.value(f"{button('Save this offset')}.click()")
    await tab.wait_for("document.querySelector('textarea') === null || document.body.textContent.includes('position')")
    assert await tab.value(_OFFSET) == before
    await tab.wait_for(f"!{button('Save this offset')}.disabled")
    await write(tab, "document.querySelector('textarea')", f'{{"position": {_LONG}}}')
    await tab.value(f"{button('Save this offset')}.click()")
    await tab.wait_for(f"{_OFFSET}.includes('{_LONG}')")
    await _change_meanwhile(tab)


async def _change_meanwhile(tab: Tab) -> None:
    """The editor reports changes made in another tab, and asks before it overwrites them, also after a resume."""
    await tab.value("document.querySelector('td button.small').click()")
    await tab.wait_for("document.querySelector('textarea') !== null")
    path = "../connectors/by-form"
    await tab.value(
        f"fetch('{path}/offsets').then((answer) => answer.text()).then((text) => fetch('{path}/offsets', {{method: 'PATCH',"
        f" headers: {{'Content-Type': 'application/json'}}, body: text.replace('{_LONG}', '2')}})).then((answer) => answer.status)"
    )
    await tab.wait_for("document.body.textContent.includes('Meanwhile this offset became')")
    assert await tab.value(f"{button('Save this offset')}.disabled")
    await tab.value(f"{button('Change it nevertheless')}.click()")
    await tab.wait_for(f"!{button('Save this offset')}.disabled")
    await tab.value(f"fetch('{path}/resume', {{method: 'PUT'}})")
    await tab.wait_for("document.body.textContent.includes('The connector is not stopped any more')")
    assert await tab.value(f"{button('Save this offset')}.disabled")
    await tab.value(f"{button('Cancel')}.click()")
    await tab.value(f"{button('Stop')}.click()")
    await tab.wait_for("document.querySelector('h1').textContent.includes('STOPPED')")


async def _refuse(tab: Tab, text: str, unchanged: str) -> None:
    """The button asks for a confirmation, and does nothing if it is refused."""
    tab.confirms, asked = False, tab.dialogs
    await tab.value(f"{button(text)}.click()")
    tab.confirms = True
    assert tab.dialogs == asked + 1, text
    assert await tab.value(unchanged)
