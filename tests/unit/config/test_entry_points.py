from __future__ import annotations

from pathlib import Path

import pytest

from fencepost.config.entry_points import CONNECTORS, forget_entry_points, registered


def test_the_first_package_on_the_import_path_has_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for package in ("first", "second"):
        info = tmp_path / package / f"{package}-1.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1\n")
        (info / "entry_points.txt").write_text(
            f"[{CONNECTORS}]\nShared = {package}:Source\n{package} = {package}:Own\n"
        )
    for package in ("second", "first"):
        monkeypatch.syspath_prepend(tmp_path / package)
    found = registered(CONNECTORS)
    assert [found[name].value for name in ("Shared", "first", "second")] == ["first:Source", "first:Own", "second:Own"]


def test_a_package_that_is_registered_later_is_seen_once_the_others_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.syspath_prepend(tmp_path)
    assert "Later" not in registered(CONNECTORS)
    info = tmp_path / "later-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: later\nVersion: 1\n")
    (info / "entry_points.txt").write_text(f"[{CONNECTORS}]\nLater = later:Source\n")
    assert "Later" not in registered(CONNECTORS)
    forget_entry_points()
    assert registered(CONNECTORS)["Later"].value == "later:Source"
