"""A Java as most machines have it: without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from fencepost.embedded.java import find_java

_MODULES = "java.se,jdk.unsupported,jdk.net,jdk.zipfs"


def java_runtime(home: Path) -> Path:
    """Make a Java without a compiler, and without the data that compilers need, or return this machine's if it is one."""
    jlink = shutil.which("jlink", path=f"{find_java().home / 'bin'}:{os.environ['PATH']}")
    if jlink is None:
        return find_java().home
    subprocess.run([jlink, "--add-modules", _MODULES, "--output", str(home)], check=True, capture_output=True)
    assert not (home / "bin" / "javac").exists()
    return home
