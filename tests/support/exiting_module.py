"""A module that calls sys.exit() when it is imported."""

import sys

sys.exit(3)
