"""The properties of Apicurio's converters, and Confluent's names for them.

Names and defaults were read in the class files of apicurio-registry-serde-common 2.6.13 and 3.0.9 (SerdeConfig,
SchemaResolverConfig). The two lines write different bytes by default:

    2.x    no id before the data: the global id is in a header, with others. Without headers it has eight bytes
    3.x    0, the content id in four bytes, data: as Confluent's converters

Confluent's API of both gives content ids. So these four bytes are written, and settings that mean other bytes are refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fencepost.api.config_def import ConfigDef
from fencepost.api.errors import ConfigError
from fencepost.config.properties import below
from fencepost.config.validators import at_least, not_empty
from fencepost.converters.registry.config import choice, class_name, simple_name
from fencepost.converters.registry.settings import REQUEST_HEADER, SSL, URL

_T: Final = ConfigDef.Type
_I: Final = ConfigDef.Importance

APICURIO: Final = "apicurio.registry."
APICURIO_URL: Final = f"{APICURIO}url"
APICURIO_HEADER: Final = f"{APICURIO}request.headers."
AUTO_REGISTER: Final = f"{APICURIO}auto-register"
_LATEST: Final = f"{APICURIO}find-latest"
_HANDLER: Final = f"{APICURIO}id-handler"
_CONFLUENT: Final = f"{APICURIO}as-confluent"
_HEADERS: Final = f"{APICURIO}headers.enabled"
_USE_ID: Final = f"{APICURIO}use-id"
_PERIOD: Final = f"{APICURIO}check-period-ms"
_TLS: Final = f"{APICURIO}request.ssl."
_FOUR_BYTES: Final = ("Default4ByteIdHandler", "Legacy4ByteIdHandler")
_API: Final = re.compile(r"^(?P<before>https?://.+?)/+apis/(registry/v(?P<line>[23])|ccompat/v[67])/*$")
"""The address of a registry's own API, which says its line, or of its form of Confluent's."""

_LOGIN: Final = ("apicurio.auth.", f"{APICURIO}auth.")
"""The prefixes of 2.x and 3.x."""

_SAME: Final[Mapping[str, str]] = {
    AUTO_REGISTER: "auto.register.schemas",
    _LATEST: "use.latest.version",
    f"{APICURIO}retry-count": "max.retries",
    f"{APICURIO}retry-backoff-ms": "retries.wait.ms",
}
"""Properties with the same values in Confluent's."""


def define_apicurio(definitions: ConfigDef) -> ConfigDef:
    """Add the properties of Apicurio's serializers. Returns the definitions."""
    _define_schemas(definitions)
    _define_framing(definitions)
    _define_requests(definitions)
    _define_access(definitions)
    return definitions


def _define_schemas(definitions: ConfigDef) -> None:
    definitions.define(
        APICURIO_URL, _T.STRING, ConfigDef.NO_DEFAULT, _I.HIGH,
        "The registry: http://host:port/apis/registry/v3, or v2. Its Confluent API below the same address is used.",
        validator=not_empty,
    ).define(
        AUTO_REGISTER, _T.BOOLEAN, False, _I.MEDIUM, "Whether schemas are registered; otherwise they must be in the registry.",
    ).define(
        f"{AUTO_REGISTER}.if-exists", _T.STRING, "FIND_OR_CREATE_VERSION", _I.LOW,
        "What happens if the subject exists: a new version unless the schema is one.",
        validator=choice("FIND_OR_CREATE_VERSION", "RETURN_OR_UPDATE"),
    ).define(
        _LATEST, _T.BOOLEAN, False, _I.LOW, "Whether records are written with the newest schema of the subject.",
    ).define(
        f"{APICURIO}artifact-resolver-strategy", _T.CLASS, "io.apicurio.registry.serde.strategy.TopicIdStrategy", _I.LOW,
        "How artifacts are named: TopicIdStrategy, orders-value.", validator=class_name("TopicIdStrategy"),
    ).define(
        f"{APICURIO}artifact.group-id", _T.STRING, "default", _I.LOW, "The group of artifacts: default only.",
        validator=choice("DEFAULT"),
    )  # fmt: skip


def _define_framing(definitions: ConfigDef) -> None:
    definitions.define(
        _HEADERS, _T.BOOLEAN, None, _I.MEDIUM,
        "Whether the id is in headers: only false is possible, and must be said for a registry of the line 2.",
        validator=_no_headers,
    ).define(
        _CONFLUENT, _T.BOOLEAN, None, _I.MEDIUM,
        "Whether the id has four bytes: only true is possible, and must be said for a registry of the line 2.",
    ).define(
        _HANDLER, _T.CLASS, None, _I.LOW, "The same by a class: Default4ByteIdHandler or Legacy4ByteIdHandler.",
    ).define(
        _USE_ID, _T.STRING, None, _I.MEDIUM,
        "Which id is written: only contentId is possible, and must be said for a registry of the line 2.",
        validator=_content_id,
    )  # fmt: skip


def _define_requests(definitions: ConfigDef) -> None:
    definitions.define(
        _PERIOD, _T.LONG, 30_000, _I.LOW,
        "After how many milliseconds the newest schema is looked up again (find-latest).", validator=at_least(0),
    ).define(
        f"{APICURIO}retry-count", _T.INT, 3, _I.LOW,
        "How often the registry is asked again after a failure that may pass. Then the task waits, and begins anew.",
        validator=at_least(0),
    ).define(
        f"{APICURIO}retry-backoff-ms", _T.INT, 300, _I.LOW,
        "The longest pause before the first retry, in milliseconds; it is random, and doubles each time.",
        validator=at_least(1),
    ).define(
        f"{APICURIO}avro.encoding", _T.STRING, "BINARY", _I.LOW, "How records are encoded: BINARY only.",
        validator=choice("BINARY"),
    ).define(
        f"{APICURIO}avro-datum-provider", _T.CLASS, "io.apicurio.registry.serde.avro.DefaultAvroDatumProvider", _I.LOW,
        "DefaultAvroDatumProvider only.", validator=class_name("DefaultAvroDatumProvider"),
    )  # fmt: skip


def _define_access(definitions: ConfigDef) -> None:
    for prefix in _LOGIN:
        definitions.define(
            f"{prefix}username", _T.STRING, None, _I.MEDIUM, "A user of the registry.",
        ).define(
            f"{prefix}password", _T.PASSWORD, None, _I.MEDIUM, "The user's password.",
        ).define(
            f"{prefix}service.token.endpoint", _T.STRING, None, _I.MEDIUM, "The token endpoint (client credentials grant).",
        ).define(
            f"{prefix}client.id", _T.STRING, None, _I.MEDIUM, "The client that gets tokens.",
        ).define(
            f"{prefix}client.secret", _T.PASSWORD, None, _I.MEDIUM, "Its secret.",
        ).define(
            f"{prefix}client.scope", _T.STRING, None, _I.LOW, "The scope of tokens.",
        )  # fmt: skip
    definitions.define(
        "apicurio.auth.service.url", _T.STRING, None, _I.LOW, "The address of Keycloak, with apicurio.auth.realm.",
    ).define("apicurio.auth.realm", _T.STRING, None, _I.LOW, "The realm of Keycloak that gives tokens.")  # fmt: skip
    for store in ("truststore", "keystore"):
        for part, kind in (("location", _T.STRING), ("type", _T.STRING), ("password", _T.PASSWORD)):
            definitions.define(f"{_TLS}{store}.{part}", kind, None, _I.LOW, f"The {store}'s {part}, for https.")
    definitions.define(f"{_TLS}key.password", _T.PASSWORD, None, _I.LOW, "The password of the client's key.")


def _content_id(name: str, value: Any) -> None:
    if value is not None:
        choice("CONTENTID")(name, value)


def _no_headers(name: str, value: Any) -> None:
    if value:
        raise ConfigError(
            f"{name}=true is not supported here: records have the schema's id before their data. Set it to false, and set "
            "the same for their readers",
            name=name,
        )


def confluent_properties(values: Mapping[str, Any], given: Mapping[str, str]) -> dict[str, str]:
    """Translate the `given` properties, parsed as `values`, to properties of Confluent's converters.

    Raises ConfigError that names the property if records would have other bytes.
    """
    address = str(values[APICURIO_URL]).strip()
    found = _API.match(address)
    if found is None:
        raise ConfigError(
            f"{APICURIO_URL} does not end with /apis/registry/v3, /apis/registry/v2 or /apis/ccompat/v7: add one, because "
            "the lines of Apicurio write different bytes",
            name=APICURIO_URL,
        )
    _check_framing(values, line=found["line"])
    same = {name: str(values[apicurio]) for apicurio, name in _SAME.items()}
    if values[_LATEST] and values[AUTO_REGISTER]:
        # Java's serializer looks up the newest schema only if it does not register one.
        same["use.latest.version"] = "False"
    own = {name: given[name] for name in values if name in given and not name.startswith("apicurio.")}
    return {
        **own,
        **same,
        **_login(values),
        **{SSL + name: value for name, value in below(given, _TLS).items()},
        **{REQUEST_HEADER + name: value for name, value in below(given, APICURIO_HEADER).items()},
        URL: f"{found['before']}/apis/ccompat/v7",
        "key.subject.name.strategy": "TopicNameStrategy",
        "value.subject.name.strategy": "TopicNameStrategy",
        "latest.cache.ttl.sec": str(values[_PERIOD] // 1000),
    }


def _check_framing(values: Mapping[str, Any], *, line: str | None) -> None:
    """Refuse settings that mean another framing than the four bytes of a content id."""
    handler = values[_HANDLER]
    if handler is not None and simple_name(handler) not in _FOUR_BYTES:
        raise ConfigError(
            f"{_HANDLER}={handler} is not supported here: it must be one of {', '.join(_FOUR_BYTES)}, or remove it and set "
            f"{_CONFLUENT}=true",
            name=_HANDLER,
        )
    if values[_CONFLUENT] is False and handler is None:
        raise _other_bytes(_CONFLUENT, "true", "eight bytes for the id")
    if line == "3":
        return
    if values[_HEADERS] is None:
        raise _other_bytes(_HEADERS, "false", "the id in headers")
    if values[_CONFLUENT] is None and handler is None:
        raise _other_bytes(_CONFLUENT, "true", "eight bytes for the id")
    if values[_USE_ID] is None:
        raise _other_bytes(_USE_ID, "contentId", "the global id of a version")


def _other_bytes(name: str, value: str, instead: str) -> ConfigError:
    return ConfigError(
        f"Apicurio's converter of the line 2 writes {instead} unless {name}={value}, and only this is supported here. Set "
        f"{name}={value}, and set the same for the readers",
        name=name,
    )


def _login(values: Mapping[str, Any]) -> dict[str, str]:
    """The login under Confluent's names: a token endpoint, else a user, as Java has it."""

    def first(name: str) -> str | None:
        return next((values[prefix + name] for prefix in _LOGIN if values[prefix + name]), None)

    endpoint = first("service.token.endpoint")
    if endpoint is None and values["apicurio.auth.service.url"] and values["apicurio.auth.realm"]:
        service = str(values["apicurio.auth.service.url"]).rstrip("/")
        endpoint = f"{service}/realms/{values['apicurio.auth.realm']}/protocol/openid-connect/token"
    if endpoint is not None:
        parts = {
            "client.id": first("client.id"),
            "client.secret": first("client.secret"),
            "scope": first("client.scope"),
        }
        return {
            "bearer.auth.credentials.source": "OAUTHBEARER",
            "bearer.auth.issuer.endpoint.url": endpoint,
            **{f"bearer.auth.{name}": value for name, value in parts.items() if value},
        }
    user = first("username")
    if user is None:
        return {}
    return {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": f"{user}:{first('password') or ''}"}


_NAMES: Final[Mapping[str, str]] = {
    URL: APICURIO_URL,
    **{confluent: apicurio for apicurio, confluent in _SAME.items()},
    "basic.auth.user.info": "apicurio.auth.username",
    "bearer.auth.issuer.endpoint.url": "apicurio.auth.service.token.endpoint",
    "bearer.auth.client.id": "apicurio.auth.client.id",
    "bearer.auth.client.secret": "apicurio.auth.client.secret",
}


def in_apicurios_words(error: ConfigError) -> ConfigError:
    """Return an error of Confluent's properties with Apicurio's names."""
    text, blamed = str(error), error.name
    for confluent, apicurio in _NAMES.items():
        text = text.replace(confluent, apicurio)
    if blamed is not None:
        blamed = _NAMES.get(blamed, blamed)
        for ours, theirs in ((SSL, _TLS), (REQUEST_HEADER, APICURIO_HEADER)):
            blamed = theirs + blamed.removeprefix(ours) if blamed.startswith(ours) else blamed
    return ConfigError(text, name=blamed)
