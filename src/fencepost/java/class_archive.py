"""The archive of classes that JVMs of connectors start with: they need not read and check them again.

It works for the build of Java and the class path that wrote it, and Java goes without one that it cannot use.
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
"""Java warns of each class that it leaves out, and of an archive that it cannot use."""
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
        """It need not be there yet."""
        found = [(jar, jar.stat()) for jar in jars]
        stamps = [f"{jar} {stat.st_mtime_ns} {stat.st_size}" for jar, stat in found]
        digest = hashlib.sha256("\n".join([java.build, *stamps]).encode()).hexdigest()[:12]
        self.file: Final = cache_folder() / f"java-classes-{digest}.jsa"
        # Without an archive of its own, which jlink leaves out, Java does not start with the options for one of ours.
        self._is_possible: Final = (java.home / "lib" / "server" / "classes.jsa").exists()

    def reading(self) -> tuple[str, ...]:
        """Return the options of java to start with it, none without it.

        With a file that it cannot read, Java would go without its own archive, too.
        """
        return (
            (f"-XX:SharedArchiveFile={self.file}", *_QUIET)
            if self._is_possible and os.access(self.file, os.R_OK)
            else ()
        )

    def drop_if_refused(self, pid: int) -> None:
        """Remove it if a JVM that was to start with it goes without, so that the next one for questions writes it again."""
        # By its name, as its folder may have another one there.
        with suppress(OSError):
            if self.file.name not in Path(f"/proc/{pid}/maps").read_text():
                _log.info("The archive of Java classes %s is removed: Java %d cannot use it", self.file, pid)
                self.file.unlink()

    def writing(self, new: Path) -> tuple[str, ...]:
        """Return the options of java to write it to another file when the JVM ends, for `keep`; none if it cannot."""
        return (f"-XX:ArchiveClassesAtExit={new}", *_QUIET) if self._is_possible else ()

    def keep(self, new: Path) -> None:
        """Move what a JVM wrote, if it did, to its place, where it appears complete."""
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
    """Whether options of java, from the owner or the environment, are about archives of classes."""
    environment = " ".join(os.environ.get(name, "") for name in _VARIABLES).split()
    return any(option.startswith(_OF_ARCHIVES) for option in (*options, *environment))
