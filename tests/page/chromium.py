"""Drives a headless Chromium by its DevTools protocol: https://chromedevtools.github.io/devtools-protocol."""

from __future__ import annotations

import asyncio
import base64
import itertools
import os
import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_SECONDS = 120.0
_POLL_SECONDS = 0.05


def find_chromium() -> str:
    """The program in $CHROMIUM, or on the PATH."""
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        raise SystemExit("There is no Chromium: apt-get install chromium, or set CHROMIUM to the program")
    return found


class Tab:
    """A browser tab. `errors` are errors that the page reported: exceptions, failed loads, violations of its CSP.

    `held` are the addresses of requests that `hold` keeps from the worker. `confirms`: dialogs are confirmed.
    """

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.errors: list[str] = []
        self.held: list[str] = []
        self.confirms = True
        self.dialogs = 0
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}
        self._reading = asyncio.ensure_future(self._read())

    async def send(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        return await asyncio.wait_for(answer, _SECONDS)

    async def value(self, expression: str) -> Any:
        """The value of a JavaScript expression; a promise is awaited."""
        answer = await self.send("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    async def wait_for(self, expression: str) -> Any:
        """Wait until a JavaScript expression is true."""
        async with asyncio.timeout(_SECONDS):
            while not (value := await self.value(expression)):
                await asyncio.sleep(_POLL_SECONDS)
        return value

    async def open(self, url: str) -> None:
        await self.send("Page.navigate", url=url)

    async def back(self) -> None:
        """Go back in the history. A script that does that may end with its page, before it has answered."""
        history = await self.send("Page.getNavigationHistory")
        before = history["entries"][history["currentIndex"] - 1]
        await self.send("Page.navigateToHistoryEntry", entryId=before["id"])

    async def key(self, key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            text = {"text": key} if len(key) == 1 and kind == "keyDown" else {}
            await self.send("Input.dispatchKeyEvent", type=kind, key=key, **text)

    async def hold(self, pattern: str) -> None:
        """Hold requests back from the worker until `release`. A * in the pattern stands for any text."""
        self.held.clear()
        await self.send("Fetch.enable", patterns=[{"urlPattern": pattern}])

    async def release(self) -> None:
        await self.send("Fetch.disable")

    async def size(self, width: int, height: int) -> None:
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False
        )

    async def scheme(self, name: str) -> None:
        """Set the preferred color scheme."""
        await self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    async def screenshot(self, path: Path, *, whole: bool = True) -> None:
        answer = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))

    async def _read(self) -> None:
        async for message in self._socket:
            body = message.json()
            if "id" in body:
                future = self._answers.pop(body["id"])
                if "error" in body:
                    future.set_exception(AssertionError(body["error"]))
                else:
                    future.set_result(body["result"])
                continue
            parameters = body.get("params", {})
            match body["method"]:
                case "Runtime.exceptionThrown":
                    self.errors.append(str(parameters["exceptionDetails"].get("exception", {}).get("description")))
                case "Log.entryAdded" if parameters["entry"]["level"] == "error":
                    self.errors.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")
                case "Fetch.requestPaused":
                    self.held.append(parameters["request"]["url"])
                case "Page.javascriptDialogOpening":
                    self.dialogs += 1
                    answer = self.send("Page.handleJavaScriptDialog", accept=self.confirms)
                    self._answering = asyncio.ensure_future(answer)

    async def close(self) -> None:
        self._reading.cancel()


@asynccontextmanager
async def chromium(folder: Path) -> AsyncIterator[Tab]:
    """A tab of a separate browser, with its profile in a folder."""
    process = await asyncio.create_subprocess_exec(
        find_chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
        "--hide-scrollbars", "--remote-debugging-port=0", f"--user-data-dir={folder}", "about:blank",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        port = await asyncio.wait_for(_port(process), _SECONDS)
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as response:
                pages = [page for page in await response.json() if page["type"] == "page"]
            async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                tab = Tab(socket)
                for domain in ("Page", "Runtime", "Log"):
                    await tab.send(f"{domain}.enable")
                yield tab
                await tab.close()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()


async def _port(process: asyncio.subprocess.Process) -> int:
    assert process.stderr is not None
    async for line in process.stderr:
        if found := re.search(rb"DevTools listening on ws://127\.0\.0\.1:(\d+)/", line):
            return int(found[1])
    raise AssertionError("Chromium ended")
