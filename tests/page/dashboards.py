"""Asks a real Prometheus, which scrapes a real worker, for what dashboards ask for.

.venv/bin/python -m tests.page.dashboards
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.embedded.ports import free_ports
from tests.support.processes import Process, wait_for
from tests.support.sequence_source import properties
from tests.support.topics import Topics
from tests.support.workers import Group, Worker

_DASHBOARD = Path(__file__).parents[2] / "deploy" / "grafana" / "fencepost.json"
_LONG = "org.apache.kafka.connect.converters.LongConverter"
_VARIABLES = {"$connector": ".*"}
# Several samples, for rates over minutes.
_SECONDS = 30
_TEXTS = ("connector_class", "connector_version", "connector_type")


def _joins(text: str, failures: str, task_status: str) -> tuple[str, str]:
    """Joins of metrics as in Strimzi's dashboards, without the labels of Kubernetes."""
    texts = " ".join(f"* on(connector) group_left({label}) {text.format(label)}" for label in _TEXTS)
    labels = ", ".join(("connector", "status", *_TEXTS))
    return (
        f"sum({text.format('status')} {texts}) by ({labels})",
        f"sum({failures} * on(connector, task) group_left(status) {task_status}) by (connector, status, task)",
    )


_STRIMZI = (
    *_joins(
        "kafka_connect_connector_{}",
        "kafka_connect_task_error_total_record_failures",
        "kafka_connect_connector_task_status",
    ),
    *_joins(
        "kafka_connect_connector_metrics_{}_info",
        "kafka_connect_task_error_metrics_total_record_failures",
        "kafka_connect_connector_task_metrics_status_info",
    ),
    "sum(rate(kafka_producer_producer_metrics_outgoing_byte[5m]))",
    "sum(kafka_connect_connect_worker_metrics_connector_failed_task_count) by (connector) != 0",
)


def main() -> None:
    """Run all queries, and print Prometheus' answers."""
    if shutil.which("prometheus") is None:
        raise SystemExit("There is no Prometheus: apt-get install prometheus")
    with tempfile.TemporaryDirectory(prefix="fencepost-dashboards-") as name:
        folder = Path(name)
        with EmbeddedBroker(folder / "broker") as broker:
            Topics(broker.bootstrap_servers).create("numbers", partitions=1)
            with Group(folder, broker.bootstrap_servers).worker(forked=False) as worker:
                _start_connectors(worker)
                with _prometheus(folder, worker.id) as url:
                    _ask_all(url)


def _start_connectors(worker: Worker) -> None:
    for name, more in (("good", {}), ("bad", {"value.converter": _LONG})):
        config = {**properties(name, "numbers", {"poll.ms": 100}), **more}
        answer = worker.request("POST", "/connectors", {"name": name, "config": config})
        assert answer.status == 201, answer
    worker.wait_for_states("good", "RUNNING", "RUNNING")
    worker.wait_for_states("bad", "RUNNING", "FAILED")


@contextmanager
def _prometheus(folder: Path, target: str) -> Iterator[str]:
    config = folder / "prometheus.yml"
    config.write_text(
        "global: {scrape_interval: 1s}\n"
        f"scrape_configs: [{{job_name: fencepost, static_configs: [{{targets: ['{target}']}}]}}]\n"
    )
    (port,) = free_ports(1)
    command = [
        "prometheus", f"--config.file={config}", f"--storage.tsdb.path={folder / 'tsdb'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    url = f"http://127.0.0.1:{port}"
    log = folder / "prometheus.log"
    log.touch()
    with Process(command, log):
        began = time.monotonic()
        wait_for(lambda: _ready(url), what="Prometheus has a sample of the worker")
        wait_for(lambda: time.monotonic() - began > _SECONDS, what="some samples for rates")
        yield url


def _ready(url: str) -> bool:
    try:
        return bool(_ask(url, "up == 1"))
    except OSError:
        return False


def _ask(url: str, expression: str) -> list[Any]:
    with urlopen(f"{url}/api/v1/query?query={quote(expression)}", timeout=30) as answer:  # noqa: S310 - our own
        found: list[Any] = json.load(answer)["data"]["result"]
        return found


def _ask_all(url: str) -> None:
    panels = [
        (panel["title"], target["expr"])
        for panel in json.loads(_DASHBOARD.read_text())["panels"]
        for target in panel["targets"]
    ]
    empty = 0
    for title, expression in [*panels, *(("Strimzi", each) for each in _STRIMZI)]:
        for variable, value in _VARIABLES.items():
            expression = expression.replace(variable, value)  # noqa: PLW2901 - the same one
        found = _ask(url, expression)
        empty += not found
        values = ", ".join(f"{each['value'][1]}" for each in found[:4])
        print(f"{'EMPTY' if not found else 'ok':5} {title}: {values}")
    print(f"{empty} expressions without an answer")
    if empty:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
