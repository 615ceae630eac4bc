"""`fencepost transactions`: lists the open transactions of a cluster, and aborts abandoned ones."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import click

from fencepost.api.texts import printable
from fencepost.cli.common.cluster_options import asks_cluster, require_answer
from fencepost.cli.common.exit_codes import exit_codes
from fencepost.cli.common.tables import print_json, print_table, shown_time
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.admin.open_transactions import OpenTransaction
from fencepost.kafka.config.client_config import ClientConfig
from fencepost.kafka.producer.transaction import ProducerIdentity
from fencepost.storage.configs.task_count import leader_transactional_id


@click.group(epilog=exit_codes(failed="refused, not reachable, or no such transaction"))
def transactions() -> None:
    """List the open transactions of a Kafka cluster, and abort an abandoned one."""


@transactions.command("list")
@click.option(
    "--older-than",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    help="Only transactions that have been open for longer.",
)
@click.option(
    "--group", metavar="GROUP_ID", help="Only transactions of this group of workers and of the tasks of its connectors."
)
@asks_cluster
def list_transactions(config: ClientConfig, *, as_json: bool, older_than: float | None, group: str | None) -> None:
    """List open transactions, oldest first."""
    require_answer(config)
    with Admin(config) as admin:
        found = admin.open_transactions()
    now_ms = time.time() * 1000
    if older_than is not None:
        found = [transaction for transaction in found if transaction.started_ms < now_ms - older_than * 1000]
    if group is not None:
        found = [transaction for transaction in found if _is_of_group(transaction.transactional_id, group)]
    if as_json:
        print_json([_as_json(transaction) for transaction in found])
    elif found:
        _print_transactions(found, now_ms)
    else:
        click.echo(printable(_none(older_than, group)))


@transactions.command()
@click.argument("transactional_id", required=False)
@click.option("--topic", metavar="TOPIC", help="For a hanging transaction: a topic that it has written to.")
@click.option("--partition", metavar="NUMBER", type=click.IntRange(min=0), help="The partition of that topic.")
@click.option(
    "--start-offset",
    metavar="OFFSET",
    type=click.IntRange(min=0),
    help="The offset of the transaction's first record in that partition.",
)
@asks_cluster
def abort(
    config: ClientConfig,
    *,
    as_json: bool,
    transactional_id: str | None,
    topic: str | None,
    partition: int | None,
    start_offset: int | None,
) -> None:
    """Abort an open transaction. Its producer is fenced and can write nothing more.

    No coordinator knows of a hanging transaction: abort it in each partition separately, with --topic, --partition and
    --start-offset instead of the transactional id.
    """
    hangs = (topic, partition, start_offset)
    if transactional_id is not None and hangs == (None, None, None):
        _abort_known(config, transactional_id, as_json=as_json)
    elif transactional_id is None and topic is not None and partition is not None and start_offset is not None:
        _abort_hanging(config, topic, partition, start_offset, as_json=as_json)
    else:
        raise click.UsageError("Give a TRANSACTIONAL_ID, or --topic, --partition and --start-offset of a hanging one")


def _abort_known(config: ClientConfig, transactional_id: str, *, as_json: bool) -> None:
    require_answer(config)
    with Admin(config) as admin:
        aborted = admin.abort_transaction(transactional_id)
    if as_json:
        print_json(_as_json(aborted))
    else:
        click.echo(f"Aborted the transaction of {transactional_id} ({_shown(aborted.identity)}).")


def _abort_hanging(config: ClientConfig, topic: str, partition: int, start_offset: int, *, as_json: bool) -> None:
    require_answer(config)
    with Admin(config) as admin:
        identity = admin.abort_hanging_transaction(topic, partition, start_offset)
    if as_json:
        print_json({"topic": topic, "partition": partition, "start_offset": start_offset, **_producer(identity)})
    else:
        click.echo(
            f"Aborted the transaction in {topic}-{partition} from offset {start_offset} on ({_shown(identity)})."
        )


def _none(older_than: float | None, group: str | None) -> str:
    longer = "" if older_than is None else f" for longer than {older_than:g} s"
    whose = "" if group is None else f" of group {group}"
    return f"No transactions{whose} are open{longer}." if longer else f"No open transactions{whose}."


def _is_of_group(transactional_id: str, group: str) -> bool:
    return transactional_id.startswith(f"{group}-") or transactional_id == leader_transactional_id(group)


def _shown(identity: ProducerIdentity) -> str:
    return f"producer id {identity.producer_id}, epoch {identity.epoch}"


def _producer(identity: ProducerIdentity) -> dict[str, int]:
    return {"producer_id": identity.producer_id, "producer_epoch": identity.epoch}


def _as_json(transaction: OpenTransaction) -> dict[str, Any]:
    return {
        "transactional_id": transaction.transactional_id,
        **_producer(transaction.identity),
        "state": transaction.state,
        "coordinator": transaction.coordinator,
        "timeout_ms": transaction.timeout_ms,
        "open_since": transaction.started_ms,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in transaction.partitions],
    }


def _print_transactions(found: Sequence[OpenTransaction], now_ms: float) -> None:
    columns = ("transactional id", "producer", "epoch", "state", "coordinator", "open since", "seconds", "partitions")
    rows = [
        (
            transaction.transactional_id,
            str(transaction.identity.producer_id),
            str(transaction.identity.epoch),
            transaction.state,
            str(transaction.coordinator),
            shown_time(transaction.started_ms),
            f"{(now_ms - transaction.started_ms) / 1000:.0f}",
            ", ".join(f"{topic}-{partition}" for topic, partition in transaction.partitions),
        )
        for transaction in found
    ]
    print_table(columns, rows)
