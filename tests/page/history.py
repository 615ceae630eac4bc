"""A page that is opened late shows the figures from before it was opened."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from fencepost.herder.core.history import STEP_SECONDS, HistoryPoint
from tests.page.chromium import chromium
from tests.page.looks import take_down_labels
from tests.support.model_herder import ModelHerder
from tests.support.model_observation import ModelObservation
from tests.support.rest import RestApis

_MINUTES: Final = 40
_OLD_RATE: Final = 500.0
_NEW_RATE: Final = 1_000.0
_PLOT: Final = "document.querySelector('[aria-label=\"Rows per second in the last hour\"] canvas')"
# Whether the horizontal axis has a time long before the page was opened. A label of a day has a second line.
_EARLIER: Final = f"""
({_PLOT}?.labels ?? []).map((label) => /^(\\d\\d):(\\d\\d)/.exec(label.text)).filter((found) => found).some(([, hours, minutes]) => {{
  const opened = new Date(performance.timeOrigin);
  const before = (60 * (opened.getHours() - hours) + opened.getMinutes() - minutes + 1440) % 1440;
  return before >= {_MINUTES // 2} && before <= {_MINUTES};
}})
"""
# The number of pixels of the line in the left half of the plot.
_OLD_LINE: Final = f"""
(() => {{
  const canvas = {_PLOT};
  const probe = document.createElement('canvas').getContext('2d');
  probe.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--good').trim();
  probe.fillRect(0, 0, 1, 1);
  const [red, green, blue] = probe.getImageData(0, 0, 1, 1).data;
  const {{ data }} = canvas.getContext('2d').getImageData(0, 0, canvas.width / 2, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4) {{
    found += data[at] === red && data[at + 1] === green && data[at + 2] === blue && data[at + 3] === 255;
  }}
  return found;
}})()
"""


class _Observation(ModelObservation):
    """Has the figures of the last minutes, as a worker that has run for so long."""

    def history_here(self, connector: str) -> list[HistoryPoint]:
        del connector
        now = int(time.time()) // STEP_SECONDS * STEP_SECONDS
        return [HistoryPoint(at, _OLD_RATE, None) for at in range(now - 60 * _MINUTES, now, STEP_SECONDS)]


def check_history(folder: Path) -> None:
    """The plot of a connector begins long before the page was opened, and its line is drawn there."""
    herder = ModelHerder()
    herder.observation = _Observation(herder)
    # The line of old figures is below the upper edge of the plot.
    herder.observation.rate = _NEW_RATE
    source = folder / "in.txt"
    source.write_text("one\n")
    with RestApis() as apis:
        api = apis.serve(herder)
        config = {"connector.class": "FileStreamSource", "file": str(source), "topic": "t"}
        assert api.post("/connectors", {"name": "c", "config": config}).status == 201
        apis.call(_look(api.url, folder))


async def _look(url: str, folder: Path) -> None:
    async with chromium(folder / "profile-history") as tab:
        await take_down_labels(tab)
        await tab.size(1280, 800)
        await tab.open(f"{url}/ui/#/connectors/c")
        await tab.wait_for(_EARLIER)
        await tab.wait_for(f"{_OLD_LINE} > 0")
        assert tab.errors == [], tab.errors
