"""Checks what `make dist` built, before a maintainer uploads it.

python deploy/check_dist.py dist
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
JAR = "fencepost/java/host.jar"
HOST = "fencepost/host/Host.class"
# The jar has 69 kB. A library that was compiled into it by mistake would have more than the rest of this.
JAR_BYTES = 100_000
PACKAGES = ("fencepost", "pyspark_fencepost")


def version() -> str:
    """Return the version in the one place that has it."""
    text = (ROOT / "src" / "fencepost" / "version.py").read_text()
    found = re.search(r'__version__.* = "(.+)"', text)
    if found is None:
        raise SystemExit("src/fencepost/version.py has no version")
    return found[1]


def complaints(folder: Path) -> list[str]:
    """Return what is wrong with the files to upload."""
    named = version()
    wheel, source = folder / f"fencepost-{named}-py3-none-any.whl", folder / f"fencepost-{named}.tar.gz"
    wanted = {wheel, source}
    found = {*folder.glob("*.whl"), *folder.glob("*.tar.gz")}
    wrong = [f"{path.name} is missing" for path in sorted(wanted - found)]
    wrong += [f"{path.name} is not of version {named}: remove it" for path in sorted(found - wanted)]
    if not re.search(
        rf"^## {re.escape(named)} - \d{{4}}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE
    ):
        wrong.append(f"CHANGELOG.md has no section of {named} with its date")
    if wheel in found:
        wrong += [f"{wheel.name} {problem}" for problem in _of_wheel(wheel, named)]
    return wrong


def _of_wheel(wheel: Path, named: str) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        wrong = [f"lacks {name}" for name in sorted(_sources() - names)]
        wrong += [
            f"has {name}, whose classes are in {JAR}"
            for name in sorted(names)
            if name.startswith("fencepost/java/") and name.endswith(".java")
        ]
        metadata = f"fencepost-{named}.dist-info/METADATA"
        if metadata not in names or f"\nVersion: {named}\n" not in archive.read(metadata).decode():
            wrong.append(f"does not say that it is version {named}")
        if JAR not in names:
            return [*wrong, f"lacks {JAR}: no Java connector would start where there is no compiler"]
        content = archive.read(JAR)
        if len(content) > JAR_BYTES:
            wrong.append(
                f"has a {JAR} of {len(content):,} bytes, more than {JAR_BYTES:,}: look what is in it, or raise JAR_BYTES "
                "and say why in docs/decisions/0041-java-connectors-run-in-a-jvm-of-their-own.md"
            )
        with zipfile.ZipFile(io.BytesIO(content)) as jar:
            wrong += [] if HOST in jar.namelist() else [f"has a {JAR} without {HOST}"]
    return wrong


def _sources() -> set[str]:
    """Return the files of the packages, but for the sources of the jar."""
    files = (path for package in PACKAGES for path in (ROOT / "src" / package).rglob("*") if path.is_file())
    names = {path.relative_to(ROOT / "src").as_posix() for path in files if "__pycache__" not in path.parts}
    return {name for name in names if not name.startswith("fencepost/java/host/") and name != JAR}


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Name the folder that `make dist` wrote: python deploy/check_dist.py dist")
    found = complaints(Path(sys.argv[1]))
    told = "\n".join(found) or f"fencepost {version()} is complete. Next: twine check --strict"
    sys.stdout.write(f"{told}\n")
    sys.exit(bool(found))
