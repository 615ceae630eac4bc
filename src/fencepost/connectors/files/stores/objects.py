"""Objects by URL: in S3, in servers with the same protocol, in Google Cloud Storage and Azure; and files of HDFS.

    s3://bucket/key    s3a://bucket/key    gs://bucket/key    abfss://container@account.dfs.core.windows.net/key
    hdfs://host:port/path

Credentials and the address of the server come from the environment of the process, also on each Spark executor: see
`stores.arrow` and `stores.hadoop`.

An object is never changed, but it may be replaced: `check_unchanged` compares its ETag, generation or modification time
before any of its data is returned.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from fencepost.api.errors import ConfigError, DataError, RetriableError
from fencepost.connectors.files.stores.arrow import AzureStore, GoogleStore, S3Store, azure_parts
from fencepost.connectors.files.stores.hadoop import HadoopStore
from fencepost.connectors.files.stores.store import Store

_STORES: Final[dict[str, Callable[[str], Store]]] = {
    "s3": S3Store,
    "s3a": S3Store,
    "gs": GoogleStore,
    "abfs": AzureStore,
    "abfss": AzureStore,
    "hdfs": HadoopStore,
}

_URL: Final = re.compile(rf"({'|'.join(_STORES)})://([^/]*)(?:/(.*))?", re.DOTALL | re.IGNORECASE)
_READ_AHEAD: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class ObjectUrl:
    """The parts of a URL.

    `host` is a server, or the name of a bucket; `path` begins after the / that follows the host.
    """

    scheme: str
    host: str
    path: str

    @classmethod
    def of(cls, url: str) -> ObjectUrl:
        """Return the parts of a URL. Raises ValueError if it is not the URL of an object."""
        match = _URL.fullmatch(url)
        if match is None:
            raise ValueError(url)
        return cls(match[1], match[2], match[3] or "")

    def at(self, path: str) -> str:
        """Return the URL of another path in the same store."""
        return f"{self.scheme}://{self.host}/{path}"

    def store(self) -> Store:
        """Return the store of the object. Raises ConfigError as `check` does."""
        return _STORES[self.scheme.lower()](self.host)

    def check(self) -> None:
        """Raise ConfigError if the URL is invalid, or if the library for its store is not installed."""
        scheme = self.scheme.lower()
        if scheme == "hdfs":
            self.store()
        elif scheme.startswith("abfs"):
            azure_parts(self.host)
        elif not self.host:
            raise ConfigError(f"{self.at(self.path)} names no bucket: write for example {scheme}://my-bucket/in/*.csv")


def is_object(path: str) -> bool:
    """Return whether a path is the URL of an object, or a pattern of such URLs."""
    return _URL.fullmatch(path) is not None


@contextmanager
def _translated_errors(url: str, store: Store) -> Iterator[None]:
    """Raise RetriableError for errors that may be temporary, DataError for others, and FileNotFoundError unchanged."""
    try:
        yield
    except FileNotFoundError:
        raise
    # hdfs-native raises RuntimeError for its errors.
    except (OSError, RuntimeError, pa.ArrowException) as error:
        if store.passing.search(str(error)):
            raise RetriableError(f"The server of {url} does not answer as it should: {_message_of(error)}") from error
        raise DataError(
            f"{url} cannot be read: {_message_of(error)}. Give the worker and each Spark executor the right to read it, by {store.rights}"
        ) from error


def _message_of(error: Exception) -> str:
    """Return the message of an error, without a server's stack trace or request id."""
    return re.split(r"\\n|\n", str(error))[0]


def size_and_time(url: str) -> tuple[int, float] | None:
    """Return an object's size, and its modification time in seconds since 1970; None if the object does not exist.

    Raises DataError, or RetriableError if the server does not answer.
    """
    parts = ObjectUrl.of(url)
    store = parts.store()
    with _translated_errors(url, store):
        return store.status(parts.path)


def objects_below(prefix: str, *, recursive: bool) -> dict[str, float]:
    """Return the URLs of the objects in a directory, with their modification times.

    Raises the errors of `size_and_time`, and DataError if the bucket does not exist: its listing would only be
    empty.
    """
    parts = ObjectUrl.of(prefix)
    store = parts.store()
    with _translated_errors(prefix, store):
        found = {parts.at(path): at for path, at in store.below(parts.path, recursive=recursive)}
        missing = not found and store.is_missing()
    if missing:
        raise DataError(f"There is no {parts.scheme}://{parts.host}: create it, or correct the URL")
    return found


class ObjectFile(io.RawIOBase):
    """An object that is open for reading, with the methods of FileIO that readers use.

    Raises FileNotFoundError, and the same errors as `size_and_time`.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        parts = ObjectUrl.of(url)
        self._path = parts.path
        self._store = parts.store()
        with _translated_errors(url, self._store):
            self._file = self._store.open(self._path)
        self.size = self._file.size
        self.identity = self._file.identity
        self._position = 0
        self._ahead = b""
        self._ahead_at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def seekable(self) -> bool:
        """Return True."""
        return True

    def seek(self, position: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position, and return it."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, origin + position)
        return self._position

    def tell(self) -> int:
        """Return the current position in the object, in bytes."""
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Read into a buffer, from the current position; return the number of bytes, 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = self.read_at(len(view), self._position)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def read_at(self, count: int, position: int) -> bytes:
        """Return the bytes at a position, fewer at the end of the object.

        A request reads at least 4 MiB, and keeps them.
        """
        count = max(0, min(count, self.size - position))
        begin = position - self._ahead_at
        if count and (begin < 0 or begin + count > len(self._ahead)):
            self._ahead, self._ahead_at = self._read_at(max(count, _READ_AHEAD), position), position
            begin = 0
        return self._ahead[begin : begin + count] if count else b""

    def _read_at(self, count: int, position: int) -> bytes:
        try:
            with _translated_errors(self.url, self._store):
                return self._file.read_at(count, position)
        except FileNotFoundError:
            raise self._replaced() from None

    def close(self) -> None:
        """Release the object."""
        self._ahead = b""
        super().close()

    def check_unchanged(self) -> None:
        """Raise DataError if another object has replaced this one."""
        # The store is opened anew, because the environment may name another server now.
        store = ObjectUrl.of(self.url).store()
        with _translated_errors(self.url, store):
            try:
                found = store.identity(self._path)
            except FileNotFoundError:
                found = ""
        if found != self.identity:
            raise self._replaced()

    def _replaced(self) -> DataError:
        return DataError(
            f"The object {self.url} was replaced or removed while it was read. Give new content a new name. Bring the "
            "former object back, or reset the connector's offsets to read the one that is there from its start"
        )


def check_unchanged(file: Any) -> None:
    """Raise DataError if an open file is an object that has been replaced."""
    if isinstance(file, ObjectFile):
        file.check_unchanged()


def size_of(file: Any) -> int:
    """Return the size of an open file in bytes."""
    return file.size if isinstance(file, ObjectFile) else os.fstat(file.fileno()).st_size


def read_at(file: Any, count: int, position: int) -> bytes:
    """Return the bytes at a position of an open file, without moving its position."""
    if isinstance(file, io.BytesIO):
        return file.getvalue()[position : position + count]
    return file.read_at(count, position) if isinstance(file, ObjectFile) else os.pread(file.fileno(), count, position)
