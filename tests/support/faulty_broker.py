"""Changes of a broker's answers, for `FaultProxy.change`: brokers other than Apache's, and known bugs of Apache's."""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import Any

from kafka.protocol.admin import DescribeConfigsResponse

from tests.support.fault_proxy import ApiKey, FaultProxy

PRODUCER_FENCED = 90
CONCURRENT_TRANSACTIONS = 51
INVALID_REQUEST = 42


def know_up_to(proxy: FaultProxy, api_key: ApiKey, version: int) -> None:
    """Limit the version of a request that the broker supports, as older Redpanda brokers do with InitProducerId."""

    def change(answer: Any) -> None:
        for api in answer.api_keys:
            if api.api_key == api_key:
                api.max_version = version

    proxy.change(ApiKey.API_VERSIONS, change)


def without_features(answer: Any) -> None:
    """Remove the finalized features, so that the broker has transaction version 1, like brokers without KIP-890."""
    answer.finalized_features = []


def have_diskless(proxy: FaultProxy, topics: Container[str]) -> None:
    """Show topics as diskless (KIP-1150) in their settings, whichever settings were requested."""

    def change(answer: Any) -> None:
        for result in answer.results:
            if result.resource_name in topics:
                setting = DescribeConfigsResponse.DescribeConfigsResult.DescribeConfigsResourceResult(
                    name="diskless.enable", value="true"
                )
                result.configs = [*result.configs, setting]

    proxy.change(ApiKey.DESCRIBE_CONFIGS, change)


def refuse_transactional_records(proxy: FaultProxy) -> None:
    """Answer each Produce with the error that brokers give for transactional records of diskless topics."""

    def change(answer: Any) -> None:
        for topic in answer.responses:
            for partition in topic.partition_responses:
                partition.error_code = INVALID_REQUEST

    proxy.change(ApiKey.PRODUCE, change)


def answer(proxy: FaultProxy, api_key: ApiKey, code: int, *, times: float = float("inf"), after: int = 0) -> None:
    """Answer requests with an error code, after `after` normal answers, for `times` requests."""
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
    """Return a change of DescribeTransactions which shows all transactions in this state."""

    def change(answer: Any) -> None:
        for row in answer.transaction_states:
            row.transaction_state = state

    return change
