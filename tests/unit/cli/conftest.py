"""`fencepost connectors`, run against the REST API of the model herder."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli import main
from fencepost.herder.entities import ConnectorInfo
from fencepost.herder.errors import RebalanceNeededError
from tests.support.model_herder import ModelConnectors, ModelHerder
from tests.support.rest import RestApis

Run = Callable[..., tuple[int, str, str]]


class RebalancingHerder(ModelHerder):
    """Refuses requests for connectors as often as a test wants."""

    def __init__(self) -> None:
        super().__init__()
        self.refusals = 0
        self.connectors = _RebalancingConnectors(self)


class _RebalancingConnectors(ModelConnectors):
    async def info(self, name: str) -> ConnectorInfo:
        herder = self._model
        if isinstance(herder, RebalancingHerder) and herder.refusals > 0:
            herder.refusals -= 1
            raise RebalanceNeededError("A rebalance is due")
        return await super().info(name)


@pytest.fixture
def herder() -> RebalancingHerder:
    return RebalancingHerder()


@pytest.fixture
def run(
    herder: RebalancingHerder, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Run]:
    """Runs `fencepost connectors`; returns its exit code and its output."""
    with RestApis() as apis:
        monkeypatch.setenv("FENCEPOST_URL", apis.serve(herder).url)

        def run(*arguments: Any) -> tuple[int, str, str]:
            # The command runs in a separate thread, because the worker answers in this one.
            code = apis.call(asyncio.to_thread(main.run, ["connectors", *map(str, arguments)]))
            printed = capsys.readouterr()
            return code, printed.out, printed.err

        yield run


@pytest.fixture
def url(run: Run) -> str:
    """The address of the worker for `run`."""
    del run
    return os.environ["FENCEPOST_URL"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """The file of a connector with the name `lines`."""
    (tmp_path / "in.txt").write_text("one\ntwo\nthree\n")
    config = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in.txt"), "topic": "lines"}
    path = tmp_path / "lines.json"
    path.write_text(json.dumps({"name": "lines", "config": config}))
    return path


@pytest.fixture
def failing_file(tmp_path: Path) -> Path:
    """A connector's file, whose task the model herder shows as FAILED."""
    path = tmp_path / "failing.properties"
    path.write_text(
        f"name=failing\nconnector.class=FileStreamSource\nfile={tmp_path}/in.txt\ntopic=t\noffsets.storage.topic=t\n"
    )
    return path
