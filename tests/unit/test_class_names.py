"""The name of a class is unique enough to find it."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

SOURCES = Path(__file__).parents[2] / "src"


def test_no_two_modules_define_a_class_of_one_name() -> None:
    modules = defaultdict(list)
    for path in SOURCES.rglob("*.py"):
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                modules[node.name].append(str(path.relative_to(SOURCES)))

    assert {name: paths for name, paths in modules.items() if len(paths) > 1} == {}
