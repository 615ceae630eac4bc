"""Object stores that pyarrow can access: S3 and servers with the same protocol, Google Cloud Storage, Azure.

The credentials, the region, and the address of a server that is not Amazon's, Google's or Microsoft's come from the
environment of the process. The variables are the same as for these companies' own programs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from fencepost.api.errors import ConfigError
from fencepost.connectors.files.stores.store import Store, StoredObject

CONNECTION: Final = "AZURE_STORAGE_CONNECTION_STRING"

_GOOGLE_RETRIES: Final = timedelta(seconds=5)
"""How long Google's client retries; by default it retries for a quarter of an hour.

A poll that fails is retried anyway.
"""

_AZURE_HOST: Final = re.compile(r"([^@]+)@([^@.]+)\.dfs\.([^@]+)")


class _ArrowObject(StoredObject):
    def __init__(self, file: Any) -> None:
        self._file = file
        self.size = file.size()
        self.identity = _identity(file)

    def read_at(self, count: int, position: int) -> bytes:
        data: bytes = self._file.read_at(count, position)
        return data


def _identity(file: Any) -> str:
    metadata = file.metadata()
    tag = metadata.get("ETag") or metadata.get("generation") or metadata.get("Last-Modified") or b""
    return f"{file.size()}-{tag.decode().strip(chr(34))}"


class _ArrowStore(Store):
    def __init__(self, files: Any, bucket: str) -> None:
        self._files = files
        self._bucket = bucket

    def status(self, path: str) -> tuple[int, float] | None:
        found = self._files.get_file_info(f"{self._bucket}/{path}")
        return (found.size, found.mtime.timestamp()) if found.is_file else None

    def below(self, path: str, *, recursive: bool) -> Iterator[tuple[str, float]]:
        from pyarrow import fs  # noqa: PLC0415 - it starts threads, and few need it

        folder = f"{self._bucket}/{path}".rstrip("/")
        for found in self._files.get_file_info(fs.FileSelector(folder, recursive=recursive, allow_not_found=True)):
            if found.is_file:
                yield found.path.partition("/")[2], found.mtime.timestamp()

    def is_missing(self) -> bool:
        from pyarrow import fs  # noqa: PLC0415 - as above

        try:
            return bool(self._files.get_file_info(self._bucket).type == fs.FileType.NotFound)
        except OSError:
            # This call needs its own permission. Some principals may list objects, but lack this permission.
            return False

    def open(self, path: str) -> StoredObject:
        return _ArrowObject(self._files.open_input_file(f"{self._bucket}/{path}"))

    def identity(self, path: str) -> str:
        return _identity(self._files.open_input_file(f"{self._bucket}/{path}"))


# pyarrow shows the kind of an error only in the error's text.
class S3Store(_ArrowStore):
    """A bucket of S3."""

    passing = re.compile(
        r"AWS Error (NETWORK_CONNECTION|SLOW_DOWN|SERVICE_UNAVAILABLE|REQUEST_TIMEOUT|INTERNAL_FAILURE|THROTTLING)"
        r"|HTTP status (429|5\d\d)"
    )
    rights = "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for example, and AWS_ENDPOINT_URL for a server that is not Amazon's"

    def __init__(self, host: str) -> None:
        super().__init__(_s3(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")), host)


class GoogleStore(_ArrowStore):
    """A bucket of Google Cloud Storage."""

    passing = re.compile(r"cloud::Status\((UNAVAILABLE|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED|ABORTED|INTERNAL)")
    rights = "GOOGLE_APPLICATION_CREDENTIALS"

    def __init__(self, host: str) -> None:
        super().__init__(_google(os.environ.get("STORAGE_EMULATOR_HOST")), host)


class AzureStore(_ArrowStore):
    """A container of Azure Blob Storage or Data Lake Storage. Raises ConfigError for an invalid host."""

    # An error without a status code means that the server did not answer.
    passing = re.compile(r"Azure Error: (\[[^\]]*\] (429|5\d\d)|\[\] (?!4))")
    rights = f"{CONNECTION}, or AZURE_TENANT_ID, AZURE_CLIENT_ID and AZURE_CLIENT_SECRET for example"

    def __init__(self, host: str) -> None:
        container, account, domain = azure_parts(host)
        super().__init__(_azure(account, domain, os.environ.get(CONNECTION, "")), container)

    def open(self, path: str) -> StoredObject:  # noqa: D102 - as in Store
        return _AzureObject(self._files.open_input_file(f"{self._bucket}/{path}"))


class _AzureObject(_ArrowObject):
    def read_at(self, count: int, position: int) -> bytes:
        try:
            return super().read_at(count, position)
        except OSError as error:
            if "Azure Error: [BlobNotFound]" in str(error):
                raise FileNotFoundError(str(error)) from error
            raise


def azure_parts(host: str) -> tuple[str, str, str]:
    """Return container, account and domain from the host in a URL. Raises ConfigError if the host has another form."""
    match = _AZURE_HOST.fullmatch(host)
    if match is None:
        raise ConfigError(
            f"{host} does not name a container and an account of Azure: write abfss://container@account.dfs.core.windows.net/"
            "in/*.csv"
        )
    return match[1], match[2], match[3]


@lru_cache(maxsize=2)
def _s3(endpoint: str | None) -> Any:
    from pyarrow import fs  # noqa: PLC0415 - as above

    return fs.S3FileSystem(endpoint_override=endpoint)


@lru_cache(maxsize=2)
def _google(endpoint: str | None) -> Any:
    from pyarrow import fs  # noqa: PLC0415 - as above

    if endpoint is None:
        return fs.GcsFileSystem(retry_time_limit=_GOOGLE_RETRIES)
    scheme, _, address = endpoint.rpartition("://")
    return fs.GcsFileSystem(
        anonymous=True,
        scheme=scheme or "http",
        endpoint_override=address.rstrip("/"),
        retry_time_limit=_GOOGLE_RETRIES,
    )


@lru_cache(maxsize=8)
def _azure(account: str, domain: str, connection: str) -> Any:
    from pyarrow import fs  # noqa: PLC0415 - as above

    given = dict(part.split("=", 1) for part in connection.split(";") if "=" in part)
    scheme, _, rest = given.get("BlobEndpoint", "").rpartition("://")
    server = rest.partition("/")[0]
    if given.get("AccountName", server.partition(".")[0]) != account:
        # The host names an account other than the environment's: use the credentials of Azure's own programs.
        given, server = {}, ""
    signature = given.get("SharedAccessSignature", "").lstrip("?")
    emulated = bool(server) and not server.startswith(f"{account}.")
    return fs.AzureFileSystem(
        account,
        account_key=given.get("AccountKey"),
        sas_token=f"?{signature}" if signature else None,
        blob_storage_authority=server if emulated else f".blob.{domain}",
        dfs_storage_authority=server if emulated else f".dfs.{domain}",
        blob_storage_scheme=scheme if emulated else "https",
        dfs_storage_scheme=scheme if emulated else "https",
    )
