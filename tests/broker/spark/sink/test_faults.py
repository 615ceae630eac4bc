"""A query whose processes or connections are lost, that a newer instance replaces, or that is stopped."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pyarrow as pa
import pytest

from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.spark import exactly_once
from fencepost.spark.config.progress import SinkKey
from fencepost.spark.config.sink_config import SinkConfig
from fencepost.spark.sink.sink import Sink
from tests.support.fault_proxy import Act, ApiKey, FaultProxy
from tests.support.processes import wait_for
from tests.support.spark_queries import FileQuery, texts

PATIENCE = 400.0


def test_a_batch_whose_python_worker_was_killed_is_written_once(query: FileQuery, name: str, bootstrap_servers: str):
    marker = str(query.folder / "killed")

    def kill_once(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield batch
            if "1" in batch["value"].to_pylist() and not os.path.exists(marker):  # noqa: PTH110 - pickled by value
                with open(marker, "w"):  # noqa: PTH123 - likewise
                    os.kill(os.getpid(), signal.SIGKILL)

    query.shape = lambda frame: frame.mapInArrow(kill_once, "value STRING")
    query.run()
    assert os.path.exists(marker)  # noqa: PTH110 - as above
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]


@pytest.mark.parametrize("lost", ["PRODUCE request", "PRODUCE answer", "END_TXN request", "END_TXN answer"])
def test_a_connection_that_is_cut_costs_no_row(
    query: FileQuery, name: str, bootstrap_servers: str, fault_proxy: FaultProxy, lost: str
):
    query.function = exactly_once(topic=name, name=name, **{"bootstrap.servers": fault_proxy.address})
    request, direction = lost.split()
    cut = fault_proxy.on_request if direction == "request" else fault_proxy.on_response
    trap = cut(ApiKey[request], Act.RESET)
    query.add("3")
    query.run()
    assert trap.sprung
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]


def test_a_newer_instance_fences_the_older(query: FileQuery, name: str, bootstrap_servers: str):
    running = query.start(available_now=False)
    wait_for(lambda: texts(bootstrap_servers, name) == ["0", "1", "2"], PATIENCE)
    config = SinkConfig.from_options({"bootstrap.servers": bootstrap_servers, "topic": name})
    newer = Sink(config, SinkKey(name))
    newer.own()
    query.add("3")
    wait_for(lambda: not running.isActive, PATIENCE)
    assert f"The sink {name} was taken over by another query" in str(running.exception())
    assert newer.last is not None
    assert newer.last.batch == 0
    newer.close()
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2", "3"]


def test_a_query_that_is_stopped_in_a_batch_leaves_nothing_open(query: FileQuery, name: str, bootstrap_servers: str):
    marker = query.folder / "running"

    def hang(batches: Iterator[pa.RecordBatch], marker: str = str(marker)) -> Iterator[pa.RecordBatch]:
        import os.path  # noqa: PLC0415 - pickled by value
        import time  # noqa: PLC0415

        for batch in batches:
            yield batch
            with open(marker, "w"):  # noqa: PTH123
                pass
            while not os.path.exists(f"{marker}-end"):  # noqa: PTH110
                time.sleep(0.05)

    query.shape = lambda frame: frame.mapInArrow(hang, "value STRING")
    running = query.start(available_now=False)
    wait_for(marker.exists, PATIENCE)
    running.stop()
    assert running.exception() is None
    (query.folder / "running-end").touch()
    with Admin(ClientConfig(tuple(bootstrap_servers.split(",")))) as admin:
        assert not [found for found in admin.open_transactions() if name in str(found.transactional_id)]
    assert texts(bootstrap_servers, name) == []
    query.run()
    assert texts(bootstrap_servers, name) == ["0", "1", "2"]
