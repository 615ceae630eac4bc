"""Describes how to install the packages of an extra.

The command installs the packages by their own names, not by the name of the extra. So it is right whether fencepost was
installed from a clone or from a wheel.
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, requires
from shlex import quote
from typing import Final

from packaging.requirements import Requirement

_DISTRIBUTION: Final = "fencepost"


def how_to_install(extra: str) -> str:
    """Return the command that installs an extra's packages: `pip install 'textual>=8' (the extra top of fencepost)`."""
    packages = " ".join(quote(package) for package in _packages(extra))
    named = f"the extra {extra} of {_DISTRIBUTION}"
    return f"pip install {packages} ({named})" if packages else f"install {named}"


def _packages(extra: str) -> list[str]:
    try:
        declared = [Requirement(text) for text in requires(_DISTRIBUTION) or ()]
    except PackageNotFoundError:
        # The modules of fencepost were copied without the package's metadata, for example to executors.
        return []
    return [
        f"{requirement.name}{_options(requirement)}{requirement.specifier}"
        for requirement in declared
        if requirement.marker is not None
        and requirement.marker.evaluate({"extra": extra})
        and not requirement.marker.evaluate({"extra": ""})
    ]


def _options(requirement: Requirement) -> str:
    return f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
