"""Shell commands for agents: run in a thread, ended with the call, with their output as text."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from shlex import quote

from planck_nb.agent.calling.tool import ToolContext
from planck_nb.base.aio import run_in_thread, spawn, uninterrupted
from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.tools.file_access import resolve
from planck_nb.tools.process import Finished, child_environment, run_command

DEFAULT_TIMEOUT = 30_000
"""Milliseconds that a command may take unless the call says otherwise."""

CALL_PROPERTIES: JsonObject = {
    "cwd": {"type": "string", "description": "Working directory; by default the session's."},
    "timeout": {
        "type": "integer",
        "minimum": 1,
        "description": f"Milliseconds before the command is killed; by default {DEFAULT_TIMEOUT}.",
    },
}
"""JSON Schema of the arguments that every command has."""


async def run_shell(
    command: str,
    context: ToolContext,
    *,
    cwd: Path | None = None,
    within: str | None = None,
    milliseconds: float = DEFAULT_TIMEOUT,
    allow_env: Iterable[str] = (),
) -> str:
    """Run a command with /bin/sh. Cancelling ends it and everything it started before this returns.

    Args:
        command: The command line.
        context: The context of the tool's call, which gets the output as progress.
        cwd: The folder that `within` is relative to, by default the process's working directory now.
        within: The folder in which the command runs.
        milliseconds: How long it may take.
        allow_env: Names of environment variables that it gets although they look like secrets.

    Returns:
        What it wrote to stdout, and after a line "STDERR:" what it wrote to stderr.

    Raises:
        ToolError: It cannot be started, its exit status is not 0, or it takes too long; the output is in the message.
    """
    cancelled = threading.Event()
    folder = _folder(cwd, within)

    def run() -> Finished:
        return run_command(
            command,
            cwd=folder,
            environment=child_environment(os.environ, allow_env),
            timeout=milliseconds / 1_000,
            cancelled=cancelled,
            progress=context.progress,
        )

    finished = await _run_until_cancelled(run, cancelled)
    if finished.ending == "timeout":
        raise ToolError(_with(f"Process timed out after {milliseconds:g}ms", finished.output))
    if finished.status:
        raise ToolError(_with(_status(finished.status), finished.output))
    return finished.output or "(no output)"


def with_folder(command: str, cwd: Path | None, within: str | None) -> str:
    """Return the command as approval rules see it: one that runs in another folder than `cwd` begins with `cd` to it.

    Raises:
        OSError: The folder cannot be resolved.
    """
    folder = resolve(within or "", cwd)
    return command if folder == resolve("", cwd) else f"cd {quote(str(folder))} && {command}"


async def _run_until_cancelled(run: Callable[[], Finished], cancelled: threading.Event) -> Finished:
    task = spawn(run_in_thread(run), name="planck-command")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        cancelled.set()
        await uninterrupted(asyncio.ensure_future(asyncio.wait([task])))
        raise


def _folder(cwd: Path | None, within: str | None) -> Path:
    try:
        base = Path.cwd() if cwd is None else cwd.expanduser()
        return base / Path(within or "").expanduser()
    except RuntimeError as error:
        raise ToolError(
            f"failed to start process: there is no home folder for {within or cwd}; give another."
        ) from error
    except OSError as error:
        raise ToolError(f"failed to start process: the working directory is gone ({error}); give cwd.") from error


def _status(status: int) -> str:
    if status > 0:
        return f"Process exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "a signal"
    return f"Process was ended by {name} ({-status})"


def _with(sentence: str, output: str) -> str:
    return f"{sentence}\n{output}" if output else sentence
