"""A warning says which brokers do not answer while they are retried."""

from __future__ import annotations

import time

import pytest
from kafka.protocol.metadata import MetadataRequest

from fencepost.embedded.ports import free_ports
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.deadline import Deadline
from fencepost.kafka.errors import BrokerUnavailableError
from fencepost.kafka.transport import unreachable_warning
from fencepost.kafka.transport.cluster import Cluster
from fencepost.kafka.transport.unreachable_warning import note_answer, silent_seconds, warn_while_unreachable


@pytest.fixture
def nobody() -> str:
    """An address at which nothing listens."""
    return f"127.0.0.1:{free_ports(1)[0]}"


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unreachable_warning, "PATIENCE_S", 0.05)


def test_silence_is_logged_with_the_address_and_advice(nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    warn_while_unreachable([nobody], time.monotonic() - 4)

    (told,) = caplog.messages
    assert told.startswith(f"No Kafka broker has answered at bootstrap.servers={nobody} for 4 s")
    assert "check that the brokers run" in told


def test_a_short_silence_is_not_logged(
    nobody: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreachable_warning, "PATIENCE_S", 3_600.0)

    warn_while_unreachable([nobody], time.monotonic())

    assert not caplog.messages


def test_silence_is_logged_again_only_after_a_while(
    nobody: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    since = time.monotonic() - 1
    warn_while_unreachable([nobody], since)
    warn_while_unreachable([nobody], since)
    assert len(caplog.messages) == 1

    monkeypatch.setattr(unreachable_warning, "_INTERVAL_S", 0.0)
    warn_while_unreachable([nobody], since)
    assert len(caplog.messages) == 2


def test_a_silence_lasts_over_several_requests_until_an_answer(
    nobody: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unreachable_warning, "_INTERVAL_S", 0.0)
    monkeypatch.setattr(unreachable_warning, "_SILENCES", {})
    now = time.monotonic()
    warn_while_unreachable([nobody], now - 40)
    monkeypatch.setattr(unreachable_warning, "_INTERVAL_S", 30.0)
    monkeypatch.setattr(unreachable_warning, "_TOLD_AT", {})
    warn_while_unreachable([nobody], now - 4)

    assert [message.partition(";")[0].split(" for ")[1] for message in caplog.messages] == ["40 s", "40 s"]
    assert silent_seconds([nobody]) >= 40
    note_answer([nobody])
    assert silent_seconds([nobody]) == 0


def test_a_silence_starts_over_after_a_long_time_without_requests(nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    warn_while_unreachable([nobody], now - 40)
    monkeypatch.setattr(unreachable_warning, "_INTERVAL_S", -1_000.0)
    warn_while_unreachable([nobody], now)

    assert silent_seconds([nobody]) < 40


def test_a_client_that_waits_for_its_first_broker_logs_once(nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    admin = Admin(ClientConfig((nobody,), request_timeout_ms=400))
    with pytest.raises(BrokerUnavailableError):
        admin.broker_count()
    admin.close()

    assert sum("retrying: check" in message for message in caplog.messages) == 1


def test_no_transaction_is_called_open_or_not_while_no_broker_answers(nobody: str) -> None:
    with (
        Admin(ClientConfig((nobody,), request_timeout_ms=200)) as admin,
        pytest.raises(BrokerUnavailableError, match=f"No Kafka broker answers at bootstrap.servers={nobody}"),
    ):
        admin.open_transactions()


def test_a_writer_that_looks_for_leaders_logs_once(nobody: str, caplog: pytest.LogCaptureFixture) -> None:
    cluster = Cluster(ClientConfig((nobody,)))
    with pytest.raises(BrokerUnavailableError):
        cluster.call(MetadataRequest(topics=[]), Deadline.after(1_500))

    assert sum("retrying: check" in message for message in caplog.messages) == 1
