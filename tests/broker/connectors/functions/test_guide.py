"""Every snippet of docs/guide is run, together with the tests that the pages show."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[4] / "docs" / "guide"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NAMED = re.compile(r"# (\S+\.(?:py|properties))\n")
# Blocks of output, and excerpts of other files: neither is run.
_SHOWN = {"text", "toml", "sql"}


def _snippets() -> list[tuple[str, str]]:
    return [
        (language, code) for page in sorted(GUIDE.glob("*.md")) for language, code in _BLOCK.findall(page.read_text())
    ]


@pytest.fixture
def written(tmp_path: Path) -> Path:
    """The files of all pages in one directory."""
    for language, code in _snippets():
        named = _NAMED.match(code)
        if language in ("python", "properties"):
            assert named is not None, f"the snippet has no '# file' in its first line: {code}"
            file = tmp_path / named[1]
            assert not file.exists(), file
            file.write_text(code)
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    return tmp_path


def _run(command: list[str], folder: Path) -> str:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")} | {"PATH": path}
    ran = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout


def test_the_snippets_and_their_tests_run(written: Path, bootstrap_servers: str) -> None:
    options = ["-q", "-p", "no:cacheprovider", "-p", "no:randomly", "--fencepost-bootstrap-servers", bootstrap_servers]
    told = _run([sys.executable, "-m", "pytest", *options], written)

    assert " passed" in told
    assert " skipped" not in told


def test_the_commands_of_the_guide_run(written: Path) -> None:
    commands = [code for language, code in _snippets() if language == "sh"]

    assert commands
    for command in commands:
        _run(["bash", "-euo", "pipefail", "-c", command], written)


def test_each_snippet_is_of_a_kind_that_is_run() -> None:
    assert {language for language, _ in _snippets()} <= {"python", "properties", "sh", *_SHOWN}


def test_the_links_between_the_pages_lead_somewhere() -> None:
    for page in GUIDE.glob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
