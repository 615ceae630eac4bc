"""The figures of connectors: rate, lag and skipped records, summed up from the metrics of their workers."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client.parser import text_string_to_metric_families

from fencepost.api.errors import FencepostError
from fencepost.cli.common.connect_client import ConnectClient

_RATE: Final = "kafka_connect_source_task_source_record_write_rate"
_SKIPPED: Final = "kafka_connect_task_error_total_records_skipped"
_LAG: Final = "fencepost_task_source_lag"
_WORKERS_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Figures:
    """Sums over a connector's tasks.

    `rate` is the number of records written per second in the last minute. `lag` is the part of the sources that is not
    read yet, in their unit: bytes for files; NaN if a task does not report it. `skipped` counts records since the tasks
    started.
    """

    rate: float = 0.0
    lag: float = 0.0
    skipped: float = 0.0


def figures_of(client: ConnectClient, connectors: Mapping[str, Mapping[str, Any]]) -> dict[str, Figures]:
    """Return the figures of each connector whose workers serve metrics. Java workers do not.

    `connectors` is the answer to GET /connectors with `expand=status`.
    """
    workers = {
        task["worker_id"] for expanded in connectors.values() for task in expanded.get("status", {}).get("tasks", ())
    }
    with ThreadPoolExecutor(_WORKERS_AT_ONCE) as threads:
        return summed(page for page in threads.map(lambda worker: _metrics(client, worker), workers) if page)


def _metrics(client: ConnectClient, worker: str) -> str:
    try:
        return client.at(worker).text("/metrics")
    except (FencepostError, ValueError):
        # The worker has left, or is a Java worker: the states are shown without figures.
        return ""


def summed(pages: Iterable[str]) -> dict[str, Figures]:
    """Sum up the tasks of each connector, from the workers' metrics in the text format of Prometheus."""
    sums: defaultdict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys((_RATE, _LAG, _SKIPPED), 0.0))
    for page in pages:
        for family in text_string_to_metric_families(page):
            for sample in family.samples:
                if sample.name in (_RATE, _LAG, _SKIPPED):
                    sums[sample.labels["connector"]][sample.name] += sample.value
    return {name: Figures(of[_RATE], of[_LAG], of[_SKIPPED]) for name, of in sums.items()}


def shown_figure(value: float) -> str:
    """Return a figure as text, empty if it is unknown."""
    return "" if math.isnan(value) else f"{value:,.0f}"
