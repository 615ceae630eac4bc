"""What binary formats that are written a column at a time have in common."""
