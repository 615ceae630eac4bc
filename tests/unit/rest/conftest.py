"""A worker's REST API with the model herder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.model_herder import ModelHerder
from tests.support.rest import Api, RestApis


@pytest.fixture
def apis() -> Iterator[RestApis]:
    with RestApis() as apis:
        yield apis


@pytest.fixture
def herder() -> ModelHerder:
    return ModelHerder()


@pytest.fixture
def api(apis: RestApis, herder: ModelHerder) -> Api:
    return apis.serve(herder)


@pytest.fixture
def config(tmp_path: Path) -> dict[str, str]:
    """The configuration of a connector, without its name."""
    path = tmp_path / "in.txt"
    path.write_text("one\ntwo\nthree\n")
    return {"connector.class": "FileStreamSource", "tasks.max": "1", "file": str(path), "topic": "lines"}
