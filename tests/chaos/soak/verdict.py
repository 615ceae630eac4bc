"""The state of the group after the storm, and the check of its topics."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path

from fencepost.cli.verify.record_fields import RecordField
from fencepost.cli.verify.verify import Asked, examine
from fencepost.cli.verify.verify_report import VerifyReport
from fencepost.kafka.config.client_config import ClientConfig
from tests.chaos.soak.cluster import Cluster, ask_until_done
from tests.chaos.soak.sources import OF_LINES
from tests.chaos.soak.storm import HOSTILE, Tell
from tests.support.checker import read_offsets
from tests.support.processes import wait_for
from tests.support.workers import Worker

# Long, because the group just had faults and the machine is busy.
_SETTLED_SECONDS = 300.0


def settle(cluster: Cluster, configs: Mapping[str, dict[str, str]], tell: Tell) -> list[str]:
    """Wait until all connectors run again with their first configuration; return the errors.

    Nothing is restarted: a FAILED connector or task is an error of the group, reported with its trace.
    """
    for slot in cluster.slots:
        slot.wait_until_healthy()
    worker = cluster.slots[0].worker
    _delete_hostile_connectors(cluster)
    faults = [fault for name in configs for fault in _failures(worker, name)]
    for name, config in configs.items():
        ask_until_done(cluster, "PUT", f"/connectors/{name}/config", config)
        ask_until_done(cluster, "PUT", f"/connectors/{name}/resume")
    for name, config in configs.items():
        _wait_until_settled(worker, name, int(config["tasks.max"]))
        faults += _failures(worker, name)
    if not faults:
        for name in configs:
            _wait_for_progress(worker, name)
            tell(f"{name} is at work")
    return list(dict.fromkeys(faults))


def _wait_until_settled(worker: Worker, name: str, tasks: int) -> None:
    def settled() -> bool:
        states = worker.states(name)
        return len(states) == tasks + 1 and all(state in ("RUNNING", "FAILED") for state in states)

    wait_for(settled, _SETTLED_SECONDS, what=f"{name} is at work with {tasks} task(s)")


def _delete_hostile_connectors(cluster: Cluster) -> None:
    """Delete hostile connectors that are left because the storm delayed their creation or deletion."""
    worker = cluster.slots[0].worker

    def gone() -> bool:
        names = worker.get("/connectors")
        hostile = [name for name in names or () if name.startswith(HOSTILE)]
        for name in hostile:
            worker.request("DELETE", f"/connectors/{name}")
        return names is not None and not hostile

    wait_for(gone, _SETTLED_SECONDS, what="the hostile connectors are deleted")


def _failures(worker: Worker, name: str) -> list[str]:
    status = worker.get(f"/connectors/{name}/status")
    parts = [status["connector"], *status["tasks"]]
    return [f"{name} {part.get('id', '')}: {part.get('trace')}" for part in parts if part["state"] == "FAILED"]


def _wait_for_progress(worker: Worker, name: str) -> None:
    """Wait until a committed offset of the connector changes."""
    if name in OF_LINES:
        return
    before = worker.get(f"/connectors/{name}/offsets")
    wait_for(lambda: worker.get(f"/connectors/{name}/offsets") != before, what=f"{name} commits")


def judge(cluster: Cluster, configs: Mapping[str, dict[str, str]], lines: Path) -> dict[str, VerifyReport]:
    """Stop all connectors and verify their topics."""
    size = lines.stat().st_size
    offsets = {name: config.get("offsets.storage.topic", cluster.offsets_topic) for name, config in configs.items()}
    for name in configs.keys() & set(OF_LINES):
        wait_for(lambda: _position(cluster, name) == size, what=f"{name} has read all lines")  # noqa: B023 - it is called at once
    stop(cluster, configs)
    client = ClientConfig.from_properties({"bootstrap.servers": cluster.bootstrap_servers}, where="the soak")
    return {name: examine(client, name, _asked(name, offsets[name])) for name in configs}


def stop(cluster: Cluster, names: Collection[str]) -> None:
    """Stop connectors, and wait until they are STOPPED."""
    for name in names:
        ask_until_done(cluster, "PUT", f"/connectors/{name}/stop")
    for name in names:
        cluster.slots[0].worker.wait_for_states(name, "STOPPED")


def _position(cluster: Cluster, name: str) -> int | None:
    found = read_offsets(cluster.bootstrap_servers, cluster.offsets_topic, name)
    return next((offset["position"] for _, offset in found if offset), None)


def _asked(name: str, offsets_topic: str) -> Asked:
    # A line's offset is its end position in the file, not its number.
    numbered = name not in OF_LINES
    return Asked(
        sequence=RecordField("value", ("seq",)),
        source_partition=RecordField("value", ("task",)),
        first=1,
        connector=name if numbered else None,
        offsets_topic=offsets_topic if numbered else None,
        source=None,
        null_value=None,
        delimiter=None,
        dead_letter_topic=None,
        expect_count=None,
    )
