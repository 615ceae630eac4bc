"""The common parts of binary formats that are written a column at a time."""
