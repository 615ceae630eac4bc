"""Changes of a broker's answers, for `FaultProxy.change`: brokers that are not Apache's, and known faults of Apache's."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from kafka.protocol.admin import DescribeConfigsResponse

from tests.support.fault_proxy import ApiKey, FaultProxy

PRODUCER_FENCED = 90
CONCURRENT_TRANSACTIONS = 51
INVALID_REQUEST = 42


def know_up_to(proxy: FaultProxy, api_key: ApiKey, version: int) -> None:
    """Let the broker know a request up to a version only, as older Redpanda brokers know InitProducerId up to 1."""

    def change(answer: Any) -> None:
        for api in answer.api_keys:
            if api.api_key == api_key:
                api.max_version = version

    proxy.change(ApiKey.API_VERSIONS, change)


def without_features(answer: Any) -> None:
    """Let a broker have no finalized features, so that it has transaction version 1, as all that lack KIP-890."""
    answer.finalized_features = []


def have_diskless(proxy: FaultProxy, topics: Container[str]) -> None:
    """Let topics be diskless (KIP-1150): their settings say so, whichever were asked for."""

    def change(answer: Any) -> None:
        for result in answer.results:
            if result.resource_name in topics:
                setting = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult(
                    name="diskless.enable", value="true"
                )
                result.configs = [*result.configs, setting]

    proxy.change(ApiKey.DESCRIBE_CONFIGS, change)


def refuse_transactional_records(proxy: FaultProxy) -> None:
    """Answer each Produce as brokers answer for transactional records of diskless topics."""

    def change(answer: Any) -> None:
        for topic in answer.responses:
            for partition in topic.partition_responses:
                partition.error_code = INVALID_REQUEST

    proxy.change(ApiKey.PRODUCE, change)


def answer(proxy: FaultProxy, api_key: ApiKey, code: int, *, times: float = float("inf"), after: int = 0) -> None:
    """Answer requests with an error code, `after` so many that are answered well, and for so many `times`."""
    seen = 0

    def change(answer: Any) -> None:
        nonlocal seen
        seen += 1
        if after < seen <= after + times:
            _set_code(answer, code)

    proxy.change(api_key, change)


def _set_code(answer: Any, code: int) -> None:
    if not hasattr(answer, "results_by_topic_v3_and_below"):
        answer.error_code = code
        return
    for topic in answer.results_by_topic_v3_and_below:
        for result in topic.results_by_partition:
            result.partition_error_code = code


def transactions_in_state(state: str) -> Callable[[Any], None]:
    """Return a change of DescribeTransactions that shows all transactions in a state."""

    def change(answer: Any) -> None:
        for row in answer.transaction_states:
            row.transaction_state = state

    return change
