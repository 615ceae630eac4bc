"""HDFS: a name node and a data node in one process, as in Hadoop's own tests.

Its jars are downloaded like a broker's.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Final, Self

import hdfs_native

from fencepost.embedded.jars import JarSet, class_path
from fencepost.embedded.java import find_java
from fencepost.embedded.ports import HOST, free_ports
from tests.support.object_store import START_SECONDS, ObjectStore
from tests.support.processes import Process, wait_for

_VERSION: Final = "3.5.0"
_JARS: Final = JarSet(
    folder=f"hdfs-{_VERSION}",
    title=f"HDFS {_VERSION}",
    artifacts=(
        ("org.apache.hadoop", "hadoop-client-minicluster", _VERSION),
        ("org.apache.hadoop", "hadoop-client-runtime", _VERSION),
    ),
)
_SERVICE: Final = "test"


class Hdfs(ObjectStore):
    """An HDFS server. URLs name a name service, whose address is in the client's hdfs-site.xml."""

    scheme = "hdfs"
    host = _SERVICE

    def away(self) -> dict[str, str]:
        return self._environment(free_ports(1)[0])

    def __enter__(self) -> Self:
        name_node, page = free_ports(2)
        details = self._directory / "details.json"
        command = [
            str(find_java().executable),
            "-Xmx256m",
            "-cp",
            os.pathsep.join(map(str, class_path(find_java(), _JARS))),
        ]
        command += ["org.apache.hadoop.test.MiniDFSClusterManager", "-format", "-datanodes", "1"]
        command += ["-nnport", str(name_node), "-httpport", str(page), "-writeDetails", str(details)]
        command += ["-D", f"hdfs.minidfs.basedir={self._directory / 'data'}"]
        self._process = Process(command, self._directory / "log").__enter__()
        wait_for(lambda: self._has_written(details), what="HDFS has started", timeout=START_SECONDS)
        self.address = f"{HOST}:{name_node}"
        self.environment = self._environment(name_node)
        self.files = hdfs_native.Client(f"hdfs://{self.address}")
        return self

    def put(self, key: str, data: bytes) -> str:
        options = hdfs_native.WriteOptions(overwrite=True, create_parent=True)
        with self.files.create(f"/{key}", options) as file:
            file.write(data)
        return self.url(key)

    def delete(self, key: str) -> None:
        self.files.delete(f"/{key}")

    def _has_written(self, details: Path) -> bool:
        assert self._process is not None
        assert self._process.running, self._process.output[-2000:]
        return details.exists() and bool(json.loads(details.read_text() or "{}"))

    def _environment(self, port: int) -> dict[str, str]:
        """The environment with a client's configuration folder for a name node at a port."""
        folder = self._directory / f"conf-{port}"
        folder.mkdir()
        _write(folder / "core-site.xml", {"fs.defaultFS": f"hdfs://{_SERVICE}"})
        of_service = {
            "dfs.nameservices": _SERVICE,
            f"dfs.ha.namenodes.{_SERVICE}": "one",
            f"dfs.namenode.rpc-address.{_SERVICE}.one": f"{HOST}:{port}",
        }
        _write(folder / "hdfs-site.xml", of_service)
        return {"HADOOP_CONF_DIR": str(folder)}


def _write(file: Path, properties: dict[str, str]) -> None:
    lines = [f"<property><name>{name}</name><value>{value}</value></property>" for name, value in properties.items()]
    file.write_text("\n".join(["<configuration>", *lines, "</configuration>"]))
