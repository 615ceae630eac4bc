"""Connectors of tests on a worker with Java plugins."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from urllib.parse import quote

from fencepost.embedded.java import find_java
from tests.support.java_plugins import HOSTILE
from tests.support.topics import unique
from tests.support.workers import Group, Worker

JSON = "org.apache.kafka.connect.json.JsonConverter"


def with_java(group: Group, **settings: str) -> contextlib.AbstractContextManager[Worker]:
    """Start a worker that finds Java, and the shell that Spark needs."""
    environment = {"JAVA_HOME": str(find_java().home), "PATH": os.environ["PATH"]}
    return group.starting(environment=environment, **settings)


@contextlib.contextmanager
def java_group_worker(group: Group) -> Iterator[Worker]:
    """Like `with_java`, and wait until the worker is healthy."""
    with with_java(group) as worker:
        worker.wait_until_healthy()
        yield worker


class Connectors:
    """A test's connectors, which are deleted at the end."""

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        self._names: list[str] = []

    def start(self, config: Mapping[str, str], name: str = "java") -> str:
        name = unique(name)
        self._names.append(name)
        answer = self.worker.request("PUT", f"/connectors/{quote(name, safe='')}/config", config)
        assert answer.status == 201, answer
        return name

    def hostile(self, topic: str, behaviour: str, **more: str) -> str:
        return self.start({"connector.class": HOSTILE, "topic": topic, "behaviour": behaviour, **more})

    def refusals(self, config: Mapping[str, str]) -> dict[str, list[str]]:
        """The errors of a configuration, by property."""
        path = f"/connector-plugins/{config['connector.class'].removeprefix('java:')}/config/validate"
        answer = self.worker.request("PUT", path, {"name": unique("java"), **config})
        assert answer.status == 200, answer
        found = {one["value"]["name"]: one["value"]["errors"] for one in answer.body["configs"]}
        return {name: errors for name, errors in found.items() if errors}

    def trace(self, name: str) -> str:
        status = self.worker.get(f"/connectors/{name}/status")
        if status is None:
            return ""
        return "\n".join(one.get("trace", "") for one in (status["connector"], *status["tasks"]))

    def close(self) -> None:
        for name in self._names:
            self.worker.request("DELETE", f"/connectors/{quote(name, safe='')}")
