"""The definition of a guard, and the code that has guards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fencepost"


@dataclass(frozen=True)
class Guard:
    """A piece of code that exactly-once delivery depends on, its replacement, and a test that must fail without it.

    `file` is below `src/fencepost`, and `test` is the test's id in pytest.
    """

    name: str
    file: str
    code: str
    without: str
    test: str

    @property
    def occurrences(self) -> int:
        """The number of times that the guard's code is in its file; it must be once."""
        file = PACKAGE / self.file
        return file.read_text().count(self.code) if file.exists() else 0

    def mutated(self) -> str:
        """The file's text with the guard replaced."""
        return (PACKAGE / self.file).read_text().replace(self.code, self.without)
