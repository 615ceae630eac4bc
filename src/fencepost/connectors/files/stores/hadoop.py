"""Files of HDFS, read by hdfs-native, which talks to name nodes and data nodes as Hadoop's own client does.

The host in a URL is a name node with its port, a name service, or empty: then `fs.defaultFS` is used. Name services
and all other settings come from core-site.xml and hdfs-site.xml in HADOOP_CONF_DIR, or in etc/hadoop of HADOOP_HOME.

While a file is being written, its length counts only complete blocks, or is 0. Its readers also see the bytes that its
writer has flushed. The client does not show whether a file is closed, so files that may still be open for writing are
not read yet.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from fencepost.api.errors import ConfigError
from fencepost.api.extras import how_to_install
from fencepost.connectors.files.stores.store import Store, StoredObject

try:
    import hdfs_native
except ImportError:
    hdfs_native = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from hdfs_native import Client, FileReader, FileStatus

# By default hdfs-native retries for three minutes. A poll that fails is retried anyway.
_TRIES: Final = {"dfs.client.failover.max.attempts": "3"}

_LONGEST_WRITE_SECONDS: Final = 3_600.0
"""For this time after its last change, a file of complete blocks may still be open for writing.

After that time a name node revokes the lease of a writer that is silent.
"""


def check_hdfs_is_installed() -> None:
    """Raise ConfigError if hdfs-native is not installed."""
    if hdfs_native is None:
        raise ConfigError(
            "hdfs:// needs the package hdfs-native on each worker and each Spark executor: run: "
            f"{how_to_install('hdfs')}"
        )


class _HadoopFile(StoredObject):
    def __init__(self, file: FileReader, identity: str) -> None:
        self._file = file
        self.size = len(file)
        self.identity = identity

    def read_at(self, count: int, position: int) -> bytes:
        return self._file.read_range(position, min(count, self.size - position))


class HadoopStore(Store):
    """An HDFS file system.

    Raises ConfigError if hdfs-native is not installed, or if the host names no known name node.
    """

    # These are errors of the network, of data nodes, and of name nodes that are starting.
    passing = re.compile(
        r"still written|\(os error \d+\)|failed to lookup|timed ?out|elapsed|\beof\b|DataTransferError|(SafeMode|Standby|Retriable)Exception",
        re.IGNORECASE,
    )
    rights = "HADOOP_USER_NAME, or a ticket of Kerberos, and its configuration by HADOOP_CONF_DIR"

    def __init__(self, host: str) -> None:
        check_hdfs_is_installed()
        try:
            self._client = _client(host, os.environ.get("HADOOP_CONF_DIR"), os.environ.get("HADOOP_USER_NAME"))
        except RuntimeError as error:
            raise ConfigError(
                f"hdfs://{host}/ names no name node ({error}): write its port, as hdfs://host:8020/path, or let "
                "HADOOP_CONF_DIR name the directory of core-site.xml and hdfs-site.xml, which have the name service"
            ) from error

    def status(self, path: str) -> tuple[int, float] | None:  # noqa: D102 - as in Store
        try:
            found = self._client.get_file_info(f"/{path}")
        except FileNotFoundError:
            return None
        return None if found.isdir else (found.length, found.modification_time / 1_000)

    def below(self, path: str, *, recursive: bool) -> Iterator[tuple[str, float]]:  # noqa: D102
        try:
            for found in self._client.list_status(f"/{path}".rstrip("/") or "/", recursive):
                if not found.isdir and not _may_be_open(found):
                    yield found.path.removeprefix("/"), found.modification_time / 1_000
        except FileNotFoundError:
            return

    def open(self, path: str) -> StoredObject:  # noqa: D102
        # The status is requested before the file is opened. Otherwise the identity could belong to a file that has
        # replaced the opened one.
        status = self._client.get_file_info(f"/{path}")
        file = _HadoopFile(self._client.read(f"/{path}"), _identity(status))
        if _may_be_open(status) or file.size != status.length:
            raise BlockingIOError(
                f"it may be still written: readers see {file.size} of its bytes. Its writer must close it"
            )
        return file

    def identity(self, path: str) -> str:  # noqa: D102
        return _identity(self._client.get_file_info(f"/{path}"))


def _identity(status: FileStatus) -> str:
    return f"{status.length}-{status.modification_time}"


def _may_be_open(status: FileStatus) -> bool:
    whole_blocks = status.length % (status.blocksize or 1) == 0
    return whole_blocks and time.time() - status.modification_time / 1_000 < _LONGEST_WRITE_SECONDS


@lru_cache(maxsize=8)
def _client(host: str, _folder: str | None, _user: str | None) -> Client:
    return hdfs_native.Client(f"hdfs://{host}", _TRIES)
