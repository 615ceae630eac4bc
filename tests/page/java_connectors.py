"""Java connectors on the page: the form with their own definitions, their versions, and the trace of a failed task."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from tests.page.chromium import Tab, chromium
from tests.page.forms import OUTCOME, button, choose, type_into
from tests.page.looks import check_contrast
from tests.page.pictures import NARROW, WIDE, Pictures
from tests.support.java_connectors import java_group_worker
from tests.support.java_plugins import HOSTILE, VERSIONED, install_versions, plugin_path
from tests.support.topics import Topics
from tests.support.workers import Group

_TOPIC: Final = "numbers-of-java"
_PLUGINS: Final = "[...document.getElementById('plugin').options].map((each) => each.textContent)"
_CHOSEN: Final = "document.getElementById('plugin').selectedOptions[0].textContent"
_TRACE: Final = "[...document.querySelectorAll('section')].find((each) => each.textContent.startsWith('Task 0 failed'))"


def check_java(folder: Path, bootstrap_servers: str, pictures: Pictures) -> None:
    """Create Java connectors with the page. Raises AssertionError."""
    folder.mkdir()
    Topics(bootstrap_servers).create(_TOPIC)
    plugins = plugin_path(folder, "hostile")
    install_versions(plugins, "1.0", "2.0")
    with java_group_worker(Group(folder, bootstrap_servers, plugin_path=str(plugins))) as worker:
        asyncio.run(_look(worker.url, folder, pictures))


async def _look(url: str, folder: Path, pictures: Pictures) -> None:
    async with chromium(folder / "profile-java") as tab:
        await tab.size(WIDE, 900)
        await tab.open(f"{url}/ui/#/create")
        await _choose_a_version(tab)
        await _check_by_its_own_definitions(tab, pictures)
        await _create_one_that_fails(tab)
        await _see_its_trace(tab, pictures)
        # The page asks for the status of a new connector before there is one.
        unexpected = [error for error in tab.errors if "status of 404" not in error]
        assert unexpected == [], unexpected


async def _choose_a_version(tab: Tab) -> None:
    """Each version of a class has an option, and the properties of the one that is chosen are shown."""
    await choose(tab, f"{VERSIONED} 1.0")
    shown = set(await tab.value(_PLUGINS))
    assert {f"{HOSTILE} 6.6.6", f"{VERSIONED} 1.0", f"{VERSIONED} 2.0"} <= shown, shown
    for version in ("1.0", "2.0"):
        await choose(tab, f"{VERSIONED} {version}")
        await tab.wait_for(f"document.getElementById('config-of-told')?.textContent.includes('Default: {version}.')")
        assert await tab.value(_CHOSEN) == f"{VERSIONED} {version}"
        assert await tab.value("document.getElementById('config-connector.plugin.version').value") == version


async def _check_by_its_own_definitions(tab: Tab, pictures: Pictures) -> None:
    await choose(tab, HOSTILE)
    await tab.wait_for("document.getElementById('config-behaviour-told')?.textContent.includes('What goes wrong.')")
    assert await tab.value("document.getElementById('config-connector.plugin.version').value") == ""
    await tab.wait_for(f"{OUTCOME} === 'Still missing: name, topic.'")
    await type_into(tab, "name", "by-java")
    await type_into(tab, "topic", _TOPIC)
    await type_into(tab, "limit", "0")
    told = "Invalid value 0 for configuration limit: Value must be at least 1"
    await tab.wait_for(f"document.getElementById('config-limit-told').textContent.includes({told!r})")
    await tab.wait_for(f"{OUTCOME} === '1 property has an error: limit.'")
    assert await tab.value(f"{button('Create')}.disabled")
    await _look_at(tab, pictures, "java-create")
    await type_into(tab, "limit", "many")
    await tab.wait_for("document.getElementById('config-limit-told').textContent.includes('Not a number of type INT')")
    await type_into(tab, "limit", "3")


async def _create_one_that_fails(tab: Tab) -> None:
    await type_into(tab, "behaviour", "throw in task.poll")
    await tab.wait_for(f"!{button('Create')}.disabled")
    await tab.value(f"{button('Create')}.click()")
    await tab.wait_for("document.querySelector('h1').textContent.includes('by-java FAILED')")


async def _see_its_trace(tab: Tab, pictures: Pictures) -> None:
    """The error is above the trace, which has the lines of Java; a long line does not make the page wider."""
    await tab.wait_for("document.querySelector('main > .problem')?.textContent.includes('the source is gone')")
    await tab.wait_for(f"{_TRACE}?.querySelector('pre').textContent.includes('at hostile.HostileTask.poll')")
    await tab.wait_for(f"document.querySelector('main').textContent.includes('{HOSTILE} 6.6.6 on ')")
    await _look_at(tab, pictures, "java-connector")


async def _look_at(tab: Tab, pictures: Pictures, view: str) -> None:
    await pictures.look(tab, view)
    await check_contrast(tab)
    for width in (NARROW, WIDE):
        await tab.size(width, 900)
        assert await tab.value("document.documentElement.scrollWidth") <= width, (view, width)
