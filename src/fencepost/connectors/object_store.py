"""Objects of S3, of servers that speak its protocol, and of Google Cloud Storage, by URL.

    s3://bucket/key    s3a://bucket/key    gs://bucket/key

pyarrow talks to the server. Credentials, region and the address of another server than Amazon's or Google's come from the
environment of the process, as for their own programs, and so on each Spark executor.

An object is never changed, but it may be replaced: `check_unchanged` compares its ETag or generation before anything that
was read of it is returned.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import ConfigError, DataError, RetriableError

SCHEMES: Final = ("s3", "s3a", "gs")

_URL: Final = re.compile(rf"({'|'.join(SCHEMES)})://([^/].*)", re.DOTALL | re.IGNORECASE)
_READ_AHEAD: Final = 4 << 20
# pyarrow tells the kind of an error in its text alone.
_PASSING: Final = re.compile(
    r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|REQUEST_TIMEOUT|INTERNAL_FAILURE|THROTTLING)"
    r"|HTTP status (429|5\d\d)"
    r"|cloud::Status\((UNAVAILABLE|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED|ABORTED|INTERNAL)"
)
_GOOGLE_RETRIES: Final = timedelta(seconds=5)
"""How long Google's client tries again by itself, by default for a quarter of an hour. A poll that fails is tried again."""


def is_object(path: str) -> bool:
    """Return whether a path is the URL of an object, or a pattern of them."""
    return _URL.fullmatch(path) is not None


def key_of(url: str) -> str:
    """Return the bucket and the key of a URL."""
    match = _URL.fullmatch(url)
    if match is None:
        raise ValueError(url)
    return match[2]


@lru_cache(maxsize=2)
def _connected(*, google: bool, endpoint: str | None) -> Any:
    from pyarrow import fs  # noqa: PLC0415 - it starts threads, and few need it

    if not google:
        return fs.S3FileSystem(endpoint_override=endpoint)
    if endpoint is None:
        return fs.GcsFileSystem(retry_time_limit=_GOOGLE_RETRIES)
    scheme, _, address = endpoint.rpartition("://")
    return fs.GcsFileSystem(
        anonymous=True,
        scheme=scheme or "http",
        endpoint_override=address.rstrip("/"),
        retry_time_limit=_GOOGLE_RETRIES,
    )


def _store(url: str) -> Any:
    if url.lower().startswith("gs:"):
        return _connected(google=True, endpoint=os.environ.get("STORAGE_EMULATOR_HOST"))
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    return _connected(google=False, endpoint=endpoint)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """Raise RetriableError for what may pass, DataError for other errors, and FileNotFoundError as it is."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        if _PASSING.search(str(error)):
            raise RetriableError(f"The server of {url} does not answer as it should: {error}") from error
        raise DataError(
            f"{url} cannot be read: {error}. Give the worker and each Spark executor the right to, by AWS_ACCESS_KEY_ID and "
            "AWS_SECRET_ACCESS_KEY for example, and AWS_ENDPOINT_URL for a server that is not Amazon's; for gs:// by "
            "GOOGLE_APPLICATION_CREDENTIALS"
        ) from error


def check_allowed(url: str, allowed: AllowedPaths) -> None:
    """Raise ConfigError if the worker restricts files to directories, of which no object is in one."""
    if allowed.restricted:
        raise ConfigError(
            f"{url} may not be read: the property {allowed.property_name} allows directories alone. Ask the worker's owner"
        )


def size_and_time(url: str) -> tuple[int, float] | None:
    """Return an object's size, and the time of its last change in seconds since 1970; None if there is no such object.

    Raises DataError, or RetriableError if the server does not answer.
    """
    with _told(url):
        found = _store(url).get_file_info(key_of(url))
    return (found.size, found.mtime.timestamp()) if found.is_file else None


def objects_below(prefix: str, *, recursive: bool) -> dict[str, float]:
    """Return the URLs of the objects in a directory, with the times of their last changes. Raises as `size_and_time`."""
    from pyarrow import fs  # noqa: PLC0415 - as above

    scheme = prefix[: prefix.index("://") + 3]
    selector = fs.FileSelector(key_of(prefix).rstrip("/"), recursive=recursive, allow_not_found=True)
    with _told(prefix):
        found = _store(prefix).get_file_info(selector)
    return {scheme + info.path: info.mtime.timestamp() for info in found if info.is_file}


class ObjectFile(io.RawIOBase):
    """An object, open for reading: what readers use of a FileIO. Raises FileNotFoundError, and else as `size_and_time`."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        with _told(url):
            self._file: Any = _store(url).open_input_file(key_of(url))
            self.size: int = self._file.size()
        self.identity = self._identity(self._file)
        self._position = 0
        self._ahead = b""
        self._ahead_at = 0

    def readable(self) -> bool:
        """Say yes."""
        return True

    def seekable(self) -> bool:
        """Say yes."""
        return True

    def seek(self, position: int, whence: int = io.SEEK_SET, /) -> int:
        """Move to a position."""
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self.size}[whence]
        self._position = max(0, origin + position)
        return self._position

    def tell(self) -> int:
        """Return the position."""
        return self._position

    def readinto(self, buffer: Any, /) -> int:
        """Read at the position; 0 at the end."""
        view = memoryview(buffer).cast("B")
        data = self.read_at(len(view), self._position)
        view[: len(data)] = data
        self._position += len(data)
        return len(data)

    def read_at(self, count: int, position: int) -> bytes:
        """Return the bytes at a position, fewer at the end. A request asks for some MiB, which are kept."""
        count = max(0, min(count, self.size - position))
        begin = position - self._ahead_at
        if count and (begin < 0 or begin + count > len(self._ahead)):
            self._ahead, self._ahead_at = self._read_at(max(count, _READ_AHEAD), position), position
            begin = 0
        return self._ahead[begin : begin + count] if count else b""

    def _read_at(self, count: int, position: int) -> bytes:
        try:
            with _told(self.url):
                data: bytes = self._file.read_at(count, position)
        except FileNotFoundError:
            raise self._replaced() from None
        return data

    def close(self) -> None:
        """Let go of the object."""
        self._ahead = b""
        super().close()

    def check_unchanged(self) -> None:
        """Raise DataError if another object has taken the place of this one."""
        with _told(self.url):
            try:
                found = self._identity(_store(self.url).open_input_file(key_of(self.url)))
            except FileNotFoundError:
                found = ""
        if found != self.identity:
            raise self._replaced()

    def _replaced(self) -> DataError:
        return DataError(
            f"The object {self.url} was replaced or removed while it was read. Give new content a new name. Bring the "
            "former object back, or reset the connector's offsets to read the one that is there from its start"
        )

    def _identity(self, file: Any) -> str:
        metadata = file.metadata()
        tag = metadata.get("ETag") or metadata.get("generation") or metadata.get("Last-Modified") or b""
        return f"{file.size()}-{tag.decode().strip(chr(34))}"


def check_unchanged(file: Any) -> None:
    """Raise DataError if an open file is of an object, and another one has taken its place."""
    if isinstance(file, ObjectFile):
        file.check_unchanged()


def size_of(file: Any) -> int:
    """Return the size of an open file in bytes."""
    return file.size if isinstance(file, ObjectFile) else os.fstat(file.fileno()).st_size


def read_at(file: Any, count: int, position: int) -> bytes:
    """Return the bytes at a position of an open file, whose own position stays."""
    return file.read_at(count, position) if isinstance(file, ObjectFile) else os.pread(file.fileno(), count, position)
