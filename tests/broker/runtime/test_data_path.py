"""docs/architecture.md lists all modules that the data of a polled batch are handed to, in order."""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import fencepost
from tests.support.processes import wait_for
from tests.support.task_runner import TaskRunner, stop
from tests.support.topics import Topics

_PACKAGE = Path(fencepost.__file__).parent
_PAGE = _PACKAGE.parents[1] / "docs" / "architecture.md"

_MOST = 20


class _Trace:
    """Sees the calls of the thread that begins it, and keeps the modules whose arguments or results hold some text.

    Columns of numbers count as well: they are the records' lengths, positions and times.
    """

    def __init__(self, *texts: str) -> None:
        self._texts = [text.encode() for text in texts]
        self.modules: dict[str, None] = {}

    def begin(self) -> None:
        sys.setprofile(self._see)

    @staticmethod
    def end() -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, result: object) -> None:
        file = Path(frame.f_code.co_filename)
        if event not in ("call", "return") or not file.is_relative_to(_PACKAGE):
            return
        code = frame.f_code
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        given = [frame.f_locals.get(name) for name in names] if event == "call" else [result]
        if any(self._holds(value) for value in given):
            self.modules[file.relative_to(_PACKAGE).as_posix()] = None

    def _holds(self, value: Any) -> bool:
        match value:
            case str() | bytes() | bytearray() | memoryview():
                content = value.encode() if isinstance(value, str) else bytes(value)
                return any(text in content for text in self._texts)
            case np.ndarray():
                return value.size > 1
            case pa.Array() | pa.ChunkedArray() | pa.RecordBatch():
                return self._holds(str(value.to_pylist()))
            case list() | tuple() | set() | frozenset():
                return any(map(self._holds, value))
            case Mapping():
                return self._holds([*value.keys(), *value.values()])
        return is_dataclass(value) and any(self._holds(getattr(value, field.name, None)) for field in fields(value))


def _listed() -> list[str]:
    """The modules of the page's list, in order."""
    section = _PAGE.read_text().partition("## The data path of a polled batch\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)


def _is_converter(module: str) -> bool:
    """A converter is a plugin: it counts as one module, with what it has of others."""
    return module.startswith("converters/")


def test_the_data_of_a_polled_batch_pass_the_listed_modules_in_order(runner: TaskRunner, topics: Topics, name: str):
    task, seen = runner.task(name, topics.create(partitions=3), {"messages.per.poll": 12, "limit": 12})
    trace = _Trace(f"key-{name}", f"value-{name}")
    seen.on_poll = lambda _, records: (trace.begin() if records else None, records)[1]
    seen.on_commit = lambda _: trace.end()
    task.start()
    wait_for(lambda: seen.commits)
    stop(task)
    listed = _listed()
    (converter,) = (module for module in listed if _is_converter(module))
    handed = dict.fromkeys(converter if _is_converter(module) else module for module in trace.modules)
    assert list(handed) == listed
    assert len(listed) <= _MOST
