"""The guards, in one table for each part of the code."""

from __future__ import annotations

from tests.mutations.guards import (
    connectors,
    databases,
    engine,
    file_identity,
    file_values,
    files,
    functions,
    herder,
    interfaces,
    java,
    kafka,
    reader_rows,
    registry,
    runtime,
    spark,
    storage,
    transforms,
)

GUARDS = (
    *connectors.GUARDS,
    *databases.GUARDS,
    *engine.GUARDS,
    *file_identity.GUARDS,
    *file_values.GUARDS,
    *files.GUARDS,
    *functions.GUARDS,
    *herder.GUARDS,
    *interfaces.GUARDS,
    *java.GUARDS,
    *kafka.GUARDS,
    *reader_rows.GUARDS,
    *registry.GUARDS,
    *runtime.GUARDS,
    *spark.GUARDS,
    *storage.GUARDS,
    *transforms.GUARDS,
)
