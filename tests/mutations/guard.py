"""What a guard is, and the code that guards stand in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src" / "fencepost"


@dataclass(frozen=True)
class Guard:
    """A piece of code that exactly-once stands on, what is left without it, and a test that must notice.

    `file` is below `src/fencepost`, and `test` is what pytest calls the test.
    """

    name: str
    file: str
    code: str
    without: str
    test: str

    @property
    def occurrences(self) -> int:
        """How many times the guard stands in its file: once, if it can be taken out."""
        file = PACKAGE / self.file
        return file.read_text().count(self.code) if file.exists() else 0

    def mutated(self) -> str:
        """The file's text without the guard."""
        return (PACKAGE / self.file).read_text().replace(self.code, self.without)
