"""Guards of rows that plugins return: they match their schema, or are refused."""

from __future__ import annotations

from tests.mutations.guard import Guard

_CHANGED = "tests/unit/api/test_fitted_columns.py::test_values_that_would_change_are_refused"
_DECLARED = "tests/unit/api/test_declared_columns.py::"
_REQUIRED = "tests/unit/api/test_required_fields.py::"

GUARDS = (
    Guard(
        "the refusal of a reader's columns of other types than its schema has",
        "api/fitted_columns.py",
        "    if not _fits(array.type, column.dataType):",
        "    if False:",
        _CHANGED,
    ),
    Guard(
        "the refusal of a reader's values that its schema cannot hold",
        "api/fitted_columns.py",
        "array.cast(wanted)",
        "array.cast(wanted, safe=False)",
        _CHANGED,
    ),
    Guard(
        "the refusal of a reader's DOUBLEs for FLOAT",
        "api/fitted_columns.py",
        "(t.FloatType, (pa.types.is_float16, pa.types.is_float32, pa.types.is_integer))",
        "(t.FloatType, (pa.types.is_floating, pa.types.is_integer))",
        _CHANGED,
    ),
    Guard(
        "the refusal of a reader's whole numbers for TIMESTAMP",
        "api/fitted_columns.py",
        "(pa.types.is_timestamp,)),",
        "(pa.types.is_timestamp, pa.types.is_integer)),",
        _CHANGED,
    ),
    Guard(
        "the refusal of a reader's nulls where its schema has none",
        "api/fitted_columns.py",
        "        check_required(found, pa.field(column.name, kind, column.nullable), column.name)\n",
        "        pass\n",
        _CHANGED,
    ),
    Guard(
        "the names of a reader's columns",
        "api/declared_columns.py",
        "    return names.index(name)",
        "    return 0",
        f"{_DECLARED}test_columns_and_fields_come_in_the_declared_order",
    ),
    Guard(
        "the refusal of a reader's column that is there twice",
        "api/declared_columns.py",
        "    if count != 1:",
        "    if not count:",
        f"{_DECLARED}test_a_column_that_is_there_twice_is_refused",
    ),
    Guard(
        "the warning of columns that a reader's schema does not declare",
        "api/declared_columns.py",
        '        _warn_of_undeclared(whose, ", ".join(extra))\n',
        "        pass\n",
        f"{_DECLARED}test_columns_and_fields_that_are_not_declared_are_named_once",
    ),
    Guard(
        "the refusal of fields that the schema of a function does not declare",
        "api/declared_columns.py",
        "    if extra:\n        raise DataError(",
        "    if False:\n        raise DataError(",
        "tests/unit/transforms/test_function_transform.py::test_values_that_the_schema_would_change_are_refused",
    ),
    Guard(
        "the fields of a null struct, which may not be looked at",
        "api/required_fields.py",
        "        present = array.drop_null()\n",
        "        present = array\n",
        f"{_REQUIRED}test_nulls_are_found_at_any_depth",
    ),
    Guard(
        "the null structs of a column that has its type already",
        "api/required_fields.py",
        "        column if column.type == field.type else column.cast(field.type)\n",
        "        column.cast(field.type)\n",
        f"{_REQUIRED}test_a_null_struct_with_a_required_field_keeps_its_type",
    ),
    Guard(
        "the null structs of the rows of a Spark job",
        "engine/spark/arrow_rows.py",
        "    return with_schema(pa.Table.from_batches(batches), schema)\n",
        "    return pa.Table.from_batches(batches).cast(schema)\n",
        "tests/unit/transforms/test_known_plans.py::"
        "test_null_structs_with_required_fields_go_through_a_job_in_any_zone",
    ),
)
