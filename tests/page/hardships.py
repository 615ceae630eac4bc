"""The page under faults: a worker that is frozen, down or slow, a wrong clock of the reader, mistyped keys."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from tests.page.chromium import Tab, chromium
from tests.support.model_herder import ModelHerder
from tests.support.rest import Api, RestApis

_STATUS = "document.querySelector('header [role=status]').textContent"
_TOPIC = "document.getElementById('config-topic')"
_OUTCOME = "[...document.querySelectorAll('section')].pop().querySelector('[role=status]').textContent.trim()"
_SAVE = "[...document.querySelectorAll('button')].find((each) => each.textContent === 'Save')"
_PLUGINS = "document.getElementById('plugin').options"
_NAMES = "[...document.querySelectorAll('table.connectors tbody th')].map((each) => each.textContent.trim()).join()"
_ROWS = "document.querySelectorAll('table.connectors tbody tr').length"
_TURNING = "d\u202ee"
_DAYS = 1_000
_SECONDS = 60
# The worker itself ends each stream after this time.
_STREAM_SECONDS = 60


class Relay:
    """Forwards connections to a worker. `away`: requests are answered as by a proxy whose worker is down.

    `refused` counts these requests, `streams` the requests for events, and `ended` those whose connection the browser
    closed.
    """

    def __init__(self, port: int) -> None:
        self.away = False
        self.refused = 0
        self.streams = 0
        self.ended = 0
        self._port = port
        self._writers: list[asyncio.StreamWriter] = []
        self._frozen: set[asyncio.StreamWriter] = set()

    def freeze(self) -> None:
        """Forward nothing more on the current connections; they stay open."""
        self._frozen.update(self._writers)

    def cut(self) -> None:
        """Close all connections."""
        for writer in self._writers:
            writer.close()
        self._writers.clear()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Handle a connection."""
        with suppress(ConnectionError, asyncio.IncompleteReadError):
            if self.away:
                await reader.readuntil(b"\r\n\r\n")
                self.refused += 1
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                writer.close()
                return
            theirs, worker = await asyncio.open_connection("127.0.0.1", self._port)
            if self.away:
                # Earlier connections were cut already.
                writer.close()
                worker.close()
                return
            self._writers += [writer, worker]
            await asyncio.gather(self._pass_on(reader, worker), self._pass_on(theirs, writer))

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        streams = 0
        while data := await reader.read(65_536):
            streams += b" /ui/api/events " in data
            self.streams += b" /ui/api/events " in data
            if writer not in self._frozen:
                writer.write(data)
        self.ended += streams
        writer.close()


def check_hardships(folder: Path) -> None:
    """Check all faults, with a worker that keeps everything in memory."""
    source = folder / "one.txt"
    source.write_text("one\n")
    users = folder / "users.properties"
    users.write_text("reader=secret\n")
    config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "t"}
    herder = ModelHerder()
    with RestApis() as apis:
        api = apis.serve(herder)
        for name in ("c", _TURNING):
            assert api.post("/connectors", {"name": name, "config": config}).status == 201
        secured = apis.serve(herder, {"rest.basic.auth.credentials.file": str(users)})
        apis.call(_look(folder, api, secured))


async def _look(folder: Path, api: Api, secured: Api) -> None:
    async with chromium(folder / "profile-hardships") as tab, _relay(api) as (relay, url):
        await _with_a_password_in_the_address(tab, secured)
        await _a_name_that_turns_the_text(tab, url)
        await _a_filter_that_is_left(tab, url)
        await _slips_of_keys(tab, url)
        await _a_validation_that_takes_long(tab)
        await _a_draft_without_a_class(tab)
        await _one_question_at_a_time(tab, url)
        await _unseen(tab, url, relay)
        assert tab.errors == [], tab.errors
        await _frozen(tab, relay)
        await _away(tab, relay)
        await _with_a_clock_that_is_wrong(tab, url)


@asynccontextmanager
async def _relay(api: Api) -> AsyncIterator[tuple[Relay, str]]:
    relay = Relay(int(api.url.rstrip("/").rpartition(":")[2]))
    server = await asyncio.start_server(relay.serve, "127.0.0.1", 0)
    try:
        yield relay, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        relay.cut()
        server.close()


async def _with_a_password_in_the_address(tab: Tab, secured: Api) -> None:
    await tab.open(f"{secured.url.rstrip('/')}/ui/#/connectors/c".replace("://", "://reader:secret@"))
    await tab.wait_for("document.querySelector('h1 .state') !== null")


async def _a_name_that_turns_the_text(tab: Tab, url: str) -> None:
    """The name is shown escaped wherever it is text, and its link leads to the connector."""
    await tab.open(f"{url}/ui/#/")
    await tab.wait_for(f"{_NAMES} === 'c,d\\\\u202ee'")
    await tab.value("[...document.querySelectorAll('table.connectors a')].pop().click()")
    await tab.wait_for("document.querySelector('h1 .state') !== null")
    assert "\u202e" not in await tab.value("document.title + document.getElementById('app').innerText")
    assert await tab.value("document.getElementById('config-name').value") == _TURNING


async def _a_filter_that_is_left(tab: Tab, url: str) -> None:
    await tab.open(f"{url}/ui/#/")
    await tab.wait_for("document.querySelector('.filter input') !== null")
    await tab.value("document.querySelector('.filter input').focus()")
    await tab.send("Input.insertText", text="d")
    await tab.wait_for(f"{_ROWS} === 1")
    await tab.value("document.querySelector('table.connectors a').click()")
    await tab.wait_for("document.querySelector('h1 .state') !== null")
    await tab.back()
    await tab.wait_for(f"document.querySelector('.filter input')?.value === 'd' && {_ROWS} === 1")


async def _slips_of_keys(tab: Tab, url: str) -> None:
    """Escape in a field keeps the typed text, and the skip link leads to the content."""
    await tab.open(f"{url}/ui/#/connectors/c")
    await tab.wait_for(f"location.port !== '' && {_TOPIC} !== null && location.href.startsWith('{url}')")
    await _type(tab, "draft")
    await tab.key("Escape")
    await tab.wait_for(f"document.activeElement !== {_TOPIC}")
    assert await tab.value("location.hash") == "#/connectors/c"
    assert await tab.value(f"{_TOPIC}.value") == "draft"
    await tab.value("document.querySelector('.skip').click()")
    await tab.wait_for("document.activeElement.id === 'main'")
    assert await tab.value("location.hash") == "#/connectors/c"


async def _a_validation_that_takes_long(tab: Tab) -> None:
    """A draft is not called valid, and cannot be saved, before its validation has ended."""
    await tab.wait_for(f"{_OUTCOME} === 'Valid, not saved.' && !{_SAVE}.disabled")
    await tab.hold("*/config/validate")
    await _type(tab, "not a topic")
    await tab.wait_for(f"{_OUTCOME} === 'Checking ...' && {_SAVE}.disabled")
    await tab.release()
    await tab.wait_for(f"{_OUTCOME} === '1 property has an error: topic.' && {_SAVE}.disabled")


async def _a_draft_without_a_class(tab: Tab) -> None:
    """Without a class nothing is validated: the page says so, with a link to the field."""
    await tab.value("document.querySelector('[aria-label=\"Remove connector.class\"]').click()")
    await tab.wait_for(f"{_OUTCOME} === 'Still missing: connector.class.' && {_SAVE}.disabled")
    await tab.value("[...document.querySelectorAll('button.link')].pop().click()")
    await tab.wait_for("document.getElementById('config-connector.class')?.value === ''")
    assert await tab.value(_OUTCOME) == "Still missing: connector.class."


async def _one_question_at_a_time(tab: Tab, url: str) -> None:
    await tab.open(f"{url}/ui/#/")
    await tab.wait_for("document.querySelector('table.connectors') !== null")
    await tab.hold("*/connectors/c/status")
    await tab.value("location.hash = '#/connectors/c'")
    # Longer than several refresh intervals.
    await tab.wait_for(f"performance.now() > {await tab.value('performance.now()')} + 7000")
    assert len(tab.held) == 1, tab.held
    await tab.release()
    await tab.wait_for("document.querySelector('h1 .state') !== null")


async def _unseen(tab: Tab, url: str, relay: Relay) -> None:
    """A page in the browser's back/forward cache has no open connection: browsers limit connections to one host."""
    await tab.open("about:blank")
    async with asyncio.timeout(_STREAM_SECONDS / 2):
        while relay.ended < relay.streams:
            await asyncio.sleep(0.05)
    await tab.back()
    await tab.wait_for(f"location.href.startsWith('{url}') && {_STATUS} === 'live'")


async def _frozen(tab: Tab, relay: Relay) -> None:
    """Outdated data are not called live, and another connection is tried."""
    await tab.wait_for(f"{_STATUS} === 'live'")
    relay.freeze()
    before = relay.streams
    await tab.wait_for(f"{_STATUS}.startsWith('not connected since ')")
    async with asyncio.timeout(_SECONDS):
        while relay.streams == before:
            await asyncio.sleep(0.05)
    relay.cut()
    await tab.wait_for(f"{_STATUS} === 'live'")


async def _away(tab: Tab, relay: Relay) -> None:
    """A validation that failed while the worker was down is repeated once it is back, without a change of the form."""
    await tab.value("location.hash = '#/create'")
    await tab.wait_for(f"{_PLUGINS}.length > 1")
    await tab.value(
        f"({_PLUGINS}[1].selected = true, {_PLUGINS}[1].dispatchEvent(new Event('change', {{bubbles: true}})))"
    )
    await tab.wait_for("document.getElementById('config-name') !== null")
    relay.away = True
    relay.cut()
    await tab.wait_for(f"{_STATUS}.startsWith('not connected since ')")
    await tab.value("document.getElementById('config-name').focus()")
    await tab.send("Input.insertText", text="typed-while-away")
    await tab.wait_for("document.querySelector('form').textContent.includes('Not checked.')")
    async with asyncio.timeout(_SECONDS):
        while relay.refused < 3:
            await asyncio.sleep(0.05)
    relay.away = False
    await tab.wait_for(f"{_STATUS} === 'live'")
    await tab.wait_for(
        "/Still missing|Valid/.test(document.querySelector('form').textContent) && !document.querySelector('.problem')"
    )
    await _opened_while_away(tab, relay)


async def _opened_while_away(tab: Tab, relay: Relay) -> None:
    await tab.value("location.hash = '#/'")
    relay.away = True
    relay.cut()
    await tab.wait_for(f"{_STATUS}.startsWith('not connected since ')")
    await tab.value("location.hash = '#/create'")
    await tab.wait_for("document.querySelector('form .problem') !== null")
    assert await tab.value(f"{_PLUGINS}.length") == 1
    relay.away = False
    await tab.wait_for(f"{_PLUGINS}.length > 1 && document.querySelector('form .problem') === null")


async def _with_a_clock_that_is_wrong(tab: Tab, url: str) -> None:
    """Ages use the worker's clock: the commit was more than a thousand days ago."""
    await tab.send(
        "Page.addScriptToEvaluateOnNewDocument",
        source=f"const right = Date.now; Date.now = () => right() - {_DAYS} * 86_400_000;",
    )
    await tab.open("about:blank")
    await tab.open(f"{url}/ui/#/")
    await tab.wait_for("document.querySelector('table.connectors tbody tr') !== null")
    age = await tab.value("document.querySelector('[data-label=\"last commit\"]').textContent")
    assert age.endswith(" days"), age
    assert int(age.removesuffix(" days")) > _DAYS, age


async def _type(tab: Tab, text: str) -> None:
    await tab.value(f"({_TOPIC}.focus(), {_TOPIC}.select())")
    await tab.send("Input.insertText", text=text)
