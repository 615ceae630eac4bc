"""Runs the actions of a schedule on a cluster, and reports them."""

from __future__ import annotations

import contextlib
import http.client
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import psutil

from tests.chaos.soak.cluster import Cluster, Slot, Undo
from tests.chaos.soak.databases import Databases
from tests.chaos.soak.instances import SecondInstance, holder
from tests.chaos.soak.schedule import HARMS_OF_WORKERS, LOADS, OF_BROKERS, OF_POSTGRES, Action, Kind
from tests.hostile.cases import harmless
from tests.support.java_runs import jvms

_REQUESTS_AT_ONCE = 8
_TICK_SECONDS = 0.05
_HOLDER_SECONDS = 60.0

HOSTILE = "hostile-"
"""The prefix of hostile connectors' names."""

Tell = Callable[[str], None]

Over = Callable[[], bool]
"""Whether it is time to undo an action."""


class Storm:
    """Runs actions one after the other; their effects last until they are undone.

    A worker has one fault at a time, and so have the brokers together: with two of three brokers down nothing would
    work, which the action that kills all of them tests.
    """

    def __init__(
        self,
        cluster: Cluster,
        configs: Mapping[str, dict[str, str]],
        tell: Tell,
        tick: Callable[[], None],
        databases: Databases | None = None,
    ) -> None:
        """`tick` is called again and again between actions; `databases` does the actions on PostgreSQL."""
        self._cluster = cluster
        self._configs = configs
        self._names = list(configs)
        self._tell = tell
        self._tick = tick
        self._databases = databases
        self._undo: dict[str, tuple[Over, Undo]] = {}
        self._instances: dict[str, SecondInstance] = {}
        """Second instances that do not exist yet, by their suspended worker."""
        self._requests: list[Future[None]] = []
        self._pool = ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="soak-request")
        self.done = 0
        self.counts: Counter[str] = Counter()
        """How often each kind of action was done, and the outcomes of second instances."""
        self.ended: list[str] = []
        """Workers that ended by themselves after they had joined, with the end of their logs, and other errors."""

    def run(self, actions: Iterable[Action], seconds: float) -> None:
        """Run actions until there are no more or the time is over; then wait for those that still last."""
        deadline = time.monotonic() + seconds
        for action in actions:
            until = time.monotonic() + action.pause
            while time.monotonic() < min(until, deadline):
                self._go_on()
            if time.monotonic() >= deadline:
                break
            self._tell(str(action))
            if obstacle := self._obstacle(action):
                self._tell(f"  left out: {obstacle}")
            else:
                self.counts[action.kind] += 1
                self._do(action)
            self.done += 1
        while self._undo:
            self._go_on()
        self.calm()

    def calm(self) -> None:
        """Undo all faults at once, and wait for the answers to all requests."""
        for target in list(self._undo):
            self._end(target)
        self._pool.shutdown()
        for request in self._requests:
            request.result()

    def _go_on(self) -> None:
        """Wait for a moment, and undo actions whose time is over."""
        self._end_what_is_over()
        self._look_after_workers()
        self._tick()
        time.sleep(_TICK_SECONDS)

    def _end_what_is_over(self) -> None:
        for target, (over, _) in list(self._undo.items()):
            if over():
                self._end(target)

    def _look_after_workers(self) -> None:
        for slot in self._cluster.slots:
            if self._worker(slot) not in self._undo and not slot.worker.process.running:
                wrong = slot.revive()
                self._tell(wrong or f"  worker {slot.number} could not start, and does again")
                if wrong:
                    self.ended.append(wrong)

    def _obstacle(self, action: Action) -> str:
        """The reason to leave an action out; empty if it is to be done."""
        if action.kind in (*OF_BROKERS, Kind.SECOND_INSTANCE) and "Kafka" in self._undo:
            return "Kafka is down"
        one = action.kind in HARMS_OF_WORKERS and f"worker {action.target}" in self._instances
        if one or (action.kind in (Kind.ROLL, Kind.SECOND_INSTANCE) and self._instances):
            return "a second instance of a task is on its way"
        return ""

    def _do(self, action: Action) -> None:
        cluster = self._cluster
        match action.kind:
            case Kind.KILL_WORKER | Kind.FREEZE_WORKER | Kind.CUT_WORKER:
                slot = cluster.slots[action.target]
                self._end(self._worker(slot))
                self._harm(self._worker(slot), action, self._harm_of_worker(slot, action))
            case Kind.SECOND_INSTANCE:
                assert self._databases is not None
                self._bring_about(self._databases.first_tasks[action.target])
            case Kind.MOVE_CLOCK:
                slot, clock = cluster.slots[action.target], f"the clock of worker {action.target}"
                self._end(clock)
                self._harm(clock, action, lambda: slot.move_clock(int(action.detail)))
            case Kind.KILL_JVMS:
                self._kill_jvms()
            case kind if kind in OF_BROKERS:
                self._do_to_brokers(action)
            case Kind.ROLL:
                for slot in cluster.slots:
                    self._end(self._worker(slot))
                    slot.roll(action.detail, self._end_what_is_over)
            case kind if kind in OF_POSTGRES:
                assert self._databases is not None
                self._do_to_databases(action, self._databases)
            case _:
                self._ask(action, self._names[action.target])

    def _do_to_brokers(self, action: Action) -> None:
        cluster = self._cluster
        self._end("broker")
        match action.kind:
            case Kind.KILL_KAFKA:
                self._harm("Kafka", action, cluster.kill_nodes)
            case Kind.RESTART_BROKER:
                cluster.restart_node(action.target)
            case kind:
                harm = cluster.kill_node if kind is Kind.KILL_BROKER else cluster.freeze_node
                self._harm("broker", action, lambda: harm(action.target))

    def _kill_jvms(self) -> None:
        killed = 0
        for slot in self._well():
            for jvm in jvms(slot.worker.process.pid):
                with contextlib.suppress(psutil.NoSuchProcess):
                    jvm.kill()
                    killed += 1
        self.counts["JVMs killed"] += killed
        self._tell(f"  killed {killed} JVMs")

    def _do_to_databases(self, action: Action, databases: Databases) -> None:
        if action.kind in LOADS:
            self._requests.append(self._pool.submit(self._load, action, databases))
            return
        target = "the clock of PostgreSQL" if action.kind is Kind.MOVE_POSTGRES_CLOCK else "PostgreSQL"
        self._end(target)
        self._harm(target, action, lambda: databases.harm(action))

    def _bring_about(self, task: str) -> None:
        """Suspend the worker that runs a task until another one runs it; left out if no worker ever runs it."""
        deadline = time.monotonic() + _HOLDER_SECONDS
        while (former := holder(self._cluster.slots, task)) not in self._well() and time.monotonic() < deadline:
            self._go_on()
        if former is None or former not in self._well():
            self.counts[Kind.SECOND_INSTANCE] -= 1
            self._tell(f"  left out: no worker runs {task}")
            return
        others = [slot for slot in self._cluster.slots if slot is not former]
        instance, target = SecondInstance(task, former, others), self._worker(former)
        self._instances[target] = instance
        self._undo[target] = (lambda: self._is_there(instance), lambda: self._leave_alone(target))

    def _is_there(self, instance: SecondInstance) -> bool:
        return instance.overdue or instance.successor() in self._well()

    def _leave_alone(self, target: str) -> None:
        """Resume the former instance of a task next to the new one."""
        instance = self._instances.pop(target)
        instance.go_on()
        if not instance.twice:
            self.ended.append(f"{target} was frozen, but no other ran {instance.task}")
            return
        self.counts[f"two instances of {instance.task}"] += 1
        self._tell(f"  two instances of {instance.task}")
        self._requests.append(self._pool.submit(self._watch, instance))

    def _watch(self, instance: SecondInstance) -> None:
        try:
            self.counts[f"writes of the former {instance.task} refused"] += instance.wait_until_noticed()
        except AssertionError as error:
            self.ended.append(str(error))

    def _load(self, action: Action, databases: Databases) -> None:
        try:
            databases.do(action)
        except AssertionError as error:
            self.ended.append(f"{action}: {error}")
        self._tell(f"  {action}: ended")

    def _harm_of_worker(self, slot: Slot, action: Action) -> Callable[[], Undo]:
        if action.kind is Kind.CUT_WORKER:
            return lambda: slot.cut(action.detail)
        return slot.kill if action.kind is Kind.KILL_WORKER else slot.freeze

    def _harm(self, target: str, action: Action, harm: Callable[[], Undo]) -> None:
        self._undo[target] = (self._after(action.lasts), harm())

    @staticmethod
    def _after(seconds: float) -> Over:
        due = time.monotonic() + seconds
        return lambda: time.monotonic() >= due

    def _end(self, target: str) -> None:
        if target in self._undo:
            _, undo = self._undo.pop(target)
            undo()
            self._tell(f"  {target} is well again")

    @staticmethod
    def _worker(slot: Slot) -> str:
        return f"worker {slot.number}"

    def _ask(self, action: Action, name: str) -> None:
        """Send a request in another thread, as the answer may take long; a worker without faults is preferred."""
        path = f"/connectors/{name}"
        match action.kind:
            case Kind.SCALE:
                config = {**self._configs[name], "tasks.max": action.detail}
                self._request("PUT", f"{path}/config", config)
            case Kind.PAUSE | Kind.STOP:
                self._end(name)
                self._request("PUT", f"{path}/{action.kind}")
                self._undo[name] = (self._after(action.lasts), lambda: self._request("PUT", f"{path}/resume"))
            case Kind.MISBEHAVE:
                self._misbehave(action)
            case Kind.RESTART:
                self._request("POST", f"{path}/restart?includeTasks=true")
            case Kind.RESTART_TASK:
                self._request("POST", f"{path}/tasks/{action.detail}/restart")

    def _misbehave(self, action: Action) -> None:
        """Create a hostile connector with its own topic, which is deleted with it when its time is over."""
        hostile = f"{HOSTILE}{self.done}"
        folder = self._cluster.group.folder / hostile
        folder.mkdir()
        config = {"topic": hostile, "tasks.max": "1", **harmless(folder)[action.detail].config}
        self._request("PUT", f"/connectors/{hostile}/config", config)
        self._undo[hostile] = (
            self._after(action.lasts),
            lambda: self._request("DELETE", f"/connectors/{hostile}"),
        )

    def _request(self, method: str, path: str, body: Any = None) -> None:
        slots = self._well() or self._cluster.slots
        self._requests.append(self._pool.submit(self._answer, slots, method, path, body))

    def _well(self) -> list[Slot]:
        return [slot for slot in self._cluster.slots if self._worker(slot) not in self._undo]

    def _answer(self, slots: list[Slot], method: str, path: str, body: Any) -> None:
        slot = next((slot for slot in slots if slot.worker.healthy()), slots[0])
        try:
            answer = slot.worker.request(method, path, body)
            outcome = str(answer.status)
            if answer.status >= 400:
                outcome += f" {answer.body.get('message')}"
        except (OSError, http.client.HTTPException) as error:
            outcome = repr(error)
        self._tell(f"  {method} {path} at worker {slot.number}: {outcome}")
