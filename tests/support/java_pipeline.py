"""Functions for tests of Java connectors' pipelines: chains of transforms, and their results."""

from __future__ import annotations

from tests.support.checker import read_topic, values
from tests.support.java_plugins import ODD
from tests.support.workers import Worker

TRANSFORMS = "org.apache.kafka.connect.transforms."
LONGS = "org.apache.kafka.connect.converters.LongConverter"


def transforms(*types: str, **properties: str) -> dict[str, str]:
    """A chain of transforms with the aliases a, b and so on; `a_x` is the property x of a."""
    aliases = "abcdef"[: len(types)]
    chain = {f"transforms.{alias}.type": name for alias, name in zip(aliases, types, strict=True)}
    given = {f"transforms.{name.replace('_', '.')}": value for name, value in properties.items()}
    return {"transforms": ",".join(aliases), **chain, **given}


def odd(how: str, every: int = 2) -> dict[str, str]:
    """The transform Odd, for records whose number is a multiple of `every`."""
    return {"value.converter": LONGS, **transforms(ODD, a_how=how, a_every=str(every))}


def numbers(bootstrap_servers: str, topic: str) -> list[int]:
    return [int.from_bytes(value or b"") for value in values(read_topic(bootstrap_servers, topic))]


def metrics(worker: Worker, name: str) -> dict[str, float]:
    """The metrics of a connector's task, without the prefix kafka_connect_."""
    found = {}
    for line in worker.text("/metrics").splitlines():
        if f'connector="{name}"' in line:
            metric, _, value = line.rpartition(" ")
            found[metric.partition("{")[0].removeprefix("kafka_connect_")] = float(value)
    return found
