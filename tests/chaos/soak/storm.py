"""Does to a cluster what a schedule says, and tells what it does."""

from __future__ import annotations

import http.client
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from tests.chaos.soak.cluster import Cluster, Slot, Undo
from tests.chaos.soak.databases import Databases
from tests.chaos.soak.schedule import LOADS, OF_BROKERS, OF_POSTGRES, Action, Kind
from tests.hostile.cases import harmless

_REQUESTS_AT_ONCE = 8
_TICK_SECONDS = 0.05

HOSTILE = "hostile-"
"""How the names of hostile connectors begin."""

Tell = Callable[[str], None]


class Storm:
    """Runs actions one after the other; what they started goes on until its time is over.

    A worker has one harm at a time, the brokers have one together: with two of three away nothing could go on,
    as is tried with all of them.
    """

    def __init__(
        self,
        cluster: Cluster,
        configs: Mapping[str, dict[str, str]],
        tell: Tell,
        tick: Callable[[], None],
        databases: Databases | None = None,
    ) -> None:
        """`tick` is called again and again between actions; `databases` is where those to PostgreSQL go."""
        self._cluster = cluster
        self._configs = configs
        self._names = list(configs)
        self._tell = tell
        self._tick = tick
        self._databases = databases
        self._undo: dict[str, tuple[float, Undo]] = {}
        self._requests: list[Future[None]] = []
        self._pool = ThreadPoolExecutor(_REQUESTS_AT_ONCE, thread_name_prefix="soak-request")
        self.done = 0
        self.ended: list[str] = []
        """The workers that ended by themselves when they were at work, with the end of their logs, and what else
        was not as it should be meanwhile."""

    def run(self, actions: Iterable[Action], seconds: float) -> None:
        """Run actions until they or the time are over, and let what lasts come to its end."""
        deadline = time.monotonic() + seconds
        for action in actions:
            until = time.monotonic() + action.pause
            while time.monotonic() < min(until, deadline):
                self._go_on()
            if time.monotonic() >= deadline:
                break
            self._tell(str(action))
            self._do(action)
            self.done += 1
        while self._undo:
            self._go_on()
        self.calm()

    def calm(self) -> None:
        """End at once all that harms, and wait for the answers to all requests."""
        for target in list(self._undo):
            self._end(target)
        self._pool.shutdown()
        for request in self._requests:
            request.result()

    def _go_on(self) -> None:
        """Let a moment pass, and end what has lasted long enough."""
        self._end_what_is_over()
        self._look_after_workers()
        self._tick()
        time.sleep(_TICK_SECONDS)

    def _end_what_is_over(self) -> None:
        for target, (due, _) in list(self._undo.items()):
            if time.monotonic() >= due:
                self._end(target)

    def _look_after_workers(self) -> None:
        for slot in self._cluster.slots:
            if self._worker(slot) not in self._undo and not slot.worker.process.running:
                wrong = slot.revive()
                self._tell(wrong or f"  worker {slot.number} could not start, and does again")
                if wrong:
                    self.ended.append(wrong)

    def _do(self, action: Action) -> None:
        cluster = self._cluster
        match action.kind:
            case Kind.KILL_WORKER | Kind.FREEZE_WORKER | Kind.CUT_WORKER:
                slot = cluster.slots[action.target]
                self._end(self._worker(slot))
                self._harm(self._worker(slot), action, self._harm_of_worker(slot, action))
            case kind if kind in OF_BROKERS and "Kafka" in self._undo:
                self._tell("  left out: Kafka is down")
            case Kind.KILL_KAFKA:
                self._end("broker")
                self._harm("Kafka", action, cluster.kill_nodes)
            case Kind.KILL_BROKER | Kind.FREEZE_BROKER:
                self._end("broker")
                harm = cluster.kill_node if action.kind is Kind.KILL_BROKER else cluster.freeze_node
                self._harm("broker", action, lambda: harm(action.target))
            case Kind.RESTART_BROKER:
                self._end("broker")
                cluster.restart_node(action.target)
            case Kind.ROLL:
                for slot in cluster.slots:
                    self._end(self._worker(slot))
                    slot.roll(action.detail, self._end_what_is_over)
            case kind if kind in OF_POSTGRES:
                assert self._databases is not None
                self._do_to_databases(action, self._databases)
            case _:
                self._ask(action, self._names[action.target])

    def _do_to_databases(self, action: Action, databases: Databases) -> None:
        if action.kind in LOADS:
            self._requests.append(self._pool.submit(self._load, action, databases))
            return
        self._end("PostgreSQL")
        self._harm("PostgreSQL", action, lambda: databases.harm(action))

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
        self._undo[target] = (time.monotonic() + action.lasts, harm())

    def _end(self, target: str) -> None:
        if target in self._undo:
            _, undo = self._undo.pop(target)
            undo()
            self._tell(f"  {target} is well again")

    @staticmethod
    def _worker(slot: Slot) -> str:
        return f"worker {slot.number}"

    def _ask(self, action: Action, name: str) -> None:
        """Send a request in another thread, for workers may take long: to one that nothing harms, if there is one."""
        path = f"/connectors/{name}"
        match action.kind:
            case Kind.SCALE:
                config = {**self._configs[name], "tasks.max": action.detail}
                self._request("PUT", f"{path}/config", config)
            case Kind.PAUSE | Kind.STOP:
                self._end(name)
                self._request("PUT", f"{path}/{action.kind}")
                self._undo[name] = (time.monotonic() + action.lasts, lambda: self._request("PUT", f"{path}/resume"))
            case Kind.MISBEHAVE:
                self._misbehave(action)
            case Kind.RESTART:
                self._request("POST", f"{path}/restart?includeTasks=true")
            case Kind.RESTART_TASK:
                self._request("POST", f"{path}/tasks/{action.detail}/restart")

    def _misbehave(self, action: Action) -> None:
        """Create a hostile connector with a topic of its own, which is deleted when its time is over."""
        hostile = f"{HOSTILE}{self.done}"
        folder = self._cluster.group.folder / hostile
        folder.mkdir()
        config = {"topic": hostile, "tasks.max": "1", **harmless(folder)[action.detail].config}
        self._request("PUT", f"/connectors/{hostile}/config", config)
        self._undo[hostile] = (
            time.monotonic() + action.lasts,
            lambda: self._request("DELETE", f"/connectors/{hostile}"),
        )

    def _request(self, method: str, path: str, body: Any = None) -> None:
        slots = self._cluster.slots
        well = [slot for slot in slots if self._worker(slot) not in self._undo]
        self._requests.append(self._pool.submit(self._answer, well or slots, method, path, body))

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
