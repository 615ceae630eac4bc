"""Writes constraints.txt: the packages that a worker needs, in the versions of this environment.

python deploy/pins.py, in the environment of `make install`.
"""

from __future__ import annotations

from importlib.metadata import Distribution, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

FILE = Path(__file__).with_name("constraints.txt")


def pins() -> list[str]:
    """Return `name==version` of each distribution that fencepost needs without an extra."""
    found: dict[str, Distribution] = {}
    waiting = [("fencepost", "")]
    while waiting:
        needing, extra = waiting.pop()
        for requirement in map(Requirement, distribution(needing).requires or ()):
            name = canonicalize_name(requirement.name)
            if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": extra})):
                found[name] = distribution(name)
                waiting += [(name, each) for each in (requirement.extras or {""})]
    return sorted(f"{name}=={package.version}" for name, package in found.items())


if __name__ == "__main__":
    FILE.write_text("\n".join(pins()) + "\n", encoding="utf-8")
