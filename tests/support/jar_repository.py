"""A Maven repository on loopback with one artifact, whose jar may arrive in two parts."""

from __future__ import annotations

import io
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Final

from fencepost.embedded.jars import JarSet

THING: Final = JarSet("thing-1.0", "the thing 1.0", (("org.example", "thing", "1.0"),), megabytes=1)
_KILOBYTES: Final = 600
_SECONDS: Final = 120
_POM: Final = (
    b"<project><modelVersion>4.0.0</modelVersion><groupId>org.example</groupId><artifactId>thing</artifactId>"
    b"<version>1.0</version></project>"
)


def _jar() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as jar:
        jar.writestr("content", Random(1).randbytes(1_000 * _KILOBYTES))
    return buffer.getvalue()


@dataclass(frozen=True)
class JarRepository:
    """`url` is the repository's address. The second half of the jar is sent once `rest` is set."""

    url: str
    rest: threading.Event


@contextmanager
def jar_repository() -> Iterator[JarRepository]:
    """Serve the artifact of THING."""
    rest, jar = threading.Event(), _jar()
    files = {"thing-1.0.pom": [_POM], "thing-1.0.jar": [jar[: len(jar) // 2], jar[len(jar) // 2 :]]}

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self._answer()

        def do_GET(self) -> None:
            for number, part in enumerate(self._answer()):
                if number:
                    rest.wait(_SECONDS)
                self.wfile.write(part)

        def _answer(self) -> list[bytes]:
            found = files.get(self.path.removeprefix("/org/example/thing/1.0/"), [])
            self.send_response(200 if found else 404)
            self.send_header("Content-Length", str(sum(map(len, found))))
            self.end_headers()
            return found

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield JarRepository(f"http://127.0.0.1:{server.server_port}/", rest)
        finally:
            rest.set()
            server.shutdown()
