"""Uses the page at /ui in a real Chromium, on a real worker and broker, and makes the pictures of the docs.

.venv/bin/python -m tests.page --pictures docs/pictures
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
import time
from pathlib import Path
from urllib.parse import quote

from confluent_kafka import Producer
from prometheus_client import CollectorRegistry

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.herder.distributed.group_metrics import GroupMetrics
from tests.page.changes import check_changes
from tests.page.chromium import Tab, chromium
from tests.page.hardships import check_hardships
from tests.page.looks import check_contrast, check_plots, take_down_labels
from tests.page.terminal import picture_of_demo, picture_of_top
from tests.support.model_herder import ModelHerder
from tests.support.processes import Process
from tests.support.rest import RestApis
from tests.support.topics import Topics

_SECONDS = 60
_NARROW = 390
_STRING = "org.apache.kafka.connect.storage.StringConverter"
_LONG = "org.apache.kafka.connect.converters.LongConverter"
_EVENTS = "document.querySelectorAll('ul.events li')"
_CARD = "[...document.querySelectorAll('article')].find((each) => each.textContent.includes('a-job-that-hangs'))"
_STATES = "[...document.querySelectorAll('.tiles .state')].map((each) => each.textContent).join()"
_FAIL_THE_LAST = """
import(new URL('live.js', document.baseURI)).then(({ live }) => { live.rows.get('connector-499').state = 'FAILED'; })
"""
_RESTART = "[...document.querySelectorAll('button')].find((each) => each.textContent === 'Restart what failed')"
_ROW = "document.querySelectorAll('table.connectors tbody tr')"


def main() -> None:
    """Run all, and print what was found."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", type=Path, required=True)
    pictures = parser.parse_args().pictures
    pictures.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="fencepost-page-") as folder:
        print(f"500 connectors are shown after {_many_connectors(Path(folder)):.2f} s")
        check_hardships(Path(folder))
        with EmbeddedBroker(Path(folder) / "broker") as broker:
            _use(Path(folder), broker.bootstrap_servers, pictures)
    picture_of_demo(pictures / "demo.svg")
    print(f"The page works; its pictures are in {pictures}")


def _many_connectors(folder: Path) -> float:
    """The seconds from the request for the page until 500 connectors are rendered."""
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
                await tab.size(_NARROW, 800)
                assert await tab.value("document.documentElement.scrollWidth") <= _NARROW
                assert tab.errors == [], tab.errors
                return seconds

        seconds: float = apis.call(look())
        return seconds


def _rebalance(group: GroupMetrics) -> None:
    group.rebalance_began()
    group.rebalance_completed()


def _use(folder: Path, bootstrap: str, pictures: Path) -> None:
    Topics(bootstrap).create("orders", partitions=2)
    worker = folder / "worker.properties"
    worker.write_text(
        f"bootstrap.servers={bootstrap}\ngroup.id=shop\nlisteners=http://127.0.0.1:0\nkey.converter={_STRING}\n"
        f"value.converter={_STRING}\noffset.storage.partitions=1\nfencepost.files.allowed.paths={folder}\n"
    )
    lines = folder / "orders.txt"
    lines.touch()
    files = [
        _connector(
            folder, "orders", lines, "orders", "transaction.boundary=interval\ntransaction.boundary.interval.ms=1500"
        ),
        _connector(folder, "customers", lines, "customers"),
        _connector(folder, "broken", lines, "numbers", f"value.converter={_LONG}"),
    ]
    arguments = ("standalone", "--quiet", str(worker), *map(str, files))
    with Process.fencepost(*arguments, log_file=folder / "log") as process:
        process.wait_for_output("The REST API answers at")
        found = re.search(r"answers at (http://127\.0\.0\.1:\d+)", process.output)
        assert found is not None
        asyncio.run(_look(found[1], folder, lines, bootstrap, pictures))


def _connector(folder: Path, name: str, source: Path, topic: str, *more: str) -> Path:
    path = folder / f"{name}.properties"
    path.write_text(
        "\n".join([f"name={name}", "connector.class=FileStreamSource", f"file={source}", f"topic={topic}", *more])
    )
    return path


async def _look(url: str, folder: Path, lines: Path, bootstrap: str, pictures: Path) -> None:
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
        await picture_of_top(url, pictures / "top.svg")
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


async def _overview(tab: Tab, pictures: Path) -> None:
    await tab.wait_for(f"{_ROW}.length === 3")
    await tab.wait_for(f"{_ROW}[0].textContent.includes('broken') && {_ROW}[0].textContent.includes('FAILED')")
    await tab.wait_for(f"[...{_ROW}].filter((row) => row.textContent.includes('RUNNING')).length === 2")
    for scheme in ("light", "dark"):
        await tab.scheme(scheme)
        await tab.screenshot(pictures / f"overview-{scheme}.png")
    await check_contrast(tab)
    await tab.size(_NARROW, 800)
    assert await tab.value("document.documentElement.scrollWidth") <= _NARROW
    await tab.screenshot(pictures / "overview-narrow.png")
    await tab.size(1280, 800)


async def _failed_connector(tab: Tab) -> None:
    """What failed is said before the trace, and what there is not in words; the view begins at its top."""
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


async def _one_connector(tab: Tab, pictures: Path) -> None:
    await tab.value("document.querySelector('a[href=\"#/connectors/orders\"]').click()")
    await tab.wait_for(f"{_RESTART}?.disabled")
    # The time line and the rate, and the lag if there is one.
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
    await tab.screenshot(pictures / "connector.png")
    await check_contrast(tab)
    await tab.size(_NARROW, 800)
    assert await tab.value("document.documentElement.scrollWidth") <= _NARROW
    assert await tab.value("document.querySelectorAll('canvas').length") >= 2
    await check_plots(tab)
    await tab.size(1280, 800)
    await tab.value("document.activeElement.blur()")
    await tab.key("Escape")
    await tab.wait_for(f"{_ROW}.length === 3")


async def _topic(tab: Tab, url: str, bootstrap: str, pictures: Path) -> None:
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
    await tab.screenshot(pictures / "topic.png")
    await check_contrast(tab)
    await tab.size(_NARROW, 800)
    assert await tab.value("document.documentElement.scrollWidth") <= _NARROW
    await _abort(tab)


async def _abort(tab: Tab) -> None:
    """Abort the transaction by keyboard, in the dark: first without a yes, then with it."""
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
