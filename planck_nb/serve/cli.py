"""The command `planck-nb`."""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import traceback
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import planck_nb
from planck_nb.base.errors import PlanckError, UsageError

_USAGE_ERROR = 2
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command line without the program; by default this process's own.

    Returns:
        The exit status: 0, 1 after an unexpected error, 2 after an error for the user to fix.
    """
    options = _parser().parse_args(arguments)
    try:
        if options.command == "mcp":
            return _serve_mcp(options)
        return _new_sidecar(options)
    except PlanckError as error:
        if options.debug:
            traceback.print_exc()
        else:
            _say(str(error))
        return _USAGE_ERROR
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a command ends with a sentence
        if options.debug:
            traceback.print_exc()
        else:
            _say(f"{type(error).__name__}: {error}. Run it with --debug for the traceback.")
        return 1


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser = argparse.ArgumentParser(prog="planck-nb", description="planck_nb for other programs.")
    parser.add_argument("--version", action="version", version=f"planck-nb {planck_nb.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    mcp = commands.add_parser(
        "mcp",
        parents=[common],
        help="serve stored sessions and running agents to an MCP client, over standard input and output",
        description="Serve the stored sessions of a project, and the agents of the notebook that runs in it, to an MCP "
        "client over standard input and output.",
        epilog="The agents can be reached after `%planck serve` in the notebook. What they do needs the same approval "
        "there as any other prompt.",
    )
    mcp.add_argument("--folder", metavar="DIR", help="the project; by default the working directory")
    mcp.add_argument("--sessions", metavar="DIR", help="the sessions folder; by default that of the project")
    mcp.add_argument(
        "--kernel", metavar="PID", default="", help="the kernel to use: its process id, or the path of its socket"
    )

    new = commands.add_parser("new", parents=[common], help="create the files of something new, such as a sidecar")
    kinds = new.add_subparsers(dest="kind", required=True, metavar="KIND")
    sidecar = kinds.add_parser(
        "sidecar", parents=[common], help="a package with tools, a compactor and a test that passes"
    )
    sidecar.add_argument("name", metavar="NAME", help="its name, such as my-sidecar")
    sidecar.add_argument("--path", metavar="DIR", help="the folder to write; by default NAME in the working directory")
    return parser


def _serve_mcp(options: argparse.Namespace) -> int:
    if find_spec("mcp") is None or find_spec("mcp_types") is None:
        raise UsageError("`planck-nb mcp` needs the package mcp; run `pip install planck-nb[mcp]`.")
    if not hasattr(os, "getuid") and options.kernel:
        raise UsageError("A kernel can be reached only on systems with Unix sockets; leave out --kernel.")
    from planck_nb.base.secrets import known_secrets, remember_secret  # noqa: PLC0415 - `new` needs none of these
    from planck_nb.config import Config  # noqa: PLC0415
    from planck_nb.serve.history import History  # noqa: PLC0415
    from planck_nb.serve.kernel_client import KernelClient  # noqa: PLC0415
    from planck_nb.serve.mcp_server import HistoryServer  # noqa: PLC0415
    from planck_nb.tools.private_folders import runtime_folder  # noqa: PLC0415

    folder = Path(options.folder).expanduser().absolute() if options.folder else Path.cwd()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; pass the project's folder with --folder.")
    config = Config.load(directory=folder)
    for value, description in known_secrets(config.environment()).items():
        remember_secret(value, description)
    sessions = Path(options.sessions).expanduser() if options.sessions else config.sessions_dir
    sessions = folder / sessions
    kernel = KernelClient(runtime_folder(), folder, sessions, options.kernel)
    asyncio.run(HistoryServer(History(sessions), kernel).serve_stdio())
    return 0


def _new_sidecar(options: argparse.Namespace) -> int:
    from planck_nb.sidecars.author.new_sidecar import new_sidecar  # noqa: PLC0415 - only this command needs it

    folder = new_sidecar(options.name, options.path)
    print(f"Created a sidecar in {folder}; test it with `python -m pytest {folder}`.")  # noqa: T201 - a command
    return 0


def _say(sentence: str) -> None:
    print(f"planck-nb: {sentence}", file=sys.stderr)  # noqa: T201 - a command


if __name__ == "__main__":
    sys.exit(main())
