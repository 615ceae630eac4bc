"""The resources of the REST API."""

from __future__ import annotations

from collections.abc import Sequence

from prometheus_client import CollectorRegistry

from fencepost.herder.interface import Herder
from fencepost.rest.app import Route
from fencepost.rest.connectors import ConnectorsResource, LifecycleResource
from fencepost.rest.internal import InternalResource
from fencepost.rest.loggers import LoggersResource
from fencepost.rest.offsets import OffsetsResource
from fencepost.rest.page import PageResource
from fencepost.rest.plugins import PluginsResource
from fencepost.rest.root import RootResource
from fencepost.rest.transactions import TransactionsResource


class Resources:
    """The routes of a herder's REST API. `page` has to be closed."""

    def __init__(self, herder: Herder, registry: CollectorRegistry) -> None:
        self.page = PageResource(herder, registry)
        self.admin: Sequence[Route] = LoggersResource(herder.loggers).routes()
        """The routes of `admin.listeners`."""
        self.public: Sequence[Route] = [
            *RootResource(herder, registry).routes(),
            *ConnectorsResource(herder.connectors).routes(),
            *LifecycleResource(herder.connectors).routes(),
            *OffsetsResource(herder.offsets).routes(),
            *PluginsResource(herder.plugins).routes(),
            *TransactionsResource(herder.transactions).routes(),
            *([] if herder.peers is None else InternalResource(herder.peers).routes()),
            *self.page.routes(),
        ]
