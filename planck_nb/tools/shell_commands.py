"""Shell commands for agents: run in a thread, ended with the call, with their output as text."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from planck_nb.agent.approval.sandbox_access import SandboxAccess
from planck_nb.agent.approval.shell_command import ShellCommand
from planck_nb.agent.calling.tool import ToolContext
from planck_nb.agent.effect import Effect
from planck_nb.base.async_tasks import spawn, uninterrupted
from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.threads import run_in_thread
from planck_nb.tools.file_access import resolve
from planck_nb.tools.guarded_paths import GuardedPaths
from planck_nb.tools.output_capture import spill_folder
from planck_nb.tools.process import CommandResult, child_environment, run_command
from planck_nb.tools.sandbox import (
    DEFAULT_SANDBOX,
    Sandbox,
    SandboxMode,
    denial,
    find_sandbox,
    is_sandbox_known,
    require_sandbox,
    why_none,
)

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
    sandbox: SandboxMode = DEFAULT_SANDBOX,
) -> str:
    """Run a command with /bin/sh. Cancelling ends it and everything it started before this returns.

    Args:
        command: The command line.
        context: The context of the tool's call, which gets the output as progress.
        cwd: The folder that `within` is relative to, by default the process's working directory now.
        within: The folder in which the command runs.
        milliseconds: How long it may take.
        allow_env: Names of environment variables that it gets although they look like secrets.
        sandbox: "auto" runs it in a sandbox if one works here, "required" fails without one, "off" uses none.

    Returns:
        What it wrote to stdout, and after a line "STDERR:" what it wrote to stderr.

    Raises:
        ToolError: It cannot be started, its exit status is not 0, or it takes too long; the output is in the message.
    """
    planned = _approved(command, context, cwd, within, sandbox)
    root, folder = planned.root or Path(), planned.folder or Path()
    access = planned.access if context.touches is None else planned.access.limited_to(context.touches)
    cancelled = threading.Event()
    hint = ""
    notes: list[str] = []

    def run() -> CommandResult:
        nonlocal hint
        environment = child_environment(os.environ, allow_env)
        found = _sandbox(sandbox, [root, *access.write], context.progress)
        if found is None and planned.sandboxed:
            raise ToolError(
                "There was a sandbox when the command was checked, and there is none now; make the call again."
            )
        guard = GuardedPaths.of(root, environment) if found is not None else None
        around = _sandbox_words(found, folder, guard, access, environment)
        try:
            finished = run_command(
                planned.target,
                cwd=folder,
                environment=environment,
                timeout=milliseconds / 1_000,
                cancelled=cancelled,
                progress=context.progress,
                sandbox=around,
            )
        finally:
            notes.extend(guard.clean(environment, access.write) if guard is not None else ())
        if found is not None and finished.status:
            hint = denial(finished.output, root, access)
        return finished

    finished = await _run_until_cancelled(run, cancelled)
    if finished.ending == "timeout":
        raise ToolError(_noted(_with(f"Process timed out after {milliseconds:g}ms", finished.output, hint), notes))
    if finished.status:
        raise ToolError(_noted(_with(_status(finished.status), finished.output, hint), notes))
    return _noted(finished.output or "(no output)", notes)


def shell_command(text: str, cwd: Path | None, within: str | None, sandbox: SandboxMode) -> ShellCommand:
    """Parse a call's command, with the folders as they are now.

    Args:
        text: The command.
        cwd: The tool's working directory, by default the process's now.
        within: The folder in which the command runs, relative to `cwd`.
        sandbox: The mode in which it runs.

    Raises:
        ToolError: The folder cannot be found.
    """
    root, folder = _folder(cwd, None), _folder(cwd, within)
    # The gate has asked before whether there is a sandbox, which may take long.
    sandboxed = sandbox == "required" or (sandbox == "auto" and is_sandbox_known())
    return ShellCommand.parse(text, root, folder, sandboxed=sandboxed)


def command_effects(text: str, cwd: Path | None, within: str | None, sandbox: SandboxMode) -> list[Effect]:
    """Return the effects of a command: that it runs, and what it gets beyond the sandbox.

    Raises:
        ToolError: The folder cannot be found.
    """
    command = shell_command(text, cwd, within, sandbox)
    return [command, *([] if sandbox == "off" else command.access.effects())]


def _approved(
    text: str, context: ToolContext, cwd: Path | None, within: str | None, sandbox: SandboxMode
) -> ShellCommand:
    """Return the command as parsed for approval, otherwise as it is now."""
    approved = (touch for touch in context.touches or () if isinstance(touch, ShellCommand) and touch.root is not None)
    found = next((touch for touch in approved if touch.target == text), None)
    if found is not None:
        return found
    command = shell_command(text, cwd, within, sandbox)
    if context.touches is not None:
        raise ToolError("The command is not the one that was approved; make the call again.")
    return command


def is_sandboxed(mode: SandboxMode) -> bool:
    """Return whether commands run in a sandbox in this mode; without one, "required" runs none."""
    return mode == "required" or (mode == "auto" and find_sandbox() is not None)


_notified = threading.Event()
"""Set once the user has been told that there is no sandbox."""


def _sandbox(mode: SandboxMode, writable: Sequence[Path], progress: Callable[[str], None]) -> Sandbox | None:
    if mode == "off":
        return None
    if mode == "required":
        return require_sandbox(writable)
    found = find_sandbox(writable)
    if found is None and not _notified.is_set():
        _notified.set()
        progress(f"Commands run without a sandbox: {why_none()}.\n")
    return found


def _sandbox_words(
    sandbox: Sandbox | None,
    folder: Path,
    guard: GuardedPaths | None,
    access: SandboxAccess,
    environment: Mapping[str, str],
) -> list[str]:
    """The words before the command; none without a sandbox, and in a folder that does not exist, which is reported."""
    outputs = spill_folder()  # the first one also removes those that killed processes left
    if sandbox is None or guard is None or not folder.is_dir():
        return []
    return sandbox.arguments(folder, guard, access, environment, readable=[outputs, folder.resolve()])


async def _run_until_cancelled(run: Callable[[], CommandResult], cancelled: threading.Event) -> CommandResult:
    task = spawn(run_in_thread(run), name="planck-command")
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        cancelled.set()
        await uninterrupted(asyncio.ensure_future(asyncio.wait([task])))
        raise


def _folder(cwd: Path | None, within: str | None) -> Path:
    """The folder in which a command runs, with links followed, so that it can be opened without following any."""
    try:
        Path(within or "").expanduser()
        return resolve(within or "", cwd)
    except RuntimeError as error:
        raise ToolError(
            f"failed to start process: there is no home folder for {within or cwd}; give another."
        ) from error
    except FileNotFoundError as error:
        raise ToolError(f"failed to start process: the working directory is gone ({error}); give cwd.") from error
    except OSError as error:
        reason = error.strerror or error
        raise ToolError(f"failed to start process: {within or cwd} is no folder ({reason}); give another.") from error


def _status(status: int) -> str:
    if status > 0:
        return f"Process exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = "a signal"
    return f"Process was ended by {name} ({-status})"


def _noted(text: str, notes: Iterable[str]) -> str:
    """Return a result with sentences about what the command left."""
    return "\n".join([text, *notes])


def _with(sentence: str, output: str, hint: str) -> str:
    text = f"{sentence}\n{output}" if output else sentence
    return f"{text.rstrip()}\n{hint}" if hint else text
