"""Creates responses: JSON bodies under Connect's names, written as Connect does, and the status of each error.

A body with the same fields as an entity, in the same order, is made from the entity's fields.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import quote

from aiohttp import hdrs, web

from fencepost.api.errors import FencepostError
from fencepost.api.secrets import SECRETS
from fencepost.herder.errors import (
    BadRequestError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RequestTargetError,
    ServiceUnavailableError,
)

if TYPE_CHECKING:
    # These modules are imported together with the herder, after the ports are open.
    from fencepost.config.ids import ConnectorTaskId
    from fencepost.herder.entities import (
        ConfigInfos,
        ConfigKeyInfo,
        ConnectorInfo,
        ConnectorOffset,
        ConnectorStateInfo,
        ConnectorStatus,
        LoggerLevel,
        PluginInfo,
        TaskInfo,
        TaskState,
    )

JSON: Final = "application/json"

SECURITY_HEADERS: Final[Mapping[str, str]] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
"""The headers of a page that people read."""

Json = dict[str, Any]

T = TypeVar("T")

# The version of a class that reports none. Connect leaves it out of its answers.
_NO_VERSION: Final = "undefined"

_LIST_PART: Final = 500
"""How many items of a long list are encoded at once."""

_STATUSES: Final[tuple[tuple[type[FencepostError], int], ...]] = (
    (BadRequestError, 400),
    (ForbiddenError, 403),
    (NotFoundError, 404),
    (ConflictError, 409),
    (RequestTargetError, 409),
    (ServiceUnavailableError, 503),
)


def status_of(error: FencepostError) -> int:
    """Return the status of an error: 500 unless the request caused it."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def json_response(body: Any, *, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return a response with a JSON body."""
    # Offsets and paths can contain half of a surrogate pair. UTF-8 cannot encode it, so it is written as a JSON escape.
    return web.Response(
        body=_text(body).encode("utf-8", "backslashreplace"), status=status, headers=headers, content_type=JSON
    )


def json_list(name: str, items: Sequence[T], shown: Callable[[T], Json]) -> web.Response:
    """Return a response with an object that contains one list.

    The list is encoded in parts while it is sent, so that the event loop can do other work in between.
    """

    async def parts() -> AsyncIterator[bytes]:
        yield f'{{"{name}":['.encode()
        for start in range(0, len(items), _LIST_PART):
            encoded = ",".join(_text(shown(item)) for item in items[start : start + _LIST_PART])
            yield f"{',' if start else ''}{encoded}".encode("utf-8", "backslashreplace")
            await asyncio.sleep(0)
        yield b"]}"

    return web.Response(body=parts(), content_type=JSON)


def _text(body: Any) -> str:
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def error_response(status: int, message: str, headers: Mapping[str, str] | None = None) -> web.Response:
    """Return the response for an error. The body has the same form for every status of at least 400."""
    return json_response({"error_code": status, "message": SECRETS.hidden(message)}, status=status, headers=headers)


def empty(status: int) -> web.Response:
    """Return a response without a body, and without a content type."""
    return web.Response(status=status)


def created(request: web.Request, name: str, body: Any) -> web.Response:
    """Return 201 with the address of a new connector."""
    location = f"{origin(request)}/connectors/{quote(name, safe='')}"
    return json_response(body, status=201, headers={"Location": location})


def origin(request: web.Request) -> str:
    """Return the scheme, host and port that the client used to reach this worker."""
    host = request.headers.get(hdrs.HOST)
    if not host and request.transport is not None:
        address, port, *_ = request.transport.get_extra_info("sockname")
        host = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
    return f"{request.scheme}://{host}"


def connector(info: ConnectorInfo) -> Json:
    """A connector's configuration and tasks."""
    return {
        "name": info.name,
        "config": dict(info.config),
        "tasks": [task_id(task) for task in info.tasks],
        "type": info.type,
    }


def connector_status(info: ConnectorStateInfo) -> Json:
    """The states of a connector and its tasks."""
    return {
        "name": info.name,
        "connector": _state(info.connector),
        "tasks": [task_status(task) for task in info.tasks],
        "type": info.type,
    }


def task_id(task: ConnectorTaskId) -> Json:
    """The id of a task."""
    return {"connector": task.connector, "task": task.task}


def task(info: TaskInfo) -> Json:
    """A task's configuration."""
    return {"id": task_id(info.id), "config": dict(info.config)}


def task_status(info: TaskState) -> Json:
    """A task's state."""
    return {"id": info.id, **_state(info)}


def _state(info: ConnectorStatus | TaskState) -> Json:
    body: Json = {"state": info.state, "worker_id": info.worker_id}
    if info.trace:
        body["trace"] = info.trace
    return body | _version(info.version)


def _version(version: str | None) -> Json:
    return {} if version in (None, _NO_VERSION) else {"version": version}


def offset(info: ConnectorOffset) -> Json:
    """The offset of a source partition."""
    return {"partition": _fields(info.partition), "offset": _fields(info.offset)}


def _fields(fields: Mapping[str, Any] | None) -> Json | None:
    return None if fields is None else dict(fields)


def plugin(info: PluginInfo) -> Json:
    """A plugin of the worker."""
    return {"class": info.plugin_class, "type": info.type, **_version(info.version)}


def config_key(info: ConfigKeyInfo) -> Json:
    """The definition of a property."""
    return asdict(info)


def config_infos(infos: ConfigInfos) -> Json:
    """The result of validating a configuration.

    Connect's result has no `unknown`: it is included only if it is not empty.
    """
    body = {
        "name": infos.name,
        "error_count": infos.error_count,
        "groups": list(infos.groups),
        "configs": [asdict(info) for info in infos.configs],
    }
    return {**body, "unknown": dict(infos.unknown)} if infos.unknown else body


def logger_level(info: LoggerLevel) -> Json:
    """A logger's level."""
    return asdict(info)


def logger_levels(levels: Mapping[str, LoggerLevel]) -> Json:
    """The levels of loggers by name."""
    return {name: logger_level(level) for name, level in sorted(levels.items())}


def health(status: str, message: str) -> Json:
    """A worker's health."""
    return {"status": status, "message": message}
