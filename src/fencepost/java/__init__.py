"""Runs Java source connectors, unchanged, in their own JVM: see docs/decisions/0041."""
