"""Records which modules a batch's data pass through, for the lists in docs/architecture.md."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pyarrow as pa

import fencepost

_PACKAGE = Path(fencepost.__file__).parent
_PAGE = _PACKAGE.parents[1] / "docs" / "architecture.md"
_CONVERTERS = "converters/"


class Trace:
    """Records the modules whose functions have some text in their arguments or results, in call order.

    Calls are traced in the thread that starts the trace, and in threads that start meanwhile. Columns of numbers count
    as well: they are the records' lengths, positions and times.
    """

    def __init__(self, *texts: str) -> None:
        self._texts = [text.encode() for text in texts]
        self.modules: dict[str, None] = {}

    def begin(self) -> None:
        threading.setprofile(self._see)
        sys.setprofile(self._see)

    @staticmethod
    def end() -> None:
        sys.setprofile(None)
        threading.setprofile(None)  # in the form of the documentation

    @contextmanager
    def running(self) -> Iterator[None]:
        self.begin()
        try:
            yield
        finally:
            self.end()

    def in_order(self) -> list[str]:
        """The modules. A converter is a plugin: its first module stands for all of its modules."""
        found = list(self.modules)
        converter = next((module for module in found if module.startswith(_CONVERTERS)), "")
        return list(dict.fromkeys(converter if module.startswith(_CONVERTERS) else module for module in found))

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
            case pa.Buffer():
                return self._holds(value.to_pybytes())
            case np.ndarray():
                return value.size > 1
            case pa.Array() | pa.ChunkedArray() | pa.RecordBatch() | pa.Table():
                return self._holds(str(value.to_pylist()))
        return any(map(self._holds, _parts(value)))


def _parts(value: Any) -> Iterable[Any]:
    match value:
        case list() | tuple() | set() | frozenset():
            return value
        case Mapping():
            return [*value.keys(), *value.values()]
    return [getattr(value, field.name, None) for field in fields(value)] if is_dataclass(value) else []


def listed_modules(title: str) -> list[str]:
    """The modules that a section of the page lists, in order."""
    section = _PAGE.read_text().partition(f"## {title}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\d+\. `([\w/]+\.py)`", section, re.MULTILINE)
