"""What docs/metrics.md promises."""

from __future__ import annotations

from pathlib import Path

_PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"


def documented_metrics() -> dict[str, str]:
    """The types of the metrics by their names."""
    rows = [line.split(" | ") for line in _PAGE.read_text().splitlines() if line.startswith("| `")]
    return {row[0].strip("| `"): row[1] for row in rows}
