"""A session in a JVM: a connector or a task that was opened there, and its connections."""

from __future__ import annotations

import json
import logging
import threading
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from typing import Any, ClassVar, Final, Protocol

from fencepost.api.abandonable import Abandonable
from fencepost.api.context import OffsetReader
from fencepost.api.errors import FencepostError, describe_error
from fencepost.api.plugin_metrics import MetricName
from fencepost.config.java_plugins import JavaPlugin
from fencepost.config.java_settings import JavaSettings
from fencepost.config.log_context import in_context
from fencepost.java.channel import Channel
from fencepost.java.errors import JavaError, JvmEndedError, java_error
from fencepost.java.jvm import JVMS, Jvm

_log: Final = logging.getLogger(__name__)
_METRICS_S: Final = 0.9
"""The time-out for metrics. It is shorter than the time for which a worker waits for the metrics of a plugin."""


class _EventsEnded(Exception):  # noqa: N818 - not a failure
    """The connection for events has ended."""


class SessionContext(Protocol):
    """Answers requests of Java code to the worker. Tasks only ask for offsets; connectors also make other requests."""

    @property
    def offset_reader(self) -> OffsetReader:
        """Reads committed offsets."""


class JavaObject(Abandonable):
    """A connector or task in a JVM. If its start or stop does not return, it is abandoned, and its JVM is ended."""

    settings: ClassVar[JavaSettings]
    _moves_in: Jvm | None = None
    _abandoned = False

    @contextmanager
    def starting(self, connector: str) -> Iterator[Jvm]:
        """Lease the JVM of a connector. In the body, the Java object is started there.

        Raises JvmEndedError if the object was abandoned meanwhile, and the errors of a JVM's start.
        """
        with self._moving(JVMS.lease(connector, self.settings)) as jvm:
            if self._abandoned:
                JVMS.release(jvm)
                raise JvmEndedError(f"The connector {connector} was to stop before its JVM had started")
            yield jvm

    def end(self, session: JavaSession) -> None:
        """Stop and close a session. Raises JavaError."""
        with self._moving(session.jvm):
            try:
                session.stop()
            finally:
                session.close()

    @contextmanager
    def _moving(self, jvm: Jvm) -> Iterator[Jvm]:
        self._moves_in = jvm
        try:
            yield jvm
        finally:
            self._moves_in = None

    def abandon(self) -> None:
        """If a start or stop is in progress, kill the JVM, so that a later start uses another one."""
        self._abandoned = True
        jvm = self._moves_in
        if jvm is not None:
            reason = f"Java code did not return within {self.settings.graceful_timeout_s:g} s of the request to stop it"
            _log.warning("The JVM of connector %s is killed: %s", jvm.name, reason)
            jvm.kill(reason)


class JavaSession:
    """A connector or a task in a JVM. `stop` is thread-safe; all other methods are for one thread at a time.

    `label` names the session in errors. If `stop` or `close` takes too long, the JVM is killed.
    """

    def __init__(
        self,
        jvm: Jvm,
        settings: JavaSettings,
        label: str,
        context: SessionContext,
        plugin: JavaPlugin,
        **request: Any,
    ) -> None:
        """Open the session in a leased JVM. The lease is released with the session.

        Raises JvmEndedError and JavaError.
        """
        self.jvm = jvm
        """The JVM in which the session is."""
        self._settings = settings
        self._label = label
        self._context = context
        self._name = uuid.uuid4().hex
        self._closed = self._mute = False
        with ExitStack() as undo:
            undo.callback(JVMS.release, jvm)
            self._channel = undo.enter_context(closing(jvm.channel()))
            jars = [str(jar) for jar in plugin.jars]
            self.call("open", session=self._name, jars=jars, **request)
            self.call("attach", session=self._name)
            events = undo.enter_context(closing(jvm.channel(_EventsEnded)))
            try:
                events.call("events", f"the events of {label}", session=self._name)
            except _EventsEnded:
                raise jvm.ended() from None
            serve = in_context(self._serve)
            # The process may not have room for another thread.
            threading.Thread(target=serve, args=[events], name=f"java-events-{label}", daemon=True).start()
            undo.pop_all()

    def call(self, operation: str, **request: Any) -> dict[str, Any]:
        """Call the host and return its answer. Raises JvmEndedError and JavaError."""
        return self.call_with_buffers(operation, **request)[0]

    def call_with_buffers(self, operation: str, **request: Any) -> tuple[dict[str, Any], memoryview]:
        """Call the host, and return its answer and the answer's buffers. Raises the errors of `call`."""
        return self._channel.call(operation, f"{operation}() of {self._label} failed", **request)

    def ask(self, operation: str, **request: Any) -> None:
        """Call the host without waiting for its answer, which `answer` returns later. Raises JvmEndedError."""
        self._channel.ask(operation, **request)

    def answer(self, operation: str) -> tuple[dict[str, Any], memoryview]:
        """Return the answer to `ask`, and the answer's buffers. Raises the errors of `call`."""
        return self._channel.answer(f"{operation}() of {self._label} failed")

    def metrics(self) -> list[tuple[MetricName, float]]:
        """Ask for the metrics that the plugins of this session have added. This may be done during other calls.

        Raises FencepostError if the Java code does not answer in time. After that, the Java code is not asked again,
        because each question would take another thread of the JVM.
        """
        if self._closed or self._mute or not self.jvm.is_alive:
            return []
        try:
            aside = self.jvm.channel(_EventsEnded)
            with closing(aside):
                aside.limit(_METRICS_S)
                aside.call("attach", self._label, session=self._name)
                answer, _ = aside.call("metrics", f"the metrics of {self._label}")
        except TimeoutError:
            self._mute = True
            raise FencepostError(
                f"The metrics of {self._label} did not come within {_METRICS_S:g} s: they are not asked for any more "
                "until it is restarted"
            ) from None
        except (JavaError, JvmEndedError, _EventsEnded):
            # The session has ended meanwhile.
            return []
        return [
            (MetricName(one["name"], one["description"], tuple(one["tags"].items())), float(one["value"]))
            for one in answer["metrics"]
        ]

    def stop(self) -> None:
        """Make the Java object stop, even during another call. The stop may end that call. Raises JavaError."""
        if not self.jvm.is_alive:
            return
        aside = self.jvm.channel()
        try:
            aside.limit(self._settings.graceful_timeout_s)
            aside.call("attach", self._label, session=self._name)
            aside.call("stop", f"stop() of {self._label} failed")
        except TimeoutError:
            self._kill("stop() of {} did not return within {:g} s")
        except JvmEndedError as error:
            _log.debug("The JVM ended before, or while, stop() of %s was called: %s", self._label, error)
        finally:
            aside.close()

    def close(self) -> None:
        """Close the session, and wait until none of its Java code runs. Never raises."""
        if self._closed:
            return
        self._closed = True
        try:
            self._channel.limit(self._settings.graceful_timeout_s)
            self.call("close")
        except TimeoutError:
            self._kill("the code of {} still ran {:g} s after its end")
        except FencepostError as error:
            _log.debug("The session of %s could not be closed: %s", self._label, error)
        finally:
            self._channel.close()
            JVMS.release(self.jvm)

    def _kill(self, why: str) -> None:
        reason = why.format(self._label, self._settings.graceful_timeout_s)
        _log.warning("The JVM of %s is killed: %s", self._label, reason)
        self.jvm.kill(reason)

    def _serve(self, events: Channel) -> None:
        """Answer the Java code's calls of its context, until the session is closed or the JVM ends."""
        try:
            while True:
                event, _ = events.receive()
                events.send(self._answer(event))
        except _EventsEnded:
            # The host closes the connection when the session is closed.
            if not self._closed:
                self._on_end(self.jvm.ended())
        finally:
            events.close()

    def _answer(self, event: Mapping[str, Any]) -> dict[str, Any]:
        try:
            match event["event"]:
                case "offsets":
                    return {"offsets": read_offsets(self._context.offset_reader, event["partitions"])}
                case other:
                    self.on_event(other, event)
        except Exception as error:  # noqa: BLE001 - the Java code that asked gets the error
            return {"error": describe_error(error)}
        return {}

    def on_event(self, kind: str, event: Mapping[str, Any]) -> None:
        """Handle any other request of the Java code. If this raises an error, the Java code gets it."""
        raise NotImplementedError(f"{kind} of {self._label} ({dict(event)})")

    def _on_end(self, error: JvmEndedError) -> None:
        """Called if the JVM ends before the session is closed."""


def read_offsets(reader: OffsetReader, partitions: Sequence[str | None]) -> list[str | None]:
    """Read the offsets of source partitions. The partitions and the offsets are JSON texts.

    A source partition may be None. The offset of a source partition without an offset is None.
    """
    found = reader.offsets([json.loads(text or "null") for text in partitions])
    return [None if one is None else json.dumps(one) for one in found]


class ConnectorSession(JavaSession):
    """The session of a started connector.

    Through its context, Java code also requests task configurations, and reports failures.
    """

    _context: Any

    def on_event(self, kind: str, event: Mapping[str, Any]) -> None:
        """Handle a request for new task configurations, or the report of a failure."""
        if kind == "reconfigure":
            self._context.request_task_reconfiguration()
        elif kind == "error":
            self._context.raise_error(java_error(f"{self._label} raised an error", event))
        else:
            super().on_event(kind, event)

    def _on_end(self, error: JvmEndedError) -> None:
        with suppress(Exception):
            self._context.raise_error(error)
