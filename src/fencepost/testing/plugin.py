"""The pytest plugin. Pytest loads it wherever fencepost is installed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

_OPTION = "--fencepost-bootstrap-servers"


@dataclass(frozen=True, slots=True)
class Broker:
    """The Kafka cluster of a test run."""

    bootstrap_servers: str


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names a running Kafka cluster."""
    parser.getgroup("fencepost").addoption(
        _OPTION,
        metavar="HOST:PORT",
        help="The Kafka cluster of the fixture fencepost_broker. By default the fixture starts a broker.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Hide the hundreds of warnings that kafka-python causes by reading its schemas, on Python 3.11 and 3.12."""
    for module in (r"kafka\.protocol\.schemas\.load_json", r"importlib\.resources\._legacy"):
        config.addinivalue_line("filterwarnings", f"ignore:(read|open)_text is deprecated:DeprecationWarning:{module}")


@pytest.fixture(scope="session")
def fencepost_broker(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """A Kafka broker for `fencepost.testing.run_connector`. It is started when the first test needs it.

    The broker needs Java 17. The first start downloads Kafka into the user's cache folder.
    """
    given = request.config.getoption(_OPTION)
    if given:
        yield Broker(given)
        return
    from fencepost.embedded.broker import EmbeddedBroker  # noqa: PLC0415 - few test runs need it

    with EmbeddedBroker(tmp_path_factory.mktemp("fencepost-broker")) as broker:
        yield Broker(broker.bootstrap_servers)
