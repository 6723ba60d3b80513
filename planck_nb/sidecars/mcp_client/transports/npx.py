"""Starts npx without packages from the working directory.

npx prefers programs in `node_modules/.bin` there, and obeys `package.json` and `.npmrc`
(https://docs.npmjs.com/cli/commands/npx). In a notebook's folder, where agents' commands write, another program may be
planted under the name in a person's own configuration.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from planck_nb.base.atomic import write_atomically
from planck_nb.base.errors import SidecarError

SEARCH_FOLDER = Path("/")
"""Working directory for npx.

It looks for packages in parents, too, and this folder is alone.
"""

_SHELL = b"""#!/bin/sh
# npm starts servers and the install scripts of packages with this shell.
if [ "$npm_lifecycle_event" = npx ]; then
    cd "$PLANCK_NB_NPX_FOLDER" || exit
    INIT_CWD=$PLANCK_NB_NPX_FOLDER
    unset npm_config_script_shell PLANCK_NB_NPX_FOLDER
fi
exec /bin/sh "$@"
"""


def runs_npx(command: Sequence[str]) -> bool:
    """Return whether a command is npx, or another name for it.

    Example:
        >>> runs_npx(["npx", "-y", "some-server"]), runs_npx(["npm", "start"])
        (True, False)
    """
    program = Path(command[0]).name
    return program == "npx" or (program == "npm" and command[1:2] in (["exec"], ["x"]))


def npx_environment(shell: Path, folder: Path) -> dict[str, str]:
    """Return variables for npx in `SEARCH_FOLDER`, with a server in another folder.

    Args:
        shell: The file for a shell which goes there; it is written on demand.
        folder: The server's working directory.

    Raises:
        SidecarError: The shell cannot be written.
    """
    try:
        content = b""
        with suppress(FileNotFoundError):
            content = shell.read_bytes()
        if content != _SHELL:
            shell.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(shell, _SHELL, mode=0o700)
    except OSError as error:
        raise SidecarError(
            f"The shell for npx cannot be stored in {shell} ({error.strerror}); make it writable."
        ) from error
    return {"npm_config_script_shell": str(shell), "PLANCK_NB_NPX_FOLDER": str(folder)}
