"""Rows that imitate something else: code, or fencepost's own messages."""

from __future__ import annotations

import base64
import pickle
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hostile.brokers import Kafka
from tests.hostile.programs import unique, wait_for
from tests.hostile.site import Site, running_site
from tests.hostile.trials import Case, delivers, run, says
from tests.hostile.workers import STRING

_OWN_MESSAGES = 40


@pytest.fixture(scope="module")
def spark_site(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with running_site(kafka, tmp_path_factory.mktemp("rows"), spark=True) as site:
        yield site


class Payload:
    """An object that creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return (Path.touch, (self.path,))


def malicious_rows(path: Path) -> list[str]:
    """A pickled payload in all encodings that some code might unpickle."""
    content = pickle.dumps(Payload(path), protocol=0), pickle.dumps(Payload(path))
    texts = [text for raw in content for text in (base64.b64encode(raw).decode(), raw.hex())]
    texts.append(content[0].decode("latin-1"))
    marks = ("fencepost-failure:", "fencepost-failure: ", "fencepost-error:", "PythonException: fencepost-failure:", "")
    return [f"{mark}{text}" for text in texts for mark in marks]


def own_messages(site: Site) -> list[str]:
    """All messages of fencepost so far: its log, and the traces in its REST API."""
    said = [re.sub(r"^\S+ \S+ +", "", line) for line in site.worker.process.output.splitlines()]
    statuses = site.worker.request("GET", "/connectors?expand=status").body
    for status in statuses.values():
        said += [task.get("trace") or "" for task in status["status"]["tasks"]]
    shortened = {re.sub(r"\d+", "7", text): text for text in said if text.strip()}
    return list(shortened.values())[-_OWN_MESSAGES:]


def test_a_row_that_imitates_code_is_never_run(spark_site: Site, tmp_path: Path) -> None:
    ran = tmp_path / "code-ran"
    rows = malicious_rows(ran)
    casts = {f"cast {n}": _case("rows.Casting", row, says("CAST_INVALID_INPUT")) for n, row in enumerate(rows[:3])}
    shouts = {f"shout {n}": _case("rows.Shouting", row, says("ValueError")) for n, row in enumerate(rows)}
    sends = {f"send {n}": _case("rows.Sending", row, delivers) for n, row in enumerate(rows)}

    wrong = run(spark_site, casts | shouts | sends | _files(spark_site, rows[:3]))

    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    assert not ran.exists()
    spark_site.check()


def test_rows_with_fenceposts_own_messages_are_ordinary_data(spark_site: Site) -> None:
    failing = {"a failure": _case("rows.Shouting", "first", says("first"))}
    assert not run(spark_site, failing)
    rows = own_messages(spark_site)
    assert rows
    shouts = {f"shout {n}": _case("rows.Shouting", row, says("ValueError")) for n, row in enumerate(rows[-10:])}
    casts = {f"cast {n}": _case("rows.Casting", row, says("CAST_INVALID_INPUT")) for n, row in enumerate(rows[-3:])}

    wrong = run(spark_site, shouts | casts)
    sent = _sent_as_lines(spark_site, rows)

    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    assert sent == [line for row in rows for line in row.splitlines()]
    spark_site.check()


def _case(plugin: str, row: str, promise: object) -> Case:
    return Case({"connector.class": plugin, "row": row}, promise)


def _files(site: Site, rows: list[str]) -> dict[str, Case]:
    """Files with one row that is not a number: the error has to name the file and the line."""
    cases = {}
    for number, row in enumerate(rows):
        path = site.folder / f"rows-{number}.csv"
        path.write_text(f'1\n"{row}"\n')
        config = {"connector.class": "FileSource", "files": str(path), "format": "csv", "schema": "value INT"}
        cases[f"file {number}"] = Case(config, says(path.name))
    return cases


def _sent_as_lines(site: Site, rows: list[str]) -> list[str]:
    name = unique("lines")
    path = site.folder / f"{name}.txt"
    lines = [line for row in rows for line in row.splitlines()]
    path.write_text("".join(f"{line}\n" for line in lines))
    site.kafka.create(name)
    config = {"connector.class": "FileStreamSource", "file": str(path), "topic": name, "value.converter": STRING}
    assert site.worker.create(name, config).status == 201
    wait_for(lambda: len(site.kafka.read(name)) >= len(lines), f"the lines of {name} arrive")
    site.worker.delete(name)
    return [message.value().decode() for message in site.kafka.read(name)]
