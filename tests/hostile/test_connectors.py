"""Hostile connectors next to good ones on one worker. The promises are in `cases`."""

from __future__ import annotations

import ast
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.hostile import cases
from tests.hostile.programs import unique, wait_for
from tests.hostile.site import Site
from tests.hostile.trials import Case, delivers, ends_and_comes_back, run
from tests.hostile.workers import CONNECTORS, good

_MB = 64
_STUCK_REQUESTS = 12

THEMES: dict[str, Callable[[], dict[str, Case]]] = {
    "what is raised": cases.raised,
    "what poll returns": cases.polled,
    "what records hold": cases.record_fields,
    "what other methods return": cases.returned,
    "what is done with contexts": cases.contexts,
    "deadlocks": cases.hanging,
}


@pytest.mark.parametrize("theme", THEMES)
def test_each_hostile_connector_reports_its_error_and_others_run_on(site: Site, theme: str) -> None:
    wrong = run(site, THEMES[theme]())

    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    site.check()


def test_connectors_that_change_their_process_do_not_affect_others(site: Site, tmp_path: Path) -> None:
    wrong = run(site, cases.meddling(cases.MILD, tmp_path, delivers))

    assert not wrong, "\n".join(f"{name}: {text}" for name, text in wrong.items())
    site.check()
    # Threads that hostile connectors left behind must not keep the worker from stopping.
    site.worker.restart()
    site.check()


@pytest.mark.parametrize("way", ["exits at once", "json.dumps broken"])
def test_a_corrupted_worker_process_recovers_after_a_restart(site: Site, tmp_path: Path, way: str) -> None:
    wrong = ends_and_comes_back(site, way, cases.meddling([way], tmp_path, delivers)[way])

    assert not wrong, wrong
    site.check()


def test_a_poll_of_many_megabytes_is_one_transaction(site: Site) -> None:
    wrong = run(site, {"big": Case({"connector.class": "returning.Big", "mb": str(_MB)}, delivers)})

    assert not wrong, wrong
    site.check()


def test_hanging_validations_do_not_block_others(site: Site) -> None:
    hanging = {"name": "hanging", "connector.class": "hanging.Hanging", "topic": "t", "where": "connector validate"}

    def ask() -> object:
        try:
            return site.worker.request("PUT", "/connector-plugins/Hanging/config/validate", hanging, timeout=10)
        except TimeoutError:
            return None

    with ThreadPoolExecutor(_STUCK_REQUESTS) as pool:
        stuck = [pool.submit(ask) for _ in range(_STUCK_REQUESTS)]
        name = unique("late")
        answer = site.worker.request("PUT", "/connector-plugins/Numbers/config/validate", {**good(name), "name": name})
        assert answer.status == 200, answer
        site.check()
    assert {request.result() for request in stuck} == {None}


def test_connectors_that_hang_keep_no_worker_from_its_end(site: Site) -> None:
    names = {unique("hanging"): where for where in ("poll", "stop", "connector stop", "connector start")}
    for name, where in names.items():
        config = {"connector.class": "hanging.Hanging", "topic": site.kafka.create(name), "where": where}
        assert site.worker.create(name, config).status == 201
    wait_for(
        lambda: all(site.worker.request("GET", f"/connectors/{name}").status == 200 for name in names), "they are there"
    )

    site.worker.restart()

    for name in names:
        site.worker.delete(name)
    site.check()


def test_only_hostile_connectors_import_fencepost_and_only_its_api() -> None:
    for file in sorted(Path(__file__).parent.rglob("*.py")):
        imports = [
            name
            for node in ast.walk(ast.parse(file.read_text()))
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [alias.name for alias in node.names]
                if isinstance(node, ast.Import)
                else []
            )
            if name.split(".")[0] == "fencepost"
        ]
        allowed = {"fencepost"} if file.parent == CONNECTORS else set()
        assert set(imports) <= allowed, f"{file.name} imports {imports}"
