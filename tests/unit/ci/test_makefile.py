from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def _locale_of_recipes(given: str) -> str:
    recipe = "shown:;@echo $$LC_ALL"
    command = ["make", "-s", "-C", str(ROOT), "--no-print-directory", "--eval", recipe, "shown"]
    return subprocess.check_output(command, env={**os.environ, "LC_ALL": given}, text=True).strip()


@pytest.mark.parametrize("given", ["C", "POSIX"])
def test_python_starts_in_a_folder_with_other_letters_than_ascii(given: str, tmp_path: Path):
    folder = tmp_path / "bücher"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "installed.pth").write_text(f"{folder}\n", encoding="utf-8")
    environment = {**os.environ, "LC_ALL": _locale_of_recipes(given)}
    shown = subprocess.check_output(
        [folder / "bin" / "python", "-c", "import sys; print(ascii(sys.path))"], env=environment, text=True
    )
    assert ascii(str(folder)) in shown


def test_other_locales_stay_as_they_are():
    assert _locale_of_recipes("C.UTF-8") == "C.UTF-8"
    assert _locale_of_recipes("de_DE.UTF-8") == "de_DE.UTF-8"
