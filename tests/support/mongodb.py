"""A server that speaks MongoDB's protocol, in a JVM: documents in memory, with a log that connectors can follow."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final, Self

from fencepost.embedded.jars import JarSet, class_path
from fencepost.embedded.java import find_java
from tests.support.java_plugins import compile_java

_JARS: Final = JarSet(
    "mongo-java-server-1.47.0",
    "a server of MongoDB's protocol and MongoDB's client",
    (("de.bwaldvogel", "mongo-java-server", "1.47.0"), ("org.mongodb", "mongodb-driver-sync", "4.7.2")),
)
_SOURCE: Final = Path(__file__).parent / "java" / "MongoRows.java"


class MongoServer:
    """The server with the collection `rows` of the database `shop`. Use it with `with`."""

    def __init__(self, folder: Path) -> None:
        classes, java = folder / "classes", find_java()
        compile_java([_SOURCE], _JARS, classes)
        jars = os.pathsep.join(map(str, (classes, *class_path(java, _JARS))))
        command = [str(java.executable), "-Xmx128m", "-XX:+UseSerialGC", "-cp", jars, "MongoRows"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self.address: Final = self._process.stdout.readline().strip()

    def insert(self, numbers: Iterable[int]) -> None:
        """Insert documents, each with its number as `_id`, in order, soon after the call."""
        self._input.write("".join(f"{number}\n" for number in numbers))
        self._input.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.communicate()
