from __future__ import annotations

import runpy
from pathlib import Path

from tests.unit.connectors.support import Context

COUNTER = Path(__file__).parents[4] / "examples" / "counter.py"


class CommittedNumber:
    """The committed offset of the counter."""

    def __init__(self, number: int | None) -> None:
        self.number = number

    def offset(self, _partition: object) -> dict[str, int] | None:
        return None if self.number is None else {"number": self.number}


def test_the_counter_of_the_examples_resumes_from_its_position():
    connector = runpy.run_path(str(COUNTER))["CounterConnector"]()
    properties = {"topic": "numbers"}
    assert not [value.errors for value in connector.validate(properties) if value.errors]
    connector.context = Context(CommittedNumber(None), properties)
    connector.start(properties)
    numbers = []
    for committed in (None, 41):
        task = connector.task_class()()
        config = connector.task_configs(1)[0]
        task.context = Context(CommittedNumber(committed), config)
        task.start(config)
        numbers += [record.value for _ in range(2) for record in task.poll()]
    assert numbers == [1, 2, 42, 43]
