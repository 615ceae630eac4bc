"""Configurations in memory follow the same rules as those in a config topic."""

from __future__ import annotations

from fencepost.config.ids import ConnectorTaskId
from fencepost.herder.standalone.config_store import MemoryConfigs
from fencepost.storage.configs.codec import RestartRequest, TargetState
from fencepost.storage.configs.state import (
    ConfigEvent,
    ConnectorConfigRemoval,
    ConnectorConfigUpdate,
    TargetStateChange,
    TaskConfigUpdate,
)

TASKS = (ConnectorTaskId("c", 0), ConnectorTaskId("c", 1))


def test_each_write_is_in_the_state_and_notified():
    told: list[ConfigEvent] = []
    configs = MemoryConfigs(told.append)

    configs.load("c", {"name": "c"})
    configs.put_task_configs("c", [{"task": "0"}, {"task": "1"}])
    assert configs.state.has_tasks("c", [{"task": "0"}, {"task": "1"}])
    configs.put_target_state("c", TargetState.PAUSED)
    configs.stop_connector("c")
    assert (configs.state.target_state("c"), configs.state.tasks("c")) == (TargetState.STOPPED, [])
    request = RestartRequest("c", include_tasks=True, only_failed=False)
    configs.put_restart_request(request)
    configs.remove_connector("c")
    assert configs.state.connectors() == []

    assert told == [
        ConnectorConfigUpdate("c"),
        TaskConfigUpdate("c", TASKS),
        TargetStateChange("c"),
        TaskConfigUpdate("c", ()),
        TargetStateChange("c"),
        request,
        ConnectorConfigRemoval("c"),
    ]


def test_tasks_of_a_new_configuration_are_of_a_new_generation():
    configs = MemoryConfigs(lambda _: None)
    configs.load("c", {"name": "c"})
    configs.put_task_configs("c", [{"task": "0"}])
    first = configs.state.task_generation(TASKS[0])
    configs.put_connector("c", {"name": "c", "topic": "t"})
    assert not configs.state.has_tasks("c", [{"task": "0"}])
    configs.put_task_configs("c", [{"task": "0"}])
    assert configs.state.task_generation(TASKS[0]) != first


def test_a_connector_is_of_its_file_until_a_request_configures_it():
    configs = MemoryConfigs(lambda _: None)
    configs.load("c", {"name": "c"})
    configs.put_target_state("c", TargetState.PAUSED)
    assert configs.is_of_file("c")
    configs.put_connector("c", {"name": "c"})
    assert not configs.is_of_file("c")
    configs.load("d", {"name": "d"})
    configs.remove_connector("d")
    configs.put_connector("d", {"name": "d"})
    assert not configs.is_of_file("d")


def test_a_connector_may_be_created_stopped():
    configs = MemoryConfigs(lambda _: None)
    configs.put_connector("c", {"name": "c"}, TargetState.STOPPED)
    assert configs.state.target_state("c") is TargetState.STOPPED
