"""Seconds that a fencing round takes, by the number of transactional ids, on a broker of its own.

Ids that the cluster has never seen are timed once, then the same ids again in each round.

Run: .venv/bin/python bench/fencing.py [--broker HOST:PORT] [--rounds N]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fencepost.embedded.broker import EmbeddedBroker
from fencepost.kafka.admin.admin import Admin
from fencepost.kafka.config.client_config import ClientConfig

COUNTS = (1, 3, 20, 100, 500, 1000)
ROUNDS = 7


@contextmanager
def bootstrap_servers(given: str | None) -> Iterator[str]:
    if given is not None:
        yield given
        return
    with tempfile.TemporaryDirectory() as folder, EmbeddedBroker(Path(folder)) as broker:
        yield broker.bootstrap_servers


def seconds(admin: Admin, ids: list[str]) -> float:
    start = time.perf_counter()
    admin.fence_producers(ids).all()
    return time.perf_counter() - start


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--broker")
    arguments.add_argument("--rounds", type=int, default=ROUNDS)
    options = arguments.parse_args()
    with (
        bootstrap_servers(options.broker) as servers,
        Admin(ClientConfig(bootstrap_servers=(servers,))) as admin,
    ):
        # The first use creates the transaction log.
        seconds(admin, [f"bench-{uuid.uuid4()}"])
        print(f"{'ids':>5} {'new ids, s':>11} {'median, s':>10} {'lowest':>8} {'highest':>8}")
        for count in COUNTS:
            ids = [f"bench-{uuid.uuid4()}" for _ in range(count)]
            first = seconds(admin, ids)
            later = sorted(seconds(admin, ids) for _ in range(options.rounds))
            print(f"{count:>5} {first:>11.4f} {statistics.median(later):>10.4f} {later[0]:>8.4f} {later[-1]:>8.4f}")


if __name__ == "__main__":
    main()
