"""Connectors and their tasks: everything under /connectors except offsets and the requests of other workers."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.errors import NotFoundError
from fencepost.herder.interface import Connectors
from fencepost.rest import requests, responses
from fencepost.rest.app import CONNECTOR, Route, name_of
from fencepost.rest.requests import json_body
from fencepost.rest.responses import created, empty, json_response

# The numbers of tasks have at most nine digits.
_TASK: Final = CONNECTOR + "/tasks/{task:[0-9]{1,9}}"


class ConnectorsResource:
    """Lists, creates, changes and deletes connectors."""

    def __init__(self, connectors: Connectors) -> None:
        self._connectors = connectors

    def routes(self) -> list[Route]:
        """Return the routes with their handlers."""
        return [
            Route("GET", "/connectors", self._list),
            Route("POST", "/connectors", self._create),
            Route("GET", CONNECTOR, self._get),
            Route("DELETE", CONNECTOR, self._delete),
            Route("GET", f"{CONNECTOR}/config", self._get_config),
            Route("PUT", f"{CONNECTOR}/config", self._put_config),
            Route("PATCH", f"{CONNECTOR}/config", self._patch_config),
            Route("GET", f"{CONNECTOR}/status", self._status),
            Route("GET", f"{CONNECTOR}/topics", self._topics),
            Route("PUT", f"{CONNECTOR}/topics/reset", self._reset_topics),
        ]

    async def _list(self, request: web.Request) -> web.Response:
        names = await self._connectors.names()
        if "expand" not in request.query:
            return json_response(list(names))
        wanted = request.query.getall("expand")
        expanded = {}
        for name in names:
            try:
                expanded[name] = await self._expanded(name, wanted)
            except NotFoundError:
                # The connector was deleted after the names were listed.
                continue
        return json_response(expanded)

    async def _expanded(self, name: str, wanted: list[str]) -> responses.Json:
        parts: responses.Json = {}
        if "info" in wanted:
            parts["info"] = responses.connector(await self._connectors.info(name))
        if "status" in wanted:
            parts["status"] = responses.connector_status(await self._connectors.status(name))
        return parts

    async def _create(self, request: web.Request) -> web.Response:
        asked = requests.create_connector(await json_body(request))
        put = await self._connectors.put(asked.name, asked.config, asked.target_state, allow_replace=False)
        return created(request, asked.name, responses.connector(put.info))

    async def _get(self, request: web.Request) -> web.Response:
        return json_response(responses.connector(await self._connectors.info(name_of(request))))

    async def _delete(self, request: web.Request) -> web.Response:
        await self._connectors.delete(name_of(request))
        return empty(204)

    async def _get_config(self, request: web.Request) -> web.Response:
        return json_response(dict((await self._connectors.info(name_of(request))).config))

    async def _put_config(self, request: web.Request) -> web.Response:
        config = requests.connector_config(await json_body(request), name_of(request))
        name = config["name"]
        put = await self._connectors.put(name, config, allow_replace=True)
        body = responses.connector(put.info)
        return created(request, name, body) if put.created else json_response(body)

    async def _patch_config(self, request: web.Request) -> web.Response:
        name = name_of(request)
        patch = requests.config_patch(await json_body(request), name)
        return json_response(responses.connector(await self._connectors.patch(name, patch)))

    async def _status(self, request: web.Request) -> web.Response:
        return json_response(responses.connector_status(await self._connectors.status(name_of(request))))

    async def _topics(self, request: web.Request) -> web.Response:
        name = name_of(request)
        return json_response({name: {"topics": list(await self._connectors.active_topics(name))}})

    async def _reset_topics(self, request: web.Request) -> web.Response:
        await self._connectors.reset_active_topics(name_of(request))
        return empty(202)


class LifecycleResource:
    """Pauses, resumes, stops and restarts connectors and tasks."""

    def __init__(self, connectors: Connectors) -> None:
        self._connectors = connectors

    def routes(self) -> list[Route]:
        """Return the routes with their handlers."""
        return [
            Route("PUT", f"{CONNECTOR}/pause", self._pause),
            Route("PUT", f"{CONNECTOR}/resume", self._resume),
            Route("PUT", f"{CONNECTOR}/stop", self._stop),
            Route("POST", f"{CONNECTOR}/restart", self._restart),
            Route("GET", f"{CONNECTOR}/tasks", self._tasks),
            Route("GET", f"{_TASK}/status", self._task_status),
            Route("POST", f"{_TASK}/restart", self._restart_task),
        ]

    async def _pause(self, request: web.Request) -> web.Response:
        await self._connectors.pause(name_of(request))
        return empty(202)

    async def _resume(self, request: web.Request) -> web.Response:
        await self._connectors.resume(name_of(request))
        return empty(202)

    async def _stop(self, request: web.Request) -> web.Response:
        await self._connectors.stop(name_of(request))
        return empty(204)

    async def _restart(self, request: web.Request) -> web.Response:
        name = name_of(request)
        include_tasks = requests.boolean(request.query, "includeTasks")
        only_failed = requests.boolean(request.query, "onlyFailed")
        if not include_tasks and not only_failed:
            await self._connectors.restart(name)
            return empty(204)
        status = await self._connectors.restart_all(name, include_tasks=include_tasks, only_failed=only_failed)
        return json_response(responses.connector_status(status), status=202)

    async def _tasks(self, request: web.Request) -> web.Response:
        return json_response([responses.task(task) for task in await self._connectors.task_configs(name_of(request))])

    async def _task_status(self, request: web.Request) -> web.Response:
        return json_response(responses.task_status(await self._connectors.task_status(_task_of(request))))

    async def _restart_task(self, request: web.Request) -> web.Response:
        await self._connectors.restart(_task_of(request))
        return empty(204)


def _task_of(request: web.Request) -> ConnectorTaskId:
    return ConnectorTaskId(name_of(request), int(request.match_info["task"]))
