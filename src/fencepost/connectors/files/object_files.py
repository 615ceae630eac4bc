"""Objects of S3 and Google Cloud Storage as files of a task: text that the task reads, and Parquet, ORC and Avro.

An object is whole when it is there, and does not grow. Its identity, size and ETag, is compared before each batch is
returned, and that of text is in the source offset: `{"position": ..., "object": "..."}`. When the server does not answer,
a poll raises RetriableError, and the next one goes on from the same position.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fencepost.api.allowed_paths import AllowedPaths
from fencepost.api.errors import DataError, RetriableError
from fencepost.connectors.files.content.codecs.compression import ContentStream, Form
from fencepost.connectors.files.content.compressed import ContentFile
from fencepost.connectors.files.content.csv_quotes import Quoting
from fencepost.connectors.files.content.ranges import FileRange, open_file
from fencepost.connectors.files.content.restart_point import RestartPoint
from fencepost.connectors.files.formats.tables.table_file import TableFile
from fencepost.connectors.files.formats.tables.table_reader import RowRange
from fencepost.connectors.files.stores.objects import size_and_time

OBJECT_FIELD: Final = "object"


def _status_of(url: str) -> tuple[int, float]:
    status = size_and_time(url)
    if status is None:
        raise DataError(
            f"The object {url} does not exist: bring it back, or reset the connector's offsets if it is not to be read"
        )
    return status


class ObjectContent(ContentFile):
    """An object of text, compressed or not. `identity` is that of the object that was read up to the position."""

    def __init__(  # noqa: PLR0917 - as ContentFile
        self,
        path: str,
        position: int,
        form: Form,
        quoting: Quoting | None,
        batch_bytes: int,
        allowed: AllowedPaths,
        restart: RestartPoint | None = None,
        identity: str | None = None,
    ) -> None:
        super().__init__(path, position, form, quoting, batch_bytes, allowed, restart)
        self._identity = identity

    @property
    def offset(self) -> dict[str, Any]:
        """The source offset of the position, with the object's identity."""
        return super().offset | ({OBJECT_FIELD: self._identity} if self._identity else {})

    def advance(self, *, whole: bool = False) -> list[FileRange]:  # noqa: ARG002 - an object is always whole
        """Return the next complete records. Raises DataError for another object, and RetriableError as `object_store`."""
        position, restart = self.position, self._restart
        try:
            found = super().advance(whole=True)
            if found:
                self._check_identity(identity_of(self.path, self._allowed))
        except RetriableError:
            # What was read is read again.
            self.reopen(position, restart)
            raise
        return found

    def _start(self) -> ContentStream:
        stream = super()._start()
        self._check_identity(stream.identity)
        return stream

    def _check_identity(self, found: str) -> None:
        if self._identity not in (None, found):
            self.close()
            raise DataError(
                f"The object {self.path} was replaced after it was read up to byte {self.position} of its content. Give new "
                "content a new name. Bring the former object back, or reset the connector's offsets to read the one that is "
                "there from its start"
            )
        self._identity = found

    def _has_grown(self) -> bool:
        return False

    def _file_size(self) -> int:
        return _status_of(self.path)[0]


def identity_of(url: str, allowed: AllowedPaths) -> str:
    """Return the identity of the object that is there. Raises DataError if there is none, and as `object_store`."""
    with open_file(url, allowed) as file:
        return str(getattr(file, "identity"))  # noqa: B009 - open_file tells FileIO for objects, too


class ObjectTable(TableFile):
    """An object in Parquet, ORC or Avro. Its identity is that of the format."""

    def advance(self, *, whole: bool = False) -> list[RowRange]:  # noqa: ARG002 - an object is always whole
        """Return the next rows. Raises DataError for another object, and RetriableError as `object_store`."""
        if self.finished:
            return []
        position = self._position
        try:
            return super().advance(whole=True)
        except RetriableError:
            self._position, self.finished = position, False
            raise

    def is_missing(self, *, whole: bool = False) -> bool:  # noqa: ARG002 - as in `Awaited`
        """Say no: opening an object tells it."""
        return False

    def _status(self) -> tuple[int, int, int]:
        size, changed = _status_of(self.path)
        return 0, int(changed), size


def identity_in(offset: Mapping[str, Any] | None) -> str | None:
    """Return the identity of an object in a committed source offset."""
    found = (offset or {}).get(OBJECT_FIELD)
    return None if found is None else str(found)
