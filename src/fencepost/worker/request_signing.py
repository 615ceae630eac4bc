"""Signatures of requests between the workers of a group (KIP-507).

A worker signs the body of a request (no bytes, if it has none) with the session key, which the leader hands out over
the config topic. Java workers do the same, so the headers and the algorithms have their names.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fencepost.worker.errors import BadRequestError, ForbiddenError, ServiceUnavailableError

SIGNATURE_HEADER: Final = "X-Connect-Authorization"
ALGORITHM_HEADER: Final = "X-Connect-Request-Signature-Algorithm"
SIGNATURE_ALGORITHM: Final = "HmacSHA256"

_HASHES: Final[Mapping[str, Any]] = {
    "HmacSHA1": hashlib.sha1,
    "HmacSHA256": hashlib.sha256,
    "HmacSHA384": hashlib.sha384,
    "HmacSHA512": hashlib.sha512,
}
ALGORITHMS: Final = tuple(_HASHES)
"""The algorithms that can be configured, by Java's names."""


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """What an internal request was signed with: headers as they came, None where missing, and the body."""

    signature: str | None
    algorithm: str | None
    body: bytes

    def verify(self, key: bytes | None, allowed: tuple[str, ...] = (SIGNATURE_ALGORITHM,)) -> None:
        """Check the signature against the session key, None while this worker knows none.

        Raises BadRequestError if it is missing, malformed or of another algorithm than `allowed`,
        ServiceUnavailableError without a key, and ForbiddenError if it is wrong.
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
        given = _decoded(self.signature)
        if key is None:
            raise ServiceUnavailableError(
                "This worker has not read the group's session key yet, and cannot check the request's signature: "
                "send it again"
            )
        if not hmac.compare_digest(given, _digest(self.body, key, self.algorithm)):
            raise ForbiddenError("The request's signature is wrong: it was not made with this group's session key")


def signature_headers(body: bytes, key: bytes, algorithm: str = SIGNATURE_ALGORITHM) -> dict[str, str]:
    """Return the headers that sign a body with the session key."""
    signature = base64.b64encode(_digest(body, key, algorithm)).decode("ascii")
    return {SIGNATURE_HEADER: signature, ALGORITHM_HEADER: algorithm}


def _digest(body: bytes, key: bytes, algorithm: str) -> bytes:
    return hmac.new(key, body, _HASHES[algorithm]).digest()


def _decoded(signature: str) -> bytes:
    try:
        return base64.b64decode(signature, validate=True)
    except (binascii.Error, ValueError):
        raise BadRequestError(f"The header {SIGNATURE_HEADER} is not base64") from None
