"""Java source connectors, unchanged, in a JVM of their own: see docs/decisions/0041."""
