"""Random inputs for parsers, compared with others: `make fuzz CASES=100000 SEED=7`."""
