"""Looks for known vulnerabilities in what is installed, with pip-audit; `make lint` runs it.

pip-audit asks a service on the network about each package and has no database of its own, so it cannot work offline,
from a lock file or otherwise (https://github.com/pypa/pip-audit/issues/698). Where the service is out of reach, or does
not know a package, that is said and no failure: the lint of a machine that only reaches a mirror would fail for ever.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_TIMEOUT_SECONDS = 120


def verdict(report: Mapping[str, Any] | None) -> tuple[int, list[str]]:
    """Return the exit status and what to print for pip-audit's report in JSON, None if there is none."""
    if report is None:
        return 0, [
            "Dependencies were NOT audited: pip-audit did not get an answer. Run make lint on a machine that reaches its service"
        ]
    packages = report["dependencies"]
    vulnerable = [package for package in packages if package.get("vulns")]
    lines = [
        f"{package['name']} {package['version']}: {found['id']}, fixed in {', '.join(found['fix_versions']) or 'no version'}"
        for package in vulnerable
        for found in package["vulns"]
    ]
    skipped = sum("skip_reason" in package for package in packages)
    if skipped:
        lines.append(
            f"{skipped} of {len(packages)} dependencies were NOT audited: pip-audit's service does not know them here"
        )
    if not vulnerable and skipped < len(packages):
        lines.append(f"No known vulnerabilities in {len(packages) - skipped} dependencies")
    return int(bool(vulnerable)), lines


def main() -> int:
    """Audit the environment that this runs in."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "report.json"
        command = [sys.executable, "-m", "pip_audit", "--local", "--skip-editable", "--progress-spinner=off"]
        try:
            subprocess.run(
                [*command, "--format=json", f"--output={output}"],
                capture_output=True, timeout=_TIMEOUT_SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            report = None
        else:
            report = json.loads(output.read_text()) if output.exists() else None
    status, lines = verdict(report)
    print("\n".join(lines))
    return status


if __name__ == "__main__":
    sys.exit(main())
