"""Random requests to a group with occasional kills, and to a model: answers and states are equal.

Hypothesis makes the requests, in runs that each start with the previous run's connectors. Failures are not shrunk,
because the group cannot be brought back to its earlier state.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test

from tests.support.model_herder import ModelHerder
from tests.support.processes import wait_for
from tests.support.rest import Api, RestApis
from tests.support.topics import Topics, unique
from tests.support.workers import Answer, Group, Worker

# Hypothesis's first run is the simplest possible one, not a random one, so 200 requests are random.
RUNS, REQUESTS_OF_A_RUN = 6, 40
KILLS = {100, 170}
CONNECTORS = 4

# Statuses that a worker may answer while its group has lost a member. A retry may find the request done already.
_PASSING = {409, 500, 503}
_DONE_BEFORE = {"POST": 409, "DELETE": 404}

Request = tuple[str, str, Any]
Ask = Callable[[str, str], Any]


class Requests:
    """Requests for a few connectors, each of which reads a file to its end."""

    def __init__(self, folder: Path, topics: Topics) -> None:
        self._topics = [topics.create(), topics.create()]
        self._files = {}
        for connector in range(CONNECTORS):
            file = folder / unique("in")
            file.write_text("".join(f"line {number}\n" for number in range(1 + 15 * connector)))
            self._files[unique("connector")] = file

    @property
    def names(self) -> list[str]:
        return list(self._files)

    def about(self, name: str, chance: random.Random) -> Request:
        """Any request for a connector, which may not exist."""
        path = f"/connectors/{name}"
        kinds: list[tuple[int, Callable[[], Request]]] = [
            (4, lambda: ("POST", "/connectors", self._create(name, chance))),
            (2, lambda: ("PUT", f"{path}/config", self._config(name, chance))),
            (2, lambda: ("PATCH", f"{path}/config", self._patch(chance))),
            (2, lambda: ("DELETE", path, None)),
            (2, lambda: ("PUT", f"{path}/pause", None)),
            (3, lambda: ("PUT", f"{path}/resume", None)),
            (3, lambda: ("PUT", f"{path}/stop", None)),
            (1, lambda: ("POST", f"{path}/restart", None)),
            (1, lambda: ("POST", f"{path}/restart?includeTasks=true", None)),
            (1, lambda: ("POST", f"{path}/restart?includeTasks=true&onlyFailed=true", None)),
            (1, lambda: ("POST", f"{path}/tasks/{chance.randint(0, 1)}/restart", None)),
            (2, lambda: ("PATCH", f"{path}/offsets", self._offsets(name, chance))),
            (1, lambda: ("DELETE", f"{path}/offsets", None)),
        ]
        (kind,) = chance.choices([kind for _, kind in kinds], [weight for weight, _ in kinds])
        return kind()

    def _config(self, name: str, chance: random.Random) -> dict[str, str]:
        return {
            "connector.class": "FileStreamSource",
            "file": str(self._files[name]),
            "topic": chance.choice(self._topics),
            "batch.size": str(chance.randint(1, 100)),
        }

    def _create(self, name: str, chance: random.Random) -> dict[str, Any]:
        state = chance.choice([None, None, "RUNNING", "PAUSED", "STOPPED"])
        body = {"name": name, "config": self._config(name, chance)}
        return body if state is None else {**body, "initial_state": state}

    def _patch(self, chance: random.Random) -> dict[str, str | None]:
        return chance.choice([{"batch.size": "7"}, {"batch.size": None}, {"tasks.max": "none"}, {"tasks.max": "3"}])

    def _offsets(self, name: str, chance: random.Random) -> dict[str, Any]:
        file = self._files[name]
        offset = chance.choice([None, {"position": 0}, {"position": file.stat().st_size}, {"position": "far"}])
        return {"offsets": [{"partition": {"filename": str(file)}, "offset": offset}]}


class GroupAndModel:
    """A group of three workers, and its model."""

    def __init__(self, group: Group, model: Api, stack: ExitStack, chance: random.Random) -> None:
        self._group = group
        self._model = model
        self._stack = stack
        self._chance = chance
        self._workers: list[Worker] = stack.enter_context(group.workers(3))

    def kill(self) -> None:
        """Kill a worker, and start another one in its place."""
        worker = self._workers.pop(self._chance.randrange(3))
        worker.process.kill()
        self._workers.append(self._stack.enter_context(self._group.starting(worker.port)))

    def send(self, request: Request) -> None:
        """Send a request to any worker and to the model, and check that the answers are equal."""
        expected = self._model.request(*request)
        answers: list[Answer | None] = []

        def agree() -> bool:
            answers.append(self._ask(request))
            found = answers[-1]
            if found is None or (found.status in _PASSING and found.status != expected.status):
                done = found is not None and len(answers) > 1 and found.status == _DONE_BEFORE.get(request[0])
                return done and expected.status < 300
            assert found.status == expected.status, f"{request}: {found}, but the model: {expected}"
            return True

        wait_for(agree, what=f"{request} is answered with {expected.status}: {answers}")
        found = answers[-1]
        if found is not None and found.status == 202 and found.body:
            # A killed worker's connector and tasks are UNASSIGNED from the detection of its death to their
            # reassignment.
            known, states = _state(expected.body), _state(found.body)
            assert [
                model if state == "UNASSIGNED" else state for model, state in zip(known, states, strict=True)
            ] == known

    def wait_until_equal(self, name: str) -> None:
        """Wait until all workers show the connector's state as in the model, and one of them its offsets."""
        expected = _shown(self._model.request, name), _offsets(self._model.request, name)

        found: list[Any] = []

        def equal() -> bool:
            anyone = self._chance.choice(self._workers)
            found[:] = *(_shown(worker.request, name) for worker in self._workers), _offsets(anyone.request, name)
            return found == [*[expected[0]] * len(self._workers), expected[1]]

        try:
            wait_for(equal, what=f"{name} is {expected}")
        except AssertionError as error:
            error.add_note(f"It is {found}")
            raise

    def _ask(self, request: Request) -> Answer | None:
        try:
            return self._chance.choice(self._workers).request(*request)
        except OSError:
            return None


def _shown(request: Ask, name: str) -> list[Any]:
    """A connector's configuration, and its and its tasks' states."""
    return [_body(request, f"/connectors/{name}"), _state(_body(request, f"/connectors/{name}/status"))]


def _offsets(request: Ask, name: str) -> Any:
    return _body(request, f"/connectors/{name}/offsets")


def _body(request: Ask, path: str) -> Any:
    """The body of a GET, its status if that is not 200, None without an answer."""
    try:
        answer = request("GET", path)
    except OSError:
        return None
    return answer.body if answer.status == 200 else answer.status


def _state(status: Any) -> Any:
    """The states of a connector and its tasks, without parts that a model cannot know."""
    if not isinstance(status, dict):
        return status
    return [status["connector"]["state"], *(task["state"] for task in status["tasks"])]


@pytest.fixture
def model() -> Iterator[Api]:
    with RestApis() as apis:
        yield apis.serve(ModelHerder())


def test_answers_and_states_of_a_group_match_a_model(
    tmp_path: Path, bootstrap_servers: str, topics: Topics, model: Api
) -> None:
    with ExitStack() as stack:
        both = GroupAndModel(Group(tmp_path, bootstrap_servers), model, stack, random.Random(random.random()))
        requests = Requests(tmp_path, topics)
        sent: list[Request] = []
        failures: list[BaseException] = []

        class Operations(RuleBasedStateMachine):
            @rule(chance=st.randoms(use_true_random=False))
            def send(self, chance: random.Random) -> None:
                name = chance.choice(requests.names)
                sent.append(requests.about(name, chance))
                try:
                    both.send(sent[-1])
                    if len(sent) in KILLS:
                        both.kill()
                    both.wait_until_equal(name)
                except BaseException as error:
                    error.add_note(f"The requests before were {sent}")
                    failures.append(error)
                    raise

        try:
            run_state_machine_as_test(
                Operations,
                settings=settings(
                    max_examples=RUNS,
                    stateful_step_count=REQUESTS_OF_A_RUN,
                    phases=[Phase.generate],
                    database=None,
                    deadline=None,
                    suppress_health_check=list(HealthCheck),
                ),
            )
        finally:
            # Hypothesis repeats a failed run, and reports if it does not fail in the same way.
            if failures:
                raise failures[0]
        assert len(sent) == RUNS * REQUESTS_OF_A_RUN
        for name in requests.names:
            both.wait_until_equal(name)
