"""docs/architecture.md lists all modules that a file's rows pass through, in order, when executors read them."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fencepost.api.record import SourceBatch
from fencepost.config.error_handling import ErrorHandling
from fencepost.connectors.files.content import growing
from fencepost.engine.error_handler import ErrorHandler
from fencepost.engine.routing import Ownership
from fencepost.engine.topic_gate import TopicGate
from fencepost.engine.write_spec import WriteSpec
from fencepost.engine.write_stage import SplitRows, WriteStage, reader_types
from tests.support.checker import read_topic, values
from tests.support.data_path import Trace, listed_modules
from tests.support.engine import json_converter, pipeline, producer
from tests.support.topics import Topics, unique
from tests.unit.connectors.files.test_file_source import config, tasks

_ROWS = 100


def test_the_rows_of_a_file_pass_the_listed_modules_in_order(
    bootstrap_servers: str, topics: Topics, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    # A small file's content would be in its split, and no executor would read the file.
    monkeypatch.setattr(growing, "SMALL_BYTES", 0)
    needle, file, topic = unique("needle"), tmp_path / "rows.csv", topics.create(partitions=3)
    file.write_text("".join(f"{number},{needle}\n" for number in range(_ROWS)))
    (task,) = tasks(config(file, format="csv", schema="id INT, name STRING", topic=topic))
    batch = task.poll()
    assert isinstance(batch, SourceBatch)
    assert batch.reader is not None
    steps = pipeline(topic, value=json_converter())
    with producer(bootstrap_servers) as owner:
        transaction = owner.begin_transaction()
        spec = WriteSpec(
            pipeline=steps, config=owner.config, transaction=transaction, topic_gate=TopicGate(None)
        ).for_executors({topic: 3})
        # This runs the code of a Spark partition in this process, where the calls can be traced.
        stage = WriteStage(spec, rows := SplitRows.of(batch.reader, batch.splits, steps), reader_types(batch.reader))
        trace, errors = Trace(needle), ErrorHandler(ErrorHandling())
        with trace.running(), closing(spec.writer()) as writer:
            report = stage.write(rows.read([0], errors), writer, Ownership(), errors)
        owner.acknowledge(report.acks)
        owner.commit_transaction()
    assert len(values(read_topic(bootstrap_servers, topic))) == _ROWS
    assert trace.in_order() == listed_modules("The rows of a file on an executor")
