"""A worker's clients come from the given factory, so that a test or a model can replace them."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import fencepost
from fencepost.kafka.clients import KafkaClients
from fencepost.runtime.worker import Worker
from tests.support.model_herder import model_worker_config

_PACKAGE = Path(fencepost.__file__).parent
_GIVEN_CLIENTS = ("storage", "engine", "runtime", "herder", "rest")
"""The packages whose code runs in the worker's process and uses the worker's factory."""

_MADE_ON_EXECUTORS = {"RecordWriter": "engine/write_spec.py"}


def _client_classes() -> set[str]:
    source = ast.parse((_PACKAGE / "kafka/clients.py").read_text(encoding="utf-8"))
    made = {call.func.id for call in ast.walk(source) if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)}
    return made | {"BrokerClient", "RecordWriter", "TransactionCoordinator", "Connection"}


def _calls(package: str) -> Iterator[tuple[str, str]]:
    for path in sorted((_PACKAGE / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                yield path.relative_to(_PACKAGE).as_posix(), node.func.id


@pytest.mark.parametrize("package", _GIVEN_CLIENTS)
def test_only_the_factory_makes_clients(package: str) -> None:
    classes = _client_classes()
    assert {"Admin", "TransactionalProducer", "TopicReader"} <= classes
    made = [(file, name) for file, name in _calls(package) if name in classes and _MADE_ON_EXECUTORS.get(name) != file]
    assert made == []


def test_a_worker_makes_real_clients_unless_it_is_given_others() -> None:
    class Others(KafkaClients):
        pass

    config = model_worker_config()
    others = Others()
    assert type(Worker(config).clients) is KafkaClients
    assert Worker(config, others).clients is others
