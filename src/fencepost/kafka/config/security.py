"""Java's `sasl.*` and `ssl.*` client properties, converted for Python's ssl module and kafka-python.

Property names and meanings: https://kafka.apache.org/documentation/#producerconfigs. KIP-651 describes PEM stores.
"""

from __future__ import annotations

import os
import re
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from fencepost.api.errors import ConfigError
from fencepost.kafka.config.key_stores import read_store
from fencepost.kafka.config.oauth import OAuthConfig

SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

_JAAS: Final = re.compile(
    r"^\s*(?P<module>[\w.$]+)\s+(?:required|requisite|sufficient|optional)(?P<options>.*?);?\s*$", re.DOTALL
)
_JAAS_OPTION: Final = re.compile(r"""([\w.$-]+)\s*=\s*("(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^\s;"']+)""")
_JAAS_HINT: Final = (
    "write it as org.apache.kafka.common.security.scram.ScramLoginModule required "
    'username="<name>" password="<password>";'
)


@dataclass(frozen=True, slots=True)
class SaslConfig:
    """Credentials for one of SASL_MECHANISMS. OAUTHBEARER uses `oauth` instead of name and password."""

    mechanism: str
    username: str = ""
    password: str = field(default="", repr=False)
    oauth: OAuthConfig | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> SaslConfig:
        """Read `sasl.*`. Raises ConfigError that names the property."""
        mechanism = properties.get("sasl.mechanism", "GSSAPI")
        if mechanism not in SASL_MECHANISMS:
            raise ConfigError(
                f"sasl.mechanism={mechanism} is not available here: use one of {', '.join(SASL_MECHANISMS)}",
                name="sasl.mechanism",
            )
        options = parse_jaas(properties.get("sasl.jaas.config"))
        if mechanism == "OAUTHBEARER":
            return cls(mechanism, oauth=OAuthConfig.from_properties(properties, options))
        missing = [option for option in ("username", "password") if option not in options]
        if missing:
            raise ConfigError(
                f"sasl.jaas.config has no {' and no '.join(missing)}: {_JAAS_HINT}", name="sasl.jaas.config"
            )
        return cls(mechanism, options["username"], options["password"])


def parse_jaas(text: str | None) -> dict[str, str]:
    """Return the options of a JAAS entry such as `org...PlainLoginModule required username="a" password="b";`.

    Raises ConfigError if the entry is absent or malformed. The message never shows the text, because it holds a
    password.
    """
    if text is None:
        raise ConfigError(f"sasl.jaas.config is required with SASL: {_JAAS_HINT}", name="sasl.jaas.config")
    entry = _JAAS.match(text)
    if entry is None or not entry["module"].endswith("LoginModule"):
        raise ConfigError(f"sasl.jaas.config is malformed: {_JAAS_HINT}", name="sasl.jaas.config")
    rest = _JAAS_OPTION.sub("", entry["options"]).strip()
    if rest:
        raise ConfigError(
            f"sasl.jaas.config has something other than name=value options: {_JAAS_HINT}", name="sasl.jaas.config"
        )
    return {name: _unquote(value) for name, value in _JAAS_OPTION.findall(entry["options"])}


def _unquote(value: str) -> str:
    return re.sub(r"\\(.)", r"\1", value[1:-1]) if value[0] in "\"'" else value


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Trusted authorities and this client's certificate, as PEM text.

    If `authorities` is None, the operating system's authorities are trusted.
    """

    authorities: str | None = None
    certificate: str | None = None
    private_key: str | None = field(default=None, repr=False)
    private_key_password: str | None = field(default=None, repr=False)
    check_hostname: bool = True

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> TlsConfig:
        """Read `ssl.*` and the content of the stores that it names, because executors do not have these files.

        Raises ConfigError.
        """
        trust = properties.get("ssl.truststore.certificates") or _read_store(properties, "ssl.truststore")
        chain = properties.get("ssl.keystore.certificate.chain")
        key = properties.get("ssl.keystore.key")
        if (chain is None) != (key is None):
            raise ConfigError(
                "ssl.keystore.certificate.chain and ssl.keystore.key go together: give both or neither",
                name="ssl.keystore.key",
            )
        if chain is None:
            chain = key = _read_store(properties, "ssl.keystore")
        identification = properties.get("ssl.endpoint.identification.algorithm", "https").strip().lower()
        if identification not in ("https", ""):
            raise ConfigError(
                f"ssl.endpoint.identification.algorithm={identification} is not known: use https, or nothing to leave "
                "the host name unchecked",
                name="ssl.endpoint.identification.algorithm",
            )
        password = properties.get("ssl.key.password")
        return cls(trust, chain, key, password, check_hostname=identification == "https")

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for client sockets. Raises ConfigError for unusable certificates or keys."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.check_hostname = self.check_hostname
        self._load_trusted(context)
        if self.certificate is not None and self.private_key is not None:
            self._load_own(context, f"{self.private_key}\n{_certificates(self.certificate)}")
        return context

    def server_context(self, *, client_auth: str = "none") -> ssl.SSLContext:
        """Return the TLS context for server sockets.

        `client_auth` is Java's `ssl.client.auth`: clients must (required), may (requested) or need not (none) present a
        certificate that `authorities` signed. Raises ConfigError for unusable certificates or keys.
        """
        modes = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
        if client_auth.strip().lower() not in modes:
            raise ConfigError(
                f"ssl.client.auth={client_auth} is not known: use one of {', '.join(modes)}", name="ssl.client.auth"
            )
        if self.certificate is None or self.private_key is None:
            raise ConfigError(
                "A listener for HTTPS needs a certificate and its key: set ssl.keystore.location",
                name="ssl.keystore.location",
            )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.verify_mode = modes[client_auth.strip().lower()]
        if context.verify_mode is not ssl.CERT_NONE:
            self._load_trusted(context)
        self._load_own(context, f"{self.private_key}\n{_certificates(self.certificate)}")
        return context

    def _load_trusted(self, context: ssl.SSLContext) -> None:
        try:
            if self.authorities is None:
                context.load_default_certs()
            else:
                context.load_verify_locations(cadata=_certificates(self.authorities))
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"The certificates of ssl.truststore cannot be used ({error}): give PEM certificates",
                name="ssl.truststore.location",
            ) from error

    def _load_own(self, context: ssl.SSLContext, pem: str) -> None:
        password = self.private_key_password
        try:
            with _private_file(pem) as path:
                # The password is passed as a function: without one, OpenSSL would ask for the password on the terminal.
                context.load_cert_chain(path, password=lambda: password or "")
        except (ssl.SSLError, ValueError) as error:
            raise ConfigError(
                f"The key or certificate of ssl.keystore cannot be used ({error}): give a PEM private key (PKCS 8) "
                "with its certificate chain, and ssl.key.password if it is encrypted",
                name="ssl.keystore.location",
            ) from error


def _certificates(pem: str) -> str:
    found = re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", pem, re.DOTALL)
    if not found:
        raise ValueError("no PEM certificate in it")
    return "\n".join(found)


@contextmanager
def _private_file(text: str) -> Iterator[str]:
    """Yield the path of a file that only this user can read: Python's ssl module only takes keys from files."""
    descriptor, path = tempfile.mkstemp(prefix="fencepost-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        yield path
    finally:
        Path(path).unlink()


def _read_store(properties: Mapping[str, str], store: str) -> str | None:
    location = properties.get(f"{store}.location")
    if location is None:
        return None
    return read_store(
        location,
        name=f"{store}.location",
        password=properties.get(f"{store}.password"),
        key_password=properties.get("ssl.key.password"),
    )
