"""Requests to a schema registry, with Confluent's REST API.

https://docs.confluent.io/platform/current/schema-registry/develop/api.html. Several addresses are tried in turn,
starting with the one that answered last; only temporary failures lead to the next attempt, and to the next address. The
statuses and times are the same as in Java: see RestService.java and CachedSchemaRegistryClient.java of
confluentinc/schema-registry.
"""

from __future__ import annotations

import json
import math
import random
import time
import uuid
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote

from fencepost.api.foreign_json import parse_json
from fencepost.api.texts import printable, shortened
from fencepost.converters.registry.errors import (
    RegistryAccessError,
    RegistryAnswerError,
    RegistryMissingError,
    RegistryRefusedError,
    RegistryUnavailableError,
)
from fencepost.converters.registry.http import Answer, HttpClient, TransportError
from fencepost.converters.registry.schemas import Reference, Registered, RegistrySchema
from fencepost.converters.registry.settings import RegistrySettings
from fencepost.converters.registry.tokens import TokenSource

_TYPE: Final = "application/vnd.schemaregistry.v1+json"
_RETRIED: Final = frozenset({408, 429, 500, 502, 503, 504})
_REASON_LIMIT: Final = 1_000
"""The maximum number of characters of a registry's own message."""

_LARGEST_ID: Final = 2**31 - 1
AVRO: Final = "AVRO"


class RegistryClient:
    """One registry. Thread-safe: its connections are a pool. It caches nothing."""

    def __init__(self, settings: RegistrySettings, *, patience_s: float = math.inf) -> None:
        """Requests that begin more than `patience_s` seconds from now fail as if no registry answered."""
        self._settings = settings
        self._deadline = time.monotonic() + patience_s
        self._http = HttpClient(settings)
        self._tokens = TokenSource(settings, self._http) if settings.oauth is not None else None
        self._current = random.randrange(len(settings.urls)) if settings.randomize else 0  # noqa: S311 - a start

    @property
    def address(self) -> str:
        """The addresses, for messages."""
        return ", ".join(url.shown for url in self._settings.urls)

    def register(self, subject: str, schema: RegistrySchema, *, normalize: bool) -> Registered:
        """Register a schema, or find its registration.

        Raises a RegistryError or RegistryUnavailableError, as all methods do.
        """
        path = f"/subjects/{_part(subject)}/versions?normalize={_flag(normalize)}"
        answer = self._json("POST", path, _schema_body(schema), f"the registration under subject {subject}")
        return _registered(answer, schema)

    def look_up(self, subject: str, schema: RegistrySchema, *, normalize: bool) -> Registered:
        """Find a schema that is registered. Raises RegistryMissingError if it is not registered."""
        path = f"/subjects/{_part(subject)}?normalize={_flag(normalize)}&deleted=false"
        answer = self._json("POST", path, _schema_body(schema), f"the look-up under subject {subject}")
        return _registered(answer, schema)

    def latest(self, subject: str) -> Registered:
        """Return the newest version of a subject. Raises RegistryMissingError if the subject does not exist."""
        path = f"/subjects/{_part(subject)}/versions/latest"
        return _with_schema(self._json("GET", path, None, f"the newest version of subject {subject}"))

    def versions(self, subject: str) -> list[Registered]:
        """Return all versions of a subject, the newest first; none if the subject does not exist."""
        path = f"/subjects/{_part(subject)}/versions"
        try:
            found = self._parsed("GET", path, None, f"the versions of subject {subject}")
        except RegistryMissingError:
            return []
        numbers = [_version(number) for number in found] if isinstance(found, list) else []
        return [self.version_of(subject, number) for number in sorted(numbers, reverse=True)]

    def by_id(self, schema_id: int, subject: str | None = None) -> Registered:
        """Return the schema with an id."""
        within = "" if subject is None else f"&subject={quote(subject, safe='')}"
        answer = self._json("GET", f"/schemas/ids/{schema_id}?fetchMaxId=false{within}", None, f"schema {schema_id}")
        return _with_schema({"id": schema_id, **answer})

    def by_guid(self, guid: str) -> Registered:
        """Return the schema with a GUID."""
        answer = self._json("GET", f"/schemas/guids/{_part(guid)}", None, f"the schema {guid}")
        return _with_schema({"id": 0, "guid": guid, **answer})

    def version_of(self, subject: str, version: int) -> Registered:
        """Return a version of a subject. References name schemas in this way."""
        path = f"/subjects/{_part(subject)}/versions/{version}"
        return _with_schema(self._json("GET", path, None, f"version {version} of subject {subject}"))

    def incompatibilities(self, subject: str, schema: RegistrySchema) -> list[str]:
        """Return why the newest version of a subject does not allow a schema.

        The result is empty if it allows the schema, or if the subject does not exist.
        """
        path = f"/compatibility/subjects/{_part(subject)}/versions/latest?verbose=true"
        try:
            answer = self._json("POST", path, _schema_body(schema), f"the compatibility with subject {subject}")
        except RegistryMissingError:
            return []
        if answer.get("is_compatible") is not False:
            return []
        messages = answer.get("messages")
        return [str(message) for message in messages] if isinstance(messages, list) and messages else ["incompatible"]

    def associated_subjects(self, topic: str, role: str, namespace: str) -> list[str]:
        """Return the subjects associated with the keys or values of a topic.

        The result is empty if the registry has no associations.
        """
        path = f"/associations/resources/{_part(namespace)}/{_part(topic)}?resourceType=topic&associationType={_part(role)}"
        try:
            found = self._parsed("GET", path, None, f"the subject of the {role}s of topic {topic}")
        except (RegistryMissingError, RegistryRefusedError):
            return []
        entries = found if isinstance(found, list) else []
        return [str(entry["subject"]) for entry in entries if isinstance(entry, dict) and "subject" in entry]

    def check(self) -> None:
        """Send a request that every registry supports. Raises if the registry does not answer, or refuses the login."""
        try:
            self._parsed("GET", "/schemas/types", None, "the types of schemas", attempts=1)
        except (RegistryMissingError, RegistryRefusedError):
            self._parsed("GET", "/subjects?offset=0&limit=1", None, "the subjects", attempts=1)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None, what: str) -> Mapping[str, Any]:
        answer = self._parsed(method, path, body, what)
        if not isinstance(answer, dict):
            raise RegistryAnswerError(
                f"The schema registry {self.address} answered {type(answer).__name__} where an object was due, asked for "
                f"{what}: is this the address of a registry? Check {self._settings.url_property}"
            )
        return answer

    def _parsed(
        self, method: str, path: str, body: Mapping[str, Any] | None, what: str, *, attempts: int | None = None
    ) -> Any:
        answer = self._answer(method, path, body, what, attempts or self._settings.max_retries + 1)
        try:
            return parse_json(answer.body) if answer.status != 204 else {}
        except ValueError as error:
            raise RegistryAnswerError(
                f"The schema registry {answer.address} answered {answer.content_type or 'something'} where JSON was due, "
                f"asked for {what}: is this the address of a registry? Check {self._settings.url_property}, and what "
                "stands between"
            ) from error

    def _answer(self, method: str, path: str, body: Mapping[str, Any] | None, what: str, attempts: int) -> Answer:
        """Send a request to one address after the other. Raises the errors of `register`."""
        data = None if body is None else json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        last = "no answer"
        for number in range(len(self._settings.urls)):
            position = (self._current + number) % len(self._settings.urls)
            for attempt in range(attempts):
                if attempt:
                    time.sleep(self._wait_s(attempt - 1))
                if time.monotonic() > self._deadline:
                    break
                try:
                    answer = self._http.request(position, method, path, data, self._headers())
                except TransportError as error:
                    last = str(error)
                    continue
                if answer.status not in _RETRIED:
                    self._current = position
                    self._check(answer, what)
                    return answer
                last = f"{answer.address} answered {_error_text(answer)}"
        raise RegistryUnavailableError(
            f"The schema registry {self.address} could not be asked for {what}: {last}. Nothing of these records is written "
            f"until it answers: start it, or correct {self._settings.url_property}"
        )

    def _headers(self) -> dict[str, str]:
        headers = {
            "Content-Type": _TYPE,
            "Accept": f"{_TYPE}, application/vnd.schemaregistry+json; q=0.9, application/json; q=0.5",
            "Confluent-Accept-Unknown-Properties": "true",
            **self._settings.headers,
        }
        if self._tokens is not None:
            headers["Authorization"] = f"Bearer {self._tokens.token()}"
        return headers

    def _wait_s(self, retry: int) -> float:
        longest = min(self._settings.retry_wait_ms * 2.0 ** min(retry, 32), self._settings.retry_max_wait_ms)
        return random.uniform(1, max(1.0, longest)) / 1000  # noqa: S311 - full jitter

    def _check(self, answer: Answer, what: str) -> None:
        """Raise the error in an answer."""
        if answer.status in (200, 201, 204, 207):
            return
        error_text = _error_text(answer)
        if answer.status < 200 or answer.status < 400:
            raise RegistryAnswerError(
                f"The schema registry {answer.address} answered {error_text}, asked for {what}: redirects are not followed, "
                f"because the login is for this address alone. Set {self._settings.url_property} to the address that is "
                "meant"
            )
        kind: type[RegistryRefusedError | RegistryAccessError | RegistryMissingError] = RegistryRefusedError
        advice = ""
        if answer.status in (401, 403):
            kind = RegistryAccessError
            advice = (
                ": check basic.auth.* and bearer.auth.*, or the certificate"
                if answer.status == 401
                else ": the user has not the right to do this, so ask for it, or register the schema yourself"
            )
            if self._tokens is not None:
                self._tokens.forget()
        elif answer.status == 404:
            kind = RegistryMissingError
        code, reason = _reason(answer)
        raise kind(
            f"The schema registry {answer.address} refused {what} with {error_text}{advice}",
            status=answer.status, code=code, reason=reason,
        )  # fmt: skip


def _error_text(answer: Answer) -> str:
    code, reason = _reason(answer)
    numbers = f"{answer.status}" if code in (0, answer.status) else f"{answer.status} (error {code})"
    return f"{numbers}: {reason}" if reason else numbers


def _reason(answer: Answer) -> tuple[int, str]:
    """Return the registry's own code and message; for a page of another server, the beginning of its text."""
    try:
        body = parse_json(answer.body)
        code, message = body.get("error_code", 0), str(body.get("message", ""))
    except (ValueError, AttributeError):
        code, message = 0, "" if "html" in answer.content_type else answer.body[:_REASON_LIMIT].decode(errors="replace")
    shown = printable(shortened(" ".join(message.split()), _REASON_LIMIT))
    return code if isinstance(code, int) else 0, shown


def _part(text: str) -> str:
    return quote(text, safe="")


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _schema_body(schema: RegistrySchema) -> dict[str, Any]:
    body: dict[str, Any] = {"schema": schema.text}
    if schema.type != AVRO:
        body["schemaType"] = schema.type
    if schema.references:
        body["references"] = [
            {"name": found.name, "subject": found.subject, "version": found.version} for found in schema.references
        ]
    return body


def _registered(answer: Mapping[str, Any], schema: RegistrySchema) -> Registered:
    return Registered(_id(answer.get("id")), schema, _version(answer.get("version")), _guid(answer.get("guid")))


def _with_schema(answer: Mapping[str, Any]) -> Registered:
    if _has_rules(answer):
        raise RegistryAnswerError(
            "The schema in the registry has rules of a data contract (ruleSet), which change or encrypt the data and are "
            "not supported: remove them from the schema, or write with another one (use.latest.version=false)"
        )
    text, kind = answer.get("schema"), answer.get("schemaType") or AVRO
    if not isinstance(text, str):
        raise RegistryAnswerError("The schema registry answered without a schema: is this the address of a registry?")
    references = tuple(
        Reference(str(found.get("name")), str(found.get("subject")), _version(found.get("version")))
        for found in answer.get("references") or ()
        if isinstance(found, dict)
    )
    schema = RegistrySchema(text, str(kind), references)
    number = answer.get("id")
    return Registered(
        0 if number == 0 else _id(number), schema, _version(answer.get("version")), _guid(answer.get("guid"))
    )


def _has_rules(answer: Mapping[str, Any]) -> bool:
    rules = answer.get("ruleSet")
    return isinstance(rules, dict) and any(
        rules.get(name) for name in ("domainRules", "migrationRules", "encodingRules")
    )


def _id(number: object) -> int:
    """Return the id of a schema. Raises RegistryAnswerError for an id that does not fit into four bytes."""
    if isinstance(number, bool) or not isinstance(number, int) or not 0 < number <= _LARGEST_ID:
        raise RegistryAnswerError(
            f"The schema registry answered with the id {number!r}, which is not a number from 1 to {_LARGEST_ID}: is this "
            "the address of a registry? Nothing was written"
        )
    return number


def _version(number: object) -> int:
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 0


def _guid(text: object) -> bytes:
    if not isinstance(text, str) or not text:
        return b""
    try:
        return uuid.UUID(text).bytes
    except ValueError:
        raise RegistryAnswerError(f"The schema registry answered with {text[:100]!r}, which is not a GUID") from None
