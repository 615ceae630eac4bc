"""The JVMs of a process, and the objects in them."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from fencepost.config.java_plugins import SOURCE_CONNECTOR, JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.config.worker_config import WorkerConfig
from fencepost.java import jvm
from fencepost.java.channel import Channel
from fencepost.java.errors import JavaError, JvmEndedError
from fencepost.java.jvm import JVMS, Jvm, JvmPool
from fencepost.java.session import ConnectorSession, JavaObject
from fencepost.runtime.restart_policy import is_worth_a_restart
from tests.support.java_plugins import HOSTILE, ODD, plugin_path
from tests.support.processes import wait_for


def paused_at_start(file: Path) -> JavaSettings:
    """JVM settings: the JVM creates this file at its start, and waits until the file is removed."""
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


def test_a_jvm_has_the_heap_the_options_and_the_directory_of_its_worker(tmp_path: Path):
    properties = {
        "bootstrap.servers": "127.0.0.1:1",
        **{f"{part}.converter": "org.apache.kafka.connect.json.JsonConverter" for part in ("key", "value")},
        "fencepost.java.heap": "96m",
        "fencepost.java.options": "'-Dmine=two words' -Xss512k",
        "fencepost.java.directory": str(tmp_path),
    }
    settings = WorkerConfig.from_properties(properties, where="worker.properties").plugin_sources.java
    with contextlib.closing(JvmPool()) as pool:
        process = psutil.Process(pool.lease("set", settings).pid)
        assert {"-Xmx96m", "-Dmine=two words", "-Xss512k"} <= set(process.cmdline())
        assert process.cwd() == str(tmp_path.resolve())


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
    # The JVM has ended, because nothing else uses it.
    assert "slow" not in {name for name, _ in JVMS._jvms}


def test_a_jvm_that_stands_still_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(jvm, "_WATCH_S", 0.05)
    monkeypatch.setattr(jvm, "_SILENT_S", 2.0)
    hostile = plugin_path(tmp_path) / "hostile"
    plugin = JavaPlugin(HOSTILE, hostile, tuple(hostile.iterdir()), SOURCE_CONNECTOR)
    with contextlib.ExitStack() as stack:
        pool = stack.enter_context(contextlib.closing(JvmPool()))
        one, other = (pool.lease(name, JavaSettings()) for name in ("one", "other"))
        asking = stack.enter_context(contextlib.closing(one.channel()))
        os.kill(one.pid, signal.SIGSTOP)
        jars = [str(jar) for jar in plugin.jars]
        with pytest.raises(
            JvmEndedError, match="JVM of connector one has ended: it gave no sign of life for 2 s"
        ) as error:
            asking.call("about", "a question", **{"class": HOSTILE, "base": SOURCE_CONNECTOR, "jars": jars})
        assert is_worth_a_restart(error.value)
        assert other.is_alive
        assert pool.lease("one", JavaSettings()).pid != one.pid


def part(java_class: str, jars: Path | None = None, **properties: str) -> dict[str, Any]:
    return {
        "class": java_class,
        "jars": [] if jars is None else [str(jar) for jar in jars.iterdir()],
        "properties": properties,
        "alias": "a",
    }


STRING = "org.apache.kafka.connect.storage.StringConverter"


def open_task(channel: Channel, hostile: Path, transforms: list[dict[str, Any]], value: dict[str, Any]) -> None:
    """Open a task of HostileConnector with these transforms and this value converter, and do not start it."""
    converters = {
        "key.converter": part(STRING),
        "value.converter": value,
        "header.converter": part("org.apache.kafka.connect.storage.SimpleHeaderConverter"),
    }
    errors = {"tolerates": False, "letters": False, "contents": False, "retry.timeout.ms": 0, "retry.delay.max.ms": 0}
    channel.call(
        "open", "open", session=uuid.uuid4().hex, kind="task", name="c-0", owner="c", task="0", config={}, boundary="poll",
        pipeline={"converters": converters, "transforms": transforms, "errors": errors},
        **part(HOSTILE.replace("Connector", "Task"), hostile),
    )  # fmt: skip


def test_opened_plugins_are_closed_if_the_task_cannot_be_opened(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """The connector goes on in the same JVM, where each restart of its task would leave open transforms behind."""
    caplog.set_level("INFO", "java")
    plugins = plugin_path(tmp_path)
    transforms = [
        part(ODD, plugins / "transforms", how=how, every=every) for how, every in (("drop", "2"), ("throw", "0"))
    ]
    jvm = Jvm("c", JavaSettings())
    with contextlib.closing(jvm.channel()) as channel:
        try:
            with pytest.raises(JavaError, match="Invalid value 0 for configuration every"):
                open_task(channel, plugins / "hostile", transforms, part(STRING))
            wait_for(lambda: caplog.text.count("An Odd is closed") == 2, what="both transforms are closed")
        finally:
            jvm.kill("the test ends")
    assert "An Odd is closed: drop" in caplog.text


def test_a_logger_of_java_has_its_own_level_again_once_no_other_is_set(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """At first, the root logger has the level INFO, the logger of configurations WARN, and the others none."""
    caplog.set_level("DEBUG", "java")
    plugins = plugin_path(tmp_path)
    jvm = Jvm("c", JavaSettings())
    configs = "org.apache.kafka.common.config.AbstractConfig"
    with contextlib.closing(jvm.channel()) as channel:
        for size, levels in enumerate(({}, {"": "DEBUG", configs: "INFO"}, {}, {"transforms": "DEBUG"}, {})):
            channel.call("levels", "levels", levels=levels)
            value = part(
                "org.apache.kafka.connect.json.JsonConverter",
                **{"converter.type": "value", "schemas.cache.size": str(size)},
            )
            open_task(channel, plugins / "hostile", [part(ODD, plugins / "transforms", how=f"how {size}")], value)
        jvm.kill("the test ends")
    # All of its output was read.
    assert "the test ends" in str(jvm.ended())
    assert re.findall(r"is configured: how (\d)", caplog.text) == ["1", "3"]
    assert set(re.findall(r"schemas\.cache\.size = (\d)", caplog.text)) == {"1"}


def copy(source: socket.socket, target: socket.socket) -> None:
    with source, target, contextlib.suppress(OSError):
        while data := source.recv(65_536):
            target.sendall(data)


def end_at_connection(jvm: Jvm, number: int) -> None:
    """Let the JVM be killed when it gets its n-th connection from now on."""
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
