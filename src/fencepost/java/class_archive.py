"""The archive of classes that JVMs of connectors start with: they need not read and check them again.

It works for the build of Java and the class path that wrote it, and Java goes without one that it cannot use.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from fencepost.embedded.jars import cache_folder
from fencepost.embedded.java import Java

_QUIET: Final = ("-Xlog:cds=off", "-Xlog:cds+dynamic=off")
"""Java warns of each class that it leaves out, and of an archive that it cannot use."""
_OF_ARCHIVES: Final = (
    "-Xshare:",
    "-XX:SharedArchiveFile=",
    "-XX:ArchiveClassesAtExit=",
    "-XX:+AutoCreateSharedArchive",
)


class ClassArchive:
    """The archive for a build of Java and a class path."""

    def __init__(self, java: Java, jars: Sequence[Path]) -> None:
        """It need not be there yet."""
        stamps = [f"{jar} {jar.stat().st_mtime_ns}" for jar in jars]
        digest = hashlib.sha256("\n".join([java.build, *stamps]).encode()).hexdigest()[:12]
        self.file: Final = cache_folder() / f"java-classes-{digest}.jsa"

    def reading(self) -> tuple[str, ...]:
        """Return the options of java to start with it, none without it."""
        return (f"-XX:SharedArchiveFile={self.file}", *_QUIET) if self.file.exists() else ()

    def writing(self, new: Path) -> tuple[str, ...]:
        """Return the options of java to write it to another file when the JVM ends, for `keep`."""
        return (f"-XX:ArchiveClassesAtExit={new}", *_QUIET)

    def keep(self, new: Path) -> None:
        """Move what a JVM wrote, if it did, to its place."""
        if new.exists():
            # Another process may read the folder at the same time: the archive appears there complete.
            staged = self.file.with_suffix(f".{os.getpid()}")
            staged.write_bytes(new.read_bytes())
            staged.replace(self.file)
            new.unlink()


def chooses_archive(options: Iterable[str]) -> bool:
    """Whether the owner's options of java are about archives of classes."""
    return any(option.startswith(_OF_ARCHIVES) for option in options)
