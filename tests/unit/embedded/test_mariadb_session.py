"""A MariaDB session, with another program as its client."""

from __future__ import annotations

import os
import sys

from fencepost.embedded.mariadb import MariaDbSession

CLIENT = "import os; input(); print(os.getpgrp()); print('fencepost: done', flush=True); input()"


def test_ctrl_c_in_a_terminal_does_not_end_the_client_of_a_session() -> None:
    # A terminal sends SIGINT to the process group of the session.
    with MariaDbSession([sys.executable, "-S", "-c", CLIENT]) as session:
        assert session.execute("select 1") != [[str(os.getpgrp())]]
