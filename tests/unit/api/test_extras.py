from __future__ import annotations

import shlex

import pytest
from packaging.requirements import Requirement

from fencepost.api.extras import how_to_install


@pytest.mark.parametrize("extra", ["postgres", "top", "demo"])
def test_the_install_command_names_only_the_packages_of_the_extra(extra: str) -> None:
    command, _, named = how_to_install(extra).partition(" (")
    assert named == f"the extra {extra} of fencepost)"
    program, verb, *packages = shlex.split(command)
    assert (program, verb) == ("pip", "install")
    names = [Requirement(package).name for package in packages]
    assert names
    assert "pyarrow" not in names


def test_an_extra_that_is_not_declared_has_no_packages() -> None:
    assert how_to_install("none") == "install the extra none of fencepost"
