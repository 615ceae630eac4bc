"""What all sessions with PostgreSQL set, whatever the settings of the server, database and role are."""

from __future__ import annotations

from typing import Final

# Sessions hold a snapshot until its rows are in Kafka, and wait between polls. By the catalog, as older servers do not
# have all of these.
WITHOUT_TIMEOUTS: Final = (
    "SELECT pg_catalog.set_config(name, '0', false) FROM pg_catalog.pg_settings WHERE name IN "
    "('idle_in_transaction_session_timeout', 'idle_session_timeout', 'transaction_timeout')"
)
