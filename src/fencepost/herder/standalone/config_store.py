"""The configurations of a standalone worker's connectors: in memory, and gone with the process.

They are the records of a config topic that nobody writes, and one state follows from the other in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future

from fencepost.config.ids import ConnectorTaskId
from fencepost.storage.configs.codec import (
    CommitRecord,
    Config,
    ConfigRecord,
    ConnectorRecord,
    RestartRequest,
    TargetState,
    TargetStateRecord,
    TaskRecord,
)
from fencepost.storage.configs.state import ClusterConfigState, ConfigEvent, apply


class MemoryConfigs:
    """For the herder's event loop. `listener` is told what each write changed, once all of it is in the state."""

    def __init__(self, listener: Callable[[ConfigEvent], None]) -> None:
        self.state = ClusterConfigState()
        self._listener = listener
        self._of_files: set[str] = set()

    def is_of_file(self, connector: str) -> bool:
        """Whether a connector's configuration is the one that its file has."""
        return connector in self._of_files

    def load(self, connector: str, config: Config) -> None:
        """Take in the configuration that a file has."""
        self._of_files.add(connector)
        self._apply(ConnectorRecord(connector, config))

    def put_connector(self, connector: str, config: Config, target_state: TargetState | None = None) -> Future[None]:
        """Take in the configuration that a request has; a new connector is STARTED if no target state is given."""
        self._of_files.discard(connector)
        target = [] if target_state is None else [TargetStateRecord(connector, target_state)]
        return self._apply(*target, ConnectorRecord(connector, config))

    def put_task_configs(self, connector: str, configs: Sequence[Config]) -> Future[None]:
        """Take in the configurations of all tasks of a connector, perhaps none."""
        tasks = [TaskRecord(ConnectorTaskId(connector, number), config) for number, config in enumerate(configs)]
        return self._apply(*tasks, CommitRecord(connector, len(tasks)))

    def stop_connector(self, connector: str) -> Future[None]:
        """Take a connector's tasks away, and have it STOPPED."""
        return self._apply(CommitRecord(connector, 0), TargetStateRecord(connector, TargetState.STOPPED))

    def remove_connector(self, connector: str) -> Future[None]:
        """Delete a connector and its target state."""
        self._of_files.discard(connector)
        return self._apply(ConnectorRecord(connector, None), TargetStateRecord(connector, None))

    def put_target_state(self, connector: str, state: TargetState) -> Future[None]:
        """Take in what a connector is meant to do."""
        return self._apply(TargetStateRecord(connector, state))

    def put_restart_request(self, request: RestartRequest) -> Future[None]:
        """Have a connector and its tasks restarted."""
        return self._apply(request)

    def put_logger_level(self, logger: str, level: str) -> Future[None]:
        """Do nothing: this worker is all that there are, and its own levels are set."""
        del logger, level
        return _done()

    def _apply(self, *records: ConfigRecord) -> Future[None]:
        events = []
        for record in records:
            self.state, event = apply(self.state, max(self.state.offset, 0), record)
            events.append(event)
        for event in events:
            if event is not None:
                self._listener(event)
        return _done()


def _done() -> Future[None]:
    done: Future[None] = Future()
    done.set_result(None)
    return done
