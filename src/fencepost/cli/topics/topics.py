"""`fencepost topics`: creates the workers' internal topics, for operators who do not let workers create any."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.common.cluster_options import require_answer
from fencepost.cli.common.exit_codes import exit_codes
from fencepost.cli.common.tables import output_option, print_json, print_table

if TYPE_CHECKING:
    from fencepost.config.internal_topics import InternalTopic
    from fencepost.config.worker_config import WorkerConfig
    from fencepost.kafka.config.client_config import ClientConfig

_FILE = click.Path(path_type=Path)


@click.group(epilog=exit_codes(failed="refused, or not reachable"))
def topics() -> None:
    """Create the topics in which workers keep offsets, configurations and states."""


@dataclass(frozen=True, slots=True)
class _Planned:
    """An internal topic, the cluster that it belongs to, and whether it must have one partition."""

    topic: InternalTopic
    cluster: ClientConfig
    alone: bool = False


@topics.command()
@click.argument("worker", metavar="WORKER.properties", type=_FILE)
@click.argument("connectors", metavar="[CONNECTOR.{properties,json}]...", nargs=-1, type=_FILE)
@click.option(
    "--standalone",
    is_flag=True,
    help="The worker's file belongs to a standalone worker, which has default names for its topics.",
)
@click.option("--dry-run", is_flag=True, help="Show the topics and whether they exist; create none.")
@output_option
def create(worker: Path, connectors: tuple[Path, ...], *, standalone: bool, dry_run: bool, output: str) -> None:
    """Create the topics of a worker, and the offsets topics of connectors.

    The files have Kafka Connect's format. Topics that exist are checked and not changed. With
    internal.topics.automatic.creation.enable=false in its file, a worker creates none of them.
    """
    # The dependencies (Arrow, a Kafka client) take a while to import.
    from fencepost.config.config_transformer import resolve_worker_properties  # noqa: PLC0415 - see above
    from fencepost.config.properties import load_properties  # noqa: PLC0415 - see above
    from fencepost.config.worker_config import WorkerConfig, WorkerMode  # noqa: PLC0415 - see above

    mode = WorkerMode.STANDALONE if standalone else WorkerMode.DISTRIBUTED
    properties = resolve_worker_properties(load_properties(worker), where=str(worker))
    config = WorkerConfig.from_properties(properties, where=str(worker), mode=mode)
    planned = [*_of_worker(config), *_of_connectors(config, connectors)]
    for cluster in dict.fromkeys(plan.cluster for plan in planned):
        require_answer(cluster)
    rows = [_carry_out(plan, dry_run=dry_run) for plan in planned]
    if output == "json":
        print_json(rows)
    else:
        columns = ("topic", "partitions", "replicas", "settings", "state")
        print_table(columns, [[_shown(row[column]) for column in columns] for row in rows])


def _of_worker(config: WorkerConfig) -> Iterator[_Planned]:
    from fencepost.runtime.connector.client_properties import admin_config  # noqa: PLC0415 - as in `create`

    for topic in config.internal_topics:
        yield _Planned(topic, admin_config(config, None), alone=topic is config.config_storage)


def _of_connectors(config: WorkerConfig, paths: Sequence[Path]) -> Iterator[_Planned]:
    """Return the offsets topics that connectors name, or need because they have their own brokers."""
    from fencepost.config.config_transformer import ConfigTransformer  # noqa: PLC0415 - as in `create`
    from fencepost.config.connector_config import ConnectorConfig  # noqa: PLC0415 - as in `create`
    from fencepost.config.properties import load_connector_config  # noqa: PLC0415 - as in `create`
    from fencepost.runtime.connector.client_properties import admin_config  # noqa: PLC0415 - as in `create`

    transformer = ConfigTransformer.from_properties(config.properties, where=config.where)
    for path in paths:
        transformed = transformer.transform(load_connector_config(path))
        transformed.required(where=str(path))
        connector = ConnectorConfig.from_transformed(transformed)
        name = connector.offsets_storage_topic or config.offset_storage.name
        yield _Planned(replace(config.offset_storage, name=name), admin_config(config, connector))


def _carry_out(plan: _Planned, *, dry_run: bool) -> dict[str, Any]:
    """Create or check a topic, and return the line to show."""
    from fencepost.kafka.admin.admin import Admin  # noqa: PLC0415 - as in `create`
    from fencepost.storage.configs.topic import check_partitions  # noqa: PLC0415 - as in `create`

    topic = plan.topic
    with Admin(plan.cluster) as admin:
        replicas = admin.usual_replication_factor() if topic.replication_factor is None else topic.replication_factor
        exists = admin.exists_compacted(topic.name)
        if exists and plan.alone and (found := admin.describe_topic(topic.name)) is not None:
            check_partitions(topic.name, found.partitions)
        if not exists and not dry_run:
            admin.ensure_compacted_topic(replace(topic, replication_factor=replicas, created=True))
    return {
        "topic": topic.name,
        "partitions": topic.partitions,
        "replicas": replicas,
        "settings": dict(topic.settings),
        "state": "exists" if exists else "missing" if dry_run else "created",
    }


def _shown(cell: Any) -> str:
    return ", ".join(f"{name}={value}" for name, value in cell.items()) if isinstance(cell, dict) else str(cell)
