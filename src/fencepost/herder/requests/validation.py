"""Validates a connector's configuration for a request, and shows the result as Connect's REST API does."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.api.errors import ConfigError
from fencepost.herder.errors import BadRequestError
from fencepost.herder.interface import ConfigInfos
from fencepost.herder.requests.config_infos import config_infos
from fencepost.runtime.worker import Worker


def validate_connector_config(worker: Worker, config: Mapping[str, str]) -> ConfigInfos:
    """Check a connector's configuration as a worker would run it. Warns about unknown properties.

    Raises BadRequestError if there is no connector class to check it, or if its code fails.
    """
    try:
        validation = worker.validate(config)
    except ConfigError as error:
        raise BadRequestError(str(error)) from error
    validation.warn_of_unknown()
    return config_infos(config["connector.class"], validation.keys.values(), validation.values, validation.unknown)
