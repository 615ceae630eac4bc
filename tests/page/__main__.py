"""Uses the page at /ui in a real Chromium, on a real worker and broker, and makes the pictures of the docs.

.venv/bin/python -m tests.page --pictures docs/pictures [--looks FOLDER]
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from confluent_kafka import Producer
from prometheus_client import CollectorRegistry

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.herder.distributed.group_metrics import GroupMetrics
from tests.page.changes import check_changes
from tests.page.chromium import Tab, chromium
from tests.page.hardships import check_hardships
from tests.page.history import check_history
from tests.page.java_connectors import check_java
from tests.page.looks import check_contrast, check_plots, take_down_labels
from tests.page.pictures import NARROW, WIDE, Pictures, set_look
from tests.page.terminal import picture_of_demo, picture_of_top
from tests.support.model_herder import ModelHerder
from tests.support.rest import RestApis
from tests.support.topics import Topics
from tests.support.workers import Group, WorkerApi

_SECONDS = 60
# A busy machine must not cost a worker its membership while pictures are taken.
_SESSION_MS = 60_000
_LONG = "org.apache.kafka.connect.converters.LongConverter"
_EVENTS = "document.querySelectorAll('ul.events li')"
_CARD = "[...document.querySelectorAll('article')].find((each) => each.textContent.includes('a-job-that-hangs'))"
_STATES = "[...document.querySelectorAll('.tiles .state')].map((each) => each.textContent).join()"
_FAIL_THE_LAST = """
import(new URL('live.js', document.baseURI)).then(({ live }) => { live.rows.get('connector-499').state = 'FAILED'; })
"""
_RESTART = "[...document.querySelectorAll('button')].find((each) => each.textContent === 'Restart failed parts')"
_FIRST_FIGURES = "document.querySelector('table.figures tbody th')"
_ROW = "document.querySelectorAll('table.connectors tbody tr')"


def main() -> None:
    """Run all checks, and print the results."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=Path, required=True)
    parser.add_argument("--looks", type=Path, help="a folder for each view in light and dark, wide and narrow")
    arguments = parser.parse_args()
    pictures = Pictures(arguments.pictures, arguments.looks)
    with tempfile.TemporaryDirectory(prefix="fencepost-page-") as folder:
        print(f"500 connectors are shown after {_many_connectors(Path(folder)):.2f} s")
        check_hardships(Path(folder))
        check_history(Path(folder))
        with EmbeddedBroker(Path(folder) / "broker") as broker:
            _use(Path(folder), broker.bootstrap_servers, pictures)
            check_java(Path(folder) / "java", broker.bootstrap_servers, pictures)
    picture_of_demo(pictures.docs / "demo.svg")
    print(f"The page works; its pictures are in {pictures.docs}")


def _many_connectors(folder: Path) -> float:
    """Return the seconds from the request for the page until 500 connectors are rendered."""
    herder = ModelHerder()
    group = GroupMetrics()
    registry = CollectorRegistry(auto_describe=False)
    registry.register(group)
    _rebalance(group)
    with RestApis() as apis:
        api = apis.serve(herder, registry=registry)
        source = folder / "in.txt"
        source.write_text("one\n")
        config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "t"}
        assert api.post("/connectors", {"name": "c", "config": config}).status == 201
        herder.known = {f"connector-{number:03}": herder.known["c"] for number in range(500)}

        async def look() -> float:
            async with chromium(folder / "profile-500") as tab:
                started = time.monotonic()
                await tab.open(f"{api.url}/ui/")
                await tab.wait_for(f"{_ROW}.length === 500")
                seconds = time.monotonic() - started
                while await tab.value("document.activeElement.tagName") != "INPUT":
                    await tab.key("/")
                await tab.send("Input.insertText", text="connector-123")
                await tab.wait_for(f"{_ROW}.length === 1")
                await tab.wait_for(f"{_EVENTS}.length === 1")
                await tab.value(_FAIL_THE_LAST)
                _rebalance(group)
                group.fenced(0.2, success=True)
                await tab.wait_for(f"{_EVENTS}.length === 3 && {_EVENTS}[0].textContent.includes('1 rebalance')")
                assert (await tab.value(_STATES)).startswith("FAILED,"), "failed ones come first"
                await tab.size(NARROW, 800)
                assert await tab.value("document.documentElement.scrollWidth") <= NARROW
                assert tab.errors == [], tab.errors
                return seconds

        seconds: float = apis.call(look())
        return seconds


def _rebalance(group: GroupMetrics) -> None:
    group.rebalance_began()
    group.rebalance_completed()


def _use(folder: Path, bootstrap: str, pictures: Pictures) -> None:
    Topics(bootstrap).create("orders", partitions=2)
    topics = {f"{kind}_storage_topic": f"shop-{kind}" for kind in ("config", "offset", "status")}
    group = Group(folder, bootstrap, group_id="shop", session_timeout_ms=str(_SESSION_MS), **topics)
    lines = folder / "orders.txt"
    lines.touch()
    with group.workers(3) as workers:
        interval = {"transaction.boundary": "interval", "transaction.boundary.interval.ms": "1500"}
        _create(workers[0], "orders", lines, "orders", interval)
        _create(workers[0], "customers", lines, "customers", {})
        _create(workers[0], "broken", lines, "numbers", {"value.converter": _LONG})
        asyncio.run(_look(workers[0].url, folder, lines, bootstrap, pictures))


def _create(worker: WorkerApi, name: str, source: Path, topic: str, more: Mapping[str, str]) -> None:
    config = {"connector.class": "FileStreamSource", "file": str(source), "topic": topic, **more}
    answer = worker.request("POST", "/connectors", {"name": name, "config": config})
    assert answer.status == 201, answer


async def _look(url: str, folder: Path, lines: Path, bootstrap: str, pictures: Pictures) -> None:
    writing = asyncio.ensure_future(_write(lines))
    async with chromium(folder / "profile") as tab:
        await take_down_labels(tab)
        await tab.size(1280, 800)
        await tab.open(f"{url}/")
        await tab.wait_for("document.querySelector('a[href=\"ui/\"]') !== null")
        await tab.value("document.querySelector('a').click()")
        await _overview(tab, pictures)
        await _failed_connector(tab)
        await _one_connector(tab, pictures)
        await _topic(tab, url, bootstrap, pictures)
        await tab.scheme("light")
        await check_changes(tab, url, _one_line(folder), pictures)
        await picture_of_top(url, pictures.docs / "top.svg")
        assert tab.errors == [], tab.errors
    writing.cancel()


def _one_line(folder: Path) -> Path:
    path = folder / "one-line.txt"
    path.write_text("one\n")
    return path


async def _write(lines: Path) -> None:
    with lines.open("a") as file:
        for number in range(1_000_000):
            file.write(f"order {number}\n" * (50 + number % 40))
            file.flush()
            await asyncio.sleep(0.1)


async def _overview(tab: Tab, pictures: Pictures) -> None:
    await tab.wait_for(f"{_ROW}.length === 3")
    await tab.wait_for(f"{_ROW}[0].textContent.includes('broken') && {_ROW}[0].textContent.includes('FAILED')")
    await tab.wait_for(f"[...{_ROW}].filter((row) => row.textContent.includes('RUNNING')).length === 2")
    for name, scheme, width in (("dark", "dark", WIDE), ("narrow", "light", NARROW), ("narrow-dark", "dark", NARROW)):
        await set_look(tab, scheme, width)
        assert await tab.value("document.documentElement.scrollWidth") <= width
        await tab.screenshot(pictures.docs / f"overview-{name}.png")
    await check_contrast(tab)
    await pictures.take(tab, "overview")


async def _failed_connector(tab: Tab) -> None:
    """The error is shown above the trace, and missing parts are named; the page starts at its top."""
    await tab.value("scrollTo(0, 1_000)")
    await tab.value("document.querySelector('a[href=\"#/connectors/broken\"]').click()")
    await tab.wait_for("document.querySelector('h1')?.textContent === 'broken FAILED'")
    await tab.wait_for(
        "document.querySelector('main > .problem')?.textContent.includes('LongConverter takes BIGINT only')"
    )
    assert not await tab.value(f"{_RESTART}.disabled")
    for told in ("It is not known to have written to a topic.", "No offset is committed yet."):
        await tab.wait_for(f"document.querySelector('main').textContent.includes({told!r})")
    assert await tab.value("[scrollY, document.activeElement.id]") == [0, "main"]
    assert await tab.value("getComputedStyle(document.getElementById('main')).outlineStyle") == "none"
    await tab.value("document.querySelector('nav a').click()")
    await tab.wait_for(f"{_ROW}.length === 3")


async def _one_connector(tab: Tab, pictures: Pictures) -> None:
    await tab.value("document.querySelector('a[href=\"#/connectors/orders\"]').click()")
    await tab.wait_for(f"{_RESTART}?.disabled")
    # The timeline and the rate; also the lag if there is one.
    await tab.wait_for("document.querySelectorAll('canvas').length >= 2")
    await tab.wait_for("document.querySelector('ul.logs li') !== null")
    await tab.wait_for("/[1-9]\\d* transactions of 1 tasks/.test(document.querySelector('.plot').ariaLabel)")
    await tab.wait_for("document.querySelectorAll('.property .doc code').length > 0")
    await tab.wait_for(
        "[...document.querySelectorAll('td')].some((cell) => cell.dataset.label === 'before' && cell.textContent)"
    )
    await tab.value("document.getElementById('config-transaction.boundary').focus()")
    await tab.value("document.getElementById('config-transaction.boundary').select()")
    await tab.send("Input.insertText", text="sometimes")
    await tab.wait_for("document.getElementById('config-transaction.boundary').getAttribute('aria-invalid') === 'true'")
    await pictures.take(tab, "connector")
    await check_contrast(tab)
    await tab.size(NARROW, 800)
    assert await tab.value("document.documentElement.scrollWidth") <= NARROW
    assert await tab.value("document.querySelectorAll('canvas').length") >= 2
    await check_plots(tab)
    await tab.size(1280, 800)
    await tab.value("document.activeElement.blur()")
    await tab.key("Escape")
    await tab.wait_for(f"{_ROW}.length === 3")


async def _topic(tab: Tab, url: str, bootstrap: str, pictures: Pictures) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "a-job-that-hangs", "log_level": 0})
    await asyncio.to_thread(producer.init_transactions, _SECONDS)
    producer.begin_transaction()
    for partition in (0, 1):
        producer.produce("orders", b"hidden", partition=partition)
    assert await asyncio.to_thread(producer.flush, _SECONDS) == 0
    await tab.hold("*/ui/api/topics/*")
    await tab.open(f"{url}/ui/#/topics/{quote('orders')}")
    await tab.wait_for("document.querySelector('main').textContent.includes('Asking the brokers')")
    await tab.release()
    await tab.wait_for(f"{_CARD} !== undefined")
    assert "offsets in partitions 0, 1." in await tab.value(f"{_CARD}.textContent.replace(/\\s+/g, ' ')")
    assert await tab.value("document.title") == "orders - fencepost"
    await tab.wait_for("document.querySelectorAll('table.records tbody tr').length === 20")
    assert "order" in await tab.value("document.querySelector('table.records td[data-label=value]').textContent")
    await pictures.take(tab, "topic")
    await check_contrast(tab)
    await tab.size(NARROW, 800)
    assert await tab.value("document.documentElement.scrollWidth") <= NARROW
    assert "partition" in await tab.value(f"getComputedStyle({_FIRST_FIGURES}, '::before').content"), "a bare number"
    await _abort(tab)


async def _abort(tab: Tab) -> None:
    """Abort the transaction by keyboard in dark mode: first without a confirmation, then with it."""
    await tab.scheme("dark")
    await tab.hold("*/ui/api/transactions/*")
    tab.confirms = False
    await tab.value(f"{_CARD}.querySelector('button').focus()")
    await tab.key(" ")
    await tab.wait_for(f"!{_CARD}.querySelector('button').disabled")
    assert (tab.dialogs, tab.held) == (1, [])
    tab.confirms = True
    await tab.key(" ")
    await tab.wait_for(f"{_CARD}.querySelector('button').textContent === 'Aborting ...'")
    assert await tab.value(f"{_CARD}.querySelector('button').disabled")
    assert [address.rpartition("/")[2] for address in tab.held] == ["abort"]
    await tab.release()
    await tab.wait_for(f"{_CARD} === undefined")


if __name__ == "__main__":
    main()
