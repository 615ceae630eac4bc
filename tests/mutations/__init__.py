"""The suite can fail: if a guard of exactly-once delivery is removed from the code, a test fails."""
