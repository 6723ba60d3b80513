"""The commands `mcp` and `new` in `planck-nb`."""

from __future__ import annotations

import argparse
import asyncio
import os
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

from planck_nb.base.errors import UsageError
from planck_nb.base.installed_packages import install_command

Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"  # noqa: SLF001 - argparse has no other name
"""A command line's commands, for more to be added."""


def add_commands(commands: Commands, common: argparse.ArgumentParser) -> Commands:
    """Add the commands for other programs.

    Args:
        commands: The commands so far.
        common: Every command's options.

    Returns:
        The kinds for `new`, for more to be added.
    """
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

    doctor = commands.add_parser(
        "doctor",
        parents=[common],
        help="examine the installation and a project's folder, and say how to mend what does not work",
        description="Examine the installation and a project's folder: packages, keys and servers, trust, sandbox, "
        "sessions, sidecars. Requests go to servers on this machine only, and cost nothing. Trusted sidecars are "
        "started and stopped again.",
        epilog="The exit status is 1 if there is a problem. `%%planck doctor` does the same in a notebook.",
    )
    doctor.add_argument("--folder", metavar="DIR", help="the project; by default the working directory")

    new = commands.add_parser("new", parents=[common], help="create the files of something new, such as a sidecar")
    kinds = new.add_subparsers(dest="kind", required=True, metavar="KIND")
    sidecar = kinds.add_parser(
        "sidecar", parents=[common], help="a package with tools, a compactor and a test that passes"
    )
    sidecar.add_argument("name", metavar="NAME", help="its name, such as my-sidecar")
    sidecar.add_argument("--path", metavar="DIR", help="the folder to write; by default NAME in the working directory")
    sidecar.set_defaults(run=_new_sidecar)
    mcp.set_defaults(run=_serve_mcp)
    doctor.set_defaults(run=_examine)
    return kinds


def _serve_mcp(options: argparse.Namespace) -> int:
    if find_spec("mcp") is None or find_spec("mcp_types") is None:
        raise UsageError(f"`planck-nb mcp` needs the package mcp; run {install_command('mcp')}.")
    if not hasattr(os, "getuid") and options.kernel:
        raise UsageError("A kernel can be reached only on systems with Unix sockets; leave out --kernel.")
    from planck_nb.base.secrets import known_secrets, remember_secret  # noqa: PLC0415 - `new` needs none of these
    from planck_nb.config import Config  # noqa: PLC0415
    from planck_nb.serve.history import History  # noqa: PLC0415
    from planck_nb.serve.kernel_client import KernelClient  # noqa: PLC0415
    from planck_nb.serve.mcp_server import HistoryServer  # noqa: PLC0415
    from planck_nb.tools.private_folders import runtime_folder  # noqa: PLC0415

    folder = _folder(options)
    config = Config.load(directory=folder)
    for value, description in known_secrets(config.environment()).items():
        remember_secret(value, description)
    sessions = Path(options.sessions).expanduser() if options.sessions else config.sessions_dir
    sessions = folder / sessions
    kernel = KernelClient(runtime_folder(), folder, sessions, options.kernel)
    asyncio.run(HistoryServer(History(sessions), kernel).serve_stdio())
    return 0


def _folder(options: argparse.Namespace) -> Path:
    folder = Path(options.folder).expanduser().absolute() if options.folder else Path.cwd()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder; pass the project's folder with --folder.")
    return folder


def _examine(options: argparse.Namespace) -> int:
    from planck_nb.workspace.doctor import examine_folder  # noqa: PLC0415 - only this command needs it

    findings = asyncio.run(examine_folder(_folder(options)))
    for finding in findings:
        print(finding)  # noqa: T201 - a command
    return int(any(finding.state == "problem" for finding in findings))


def _new_sidecar(options: argparse.Namespace) -> int:
    from planck_nb.sidecars.author.new_sidecar import new_sidecar  # noqa: PLC0415 - only this command needs it

    folder = new_sidecar(options.name, options.path)
    print(f"Created a sidecar in {folder}; test it with `python -m pytest {folder}`.")  # noqa: T201 - a command
    return 0
