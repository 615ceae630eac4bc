"""Reads key stores and trust stores of Java's formats as PEM text. The content shows the format: PEM, PKCS12 or JKS.

OpenJDK's sun.security.provider.JavaKeyStore documents the layout of JKS, and KeyProtector its protection of keys:

    magic u4, version u4, entries u4
    entry    tag u4 (1 private key, 2 certificate), alias, date u8
             tag 1: length u4, EncryptedPrivateKeyInfo, certificates u4, certificate...
    certificate   type (from version 2 on), length u4, DER
    SHA-1 of password, salt and all of the above
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import ssl
import struct
import textwrap
from pathlib import Path
from typing import Final

from fencepost.api.errors import ConfigError

_JKS_MAGIC: Final = b"\xfe\xed\xfe\xed"
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_JKS_SALT: Final = b"Mighty Aphrodite"
_PRIVATE_KEY: Final = 1
_CERTIFICATE: Final = 2
_SHA1_SIZE: Final = 20
_DER_SEQUENCE: Final = 0x30
_DER_OCTETS: Final = 0x04
# The object identifier 1.3.6.1.4.1.42.2.17.1.1: the protection of keys in JKS.
_JKS_PROTECTION: Final = bytes.fromhex("060a2b060104012a02110101")


def read_store(location: str, *, name: str, password: str | None, key_password: str | None = None) -> str:
    """Return the certificates of a store, and its private key if it has one, as PEM text.

    `name` is the property with the location, for messages. `key_password` protects the key of a JKS store if it differs
    from `password`. A trust store may be read without a password, as in Java. Raises ConfigError.
    """
    try:
        content = Path(location).read_bytes()
    except OSError as error:
        raise ConfigError(f"{name}={location} cannot be read: {error.strerror}", name=name) from error
    if b"-----BEGIN " in content:
        return content.decode("utf-8", "replace")
    try:
        if content.startswith(_JKS_MAGIC):
            return _from_jks(content, password, key_password or password)
        if content[:1] == bytes([_DER_SEQUENCE]):
            return _from_pkcs12(content, password)
    except ValueError as error:
        raise ConfigError(
            f"{name}={location} cannot be opened: {error}. Check {name.replace('location', 'password')}", name=name
        ) from error
    kind = "a JCEKS store" if content.startswith(_JCEKS_MAGIC) else "no store that is known here"
    raise ConfigError(
        f"{name}={location} is {kind}: give a PEM, PKCS12 or JKS file. keytool converts others: 'keytool -importkeystore "
        f"-srckeystore {location} -destkeystore store.p12 -deststoretype PKCS12'",
        name=name,
    )


def _from_pkcs12(content: bytes, password: str | None) -> str:
    # This import is slow, and few stores need it.
    from cryptography.hazmat.primitives import serialization  # noqa: PLC0415
    from cryptography.hazmat.primitives.serialization import pkcs12  # noqa: PLC0415

    stored = pkcs12.load_pkcs12(content, password.encode() if password is not None else None)
    parts = [entry.certificate for entry in ([stored.cert] if stored.cert else []) + list(stored.additional_certs)]
    pem = b"".join(part.public_bytes(serialization.Encoding.PEM) for part in parts)
    if stored.key is not None:
        pem += stored.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    return pem.decode()


def _from_jks(content: bytes, password: str | None, key_password: str | None) -> str:
    body, digest = content[:-_SHA1_SIZE], content[-_SHA1_SIZE:]
    if password is not None:
        # SHA-1 is part of the format.
        expected = hashlib.sha1(_utf16(password) + _JKS_SALT + body).digest()  # noqa: S324
        if not hmac.compare_digest(expected, digest):
            raise ValueError("the password is wrong, or the file was changed")
    try:
        return "".join(_jks_parts(_Reader(body), key_password))
    except struct.error:
        raise ValueError("the file is cut off") from None


def _jks_parts(reader: _Reader, key_password: str | None) -> list[str]:
    """Return the first private key, its chain, and then the trusted certificates.

    A store may have them in any order.
    """
    reader.take(len(_JKS_MAGIC))
    version = reader.number()
    own: list[str] = []
    trusted: list[str] = []
    for _ in range(reader.number()):
        tag = reader.number()
        reader.text()
        reader.take(8)
        if tag == _CERTIFICATE:
            trusted.append(_jks_certificate(reader, version))
        elif tag == _PRIVATE_KEY:
            key = reader.take(reader.number())
            chain = [_jks_certificate(reader, version) for _ in range(reader.number())]
            if not own:
                own = [_private_key(key, key_password), *chain]
        else:
            raise ValueError(f"it has an entry of the unknown kind {tag}")
    return own + trusted


def _jks_certificate(reader: _Reader, version: int) -> str:
    if version > 1:
        reader.text()
    return ssl.DER_cert_to_PEM_cert(reader.take(reader.number()))


def _private_key(protected: bytes, password: str | None) -> str:
    if password is None:
        raise ValueError("its private key needs a password")
    algorithm, rest = _der(_der(protected, _DER_SEQUENCE)[0], _DER_SEQUENCE)
    if not algorithm.startswith(_JKS_PROTECTION):
        raise ValueError("its private key is protected by an algorithm that JKS stores do not have")
    sealed, _ = _der(rest, _DER_OCTETS)
    salt, hidden, check = sealed[:_SHA1_SIZE], sealed[_SHA1_SIZE:-_SHA1_SIZE], sealed[-_SHA1_SIZE:]
    secret = _utf16(password)
    stream, block = b"", salt
    while len(stream) < len(hidden):
        block = hashlib.sha1(secret + block).digest()  # noqa: S324 - as above
        stream += block
    plain = bytes(one ^ other for one, other in zip(hidden, stream, strict=False))
    if not hmac.compare_digest(hashlib.sha1(secret + plain).digest(), check):  # noqa: S324 - as above
        raise ValueError("the password of its private key is wrong (ssl.key.password, if it has one of its own)")
    lines = "\n".join(textwrap.wrap(base64.b64encode(plain).decode(), 64))
    return f"-----BEGIN PRIVATE KEY-----\n{lines}\n-----END PRIVATE KEY-----\n"


def _der(data: bytes, tag: int) -> tuple[bytes, bytes]:
    """Return the content of the first element, and the data after it.

    Raises ValueError if the element has another tag.
    """
    if len(data) < 2 or data[0] != tag:
        raise ValueError("its private key is damaged")
    size, start = data[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(data[2:start], "big")
    if start + size > len(data):
        raise ValueError("its private key is damaged")
    return data[start : start + size], data[start + size :]


def _utf16(password: str) -> bytes:
    return password.encode("utf-16-be")


class _Reader:
    """Reads big-endian fields one after the other. All methods raise struct.error at the end of the data."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        if size > len(self._data) - self._at:
            raise struct.error
        self._at += size
        return self._data[self._at - size : self._at]

    def number(self) -> int:
        """Read a number of four bytes."""
        return int.from_bytes(self.take(4), "big")

    def text(self) -> bytes:
        """Read a text in Java's modified UTF-8. Its length comes first, in two bytes."""
        return self.take(int.from_bytes(self.take(2), "big"))
