"""Random input against Python's own parsers: `make fuzz`."""
