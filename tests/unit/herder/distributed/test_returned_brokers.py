"""The length of a worker's pauses between retries: once brokers are back, it must retry soon.

Each pause doubles up to a limit. The steps for which a request waits come one after the other: connections are opened,
the worker joins the group, it reads the config topic, and the leader claims its transactional id.
"""

from __future__ import annotations

import pytest

from fencepost.herder.distributed import group_work, leadership
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.consumer import topic_follower
from fencepost.kafka.deadline import Backoff
from fencepost.storage.statuses import topic as status_topic

CLIENT = ClientConfig(("broker:9092",))
LIMIT_SECONDS = 5.0
JITTER = 1.2
FAILED_TRIES = 1_000

PAUSES_MS = {
    "reconnect": (CLIENT.reconnect_backoff_ms, CLIENT.reconnect_backoff_max_ms),
    "join the group": (CLIENT.retry_backoff_ms, CLIENT.retry_backoff_max_ms),
    "follow the config topic": (topic_follower._FIRST_PAUSE_MS, topic_follower._LONGEST_PAUSE_MS),
    "write statuses": (status_topic._FIRST_PAUSE_MS, status_topic._LONGEST_PAUSE_MS),
}


def _last_pause_s(name: str) -> float:
    """The pause after many failed attempts."""
    backoff = Backoff(*PAUSES_MS[name])
    return [backoff.next_s() for _ in range(FAILED_TRIES)][-1]


@pytest.mark.parametrize("name", PAUSES_MS)
def test_after_a_thousand_failed_tries_the_next_one_is_a_second_away(name: str) -> None:
    assert _last_pause_s(name) <= 1.0 * JITTER


def test_after_a_success_the_first_pause_is_short_again() -> None:
    backoff = Backoff(100, 1_000)
    tries = [backoff.next_s() for _ in range(FAILED_TRIES)]
    backoff.reset()
    assert backoff.next_s() <= 0.1 * JITTER
    assert max(tries) <= 1.0 * JITTER


def test_the_pauses_that_a_request_may_wait_for_add_up_to_less_than_five_seconds() -> None:
    asked_again = group_work._READ_AGAIN_SECONDS + leadership._CLAIM_AGAIN_SECONDS
    in_turn = ("reconnect", "join the group", "follow the config topic")
    assert sum(_last_pause_s(name) for name in in_turn) + asked_again < LIMIT_SECONDS
