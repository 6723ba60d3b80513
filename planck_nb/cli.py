"""The command `planck-nb`: agents, notebooks and sessions from a shell.

It connects `jupyter` with `serve`, which must not import one another, and so is above both.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
import tempfile
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import planck_nb
from planck_nb.base.errors import AgentError, CassetteMissError, PlanckError, ProviderError, UsageError
from planck_nb.serve.cli import add_commands

if TYPE_CHECKING:
    from planck_nb.config import Config

_OK, _FAILED, _USAGE_ERROR, _INTERRUPTED, _BROKEN_PIPE = 0, 1, 2, 130, 141
_MAX_INPUT = 1_000_000
"""Longest standard input in characters."""

_STATUS = (
    "Exit status: 0 for success, 1 if the agent, the model or a cell failed, 2 for an error in the command or the "
    "settings, 130 after an interrupt."
)
_SYSTEM_PROMPT = "You answer in a terminal, in short, plain text. Use your tools when they help."


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: The command line without the program; by default this process's own.

    Returns:
        The exit status: 0 for success, 1 for a failure, 2 for an error for the user to fix, 130 after an interrupt,
        and 141 if the output's reader has gone.
    """
    options = _parser().parse_args(arguments)
    try:
        status: int = options.run(options)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes it at exit
        return _BROKEN_PIPE
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:  # noqa: BLE001 - a command ends with a sentence
        if options.debug:
            _print(traceback.format_exc().rstrip(), sys.stderr)
        else:
            _say(_sentence(error))
        is_usage = isinstance(error, PlanckError) and not isinstance(error, _FAILURES)
        return _USAGE_ERROR if is_usage else _FAILED
    return status


_FAILURES = (ProviderError, AgentError, CassetteMissError)
"""Errors while an agent works."""


def _sentence(error: Exception) -> str:
    if isinstance(error, PlanckError):
        return str(error)
    return f"{type(error).__name__}: {error}. Run it with --debug for the traceback."


def _parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser = argparse.ArgumentParser(
        prog="planck-nb", description="Agents, notebooks and their history, from a shell.", epilog=_STATUS
    )
    parser.add_argument("--version", action="version", version=f"planck-nb {planck_nb.__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    ask = commands.add_parser(
        "ask",
        parents=[common],
        help="send a prompt, and print the answer as it arrives",
        description="Send a prompt to an agent, and print the answer as it arrives. Standard input, if it is a pipe or "
        "a file, is added to the prompt. `@path` in the prompt sends a file. Only the answer is on standard output.",
        epilog=f"The conversation is stored if this folder has a folder .planck. {_STATUS}",
    )
    ask.add_argument("prompt", metavar="PROMPT", nargs="*", help="the prompt; its words need no quotes")
    ask.add_argument("-m", "--model", metavar="PROVIDER:MODEL", help="the model; by default that of the settings")
    ask.add_argument("--base-url", metavar="URL", help="the address of the model's server, if not the usual one")
    ask.add_argument("-s", "--system", metavar="TEXT", help="the system prompt")
    ask.add_argument("-t", "--tools", metavar="A,B", help="tools such as read, bash or web_search")
    ask.add_argument("--allow", metavar="RULES", help="calls that need no approval; others are denied")
    ask.add_argument("--team", metavar="NAME", help="a team to prompt, by its alias or path")
    ask.add_argument("-q", "--quiet", action="store_true", help="print no notices and no calls")
    ask.set_defaults(run=_ask)

    run = commands.add_parser(
        "run",
        parents=[common],
        help="run a notebook, and print its cells with their outputs",
        description="Run a notebook without changing it, and print each cell with its outputs as soon as it has ended.",
        epilog=_STATUS,
    )
    run.add_argument("notebook", type=Path, metavar="NOTEBOOK", help="the .ipynb file")
    run.add_argument("--lab", action="store_true", help="open it in JupyterLab instead")
    run.set_defaults(run=_run)

    demo = commands.add_parser("demo", parents=[common], help="run the quickstart notebook, which needs no API key")
    demo.add_argument("--lab", action="store_true", help="open it in JupyterLab instead, as a copy in this folder")
    demo.set_defaults(run=_demo)

    export = commands.add_parser(
        "export",
        parents=[common],
        help="print a stored session, or write it to a file",
        description="Print a stored session of this folder as Markdown, or write it to a file.",
        epilog=_STATUS,
    )
    export.add_argument("session", metavar="SESSION", nargs="?", help="its name or id; by default the last one used")
    export.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help="a file that ends in .jsonl, .md, .html or .ipynb"
    )
    export.add_argument("--overwrite", action="store_true", help="replace the file if it exists")
    export.set_defaults(run=_export)

    kinds = add_commands(commands, common)
    team = kinds.add_parser("team", parents=[common], help="a small team with the demo model, to begin with")
    team.add_argument("name", metavar="NAME", help="its name, such as helpers")
    team.set_defaults(run=_new_team)
    return parser


def _run(options: argparse.Namespace) -> int:
    from planck_nb.jupyter.command import run_notebook  # noqa: PLC0415 - only this command needs it

    return _status(run_notebook(options.notebook, in_lab=options.lab))


def _demo(options: argparse.Namespace) -> int:
    from planck_nb.jupyter.command import run_quickstart  # noqa: PLC0415 - only this command needs it

    return _status(run_quickstart(in_lab=options.lab))


def _status(failure: str) -> int:
    if failure:
        _say(failure)
    return _FAILED if failure else _OK


def _new_team(options: argparse.Namespace) -> int:
    from planck_nb.config import Config  # noqa: PLC0415 - a command loads what it needs
    from planck_nb.workspace import Workspace  # noqa: PLC0415

    async def create() -> Path:
        async with Workspace(Config.load()) as workspace:
            template = workspace.new_team(options.name).template
            return template.dir or Path(options.name)

    folder = asyncio.run(create())
    print(f"Created a team in {folder}; try it with `planck-nb ask --team {options.name} PROMPT`.")  # noqa: T201
    return _OK


def _export(options: argparse.Namespace) -> int:
    from planck_nb.config import Config  # noqa: PLC0415 - a command loads what it needs
    from planck_nb.sessions import (  # noqa: PLC0415
        export_session,
        find_session,
        last_used_first,
        list_sessions,
        write_export,
    )

    folder = Config.load().sessions_dir
    session = (
        find_session(folder, options.session) if options.session else next(last_used_first(list_sessions(folder)), None)
    )
    if session is None:
        raise UsageError(f"There are no sessions in {folder}; run the command in the folder of a notebook.")
    if options.output is None:
        text = export_session(session, "markdown").rstrip()
        if sys.stdout.isatty():
            _print(text, sys.stdout)
        else:
            _write(f"{text}\n", sys.stdout)
    else:
        write_export(session, options.output, overwrite=options.overwrite)
        _say(f"{session.name} was exported to {options.output}.")
    return _OK


def _ask(options: argparse.Namespace) -> int:
    prompt = " ".join(options.prompt)
    if not sys.stdin.isatty() and (more := sys.stdin.read(_MAX_INPUT + 1)).strip():
        prompt = _with_input(prompt, more)
    if not prompt.strip():
        raise UsageError('There is no prompt; write `planck-nb ask "PROMPT"`, or send it to standard input.')
    asyncio.run(_answer(prompt, options))
    return _OK


def _with_input(prompt: str, text: str) -> str:
    """Add standard input, without mentions, to a prompt."""
    if len(text) > _MAX_INPUT:
        raise UsageError(f"Standard input has more than {_MAX_INPUT:,} characters; send a shorter part.")
    if not prompt.strip():
        return text
    from planck_nb.base.markdown import fenced  # noqa: PLC0415 - the parser of Markdown

    return f"{prompt}\n\n{fenced(text)}"


async def _answer(prompt: str, options: argparse.Namespace) -> None:
    """Print the answer to a prompt."""
    from planck_nb.config import Config  # noqa: PLC0415 - a command loads what it needs
    from planck_nb.jupyter.controller import Controller  # noqa: PLC0415
    from planck_nb.jupyter.parsing.kinds import names  # noqa: PLC0415
    from planck_nb.jupyter.parsing.options import rules  # noqa: PLC0415
    from planck_nb.jupyter.typed_keys import require_no_key  # noqa: PLC0415
    from planck_nb.workspace import Workspace  # noqa: PLC0415

    require_no_key(prompt)
    readers = {"tools": names, "allow": rules("allow")}
    texts = {"model": options.model, "base-url": options.base_url, "tools": options.tools, "allow": options.allow}
    texts |= {"team": options.team, "system": options.system or (None if options.team else _SYSTEM_PROMPT)}
    values = {name: readers.get(name, str)(text) for name, text in texts.items() if text is not None}
    with _stored(Config.load()) as config:
        async with Workspace(config, owner="planck-nb ask") as workspace:
            start = await Controller(workspace).start(prompt, values, {})
            if start.notice and not options.quiet:
                _say(start.notice)
            await _print_run(start.run, start.agent.id, quiet=options.quiet)


@contextmanager
def _stored(config: Config) -> Iterator[Config]:
    """Keep sessions in a folder with `.planck`, elsewhere only until the end."""
    if (config.root / ".planck").is_dir() or config.sources.get("sessions_dir", "default") != "default":
        yield config
        return
    with tempfile.TemporaryDirectory(prefix="planck-") as folder:
        yield replace(config, sessions_dir=Path(folder))


async def _print_run(run: Any, agent_id: str, *, quiet: bool) -> None:  # noqa: ANN401 - Run, which is loaded late
    """Print an agent's text, and its calls on standard error."""
    from planck_nb.agent.events import MessageAppended, Retry, TextDelta, ToolStart  # noqa: PLC0415
    from planck_nb.rendering.plain_output import PlainStream  # noqa: PLC0415

    stream = PlainStream() if sys.stdout.isatty() else None
    is_open = False
    async for event in run:
        if event.agent_id != agent_id:
            continue
        match event:
            case TextDelta(text=text):
                _write(stream.feed(text) if stream else text, sys.stdout)
                is_open = not text.endswith("\n")
            case MessageAppended() if is_open:
                _write("\n", sys.stdout)
                is_open = False
            case ToolStart(name=name) if not quiet:
                _say(f"{name} is called")
            case Retry(reason=reason, delay=delay) if not quiet:
                _say(f"{reason.rstrip('.')}; trying again in {delay:.0f} s")
            case _:
                pass
    await run


def _write(text: str, file: TextIO) -> None:
    file.write(text)
    file.flush()


def _say(sentence: str) -> None:
    _print(f"planck-nb: {sentence}", sys.stderr)


def _print(text: str, file: TextIO) -> None:
    """Print text from elsewhere, which may contain terminal commands."""
    from planck_nb.rendering.plain_output import for_terminal  # noqa: PLC0415 - the parser of Markdown

    print(for_terminal(text), file=file)


if __name__ == "__main__":
    sys.exit(main())
