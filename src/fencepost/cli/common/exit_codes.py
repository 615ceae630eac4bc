"""The exit codes of all commands.

WRONG_USAGE means that the command line, a file that it names, or the installation must be corrected first: click's
UsageError, ConfigError, and the errors of `embedded` about its port, folder and programs. FAILED means that the
requested action was tried and failed, or that its outcome is bad.
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit codes of the `fencepost` command."""

    DONE = 0
    FAILED = 1
    WRONG_USAGE = 2
    CONNECTOR_FAILED = 3
    """`connectors show` and `connectors watch --until` only: a connector or a task is FAILED."""
    INTERRUPTED = 130
    """128 plus the number of SIGINT, as in shells."""


def exit_codes(*, done: str = "done", failed: str, connector_failed: str | None = None) -> str:
    """Return the paragraph on exit codes for the end of a command's help."""
    lines = [
        f"{ExitCode.DONE}  {done}",
        f"{ExitCode.FAILED}  {failed}",
        f"{ExitCode.WRONG_USAGE}  wrong usage or configuration",
    ]
    if connector_failed is not None:
        lines.append(f"{ExitCode.CONNECTOR_FAILED}  {connector_failed}")
    # Click keeps the line breaks of a paragraph that begins with \b.
    return "\n".join(["\b", "Exit codes:", *(f"  {line}" for line in lines)])
