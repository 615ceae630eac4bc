from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import pytest

from fencepost import ConfigDef, ConfigError, OffsetReader, SourceConnector, SourceTask
from fencepost.api.allowed_paths import ANYWHERE
from fencepost.api.errors import PluginError
from fencepost.config.connector_config import ConnectorConfig
from fencepost.config.connector_instance import ConnectorInstance
from fencepost.runtime.connector.source_connector import WorkerConnector
from fencepost.runtime.state import State


class _Task(SourceTask):
    def start(self, config: Any) -> None:
        raise AssertionError(config)

    def poll(self) -> None:
        raise AssertionError


class _Connector(SourceConnector):
    def __init__(self, failure: BaseException | None = None, tasks: int = 1) -> None:
        self.failure = failure
        self.tasks = tasks
        self.calls: list[str] = []

    def version(self) -> str:
        return "1"

    def config(self) -> ConfigDef:
        return ConfigDef()

    def start(self, config: Any) -> None:
        self.calls.append(f"start {config['name']}")
        if self.failure:
            raise self.failure

    def stop(self) -> None:
        self.calls.append("stop")
        if self.failure:
            raise self.failure

    def task_class(self) -> type[SourceTask]:
        return _Task

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        self.calls.append(f"task_configs {max_tasks}")
        return [{"task": str(number)} for number in range(self.tasks)]


class _NoOffsets:
    def offset(self, partition: Any) -> None:
        raise AssertionError(partition)

    def offsets(self, partitions: Any) -> list[Any]:
        raise AssertionError(partitions)

    def items(self) -> list[Any]:
        raise AssertionError("nobody reads offsets")


class _Listener:
    def __init__(self) -> None:
        self.heard: list[Any] = []

    def on_connector_state(self, connector: str, state: State, error: Exception | None) -> None:
        self.heard.append((connector, state, error))

    def on_task_reconfiguration(self, connector: str) -> None:
        self.heard.append(connector)


def _worker_connector(
    connector: SourceConnector, properties: Mapping[str, str] | None = None
) -> tuple[WorkerConnector, _Listener]:
    given = {"name": "c", "connector.class": "x", "tasks.max": "2", **(properties or {})}
    config = ConnectorConfig.from_properties(given)
    listener = _Listener()
    offsets: OffsetReader = _NoOffsets()
    return WorkerConnector(config, ConnectorInstance(connector, "c"), offsets, listener, ANYWHERE), listener


def test_a_connector_starts_pauses_resumes_and_stops():
    connector = _Connector()
    worker_connector, listener = _worker_connector(connector)
    worker_connector.start()
    worker_connector.pause()
    worker_connector.start()
    worker_connector.stop()
    worker_connector.stop()
    assert connector.calls == ["start c", "stop", "start c", "stop"]
    states = [state for _, state, _ in listener.heard]
    assert states == [State.RUNNING, State.PAUSED, State.RUNNING, State.STOPPED]


def test_a_connector_that_cannot_start_is_failed_with_the_reason():
    failure = RuntimeError("no database")
    worker_connector, listener = _worker_connector(_Connector(failure))
    worker_connector.start()
    assert (worker_connector.state, worker_connector.error) == (State.FAILED, failure)
    worker_connector.stop()
    assert listener.heard == [("c", State.FAILED, failure)]


def test_a_connectors_own_thread_can_report_a_failure_and_ask_for_new_tasks():
    connector = _Connector()
    worker_connector, listener = _worker_connector(connector)
    worker_connector.start()
    connector.context.request_task_reconfiguration()
    failure = RuntimeError("gone")
    connector.context.raise_error(failure)
    connector.context.raise_error(RuntimeError("again"))
    assert listener.heard == [("c", State.RUNNING, None), "c", ("c", State.FAILED, failure)]


def test_a_connector_that_reported_a_failure_is_stopped_all_the_same():
    connector = _Connector()
    worker_connector, listener = _worker_connector(connector)
    worker_connector.start()
    connector.context.raise_error(RuntimeError("gone"))
    worker_connector.stop()
    worker_connector.stop()
    assert connector.calls == ["start c", "stop"]
    assert [state for _, state, _ in listener.heard] == [State.RUNNING, State.FAILED]


@pytest.mark.parametrize(("end", "state"), [("pause", State.PAUSED), ("stop", State.STOPPED)])
def test_a_connector_may_wait_for_its_thread_that_reports_a_failure(end: str, state: State):
    connector = _Connector()
    worker_connector, listener = _worker_connector(connector)
    worker_connector.start()
    watching = threading.Thread(target=lambda: connector.context.raise_error(RuntimeError("gone")), daemon=True)
    ended = []

    def stop() -> None:
        watching.start()
        watching.join(60)
        ended.append(not watching.is_alive())

    connector.stop = stop  # type: ignore[method-assign]
    getattr(worker_connector, end)()
    assert ended == [True]
    assert [state for _, state, _ in listener.heard] == [State.RUNNING, state]


def test_a_start_may_wait_for_a_thread_that_reports_a_failure():
    connector = _Connector()
    worker_connector, listener = _worker_connector(connector)
    failure = RuntimeError("gone")
    watching = threading.Thread(target=lambda: connector.context.raise_error(failure), daemon=True)
    ended = []

    def start(config: Any) -> None:
        del config
        watching.start()
        watching.join(10)
        ended.append(not watching.is_alive())

    connector.start = start  # type: ignore[method-assign]
    worker_connector.start()
    watching.join()
    assert ended == [True]
    assert listener.heard == [("c", State.RUNNING, None), ("c", State.FAILED, failure)]
    worker_connector.stop()
    assert connector.calls == ["stop"]


@pytest.mark.usefixtures("signals_handled")
@pytest.mark.parametrize("exit_", [SystemExit(3), KeyboardInterrupt(), GeneratorExit(), StopIteration()], ids=repr)
def test_a_connector_that_exits_in_its_start_is_failed_with_the_reason(exit_: BaseException):
    worker_connector, listener = _worker_connector(_Connector(exit_))
    worker_connector.start()
    assert worker_connector.state is State.FAILED
    assert isinstance(worker_connector.error, PluginError)
    assert f"start() of connector c raised {type(exit_).__name__}" in str(worker_connector.error)
    assert listener.heard == [("c", State.FAILED, worker_connector.error)]


def test_a_connector_that_exits_in_its_stop_is_stopped(caplog: pytest.LogCaptureFixture):
    connector = _Connector()
    worker_connector, _ = _worker_connector(connector)
    worker_connector.start()
    connector.failure = SystemExit(3)
    worker_connector.stop()
    assert worker_connector.state is State.STOPPED
    assert "stop() of connector c failed" in caplog.text


@pytest.mark.parametrize(
    ("reported", "message"),
    [(SystemExit(3), "raised SystemExit(3)"), ("gone", "was given a str: give it an exception")],
)
def test_any_error_from_a_connectors_own_thread_fails_it(reported: Any, message: str):
    connector = _Connector()
    worker_connector, _ = _worker_connector(connector)
    worker_connector.start()
    connector.context.raise_error(reported)
    assert isinstance(worker_connector.error, PluginError)
    assert f"raise_error() of the context of connector c {message}" in str(worker_connector.error)


def test_a_connector_that_overrides_start_alone_has_one_task_with_its_configuration():
    class Connector(SourceConnector):
        def start(self, config: Any) -> None:
            del config

        def task_class(self) -> type[SourceTask]:
            return _Task

    worker_connector, _ = _worker_connector(Connector(), {"topic": "t"})
    worker_connector.start()
    [config] = worker_connector.task_configs()
    assert (config["name"], config["topic"]) == ("c", "t")


def test_task_configurations_name_their_class():
    worker_connector, _ = _worker_connector(_Connector(tasks=2))
    name = f"{_Task.__module__}._Task"
    assert worker_connector.task_configs() == [
        {"task": "0", "task.class": name},
        {"task": "1", "task.class": name},
    ]


def test_a_connector_may_name_the_class_of_its_tasks_as_java_knows_it():
    connector = _Connector(tasks=1)
    connector.task_configs = lambda _: [{"task.class": "org.example.Task"}]  # type: ignore[method-assign]
    assert _worker_connector(connector)[0].task_configs() == [{"task.class": "org.example.Task"}]


def test_more_tasks_than_tasks_max_are_refused():
    worker_connector, _ = _worker_connector(_Connector(tasks=3))
    with pytest.raises(ConfigError, match=r"connector c has generated 3 tasks, which is greater than 2") as raised:
        worker_connector.task_configs()
    assert raised.value.name == "tasks.max"


def test_more_tasks_than_tasks_max_run_with_a_warning_where_it_is_not_enforced(caplog: pytest.LogCaptureFixture):
    worker_connector, _ = _worker_connector(_Connector(tasks=3), {"tasks.max.enforce": "false"})
    assert len(worker_connector.task_configs()) == 3
    assert "generated 3 tasks, which is greater than 2" in caplog.text


def test_an_exception_of_stop_does_not_prevent_a_connector_from_stopping(caplog: pytest.LogCaptureFixture):
    connector = _Connector()
    worker_connector, _ = _worker_connector(connector)
    worker_connector.start()
    connector.failure = RuntimeError("stuck")
    worker_connector.stop()
    assert worker_connector.state is State.STOPPED
    assert "stop() of connector c failed" in caplog.text


@pytest.mark.parametrize("end", ["pause", "stop"])
def test_a_connector_s_own_metrics_go_when_it_stops(end: str):
    connector = _Connector()
    worker_connector, _ = _worker_connector(connector)
    worker_connector.start()
    connector.context.plugin_metrics.add_counter("tables", "Tables that were found").increment(2)
    assert [sample.value for sample in worker_connector.plugin_samples()] == [2]
    getattr(worker_connector, end)()
    assert worker_connector.plugin_samples() == []
