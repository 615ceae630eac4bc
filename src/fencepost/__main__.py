"""`python -m fencepost` is the command `fencepost`."""

from fencepost.cli.main import main

main()
