from __future__ import annotations

from typing import Any

from fencepost.connectors.postgres.types.type_rows import TypeRow, type_rows

# oid, name, kind, base, base modifier, not null, element, built in
CATALOG: dict[int, tuple[Any, ...]] = {
    row[0]: row
    for row in (
        (23, "int4", "b", 0, -1, False, 0, True),
        (1007, "_int4", "b", 0, -1, False, 23, True),
        (20_000, "counts", "d", 1007, -1, True, 0, False),
        (20_001, "mood", "e", 0, -1, False, 0, False),
    )
}


def _rows(oids: list[int], known: dict[int, TypeRow] | None = None) -> tuple[dict[int, TypeRow], list[list[int]]]:
    asked: list[list[int]] = []

    def ask(wanted: list[int]) -> list[tuple[Any, ...]]:
        asked.append(wanted)
        return [CATALOG[oid] for oid in wanted if oid in CATALOG]

    return type_rows(ask, oids, known or {}), asked


def test_base_types_and_element_types_are_queried_as_well() -> None:
    found, asked = _rows([20_000])
    assert set(found) == {20_000, 1007, 23}
    assert asked == [[20_000], [1007], [23]]
    assert found[20_000].not_null


def test_types_are_asked_for_together_and_once() -> None:
    known, _ = _rows([23])
    found, asked = _rows([1007, 23, 20_001, 0], known)
    assert asked == [[1007, 20_001]]
    assert set(found) == {1007, 20_001}
    assert found[20_001].is_enum


def test_types_that_the_catalog_lacks_are_missing() -> None:
    assert _rows([99_999])[0] == {}
