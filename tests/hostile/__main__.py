"""`python -m tests.hostile --minutes 10 --seed 7`: everything at once, on brokers of each kind.

For each transaction version, with and without verification, a worker with good connectors runs on a broker, and a seed
decides what is done beside them: hostile connectors, several at a time; topics that are changed; nonsense that is
written; workers that are ruined from within, killed and started again. Then `fencepost verify` judges the good ones.
"""

from __future__ import annotations

import argparse
import random
import secrets
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.hostile import cases, strangers
from tests.hostile.brokers import Kafka, running_broker
from tests.hostile.site import Site, running_site
from tests.hostile.trials import Case, delivers, ends_and_comes_back, run

_GIGABYTE = 1000
_TOGETHER = 8
_MATRIX = [(version, verification) for version in (2, 1) for verification in ("true", "false")]


@dataclass
class Storm:
    """Does one action after the other to a site, and collects the failures."""

    site: Site
    chance: random.Random
    folder: Path
    done: int = 0

    def step(self) -> dict[str, str]:
        """Do one action; return the broken promises of the action and of the good connectors."""
        doing = self.chance.choices((self.connectors, self.ruin, self.topics, self.kill), (6, 3, 2, 2))[0]
        self.done += 1
        wrong = doing()
        self.site.worker.revive()
        try:
            self.site.check()
        except AssertionError as error:
            wrong["the good ones"] = str(error)
        return wrong

    def connectors(self) -> dict[str, str]:
        """Run some hostile connectors at once."""
        everything = cases.harmless(self._fresh_folder())
        everything["a gigabyte"] = Case({"connector.class": "returning.Big", "mb": str(_GIGABYTE)}, delivers)
        chosen = self.chance.sample(sorted(everything), _TOGETHER)
        _say(f"  {', '.join(chosen)}")
        return run(self.site, {name: everything[name] for name in chosen})

    def ruin(self) -> dict[str, str]:
        """Run a connector that ends the process or makes it useless."""
        way = self.chance.choice(cases.WILD)
        _say(f"  {way}")
        wrong = ends_and_comes_back(self.site, way, cases.meddling([way], self._fresh_folder(), delivers)[way])
        return {way: wrong} if wrong else {}

    def topics(self) -> dict[str, str]:
        """Write nonsense to the worker's topics, abort false offsets, and add partitions."""
        kafka = self.site.kafka
        for name, config in self.site.goods.items():
            tasks = int(config["tasks.max"])
            strangers.write_nonsense(kafka, self.site.topics, connector=name, tasks=tasks)
            strangers.write_aborted_lies(kafka, self.site.topics["offsets"], connector=name, tasks=tasks)
        grown = self.chance.choice([self.site.topics["offsets"], self.site.topics["status"], *self.site.goods])
        kafka.grow(grown, kafka.partitions(grown) + 1)
        _say(f"  nonsense, and one partition more for {grown}")
        return {}

    def kill(self) -> dict[str, str]:
        """Kill the worker with SIGKILL and start it again, or stop it gracefully."""
        if self.chance.random() < 0.5:
            _say("  the worker is killed")
            self.site.worker.process.end()
        else:
            _say("  the worker is restarted")
            self.site.worker.restart()
        return {}

    def _fresh_folder(self) -> Path:
        folder = self.folder / f"once-{self.done}"
        folder.mkdir()
        return folder


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10, help="how long, all kinds of brokers together (10)")
    parser.add_argument("--seed", type=int, default=None, help="what is done; else chance")
    options = parser.parse_args()
    seed = secrets.randbelow(1_000_000) if options.seed is None else options.seed
    folder = Path(tempfile.mkdtemp(prefix="fencepost-hostile-"))
    _say(f"Seed {seed}, {options.minutes:g} minutes, logs in {folder}")
    faults: list[str] = []
    with running_broker(folder / "broker") as kafka:
        for version, verification in _MATRIX:
            kafka.set_broker(transaction_partition_verification_enable=verification)
            kafka.set_transaction_version(version)
            title = f"transaction version {version}, verification {verification}"
            _say(f"On {title}")
            chance = random.Random(f"{seed} {title}")
            own = folder / f"version-{version}-verification-{verification}"
            faults += [f"{title}: {fault}" for fault in _shake(kafka, chance, own, options.minutes * 60 / len(_MATRIX))]
    if not faults:
        shutil.rmtree(folder)
        _say(f"All as promised. Seed {seed}")
        return 0
    for fault in faults:
        _say(f"Fault: {fault}")
    _say(f"NOT as promised: the logs are in {folder}. To do the same again:")
    _say(f"  make hostile MINUTES={options.minutes:g} SEED={seed}")
    return 1


def _shake(kafka: Kafka, chance: random.Random, folder: Path, seconds: float) -> list[str]:
    """Do actions to one site for a while; return the broken promises."""
    faults = []
    try:
        with running_site(kafka, folder) as site:
            storm = Storm(site, chance, folder)
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                faults += [f"step {storm.done}, {name}: {text}" for name, text in storm.step().items()]
    except AssertionError as error:
        faults.append(str(error))
    return faults


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
