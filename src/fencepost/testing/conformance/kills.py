"""Kills real workers that run a connector, at each step of a transaction, and then compares the records in Kafka.

    expected    a worker runs the connector to the source's end
    each step   a worker is killed with SIGKILL at this step, and another one runs to the end

Each run gives the connector a new name, so that it starts from the beginning. It must add exactly the expected records.
Only this check detects a task that keeps its position outside of the offsets, for example in a file.

The workers write only to the checks' own topics, whatever topics the connector names. These are deleted at the end.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import uuid
from collections import Counter
from collections.abc import Collection, Mapping
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from fencepost.api.source import describe
from fencepost.failpoint import FailPoint, of_task
from fencepost.testing.conformance.fields import without
from fencepost.testing.conformance.interruptions import interruptions_held
from fencepost.testing.conformance.own_topics import OwnTopics
from fencepost.testing.conformance.subject import Subject
from fencepost.testing.conformance.violation import NotApplicableError, Violation, defined_at
from fencepost.testing.topics import read_new, topic_reader

if TYPE_CHECKING:
    from fencepost.kafka.consumer.fetch_decoder import ConsumedRecord
    from fencepost.kafka.consumer.read_to_end import TopicReader

RUN_S: Final = 120.0
"""The maximum time for a worker to reach the end of the source."""

_END_S: Final = 60.0
"""The maximum time for a worker to stop. A worker waits up to 30 s for an answer of the brokers."""

_SHOWN: Final = 120
_WORKER: Final = "fencepost.testing.conformance.tested_worker"

_Written = Counter[tuple[str, bytes | None, bytes | None]]
"""The number of equal records, by topic, key and value."""


class KilledWorkers:
    """Runs a connector in worker processes, one after the other. Use it in a `with` statement.

    The source must end: tasks must implement `at_end`, and have at most `limits.records` records. `plugin_path` has the
    directories from which the connector is imported, separated by commas. Raises ConfigError for a connector whose
    topics cannot be redirected.
    """

    def __init__(self, subject: Subject, bootstrap_servers: str, *, plugin_path: str = ".") -> None:
        self._subject = subject
        self._topics = OwnTopics(bootstrap_servers)
        self._config = self._topics.redirected(subject.config)
        self._plugin_path = plugin_path
        self._closing = ExitStack()
        self._readers: dict[str, TopicReader] = {}

    def __enter__(self) -> Self:
        self._closing.enter_context(self._topics)
        self._folder = Path(self._closing.enter_context(tempfile.TemporaryDirectory(prefix="fencepost-kills-")))
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.close()

    def check(self, point: FailPoint) -> None:
        """Kill a worker at a step. Raises Violation for lost or duplicated records, and if a worker fails.

        Raises NotApplicableError if no worker reaches the step.
        """
        expected, name = self._expected, _new_name()
        code, output = self._run(name, of_task(point))
        if code == 0:
            self._written()
            raise NotApplicableError(f"no worker came to the step {point.value}")
        if code != -signal.SIGKILL:
            raise self._failed(output)
        self._run_to_the_end(name)
        self._compare(point, expected, self._written())

    @cached_property
    def _expected(self) -> _Written:
        self._run_to_the_end(_new_name())
        written = self._written()
        if not written:
            raise NotApplicableError("a worker that ran the connector to the source's end wrote no records")
        return written

    def _compare(self, point: FailPoint, expected: _Written, found: _Written) -> None:
        for what, wrong in (("lost", expected - found), ("there twice", found - expected)):
            if wrong:
                topic, key, value = next(iter(wrong))
                shown = f"key {key!r}, value {value!r}"
                raise Violation(
                    f"A worker was killed at the step {point.value}, and another one ran to the end: {wrong.total()} of "
                    f"{expected.total()} record(s) are {what}, for example in topic {topic}: {shown[:_SHOWN]}. What a task "
                    "returns may depend on its committed offsets only",
                    defined_at(self._subject.task_class, "start"),
                )

    def _run_to_the_end(self, name: str) -> None:
        code, output = self._run(name, {})
        if code != 0:
            raise self._failed(output)

    def _failed(self, output: str) -> Violation:
        last = next((line for line in reversed(output.splitlines()) if line.strip()), "it said nothing")
        return Violation(
            f"A worker that ran the connector failed: {last}", defined_at(self._subject.task_class, "poll")
        )

    def _run(self, name: str, environment: Mapping[str, str]) -> tuple[int, str]:
        """Run a worker to the source's end, or until it dies. Return its exit code and its output."""
        worker, connector = self._folder / "worker.properties", self._folder / "connector.json"
        worker.write_text("".join(f"{property_}={value}\n" for property_, value in self._worker().items()))
        own = {"name": name, "connector.class": describe(self._subject.connector)}
        connector.write_text(json.dumps({**self._config, **own}))
        command = [sys.executable, "-m", _WORKER, self._topics.prefix]
        process: subprocess.Popen[str] | None = None
        try:
            with interruptions_held():
                process = subprocess.Popen(
                    [*command, str(worker), str(connector)],
                    env=os.environ | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                    start_new_session=True,
                )  # fmt: skip
            output = "".join(process.communicate(timeout=RUN_S))
        except subprocess.TimeoutExpired:
            raise NotApplicableError(f"the source did not end within {RUN_S:g} s") from None
        finally:
            if process is not None:
                _end(process)
        return process.returncode, output

    def _worker(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self._topics.bootstrap_servers,
            "group.id": self._topics.run,
            "offset.storage.topic": self._topics.internal("offsets"),
            "config.storage.topic": self._topics.internal("configs"),
            "key.converter": "JsonConverter",
            "key.converter.schemas.enable": "false",
            "value.converter": "JsonConverter",
            "value.converter.schemas.enable": "false",
            "fencepost.plugins.allowed.modules": "*",
            "plugin.path": ",".join(str(Path(path).absolute()) for path in self._plugin_path.split(",") if path),
        }

    def _written(self) -> _Written:
        """Return the records that were written to the topics since the last call."""
        ignored = self._subject.ignored
        return Counter(
            (self._topics.original(topic), record.key, _compared(record.value, ignored))
            for topic in self._topics.written(self._config)
            for record in self._read(topic)
        )

    def _read(self, topic: str) -> list[ConsumedRecord]:
        if topic not in self._readers:
            self._readers[topic] = topic_reader(self._topics.bootstrap_servers, topic)
            self._closing.callback(self._readers[topic].close)
        return read_new(self._readers[topic])


def _end(process: subprocess.Popen[str]) -> None:
    """Stop a worker that still runs.

    The worker is not killed at once: brokers might process its last requests after the topics are deleted.
    """
    with process, suppress(subprocess.TimeoutExpired):
        try:
            process.terminate()
            process.communicate(timeout=_END_S)
        finally:
            process.kill()


def _compared(value: bytes | None, ignored: Collection[str]) -> bytes | None:
    """Return the part of a value that is compared: the value itself, or for JSON, all fields that are not ignored."""
    if value is None or not ignored:
        return value
    try:
        return json.dumps(without(json.loads(value), ignored)).encode()
    except ValueError:
        return value


def _new_name() -> str:
    return f"test-{uuid.uuid4().hex[:12]}"
