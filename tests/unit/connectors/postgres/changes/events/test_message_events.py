from __future__ import annotations

from typing import Any

from fencepost.connectors.postgres.changes.events.envelope import EnvelopeSettings
from fencepost.connectors.postgres.changes.events.message_events import message_batch
from fencepost.connectors.postgres.changes.stream.messages import Message
from tests.unit.connectors.support import read

SETTINGS = EnvelopeSettings("shop", "db")


def _event(message: Message) -> dict[str, Any]:
    batch = message_batch(SETTINGS, [message], now_ms=1_700_000_000_123)
    topic, key, value = (read(batch, column) for column in ("topic", "key", "value"))
    assert (topic, key) == (["shop.message"], [{"prefix": message.prefix}])
    [event] = value
    return dict(event)


def test_a_message_outside_of_transactions_has_the_present_time() -> None:
    value = _event(Message("audit", b"\x00\xff", lsn=500))
    assert (value["op"], value["message"]) == ("m", {"prefix": "audit", "content": b"\x00\xff"})
    assert value["source"]["ts_us"] == 1_700_000_000_123_000
    assert value["source"]["sequence"] is None
    assert value["source"]["txId"] is None


def test_a_message_of_a_transaction_has_its_commit_and_place() -> None:
    event = _event(Message("audit", b"x", lsn=500, number=3, commit_lsn=600, commit_us=1_600_000_000_000_001, xid=77))
    source = event["source"]
    assert source["sequence"] == '["600","3"]'
    assert (source["ts_ms"], source["ts_us"], source["ts_ns"]) == (
        1_600_000_000_000, 1_600_000_000_000_001, 1_600_000_000_000_001_000,
    )  # fmt: skip
    assert (source["txId"], source["lsn"], source["db"]) == (77, 500, "db")
    assert event["ts_ms"] == 1_700_000_000_123
