"""Reads the bodies of requests, and parses bodies and queries.

The parsers are pure functions. They raise BadRequestError, which describes the error in a body.
"""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from aiohttp import hdrs, web

from fencepost.api.secrets import SECRETS
from fencepost.herder.entities import ConnectorOffset
from fencepost.herder.errors import BadRequestError
from fencepost.rest.responses import JSON
from fencepost.storage.configs.codec import TargetState

BODY_TIMEOUT_SECONDS: Final = 60.0

_INITIAL_STATES: Final = {
    "RUNNING": TargetState.STARTED,
    "PAUSED": TargetState.PAUSED,
    "STOPPED": TargetState.STOPPED,
}


@dataclass(frozen=True, slots=True)
class CreateConnector:
    """The content of POST /connectors. The configuration's property `name` is the connector's name."""

    name: str
    config: Mapping[str, str] = field(repr=False)
    target_state: TargetState | None


async def json_body(request: web.Request) -> bytes:
    """Return the body of a request, which must be JSON and must be declared as JSON.

    A web page can make a browser send bodies to any reachable server, but only with the server's consent if the body
    has this content type. Raises 415 for a missing or another content type, 413 for a body that is too large, and 408
    if it does not arrive in time.
    """
    content = await body(request)
    # With an empty body, clients send arbitrary content types.
    if content and (hdrs.CONTENT_TYPE not in request.headers or request.content_type != JSON):
        given = request.headers.get(hdrs.CONTENT_TYPE, "none")
        raise web.HTTPUnsupportedMediaType(
            text=f"A body needs the header {hdrs.CONTENT_TYPE}: {JSON}, and this request has {given}"
        )
    return content


async def body(request: web.Request) -> bytes:
    """Return the raw body of a request. Raises 408, 413, or 400 if it is truncated or badly encoded."""
    try:
        async with asyncio.timeout(BODY_TIMEOUT_SECONDS):
            return await request.read()
    except TimeoutError:
        raise web.HTTPRequestTimeout(text=f"The body did not arrive within {BODY_TIMEOUT_SECONDS:.0f} s") from None
    except web.RequestPayloadError as error:
        raise web.HTTPBadRequest(text=f"The body cannot be read: {error}") from None


def create_connector(body: bytes) -> CreateConnector:
    """Read `{"name": ..., "config": {...}, "initial_state": ...}`."""
    request = _object(_parse(body, numbers_as_text=True), "The body", allowed=("name", "config", "initial_state"))
    if "config" not in request:
        raise BadRequestError('The body has no "config": send {"name": "...", "config": {"connector.class": ...}}')
    config = config_values(request["config"], '"config"')
    name = request.get("name", config.get("name"))
    if name is None:
        raise BadRequestError('The connector has no name: add "name" beside "config"')
    if not isinstance(name, str):
        raise BadRequestError(f'"name" must be a text, not {_kind(name)}')
    name = connector_name(name)
    return CreateConnector(name, named(config, name), _initial_state(request.get("initial_state")))


def connector_config(body: bytes, name: str) -> dict[str, str]:
    """Read the body of PUT config: a flat configuration for the connector that is named in the path."""
    loaded = _parse(body, numbers_as_text=True)
    if isinstance(loaded, dict) and isinstance(loaded.get("config"), dict):
        raise BadRequestError(
            'The body of this request is the configuration itself, not {"config": {...}}: send what is inside "config"'
        )
    return named(config_values(loaded, "The body"), connector_name(name))


def config_patch(body: bytes, name: str) -> dict[str, str | None]:
    """Read the body of PATCH config: the properties to set, and with null the properties to remove."""
    given = _object(_parse(body, numbers_as_text=True), "The body")
    patch: dict[str, str | None] = {key: None if value is None else _text(key, value) for key, value in given.items()}
    if "name" in patch and patch["name"] != name:
        raise BadRequestError(
            f"The name of the connector {name} cannot be changed: delete it, and create one of the new name, which "
            "begins without offsets"
        )
    return patch


def number(query: Mapping[str, str], name: str, *, default: int, largest: int) -> int:
    """Read a parameter that must be a number of at least 1. Raises BadRequestError."""
    text = query.get(name)
    if text is None:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(largest)) and 1 <= int(text) <= largest):
        raise BadRequestError(f"The parameter {name} must be a number from 1 to {largest}, not {text!r}")
    return int(text)


def plain_config(body: bytes) -> dict[str, str]:
    """Read a flat configuration. Its name may be missing, for example if it is only validated."""
    return config_values(_parse(body, numbers_as_text=True), "The body")


def task_configs(body: bytes) -> list[dict[str, str]]:
    """Read a list of task configurations."""
    loaded = _parse(body, numbers_as_text=True)
    if not isinstance(loaded, list):
        raise BadRequestError(f"The body must be a list of task configurations, not {_kind(loaded)}")
    return [config_values(config, f"Item {number} of the body") for number, config in enumerate(loaded)]


def connector_offsets(body: bytes) -> list[ConnectorOffset]:
    """Read `{"offsets": [{"partition": {...}, "offset": {...}}]}`; a null offset removes it.

    A partition may be null, which stands for a source's only partition.
    """
    given = _object(_parse(body), "The body", allowed=("offsets",)).get("offsets")
    if not isinstance(given, list) or not given:
        raise BadRequestError(
            'The body names no offsets: send {"offsets": [{"partition": {...}, "offset": {...}}]}. To remove all '
            "offsets of the connector, send DELETE"
        )
    return [_offset(item, f"offsets[{number}]") for number, item in enumerate(given)]


def logger_level(body: bytes) -> str:
    """Read `{"level": ...}`."""
    level = _object(_parse(body), "The body").get("level")
    if not isinstance(level, str) or not level.strip():
        raise BadRequestError('The body names no level: send {"level": "DEBUG"}')
    return level


def connector_name(name: str) -> str:
    """Return a connector's name without blanks around it. Raises BadRequestError for an unusable name."""
    name = name.strip()
    if not name:
        raise BadRequestError("The connector's name is empty")
    if any(ord(character) < ord(" ") or ord(character) == 0x7F for character in name):
        raise BadRequestError("The connector's name must not contain control characters")
    if name in (".", ".."):
        raise BadRequestError(
            f"A connector must not be named {name!r}: a URL cannot have it as a part of its path. Choose another name"
        )
    return name


def named(config: dict[str, str], name: str) -> dict[str, str]:
    """Return the configuration with its name. If the name was missing, it is added at the end."""
    given = config.get("name", name)
    if given.strip() != name:
        raise BadRequestError(
            f"The name {given!r} in the configuration is not the connector's, which is {name!r}: make them equal, or "
            "leave it out of the configuration"
        )
    return {**config, "name": name}


def boolean(query: Mapping[str, str], name: str) -> bool:
    """Return whether a parameter of the query is `true`. Any other value means false, as in Connect."""
    return query.get(name, "").strip().lower() == "true"


def config_values(config: Any, what: str) -> dict[str, str]:
    """Return a configuration with its numbers and booleans as text. Raises BadRequestError for any other value."""
    return {key: _text(key, value) for key, value in _object(config, what).items()}


def _initial_state(given: Any) -> TargetState | None:
    if given is None:
        return None
    state = _INITIAL_STATES.get(given.upper()) if isinstance(given, str) else None
    if state is None:
        raise BadRequestError(f"initial_state must be one of {', '.join(_INITIAL_STATES)}, not {_shown(given)}")
    return state


def _offset(item: Any, what: str) -> ConnectorOffset:
    given = _object(item, what, allowed=("partition", "offset"))
    # A source with a single partition may use null for it, as Connect allows.
    unnamed = "partition" in given and given["partition"] is None
    partition = None if unnamed else _object(given.get("partition"), f"{what}.partition")
    offset = given.get("offset")
    return ConnectorOffset(partition, None if offset is None else _object(offset, f"{what}.offset"))


def _text(key: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return value
    raise BadRequestError(f"The value of the property {key} must be a text, a number or a boolean, not {_kind(value)}")


def _object(value: Any, what: str, *, allowed: Sequence[str] | None = None) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise BadRequestError(f"{what} must be a JSON object, not {_kind(value)}")
    unknown = [] if allowed is None else [key for key in value if key not in allowed]
    if unknown and allowed is not None:
        raise BadRequestError(
            f"{what} has the field {_shown(unknown[0])}, which is not known here; it takes {', '.join(allowed)}"
        )
    return value


def _parse(body: bytes, *, numbers_as_text: bool = False) -> Any:
    """Return the parsed JSON of a body. Numbers can be kept as text."""
    if not body.strip():
        raise BadRequestError("The request has no body: send JSON")
    try:
        text = body.decode("utf-8-sig")
        loaded = json.loads(
            text,
            parse_int=str if numbers_as_text else None,
            parse_float=str if numbers_as_text else _finite,
            parse_constant=_refuse_constant,
        )
        # JSON can contain single surrogates, which are only half of a character and cannot be written to Kafka.
        json.dumps(loaded, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise BadRequestError(
            f"The body is not valid JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        ) from None
    except UnicodeError:
        raise BadRequestError("The body is not valid UTF-8, or holds half of a surrogate pair") from None
    except (ValueError, RecursionError):
        raise BadRequestError("The body is JSON with a number too long, or nested too deep, to be read") from None
    return loaded


def _finite(number: str) -> float:
    """Refuse numbers beyond the range of a double. Python would read them as infinity, which JSON does not have."""
    value = float(number)
    if math.isinf(value):
        raise BadRequestError(f"The body has the number {number[:50]}, which is too large for a double")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise BadRequestError(f"The body is not valid JSON: {name} is not a number of JSON")


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a text"
        case list():
            return "a list"
        case dict():
            return "an object"
    return "a number"


def _shown(value: Any) -> str:
    return SECRETS.excerpt(json.dumps(value), 80)
