"""The common parts of binary formats that are written column by column."""
