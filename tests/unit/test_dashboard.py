"""The Grafana dashboard uses only metrics and labels that a worker has."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from fencepost.herder.distributed import group_metrics
from fencepost.runtime.metrics import definitions
from fencepost.runtime.metrics.definitions import MetricType

_FILE = Path(__file__).parents[2] / "deploy" / "grafana" / "fencepost.json"
_KNOWN = {metric.name: metric for metric in (*definitions.DEFINITIONS, *group_metrics.DEFINITIONS)}
_NAME = re.compile(r"\b((?:kafka|fencepost|process)_\w+)(?:\{([^}]*)\})?")
# Prometheus itself adds the worker's address as a label.
_OF_PROMETHEUS = {"instance", "le"}


def _expressions() -> list[str]:
    dashboard: dict[str, Any] = json.loads(_FILE.read_text())
    queries = [variable["query"] for variable in dashboard["templating"]["list"] if variable["type"] == "query"]
    return queries + [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]


def test_every_metric_and_label_of_the_dashboard_exists() -> None:
    expressions = _expressions()
    asked = set()
    for expression in expressions:
        for name, labels in _NAME.findall(expression):
            metric = _KNOWN[name.removesuffix("_bucket")]
            assert name.endswith("_bucket") == (metric.type is MetricType.HISTOGRAM), expression
            grouped = re.findall(r"by \(([^)]*)\)", expression)
            used = {label.strip() for group in grouped for label in group.split(",")}
            used |= set(re.findall(r"(\w+)=~?", labels))
            assert used <= {*metric.labels, *_OF_PROMETHEUS}, expression
            asked.add(name)
    assert len(asked) > 15


def test_rates_are_of_counters() -> None:
    for expression in _expressions():
        for name in re.findall(r"(?:rate|increase)\((\w+)", expression):
            assert _KNOWN[name.removesuffix("_bucket")].type is not MetricType.GAUGE, expression


def test_panels_lie_beside_each_other() -> None:
    panels = json.loads(_FILE.read_text())["panels"]
    cells = [
        (x, y)
        for panel in panels
        for x in range(panel["gridPos"]["x"], panel["gridPos"]["x"] + panel["gridPos"]["w"])
        for y in range(panel["gridPos"]["y"], panel["gridPos"]["y"] + panel["gridPos"]["h"])
    ]
    assert len(cells) == len(set(cells))
    assert max(x for x, _ in cells) < 24
    assert len({panel["id"] for panel in panels}) == len(panels)
