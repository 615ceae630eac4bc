"""The archive of classes with which JVMs of connectors start, so that they need not read and check these classes again.

An archive only works for the build of Java and the class path that wrote it. Java ignores an archive that it cannot
use.
"""

from __future__ import annotations

import hashlib
import logging
import os
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from fencepost.embedded.jars import cache_folder
from fencepost.embedded.java import Java

_log: Final = logging.getLogger(__name__)

_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Options against warnings: Java warns of each class that it leaves out, and of an archive that it cannot use."""
_OF_ARCHIVES: Final = (
    "-Xshare:",
    "-XX:SharedArchiveFile=",
    "-XX:ArchiveClassesAtExit=",
    "-XX:+AutoCreateSharedArchive",
)
_VARIABLES: Final = "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS"


class ClassArchive:
    """The archive for a build of Java and a class path."""

    def __init__(self, java: Java, jars: Sequence[Path]) -> None:
        """The archive's file need not exist yet."""
        found = [(jar, jar.stat()) for jar in jars]
        stamps = [f"{jar} {stat.st_mtime_ns} {stat.st_size}" for jar, stat in found]
        digest = hashlib.sha256("\n".join([java.build, *stamps]).encode()).hexdigest()[:12]
        self.file: Final = cache_folder() / f"java-classes-{digest}.jsa"
        # Java does not start with the options for this archive if its own archive is missing, as in runtimes made by
        # jlink.
        self._is_possible: Final = (java.home / "lib" / "server" / "classes.jsa").exists()

    def reading(self) -> tuple[str, ...]:
        """Return the options of java to start with the archive; none if there is no archive.

        If the options named a file that Java cannot read, Java would not even use its own archive.
        """
        return (
            (f"-XX:SharedArchiveFile={self.file}", *_QUIET)
            if self._is_possible and os.access(self.file, os.R_OK)
            else ()
        )

    def drop_if_refused(self, pid: int) -> None:
        """Remove the archive if a JVM that was started with it does not use it.

        The next JVM for questions then writes a new archive.
        """
        # The file is found by its name, because the JVM may see its folder under another path.
        with suppress(OSError):
            if self.file.name not in Path(f"/proc/{pid}/maps").read_text():
                _log.info("The archive of Java classes %s is removed: Java %d cannot use it", self.file, pid)
                self.file.unlink()

    def writing(self, new: Path) -> tuple[str, ...]:
        """Return the options of java to write an archive to `new` when the JVM ends.

        `keep` then moves this file to its place. Return no options if this Java cannot write an archive.
        """
        return (f"-XX:ArchiveClassesAtExit={new}", *_QUIET) if self._is_possible else ()

    def keep(self, new: Path) -> None:
        """Move the file that a JVM wrote to the archive's place. Do nothing if no JVM wrote it.

        At the archive's place, the file appears only when it is complete.
        """
        staged = None
        try:
            if new.exists():
                with tempfile.NamedTemporaryFile(dir=self.file.parent, suffix=".new", delete=False) as file:
                    staged = Path(file.name)
                    file.write(new.read_bytes())
                staged.replace(self.file)
        except OSError as error:
            _log.warning("Cannot keep an archive of Java classes in %s: %s", self.file.parent, error)
            if staged is not None:
                staged.unlink(missing_ok=True)
        finally:
            new.unlink(missing_ok=True)


def chooses_archive(options: Iterable[str]) -> bool:
    """Whether options of java, set by the owner or in the environment, are about archives of classes."""
    environment = " ".join(os.environ.get(name, "") for name in _VARIABLES).split()
    return any(option.startswith(_OF_ARCHIVES) for option in (*options, *environment))
