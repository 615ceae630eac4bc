"""A schema registry with Confluent's API in the test's process, which can be slow, down, or hostile."""

from __future__ import annotations

import json
import ssl
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

Respond = Callable[[BaseHTTPRequestHandler], bool]
"""Answers a request in place of the registry and returns True, or returns False."""

_NOT_FOUND: Final = {"subject": 40401, "version": 40402, "schema": 40403}


@dataclass
class Request:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, list[str]]
    headers: dict[str, str]
    body: Any


@dataclass
class FakeRegistry:
    """The registry's state: `subjects` has the schema ids of each subject's versions.

    `requests` are all so far, in order.
    """

    address: str = ""
    with_guids: bool = False
    subjects: dict[str, list[int]] = field(default_factory=dict)
    schemas: dict[int, dict[str, Any]] = field(default_factory=dict)
    associations: dict[str, list[str]] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)
    respond: Respond = lambda _: False
    read_json: bool = True
    """Whether to parse all bodies as JSON."""
    incompatible: str | None = None
    """If set, the reason with which the registry refuses each new version (409)."""

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def asked(self, method: str, part: str) -> list[Request]:
        """The requests whose path contains a text."""
        return [request for request in self.requests if request.method == method and part in request.path]

    def text(self, schema_id: int) -> str:
        """The text of a schema."""
        return str(self.schemas[schema_id]["schema"])

    def add(self, subject: str, text: str, kind: str = "AVRO") -> int:
        """Register a schema, and return its id."""
        return int(self._register(subject, {"schema": text, "schemaType": kind})["id"])

    def add_referring(self, subject: str, text: str, kind: str, name: str, to: str) -> int:
        """Register a schema that refers by a name to the newest version of a subject, and return its id."""
        reference = {"name": name, "subject": to, "version": len(self.subjects[to])}
        return int(self._register(subject, {"schema": text, "schemaType": kind, "references": [reference]})["id"])

    def answer(self, request: Request) -> tuple[int, Any]:  # noqa: C901, PLR0911, PLR0912 - one case for each endpoint
        """The status and body of the answer to a request."""
        parts = [unquote(part) for part in request.path.strip("/").split("/")]
        with self._lock:
            match request.method, parts:
                case "GET", ["schemas", "types"]:
                    return 200, ["JSON", "PROTOBUF", "AVRO"]
                case "GET", ["subjects"]:
                    return 200, list(self.subjects)
                case "GET", ["subjects", subject, "versions"]:
                    versions = self.subjects.get(subject, [])
                    return (200, list(range(1, len(versions) + 1))) if versions else _missing("subject")
                case "POST", ["subjects", subject, "versions"]:
                    return self._posted(subject, request.body)
                case "POST", ["subjects", subject]:
                    return self._looked_up(subject, request.body)
                case "GET", ["subjects", subject, "versions", version]:
                    return self._version(subject, version)
                case "GET", ["schemas", "ids", number]:
                    found = self.schemas.get(int(number))
                    return (200, found) if found else _missing("schema")
                case "GET", ["schemas", "guids", guid]:
                    for number, found in self.schemas.items():
                        if str(_guid(number)) == guid:
                            return 200, found
                    return _missing("schema")
                case "GET", ["associations", "resources", _, topic]:
                    kind = request.query["associationType"][0]
                    return 200, [{"subject": subject} for subject in self.associations.get(f"{topic}-{kind}", [])]
                case "POST", ["compatibility", "subjects", _, "versions", _]:
                    if self.incompatible is None:
                        return 200, {"is_compatible": True}
                    return 200, {"is_compatible": False, "messages": [self.incompatible]}
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _posted(self, subject: str, body: Any) -> tuple[int, Any]:
        known = [self.schemas[number] for number in self.subjects.get(subject, [])]
        if self.incompatible is not None and known and _content(body) not in map(_content, known):
            return 409, {"error_code": 409, "message": self.incompatible}
        return 200, self._register(subject, body)

    def _register(self, subject: str, body: Any) -> dict[str, Any]:
        content = {"schema": body["schema"], "schemaType": body.get("schemaType", "AVRO")}
        if body.get("references"):
            content["references"] = body["references"]
        number = next((known for known, schema in self.schemas.items() if schema == content), len(self.schemas) + 1)
        self.schemas[number] = content
        versions = self.subjects.setdefault(subject, [])
        if number not in versions:
            versions.append(number)
        return self._told(subject, number)

    def _told(self, subject: str, number: int) -> dict[str, Any]:
        told = {"subject": subject, "id": number, "version": self.subjects[subject].index(number) + 1}
        return told | {"guid": str(_guid(number))} if self.with_guids else told

    def _looked_up(self, subject: str, body: Any) -> tuple[int, Any]:
        if subject not in self.subjects:
            return _missing("subject")
        for number in self.subjects[subject]:
            if _content(self.schemas[number]) == _content(body):
                return 200, self._told(subject, number)
        return _missing("schema")

    def _version(self, subject: str, version: str) -> tuple[int, Any]:
        versions = self.subjects.get(subject, [])
        if not versions:
            return _missing("subject")
        position = len(versions) if version == "latest" else int(version)
        if not 0 < position <= len(versions):
            return _missing("version")
        number = versions[position - 1]
        return 200, self._told(subject, number) | self.schemas[number]


@contextmanager
def fake_registry(*, with_guids: bool = False, tls: ssl.SSLContext | None = None) -> Iterator[FakeRegistry]:
    """Run a registry until the block ends."""
    registry = FakeRegistry(with_guids=with_guids)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            """Log nothing."""

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            request = Request(
                self.command,
                parts.path,
                parse_qs(parts.query),
                dict(self.headers),
                json.loads(body) if body and (registry.read_json or body[:1] == b"{") else None,
            )
            registry.requests.append(request)
            if registry.respond(self):
                return
            status, answer = registry.answer(request)
            send(self, status, json.dumps(answer).encode(), "application/vnd.schemaregistry.v1+json")

        do_POST = do_GET  # noqa: N815 - the library's name

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        # The handshake takes place in the request's thread. In this thread it would hold up other connections.
        server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    registry.address = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield registry
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes, kind: str, **headers: str) -> bool:
    """Send an answer; returns True."""
    handler.send_response(status)
    handler.send_header("Content-Type", kind)
    handler.send_header("Content-Length", str(len(body)))
    for name, value in headers.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)
    return True


def _content(schema: Any) -> Any:
    return json.loads(schema["schema"]) if schema.get("schemaType", "AVRO") != "PROTOBUF" else schema["schema"]


def _guid(number: int) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_OID, str(number))


def _missing(what: str) -> tuple[int, Any]:
    return 404, {"error_code": _NOT_FOUND[what], "message": f"{what.capitalize()} not found"}
