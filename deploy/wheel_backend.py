"""Builds the package, by hatchling, with the jar of the host of Java connectors in the wheel.

The jar is compiled by the package itself, which fetches what it needs for that: so an isolated build of a wheel has what
the package depends on, and a JVM if the machine has none. An editable installation has no jar: it compiles the sources
whenever they have changed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from hatchling import build as hatchling
from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

_ROOT = Path(__file__).parents[1]


def get_requires_for_build_wheel(config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return hatchling's requirements and the package's own, which compile the jar."""
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text())["project"]
    has_java = "JAVA_HOME" in os.environ or shutil.which("java") is not None
    more = [] if has_java else project["optional-dependencies"]["jvm"]
    return [*hatchling.get_requires_for_build_wheel(config_settings), *project["dependencies"], *more]


class HostJarHook(BuildHookInterface[Any]):
    """Compiles the jar for a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile the jar beside the wheel, unless the installation is editable."""
        if version == "editable":
            return
        jar = Path(self.directory) / "host.jar"
        jar.parent.mkdir(parents=True, exist_ok=True)
        # pip has what the build requires in PYTHONPATH.
        paths = [str(_ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        subprocess.run([sys.executable, "-m", "fencepost.java.host_jar", str(jar)], env=environment, check=True)
        build_data["force_include"][str(jar)] = "fencepost/java/host.jar"

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the jar, which is in the wheel."""
        del version, build_data, artifact_path
        (Path(self.directory) / "host.jar").unlink(missing_ok=True)
