"""The configurations of a standalone worker's connectors, in memory only.

Changes have the same effects as records of a config topic, but no records are written.
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
    """The configurations. Only for the herder's event loop.

    After each write, when all its changes are in the state, `listener` is called with them.
    """

    def __init__(self, listener: Callable[[ConfigEvent], None]) -> None:
        self.state = ClusterConfigState()
        self._listener = listener
        self._of_files: set[str] = set()

    def is_of_file(self, connector: str) -> bool:
        """Whether a connector's configuration comes from a file."""
        return connector in self._of_files

    def load(self, connector: str, config: Config) -> None:
        """Set the configuration from a file."""
        self._of_files.add(connector)
        self._apply(ConnectorRecord(connector, config))

    def put_connector(self, connector: str, config: Config, target_state: TargetState | None = None) -> Future[None]:
        """Set the configuration from a request; a new connector is STARTED if no target state is given."""
        self._of_files.discard(connector)
        target = [] if target_state is None else [TargetStateRecord(connector, target_state)]
        return self._apply(*target, ConnectorRecord(connector, config))

    def put_task_configs(self, connector: str, configs: Sequence[Config]) -> Future[None]:
        """Set the configurations of all tasks of a connector, possibly none."""
        tasks = [TaskRecord(ConnectorTaskId(connector, number), config) for number, config in enumerate(configs)]
        return self._apply(*tasks, CommitRecord(connector, len(tasks)))

    def stop_connector(self, connector: str) -> Future[None]:
        """Remove a connector's tasks, and set its target state to STOPPED."""
        return self._apply(CommitRecord(connector, 0), TargetStateRecord(connector, TargetState.STOPPED))

    def remove_connector(self, connector: str) -> Future[None]:
        """Delete a connector and its target state."""
        self._of_files.discard(connector)
        return self._apply(ConnectorRecord(connector, None), TargetStateRecord(connector, None))

    def put_target_state(self, connector: str, state: TargetState) -> Future[None]:
        """Set a connector's target state."""
        return self._apply(TargetStateRecord(connector, state))

    def put_restart_request(self, request: RestartRequest) -> Future[None]:
        """Request the restart of a connector and its tasks."""
        return self._apply(request)

    def put_logger_level(self, logger: str, level: str) -> Future[None]:
        """Do nothing: there is only this worker, and its own levels are already set."""
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
