"""Key stores written by Java's keytool are read, and damaged ones are refused by name."""

from __future__ import annotations

import re
import ssl
import subprocess
from pathlib import Path
from typing import Final

import pytest

from fencepost.api.errors import ConfigError
from fencepost.embedded.java import find_java
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.config.key_stores import read_store
from fencepost.kafka.config.security import TlsConfig

_KINDS: Final = ("JKS", "PKCS12")
# For PKCS12, Java itself accepts no other letters.
_PASSWORDS: Final = {"JKS": "päss-wörd", "PKCS12": "pass-word"}


def keytool(*arguments: str | Path) -> None:
    program = find_java().home / "bin" / "keytool"
    # keytool reads non-ASCII passwords in the locale's encoding.
    subprocess.run([program, *arguments], check=True, capture_output=True, env={"LC_ALL": "C.UTF-8"}, timeout=60)


@pytest.fixture(scope="module", params=_KINDS)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key store with a key and its certificate, and two trusted certificates."""
    folder = tmp_path_factory.mktemp("stores")
    password = _PASSWORDS[request.param]
    path = folder / f"store.{request.param}"
    access = ("-storetype", request.param, "-keystore", path, "-storepass", password)
    for alias in ("me", "other", "third"):
        keytool(
            *("-genkeypair", *access, "-alias", alias, "-dname", f"CN={alias}", "-keyalg", "EC", "-keypass", password)
        )
    for alias in ("other", "third"):
        keytool("-exportcert", "-rfc", *access, "-alias", alias, "-file", folder / alias)
        keytool("-delete", *access, "-alias", alias)
        keytool("-importcert", *access, "-alias", alias, "-file", folder / alias, "-noprompt")
    return path


def test_a_store_of_java_s_is_trusted_and_its_key_is_used(store: Path) -> None:
    properties = {"bootstrap.servers": "a:1", "security.protocol": "SSL"}
    for kind in ("truststore", "keystore"):
        properties |= {f"ssl.{kind}.location": str(store), f"ssl.{kind}.password": _PASSWORDS[store.suffix[1:]]}
    tls = ClientConfig.from_properties(properties, where="x").tls

    assert tls is not None
    pem = read_store(str(store), name="ssl.keystore.location", password=_PASSWORDS[store.suffix[1:]])
    assert pem.count("BEGIN CERTIFICATE") == 3
    # OpenSSL itself refuses a certificate that does not belong to the key.
    assert tls.context().verify_mode is ssl.CERT_REQUIRED
    assert tls.server_context(client_auth="required").verify_mode is ssl.CERT_REQUIRED


def test_a_wrong_password_is_reported_with_its_property(store: Path) -> None:
    with pytest.raises(ConfigError, match=r"ssl\.keystore\.location.* cannot be opened.*ssl\.keystore\.password"):
        read_store(str(store), name="ssl.keystore.location", password="wrong")


def jks(tmp_path: Path, *, key_password: str | None = None) -> Path:
    path = tmp_path / "store.jks"
    access = ("-storetype", "JKS", "-keystore", path, "-storepass", "store-secret")
    keytool("-genkeypair", *access, "-keypass", key_password or "store-secret", "-alias", "a", "-dname", "CN=a", "-keyalg", "RSA")  # fmt: skip
    return path


def test_the_key_of_a_jks_store_may_have_a_password_of_its_own(tmp_path: Path) -> None:
    path = jks(tmp_path, key_password="key-secret")

    pem = read_store(str(path), name="n", password="store-secret", key_password="key-secret")
    TlsConfig(certificate=pem, private_key=pem).context()
    with pytest.raises(ConfigError, match=r"ssl\.key\.password"):
        read_store(str(path), name="n", password="store-secret")


def test_a_jks_store_that_is_cut_or_changed_is_refused_anywhere(tmp_path: Path) -> None:
    path = jks(tmp_path)
    whole = path.read_bytes()
    for size in range(4, len(whole), 7):
        path.write_bytes(whole[:size])
        for password in ("store-secret", None):
            with pytest.raises(ConfigError, match="cannot be opened"):
                read_store(str(path), name="n", password=password, key_password="store-secret")
    for place in range(4, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(ConfigError, match="was changed"):
            read_store(str(path), name="n", password="store-secret")


def test_other_stores_are_named_with_the_command_that_converts_them(tmp_path: Path) -> None:
    for content, kind in ((b"\xce\xce\xce\xce rest", "JCEKS store"), (b"what", "no store that is known")):
        path = tmp_path / "store"
        path.write_bytes(content)
        with pytest.raises(ConfigError, match=rf"{kind}.*keytool -importkeystore -srckeystore {re.escape(str(path))}"):
            read_store(str(path), name="ssl.truststore.location", password="x")
