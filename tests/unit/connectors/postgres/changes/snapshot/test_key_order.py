from __future__ import annotations

from fencepost.connectors.postgres.changes.snapshot.key_order import KeyColumn, KeyOrder

PLAIN = KeyOrder([KeyColumn("id", "integer"), KeyColumn('odd "name"', "text")])
CITEXT = KeyColumn(
    "name", "citext", {">": "OPERATOR(public.>)", ">=": "OPERATOR(public.>=)", "<=": "OPERATOR(public.<=)"}
)


def test_columns_are_sorted_in_both_directions() -> None:
    assert PLAIN.names() == '"id", "odd ""name"""'
    assert PLAIN.sorting("t") == '"t"."id", "t"."odd ""name"""'
    assert PLAIN.sorting('a"b', descending=True) == '"a""b"."id" DESC, "a""b"."odd ""name""" DESC'


def test_a_key_that_is_sorted_in_another_way_has_another_description() -> None:
    columns = [KeyColumn("id", "text"), KeyColumn("id", "integer"), KeyColumn("id", "text", collation='"C"')]
    assert len({KeyOrder([column]).described() for column in columns}) == 3


def test_keys_of_postgresqls_own_types_are_compared_as_rows() -> None:
    assert PLAIN.after(["5", "a'b\\"]) == '("id", "odd ""name""") > (E\'5\'::integer, E\'a\'\'b\\\\\'::text)'
    assert PLAIN.up_to(["5", "x"]) == '("id", "odd ""name""") <= (E\'5\'::integer, E\'x\'::text)'


def test_operators_of_an_extension_are_named_with_their_schema() -> None:
    assert KeyOrder([CITEXT]).after(["a"]) == "(\"name\" OPERATOR(public.>) E'a'::citext)"
    assert KeyOrder([KeyColumn("id", "integer"), CITEXT]).up_to(["5", "a"]) == (
        "(\"id\" <= E'5'::integer AND (\"id\" < E'5'::integer OR \"name\" OPERATOR(public.<=) E'a'::citext))"
    )
