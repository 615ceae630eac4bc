"""The properties of Apicurio's converters, and Confluent's names for them.

Names and defaults were read in the class files of apicurio-registry-serde-common 2.6.13 and 3.0.9 (SerdeConfig,
SchemaResolverConfig). The release lines 2 and 3 write different bytes by default:

    2.x    the global id in one of several headers, then only the data. If headers are switched off: an id of eight bytes
    3.x    0, the content id in four bytes, the data: the same as Confluent's converters

In both lines, Confluent's API returns content ids. So these four bytes are written, and settings that mean other bytes
are refused.
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
"""Matches the address of a registry's own API, which contains the release line, or of its copy of Confluent's API."""

_LOGIN: Final = ("apicurio.auth.", f"{APICURIO}auth.")
"""The prefixes of the login's properties in 2.x and 3.x."""

_SAME: Final[Mapping[str, str]] = {
    AUTO_REGISTER: "auto.register.schemas",
    _LATEST: "use.latest.version",
    f"{APICURIO}retry-count": "max.retries",
    f"{APICURIO}retry-backoff-ms": "retries.wait.ms",
}
"""Properties whose values Confluent's converters understand as well, with Confluent's names."""


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
        "The address of the registry, as http://host:port/apis/registry/v3, or v2. The converter uses the registry's "
        "Confluent-compatible API at the same host.",
        validator=not_empty,
    ).define(
        AUTO_REGISTER, _T.BOOLEAN, False, _I.MEDIUM,
        "Whether the converter registers schemas. If false, they must already be in the registry.",
    ).define(
        f"{AUTO_REGISTER}.if-exists", _T.STRING, "FIND_OR_CREATE_VERSION", _I.LOW,
        "What happens if the subject exists already. With both values, FIND_OR_CREATE_VERSION and RETURN_OR_UPDATE, "
        "the schema is registered as a new version unless it is one already.",
        validator=choice("FIND_OR_CREATE_VERSION", "RETURN_OR_UPDATE"),
    ).define(
        _LATEST, _T.BOOLEAN, False, _I.LOW,
        "Whether records are written with the newest schema of the subject, instead of their own. It has no "
        "effect with apicurio.registry.auto-register=true.",
    ).define(
        f"{APICURIO}artifact-resolver-strategy", _T.CLASS, "io.apicurio.registry.serde.strategy.TopicIdStrategy", _I.LOW,
        "How artifacts are named. Only TopicIdStrategy is supported: after the topic, as orders-value.",
        validator=class_name("TopicIdStrategy"),
    ).define(
        f"{APICURIO}artifact.group-id", _T.STRING, "default", _I.LOW,
        "The group of artifacts: only default is supported.",
        validator=choice("DEFAULT"),
    )  # fmt: skip


def _define_framing(definitions: ConfigDef) -> None:
    definitions.define(
        _HEADERS, _T.BOOLEAN, None, _I.MEDIUM,
        "Whether the schema's id is written in headers. Only false is supported. Required for a registry of Apicurio "
        "2, where Java's default is true.",
        validator=_no_headers,
    ).define(
        _CONFLUENT, _T.BOOLEAN, None, _I.MEDIUM,
        "Whether the schema's id is written in four bytes. Only true is supported. Required for a registry of "
        "Apicurio 2, where Java's default is false, unless apicurio.registry.id-handler is set.",
    ).define(
        _HANDLER, _T.CLASS, None, _I.LOW,
        "A class that writes the schema's id, as another form of apicurio.registry.as-confluent: "
        "Default4ByteIdHandler or Legacy4ByteIdHandler.",
    ).define(
        _USE_ID, _T.STRING, None, _I.MEDIUM,
        "Which id of the schema is written. Only contentId is supported. Required for a registry of Apicurio 2, where "
        "Java's default is globalId.",
        validator=_content_id,
    )  # fmt: skip


def _define_requests(definitions: ConfigDef) -> None:
    definitions.define(
        _PERIOD, _T.LONG, 30_000, _I.LOW,
        "After how many milliseconds the newest schema (apicurio.registry.find-latest) is looked up again.",
        validator=at_least(0),
    ).define(
        f"{APICURIO}retry-count", _T.INT, 3, _I.LOW,
        "How often a request to the registry is retried after a transient failure. If all retries fail, the converter "
        "raises RetriableError: then errors.retry.timeout and task.restart.policy apply.",
        validator=at_least(0),
    ).define(
        f"{APICURIO}retry-backoff-ms", _T.INT, 300, _I.LOW,
        "The upper limit of the random pause before the first retry, in milliseconds. The limit doubles with each "
        "further retry.",
        validator=at_least(1),
    ).define(
        f"{APICURIO}avro.encoding", _T.STRING, "BINARY", _I.LOW, "How records are encoded: only BINARY is supported.",
        validator=choice("BINARY"),
    ).define(
        f"{APICURIO}avro-datum-provider", _T.CLASS, "io.apicurio.registry.serde.avro.DefaultAvroDatumProvider", _I.LOW,
        "Accepted for compatibility: only DefaultAvroDatumProvider is supported.",
        validator=class_name("DefaultAvroDatumProvider"),
    )  # fmt: skip


def _define_access(definitions: ConfigDef) -> None:
    for prefix in _LOGIN:
        definitions.define(
            f"{prefix}username", _T.STRING, None, _I.MEDIUM, "The user for HTTP basic authentication at the registry.",
        ).define(
            f"{prefix}password", _T.PASSWORD, None, _I.MEDIUM, "The user's password.",
        ).define(
            f"{prefix}service.token.endpoint", _T.STRING, None, _I.MEDIUM,
            "The address of the OAuth token endpoint, which must support the client credentials grant.",
        ).define(
            f"{prefix}client.id", _T.STRING, None, _I.MEDIUM, "The OAuth client id with which tokens are requested.",
        ).define(
            f"{prefix}client.secret", _T.PASSWORD, None, _I.MEDIUM, "The secret of the OAuth client.",
        ).define(
            f"{prefix}client.scope", _T.STRING, None, _I.LOW, "The OAuth scope that is requested for tokens.",
        )  # fmt: skip
    definitions.define(
        "apicurio.auth.service.url", _T.STRING, None, _I.LOW,
        "The address of a Keycloak server, whose token endpoint is used; apicurio.auth.realm names the realm.",
    ).define("apicurio.auth.realm", _T.STRING, None, _I.LOW,
    "The realm of Keycloak in which tokens are requested. Used with apicurio.auth.service.url.")  # fmt: skip
    for store in ("truststore", "keystore"):
        for part, kind in (("location", _T.STRING), ("type", _T.STRING), ("password", _T.PASSWORD)):
            definitions.define(f"{_TLS}{store}.{part}", kind, None, _I.LOW, f"The {store}'s {part}, for https.")
    definitions.define(f"{_TLS}key.password", _T.PASSWORD, None, _I.LOW, "The password of the client's private key.")


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

    Raises ConfigError that names the property if Apicurio's converter would write other bytes with it.
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
    """Refuse settings that mean another framing than a content id in four bytes."""
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
    """Return the login under Confluent's names: the token endpoint if there is one, else the user, as in Java."""

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
    """Return a ConfigError with Apicurio's names of properties instead of Confluent's."""
    text, blamed = str(error), error.name
    for confluent, apicurio in _NAMES.items():
        text = text.replace(confluent, apicurio)
    if blamed is not None:
        blamed = _NAMES.get(blamed, blamed)
        for ours, theirs in ((SSL, _TLS), (REQUEST_HEADER, APICURIO_HEADER)):
            blamed = theirs + blamed.removeprefix(ours) if blamed.startswith(ours) else blamed
    return ConfigError(text, name=blamed)
