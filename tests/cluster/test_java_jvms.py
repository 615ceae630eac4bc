"""The JVMs of a process, and what they hold."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.java.errors import JavaError, JvmEndedError
from fencepost.java.jvm import JVMS, Jvm, JvmPool
from fencepost.java.session import ConnectorSession, JavaObject
from fencepost.runtime.restart_policy import is_worth_a_restart
from tests.support.java_plugins import HOSTILE, ODD, plugin_path
from tests.support.processes import wait_for


def paused_at_start(file: Path) -> JavaSettings:
    """Settings of a JVM that makes this file when it starts, and goes on when it is removed."""
    pause = f"-XX:PauseAtStartupFile={file}"
    return JavaSettings(options=("-XX:+UnlockDiagnosticVMOptions", "-XX:+PauseAtStartup", pause))


def test_a_jvm_that_starts_slowly_keeps_no_other_from_starting(tmp_path: Path):
    pool, pause = JvmPool(), tmp_path / "paused"
    with contextlib.ExitStack() as stack:
        stack.callback(pool.close)
        threads = stack.enter_context(ThreadPoolExecutor())
        stack.callback(pause.unlink, missing_ok=True)
        slow = [threads.submit(pool.lease, "slow", paused_at_start(pause)) for _ in range(2)]
        wait_for(pause.exists, what="the start of the slow one")
        assert pool.lease("other", JavaSettings()).is_alive
        assert not any(lease.done() for lease in slow)
        pause.unlink()
        assert slow[0].result() is slow[1].result()


def test_an_object_that_was_abandoned_before_its_jvm_had_started_is_not_started(tmp_path: Path):
    pause = tmp_path / "paused"

    class Started(JavaObject):
        settings = paused_at_start(pause)

    def start() -> None:
        with started.starting("slow"):
            raise AssertionError("it was started")

    started = Started()
    with ThreadPoolExecutor() as threads:
        starting = threads.submit(start)
        wait_for(pause.exists, what="the start of its JVM")
        started.abandon()
        pause.unlink()
        with pytest.raises(JvmEndedError, match="connector slow was to stop before its JVM had started"):
            starting.result()
    # The JVM, which nothing else uses, has ended.
    assert "slow" not in {name for name, _ in JVMS._jvms}


def part(java_class: str, jars: Path | None = None, **properties: str) -> dict[str, Any]:
    return {
        "class": java_class,
        "jars": [] if jars is None else [str(jar) for jar in jars.iterdir()],
        "properties": properties,
        "alias": "a",
    }


def test_the_parts_of_a_task_that_cannot_be_opened_are_closed(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """The connector goes on in the same JVM, where each restart of its task would leave some."""
    caplog.set_level("INFO", "java")
    plugins = plugin_path(tmp_path)
    transforms = [
        part(ODD, plugins / "transforms", how=how, every=every) for how, every in (("drop", "2"), ("throw", "0"))
    ]
    string, simple = (
        f"org.apache.kafka.connect.storage.{name}" for name in ("StringConverter", "SimpleHeaderConverter")
    )
    pipeline = {
        "converters": {
            "key.converter": part(string),
            "value.converter": part(string),
            "header.converter": part(simple),
        },
        "transforms": transforms,
    }
    task = {
        **part(HOSTILE.replace("Connector", "Task"), plugins / "hostile"),
        "kind": "task",
        "name": "c-0",
        "owner": "c",
    }
    jvm = Jvm("c", JavaSettings())
    with contextlib.closing(jvm.channel()) as channel:
        try:
            with pytest.raises(JavaError, match="Invalid value 0 for configuration every"):
                channel.call(
                    "open", "open", session="s", task="0", config={}, boundary="poll", pipeline=pipeline, **task
                )
            wait_for(lambda: caplog.text.count("An Odd is closed") == 2, what="both transforms are closed")
        finally:
            jvm.kill("the test ends")
    assert "An Odd is closed: drop" in caplog.text


def copy(source: socket.socket, target: socket.socket) -> None:
    with source, target, contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)


def end_at_connection(jvm: Jvm, number: int) -> None:
    """Let the JVM be killed as it gets its connection of this number, counted from now."""
    address = Path(jvm._socket)
    behind = address.rename(address.with_suffix(".behind"))
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(address))
    listening.listen()

    def serve() -> None:
        with listening:
            for _ in range(number - 1):
                client, host = listening.accept()[0], socket.socket(socket.AF_UNIX)
                host.connect(str(behind))
                for ends in ((client, host), (host, client)):
                    threading.Thread(target=copy, args=ends, daemon=True).start()
            last = listening.accept()[0]
            os.kill(jvm.pid, signal.SIGKILL)
            last.close()

    threading.Thread(target=serve, daemon=True).start()


@pytest.mark.parametrize("connection", [1, 2])
def test_a_jvm_that_ends_while_a_session_is_opened_is_worth_a_restart(tmp_path: Path, connection: int):
    jars = tuple((plugin_path(tmp_path) / "hostile").iterdir())
    plugin, jvm = JavaPlugin(HOSTILE, jars[0].parent, jars), JVMS.lease("ends", JavaSettings())
    end_at_connection(jvm, connection)
    with pytest.raises(JvmEndedError, match="it was killed") as raised:
        ConnectorSession(
            jvm, JavaSettings(), "connector ends", None, plugin, kind="connector", name="ends", **{"class": HOSTILE}
        )
    assert is_worth_a_restart(raised.value)


def test_a_session_whose_thread_cannot_start_releases_its_jvm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    jars = tuple((plugin_path(tmp_path) / "hostile").iterdir())
    plugin, jvm = JavaPlugin(HOSTILE, jars[0].parent, jars), JVMS.lease("full", JavaSettings())
    start = threading.Thread.start

    def full(thread: threading.Thread) -> None:
        if thread.name.startswith("java-events"):
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", full)
    with pytest.raises(RuntimeError):
        ConnectorSession(
            jvm, JavaSettings(), "connector full", None, plugin, kind="connector", name="full", **{"class": HOSTILE}
        )
    wait_for(lambda: not jvm.is_alive, what="the JVM that nobody leases ends")
