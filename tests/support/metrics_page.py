"""The metrics that docs/metrics.md promises."""

from __future__ import annotations

from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def documented_metrics() -> dict[str, str]:
    """The type of each documented metric, also under its alternative names."""
    rows = [line.strip("| ").split(" | ") for line in _PAGE.read_text().splitlines() if line.startswith("| `")]
    names = [[cell.strip("`") for cell in row] for row in rows]
    types = {row[0]: row[1] for row in names if len(row) > 2}
    others = {other: types[name] for name, other in (row for row in names if len(row) == 2)}
    # A counter's name ends in _total; without that, the metric is served as a gauge.
    return types | {
        name: "gauge" if type_ == "counter" and not name.endswith("_total") else type_ for name, type_ in others.items()
    }
