"""Random inputs for parsers, whose results are compared with other parsers': `make fuzz CASES=100000 SEED=7`."""
