"""Records with JSON that nests too deep for Python count as malformed, like any other malformed record."""

from __future__ import annotations

import pytest

from fencepost.api.errors import DataError
from fencepost.storage.configs import codec as config_records
from fencepost.storage.configs import task_count
from fencepost.storage.offsets import codec as offsets
from fencepost.storage.statuses import codec as status_records

DEEP = b'{"a":' * 100_000


def test_a_deeply_nested_key_of_an_offset_is_not_decoded() -> None:
    assert offsets.decode_key(DEEP) is None


def test_an_offset_is_refused() -> None:
    with pytest.raises(DataError, match="not a source offset"):
        offsets.decode_value(DEEP)


def test_a_deeply_nested_status_is_not_decoded() -> None:
    assert status_records.decode(b"status-connector-c", DEEP) is None


def test_a_record_of_the_config_topic_is_ignored(caplog: pytest.LogCaptureFixture) -> None:
    assert config_records.decode(b"connector-c", DEEP) is None
    assert task_count.decode_task_count(b"tasks-fencing-c", DEEP) is None
    assert all("ignored" in record.message for record in caplog.records)
    assert len(caplog.records) == 2
