"""`fencepost completion`: prints the script for a shell to complete commands, options and files.

The script calls `fencepost` with the variable _FENCEPOST_COMPLETE set, for each completion.
"""

from __future__ import annotations

from typing import Final

import click
from click.shell_completion import BashComplete, add_completion_class, get_completion_class

from fencepost.api.errors import ConfigError

PROGRAM: Final = "fencepost"
COMPLETE_VARIABLE: Final = "_FENCEPOST_COMPLETE"

_HOW: Final = """\b
bash   eval "$(fencepost completion bash)"     in ~/.bashrc
zsh    eval "$(fencepost completion zsh)"      in ~/.zshrc
fish   fencepost completion fish | source      in ~/.config/fish/config.fish
"""


@add_completion_class
class _Bash(BashComplete):
    """Completes `--option=value` as well, which bash gives as three words."""

    def get_completion_args(self) -> tuple[list[str], str]:
        args, incomplete = super().get_completion_args()
        return [arg for arg in args if arg != "="], incomplete


@click.command(epilog=_HOW)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes commands, options and file names in a shell."""
    kind = get_completion_class(shell)
    if kind is None:
        raise ConfigError(f"This version of click cannot complete commands in {shell}: upgrade click")
    click.echo(kind(ctx.find_root().command, {}, PROGRAM, COMPLETE_VARIABLE).source())
