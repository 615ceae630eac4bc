"""Compares the class in a task's configuration with the class that this worker would run.

The worker that runs a connector writes the configurations of its tasks, with `task.class`. Another worker of the group
runs the tasks. If only one of the two workers has the connector's jars in `plugin.path`, the other worker finds
fencepost's own connector of that name. Its tasks would continue in a way that the other worker's tasks do not
understand.
"""

from __future__ import annotations

from fencepost.api.errors import ConfigError
from fencepost.api.source import SourceTask, describe
from fencepost.config.ids import ConnectorTaskId
from fencepost.config.missing_plugins import looks_java
from fencepost.java.task import JavaTask


def check_task_class(task_id: ConnectorTaskId, configured: str | None, found: type[SourceTask]) -> None:
    """Raise ConfigError if a task is configured for a class in Java, and the worker would run one in Python, or vice versa.

    A built-in task that takes over the configurations and offsets of a Java task names it in `java_class`. The tasks of
    other packages may have any `task.class`, because Java workers of their group may use another name.
    """
    if configured is None:
        return
    in_java = issubclass(found, JavaTask)
    if not in_java and found.__module__.startswith("fencepost.") and looks_java(configured):
        if configured != getattr(found, "java_class", None):
            raise ConfigError(
                f"Task {task_id} is configured for the Java class {configured}, by a worker that has its jars in plugin.path. This "
                f"worker has no such jar, and would run {describe(found)} in its place. Put the same jars into "
                f"plugin.path of each worker of the group, and restart this worker"
            )
    elif in_java and configured.startswith("fencepost."):
        raise ConfigError(
            f"Task {task_id} is configured for the Python class {configured}, by a worker without the connector's jars in "
            f"plugin.path. This worker has them, and would run {describe(found)} in its place. Put the same jars into "
            "plugin.path of each worker of the group, and restart the workers that lack them. To run the Python connector, put "
            "fencepost: before the name in connector.class"
        )
