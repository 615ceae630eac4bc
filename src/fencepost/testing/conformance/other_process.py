"""Requests a connector's tasks in separate processes, as workers after a restart do.

Python's hash() of a text, and therefore the order of a set of texts, differs between processes. Each of these processes
has another seed for hash().
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fencepost.api.source import SourceConnector, describe
from fencepost.config.plugin_sources import PluginSources
from fencepost.config.plugins import PluginKind, find_plugin
from fencepost.testing.conformance.violation import NotApplicableError, Violation, defined_at
from fencepost.testing.connector_start import StartedConnector

TaskConfigs = list[list[dict[str, str]]]
"""The configurations of the tasks, for each requested value of `tasks.max`."""

_SEEDS: Final = ("1", "2", "3")
_RUN_S: Final = 60.0


def task_configs_in_processes(
    connector: type[SourceConnector], config: Mapping[str, str], counts: Sequence[int]
) -> list[TaskConfigs]:
    """Return the result of each process. `counts` are values of `tasks.max`.

    Raises NotApplicableError if the connector runs only in this process, for example because a test has patched its
    source, and Violation if it fails in only some of the others.
    """
    asked = {"import_path": sys.path, "connector": describe(connector), "config": dict(config), "counts": list(counts)}
    with tempfile.TemporaryDirectory(prefix="fencepost-processes-") as folder:
        answers = [Path(folder) / seed for seed in _SEEDS]
        # One process after the other, because a running connector's resources may exist only once.
        outcomes = [_failure(seed, answer, json.dumps(asked)) for seed, answer in zip(_SEEDS, answers, strict=True)]
        failures = [failure for failure in outcomes if failure is not None]
        if len(failures) == len(outcomes):
            raise NotApplicableError(f"in other processes, {failures[0]}")
        if failures:
            raise Violation(f"In some processes, {failures[0]}", defined_at(connector, "start"))
        return [json.loads(answer.read_text(encoding="utf-8")) for answer in answers]


def _failure(seed: str, answer: Path, asked: str) -> str | None:
    """Run a process. Return why it got no tasks; None if it got them."""
    try:
        ran = subprocess.run(
            [sys.executable, "-m", __name__, str(answer)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            input=asked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=_RUN_S, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return f"the connector did not return its tasks within {_RUN_S:g} s"
    if ran.returncode == 0:
        return None
    last = next((line for line in reversed(ran.stderr.splitlines()) if line.strip()), "it said nothing")
    return f"the connector failed: {last}"


def _answer(asked: Mapping[str, Any]) -> Iterator[list[dict[str, str]]]:
    sys.path[:] = asked["import_path"]
    anywhere = PluginSources(modules=("*",))
    name = asked["connector"]
    connector = find_plugin(PluginKind.CONNECTOR, name, property_name="connector.class", sources=anywhere)
    for count in asked["counts"]:
        started = StartedConnector(connector, {**asked["config"], "tasks.max": str(count)})
        yield started.task_configs(count)
        started.stop()


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps([*_answer(json.load(sys.stdin))]), encoding="utf-8")
