"""Docstrings, comments and pages are in plain English: phrases that need a second reading do not come back."""

import ast
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import fencepost

PACKAGE = Path(fencepost.__file__).parent
ROOT = PACKAGE.parents[1]

INSTEAD = {
    r"\b(?:that|those) of\b": "name the thing again, or say whose it is",
    r"\bthe (?:former|latter)\b(?! [a-z])": "name the thing again",
    r"\b(?:is|are|was|were) told\b": "say: is reported, is logged, is detected",
    r"\b(?:the|a|each|last|next|first) (?:begin|look)\b": "say: start, beginning, check, scan",
    r"(?<![Tt]here )\b(?:is|are) no (?!longer\b|more\b)[a-z]": "say: is not a",
    r"\bso at present\b|\bis so now\b": "say what is the case",
}


def _texts(path: Path) -> Iterator[tuple[int, str]]:
    """The docstrings and comments of a module, each in one line, with the number of its first line."""
    source = path.read_text()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, " ".join(node.value.value.split())
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            if token.type == tokenize.COMMENT:
                yield token.start[0], token.string


def _paragraphs(path: Path) -> Iterator[tuple[int, str]]:
    """The paragraphs of a page, each in one line, with the number of its first line."""
    number = 1
    for paragraph in path.read_text().split("\n\n"):
        yield number, " ".join(paragraph.split())
        number += paragraph.count("\n") + 2


def _found(path: Path, texts: Iterator[tuple[int, str]]) -> list[str]:
    return [
        f"{path.relative_to(ROOT)}:{line}: {match[0]!r}: {remedy}"
        for line, text in texts
        for phrase, remedy in INSTEAD.items()
        if (match := re.search(phrase, text))
    ]


def test_docstrings_and_comments_are_plain() -> None:
    found = [line for path in sorted(PACKAGE.rglob("*.py")) for line in _found(path, _texts(path))]

    assert not found, "\n".join(found)


def test_pages_are_plain() -> None:
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    found = [line for path in sorted(pages) for line in _found(path, _paragraphs(path))]

    assert not found, "\n".join(found)
