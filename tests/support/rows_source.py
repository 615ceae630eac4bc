"""A connector that reads numbers once, as splits of one batch."""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.api.config_def import ConfigDef
from fencepost.api.record import SourceBatch
from fencepost.api.source import SourceConnector, SourceTask
from tests.support.engine import NumberReader, splits

ROWS = 200
ROWS_CONNECTOR = f"{__name__}.RowsConnector"


class RowsConnector(SourceConnector):
    """The numbers below ROWS as one batch, with rows to each of `topics` in turn; `bytes` is its reported size."""

    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        return ConfigDef().define("topics", ConfigDef.Type.LIST).define("bytes", ConfigDef.Type.INT)

    def start(self, config: Mapping[str, str]) -> None:
        self._config = dict(config)

    def task_class(self) -> type[SourceTask]:
        return RowsTask

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:  # noqa: ARG002 - one is enough
        return [self._config]


class RowsTask(SourceTask):
    def start(self, config: Mapping[str, str]) -> None:
        self._topics = tuple(config["topics"].split(","))
        self._bytes = int(config["bytes"])
        self._done = False

    def poll(self) -> SourceBatch | None:
        if self._done:
            return None
        self._done = True
        reader = NumberReader(("topic",), self._topics, rows=30)
        return SourceBatch(None, [({"rows": 1}, {"done": 1})], reader, splits(ROWS, 3), bytes=self._bytes)

    def at_end(self) -> bool:
        return self._done
