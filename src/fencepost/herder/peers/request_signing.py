"""Signatures of requests between the workers of a group (KIP-507), and which parts of a request they cover.

A worker signs the body of a request (an empty one, if there is none) with the session key, which the leader distributes
through the config topic. Java workers do the same, so the headers and the algorithms have Java's names.

An attacker who sees such a request can replay its body, for another connector and at any time until the key changes. So
fencepost's workers send a second signature, which binds the first to the method, the path, the time and an id. In a
group that has only fencepost's workers, they require it of each other; a Java worker ignores it. A worker accepts each
of these requests only once (`AcceptedRequests`). The id distinguishes the requests of tasks that start within the same
millisecond.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from fencepost.herder.errors import BadRequestError, ForbiddenError, ServiceUnavailableError

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"
BOUND_SIGNATURE_HEADER: Final = "X-Fencepost-Authorization"
TIME_HEADER: Final = "X-Fencepost-Request-Time"
"""The time of the signature, in milliseconds since 1970."""
ID_HEADER: Final = "X-Fencepost-Request-Id"
"""Random hexadecimal digits, new for each request that is sent."""

HEADERS: Final = (SIGNATURE_HEADER, ALGORITHM_HEADER, BOUND_SIGNATURE_HEADER, TIME_HEADER, ID_HEADER)
"""The headers that a worker keeps when it forwards a request."""

SIGNATURE_ALGORITHM: Final = "HmacSHA256"
VALID_MS: Final = 300_000
"""The maximum difference between the clocks of sender and receiver, including transfer and waiting."""

_HASHES: Final[Mapping[str, Any]] = {
    "HmacSHA1": hashlib.sha1,
    "HmacSHA256": hashlib.sha256,
    "HmacSHA384": hashlib.sha384,
    "HmacSHA512": hashlib.sha512,
}
_PURPOSE: Final = b"fencepost request"


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """An internal request with its signatures. Headers are as received; a missing one is None."""

    method: str
    path: str
    """The path as sent, percent-encoded. It has no query, because workers that forward a request change the query."""
    body: bytes
    signature: str | None
    algorithm: str | None
    bound_signature: str | None
    time: str | None
    id: str | None

    @classmethod
    def of(cls, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> Self:
        """Return a request with the values from its headers."""
        return cls(method, path, body, *(headers.get(name) for name in HEADERS))

    def verify(
        self,
        key: bytes | None,
        allowed: tuple[str, ...] = (SIGNATURE_ALGORITHM,),
        *,
        now_ms: int,
        bound: bool = False,
    ) -> None:
        """Check the signatures with the session key, which is None while this worker has no key.

        With `bound` the second signature is required; if there is one, it is always checked. Raises BadRequestError if
        a required signature is missing, malformed or of an algorithm that is not `allowed`, ServiceUnavailableError
        without a key, and ForbiddenError if a signature is wrong or too old.
        """
        if not self.signature or not self.algorithm:
            raise BadRequestError(
                f"This request is for workers of the group only: it must be signed by the headers {SIGNATURE_HEADER} "
                f"and {ALGORITHM_HEADER}. If a worker sent it, set connect.protocol=sessioned on that worker"
            )
        if self.algorithm not in allowed or self.algorithm not in _HASHES:
            raise BadRequestError(
                f"This worker does not accept signatures by {self.algorithm!r}, but by {', '.join(allowed)}: see "
                "inter.worker.signature.algorithm and inter.worker.verification.algorithms"
            )
        given = _decoded(SIGNATURE_HEADER, self.signature)
        if key is None:
            raise ServiceUnavailableError(
                "This worker has not read the group's session key yet, and cannot check the request's signature: "
                "send it again"
            )
        if not hmac.compare_digest(given, _digest(self.body, key, self.algorithm)):
            raise ForbiddenError("The request's signature is wrong: it was not made with this group's session key")
        if bound or self.bound_signature is not None:
            self._verify_bound(key, self.algorithm, now_ms)

    def _verify_bound(self, key: bytes, algorithm: str, now_ms: int) -> None:
        if not (self.bound_signature and self.id and self.id.isalnum() and self.time and self.time.isdecimal()):
            raise BadRequestError(
                f"All workers of this group sign the method, path and time of a request with the headers "
                f"{BOUND_SIGNATURE_HEADER}, {TIME_HEADER} and {ID_HEADER}, and this one came without. If a worker sent "
                "it through a proxy, have that pass them on. A worker of an older version has to be upgraded"
            )
        message = _bound_message(self.method, self.path, self.time, self.id, self.body)
        expected = _bound_digest(message, key, algorithm)
        if not hmac.compare_digest(_decoded(BOUND_SIGNATURE_HEADER, self.bound_signature), expected):
            raise ForbiddenError(
                f"The request's signature was made for another request than {self.method} {self.path}: another client "
                "replays or changes requests between workers"
            )
        if abs(now_ms - int(self.time)) > VALID_MS:
            raise ForbiddenError(
                f"The request was signed at a time that is {_difference(now_ms, int(self.time))} this worker's clock; "
                f"{VALID_MS // 1000} s are allowed: set the clocks of the group's machines"
            )


class AcceptedRequests:
    """Refuses a request that was accepted before: somebody who saw it on the network could send it again.

    Otherwise, a copy of a request with earlier task configurations could replace newer ones as long as its signature is
    valid. The object remembers requests for as long as their signatures are valid, in this process only.
    """

    def __init__(self) -> None:
        # For each signature, the last moment at which it is valid, in ms; the oldest request first.
        self._valid_until: dict[str, int] = {}

    def accept(self, request: SignedRequest, *, now_ms: int) -> None:
        """Remember a verified request that changes something. Raises ForbiddenError if it is a copy."""
        if request.method == "GET" or not request.bound_signature or not request.time:
            return
        # The decoded digest is compared, because base64 has several texts for the same digest.
        signature = _encoded(_decoded(BOUND_SIGNATURE_HEADER, request.bound_signature))
        self._valid_until = {known: until for known, until in self._valid_until.items() if until >= now_ms}
        if signature in self._valid_until:
            raise ForbiddenError(
                f"This worker has taken the same {request.method} {request.path} before: another client replays "
                "requests between workers"
            )
        self._valid_until[signature] = int(request.time) + VALID_MS


def _difference(now_ms: int, time_ms: int) -> str:
    seconds = (now_ms - time_ms) / 1000
    return f"{abs(seconds):.0f} s {'behind' if seconds > 0 else 'ahead of'}"


def signed_headers(
    method: str, path: str, body: bytes, key: bytes, algorithm: str = SIGNATURE_ALGORITHM, *, now_ms: int
) -> dict[str, str]:
    """Return the headers that sign a request with the session key, for fencepost's workers and for Java workers."""
    request_id = secrets.token_hex(16)
    message = _bound_message(method, path, str(now_ms), request_id, body)
    return {
        **signature_headers(body, key, algorithm),
        BOUND_SIGNATURE_HEADER: _encoded(_bound_digest(message, key, algorithm)),
        TIME_HEADER: str(now_ms),
        ID_HEADER: request_id,
    }


def signature_headers(body: bytes, key: bytes, algorithm: str = SIGNATURE_ALGORITHM) -> dict[str, str]:
    """Return the headers that sign a body with the session key, as Java workers do."""
    return {SIGNATURE_HEADER: _encoded(_digest(body, key, algorithm)), ALGORITHM_HEADER: algorithm}


def _digest(message: bytes, key: bytes, algorithm: str) -> bytes:
    return hmac.new(key, message, _HASHES[algorithm]).digest()


def _bound_message(method: str, path: str, time: str, request_id: str, body: bytes) -> bytes:
    return f"{method}\n{path}\n{time}\n{request_id}\n".encode() + body


def _bound_digest(message: bytes, key: bytes, algorithm: str) -> bytes:
    # The key is derived from the session key. So a body's signature is never valid as the bound signature, nor the
    # bound signature as a body's.
    return _digest(message, _digest(_PURPOSE, key, algorithm), algorithm)


def _encoded(digest: bytes) -> str:
    return base64.b64encode(digest).decode("ascii")


def _decoded(header: str, signature: str) -> bytes:
    try:
        return base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequestError(f"The header {header} is not base64") from None
