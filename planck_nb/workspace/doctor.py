"""An examination from installation to sidecars, with each problem's fix."""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import shutil
import socket
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from planck_nb.ai.model_lookup.catalogue import discover, list_providers
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of, key_variables_of, needs_server, provider
from planck_nb.ai.server_address import is_loopback, shown_url
from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import PlanckError
from planck_nb.base.installed_packages import install_command
from planck_nb.base.secrets import redact
from planck_nb.base.text import counted
from planck_nb.base.threads import run_in_thread
from planck_nb.base.visible import visible
from planck_nb.config import Config
from planck_nb.sessions import list_sessions
from planck_nb.tools.sandbox import find_sandbox, why_none
from planck_nb.workspace.default_model import LOCAL, WITH_KEY
from planck_nb.workspace.folder_files import directory_notice
from planck_nb.workspace.installation_findings import RESTART, Finding, State, installation_findings, version_of
from planck_nb.workspace.workspace import Workspace

START_SECONDS = 20.0
"""Time for sidecars to start."""

CONNECT_SECONDS = 2.0

LOW_SPACE = 1_000_000_000
"""Free bytes below which sessions are soon at risk."""

FULL = 50_000_000
"""Free bytes below which sessions are at risk."""

_PROBE_BYTES = 65_536


async def examine_folder(folder: Path, *, start_seconds: float = START_SECONDS) -> list[Finding]:
    """Examine a project's folder as a new notebook there would find it.

    Requests go to this machine's servers alone, and are without prompts. Trusted sidecars are started or reached,
    and left again.

    Args:
        folder: The folder.
        start_seconds: Time for sidecars to start.

    Returns:
        The findings, without secrets.
    """
    try:
        workspace = Workspace(Config.load(directory=folder))
    except PlanckError as error:
        settings = Finding("settings", "problem", str(error), "correct this setting")
        return _safe([*installation_findings(folder), settings])
    async with workspace:
        return await examine(workspace, start_seconds=start_seconds)


async def examine(workspace: Workspace, *, start_seconds: float = START_SECONDS) -> list[Finding]:
    """Examine a workspace.

    Requests go to this machine's servers alone, and are without prompts. Trusted sidecars are started or reached.

    Args:
        workspace: The workspace.
        start_seconds: Time for sidecars to start.

    Returns:
        The findings, without secrets.

    Example:
        >>> import asyncio, tempfile
        >>> from pathlib import Path
        >>> from planck_nb import Config, Workspace
        >>> async def main(folder):
        ...     async with Workspace(Config.load(environment={}, directory=folder, home=folder)) as workspace:
        ...         return await examine(workspace)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     findings = asyncio.run(main(Path(folder)))
        >>> [finding.state for finding in findings if finding.topic == "trust"]
        ['ok']
    """
    config = workspace.config
    findings = await run_in_thread(lambda: installation_findings(config.root))
    findings += [Finding("settings", "problem", warning, "correct this setting") for warning in config.warnings]
    findings += await _models(workspace)
    findings += await run_in_thread(lambda: [*_trust(workspace), *_sandbox(config), *_store(workspace)])
    findings += await _sidecars(workspace, start_seconds)
    return _safe(findings)


def _safe(findings: list[Finding]) -> list[Finding]:
    def shown(text: str) -> str:
        return visible(redact(text, formats=True))

    return [Finding(line.topic, line.state, shown(line.text), shown(line.fix)) for line in findings]


# Models


async def _models(workspace: Workspace) -> list[Finding]:
    config = workspace.config
    environment = config.environment()
    findings = list(_keys(config, environment))
    for name in LOCAL:
        models = await discover(name)
        text = f"{name} answers and has {counted(len(models), 'model')}."
        findings += [Finding("servers", "ok", text)] if models else []
    default, examined = await _default(workspace, environment)
    for model in config.models:
        if str(model.alias or model) != default:
            findings += await _reachable(model, environment, str(model.alias or model))
    return [*findings, *examined]


def _keys(config: Config, environment: Mapping[str, str]) -> Iterator[Finding]:
    """Name the variables with keys, and find malformed keys."""
    variables = [variable for name in list_providers() for variable in provider(name).key_variables]
    variables += [variable for model in config.models for variable in key_variables_of(model)]
    usable: list[str] = []
    for variable in dict.fromkeys(variables):
        key = environment.get(variable)
        if key is None:
            continue
        if not key or key != key.strip(" \t\r\n'\"") or not key.isascii() or not key.isprintable():
            text = f"{variable} is empty, or has blanks or quotation marks around it, or other foreign characters."
            yield Finding("keys", "problem", text, f"set {variable} to the key alone, where Jupyter starts")
        else:
            usable.append(variable)
    if usable:
        yield Finding("keys", "ok", f"{', '.join(usable)} {'is' if len(usable) == 1 else 'are'} set (not tried).")


async def _default(workspace: Workspace, environment: Mapping[str, str]) -> tuple[str, list[Finding]]:
    """Examine the model for prompts without a model; return its name, too."""
    try:
        model, _ = await workspace.default_model()
    except PlanckError as error:
        return "", [Finding("model", "problem", str(error), "choose another with `%planck model PROVIDER:MODEL`")]
    if model.provider == "demo" and not workspace.config.default_model:
        keys = ", ".join(dict.fromkeys(variable for variable, _, _ in WITH_KEY))
        fix = f"set one of {keys} where Jupyter starts, or start an Ollama or llama.cpp server on this machine"
        return "", [
            Finding("model", "note", "There is neither a key nor a local server, so the demo model answers.", fix)
        ]
    name = str(model.alias or model)
    findings = await _reachable(model, environment, "The default model")
    return name, findings or [Finding("model", "ok", f"Prompts without a model go to {name}.")]


async def _reachable(model: Model, environment: Mapping[str, str], title: str) -> list[Finding]:
    """Find a missing key or a silent server on this machine."""
    if not needs_server(model.provider):
        return []
    other = "or choose another model with `%planck model PROVIDER:MODEL`"
    try:
        url = base_url_of(model)
    except PlanckError as error:
        return [Finding("model", "problem", f"{title} has a wrong address: {error}", "correct its address")]
    if is_loopback(url):
        if await run_in_thread(lambda: _listens(url)):
            return []
        text = f"{title} ({model}) is on {shown_url(url)}, where no server answers."
        return [Finding("model", "problem", text, f"start that server, {other}")]
    variables = key_variables_of(model)
    is_needed = model.has_api_key and (model.key_variable is not None or provider(model.provider).needs_key)
    if not is_needed or model.api_key or any(environment.get(variable) for variable in variables):
        return []
    text = f"{title} ({model}) needs a key in {' or '.join(variables)}, which is not set."
    return [Finding("model", "problem", text, f"set {variables[0]} where Jupyter starts, {other}")]


def _listens(url: str) -> bool:
    split = urlsplit(url)
    port = split.port or (443 if split.scheme == "https" else 80)
    try:
        with socket.create_connection((split.hostname or "", port), CONNECT_SECONDS):
            return True
    except OSError:
        return False


# The folder


def _trust(workspace: Workspace) -> Iterator[Finding]:
    trust, items = workspace.folder_trust, workspace.trust_items()
    waiting = [item for item in items if item.is_waiting]
    if trust.problem:
        yield Finding("trust", "problem", trust.problem, "correct or remove that file, then run `%planck trust`")
    if waiting:
        names = ", ".join(file.item.name or file.item.path.name for file in waiting)
        text = f"Not used before you trust this folder: {names}."
        yield Finding("trust", "problem", text, "read `%planck trust --list` in a notebook here, then `%planck trust`")
    elif items:
        names = ", ".join(file.item.name or file.item.path.name for file in items)
        yield Finding("trust", "ok", f"Trusted in this folder: {names}.")
    else:
        yield Finding("trust", "ok", "This folder has nothing that needs trust.")


def _sandbox(config: Config) -> Iterator[Finding]:
    if config.sandbox == "off":
        text = "Commands run without a sandbox, as the setting sandbox is off."
        yield Finding("sandbox", "note", text, "`%planck config sandbox auto`")
    elif (sandbox := find_sandbox()) is not None:
        yield Finding("sandbox", "ok", f"Commands run in {sandbox.program}.")
    else:
        reason, _, remedy = why_none().partition("; ")
        effect = "are refused" if config.sandbox == "required" else "run without a sandbox, after your approval"
        state: State = "problem" if config.sandbox == "required" else "note"
        yield Finding("sandbox", state, f"Commands {effect}: {reason}.", _sandbox_fix(remedy))


def _sandbox_fix(remedy: str) -> str:
    if sys.platform != "linux":
        return remedy
    if shutil.which("bwrap") is None:
        return "install the package bubblewrap, as with `apt install bubblewrap`, then restart the kernel"
    return "allow user namespaces, on Ubuntu with `sysctl -w kernel.apparmor_restrict_unprivileged_userns=0`"


def _store(workspace: Workspace) -> Iterator[Finding]:
    folder, own_folder = workspace.config.sessions_dir, workspace.config.user_folder
    yield from _space(folder)
    if own_folder is not None:
        place = next(path for path in (own_folder, *own_folder.parents) if path.exists())
        if not os.access(place, os.W_OK):
            text = f"{place} cannot be written, so trust is not remembered and sessions are not signed as yours."
            yield Finding("home", "problem", text, f"make {place} writable, or set HOME to a folder which is")
    if notice := directory_notice(folder):
        yield Finding("sessions", "note", notice, f"`chmod 700 {shlex.quote(str(folder))}`")
    if not folder.is_dir():
        return
    try:
        sessions = list_sessions(folder)
    except PlanckError as error:
        yield Finding("sessions", "problem", str(error), "correct that, or set PLANCK_NB_SESSIONS_DIR")
        return
    for session in sessions:
        if session.known_damage:
            yield Finding("sessions", "problem", session.known_damage, "restore the file from a backup")
    size = sum(path.stat().st_size for path in folder.iterdir() if path.is_file())
    text = f"{counted(len(sessions), 'session')} in {folder}, {size / 1e6:,.1f} MB."
    yield Finding("sessions", "ok", text)


def _space(folder: Path) -> Iterator[Finding]:
    """Try to write a file there, and measure the free space."""
    place = next(path for path in (folder, *folder.parents) if path.exists())
    other = "or set PLANCK_NB_SESSIONS_DIR to another folder"
    try:
        with tempfile.TemporaryFile(dir=place) as probe:
            probe.write(b"\0" * _PROBE_BYTES)
            probe.flush()
            os.fsync(probe.fileno())
        free = shutil.disk_usage(place).free
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        fix = f"free some space, {other}" if full else f"make {place} writable, {other}"
        yield Finding("sessions", "problem", f"{place} cannot be written ({error.strerror}).", fix)
        return
    if free < LOW_SPACE:
        state: State = "problem" if free < FULL else "note"
        yield Finding("space", state, f"{place} has {free / 1e6:,.0f} MB left.", f"free some space, {other}")
    else:
        yield Finding("space", "ok", f"{free / 1e9:,.0f} GB are free in {place}.")


# Sidecars


async def _sidecars(workspace: Workspace, seconds: float) -> list[Finding]:
    """Start the trusted sidecars, and describe all."""
    sidecars = workspace.sidecars
    _, problems = sidecars.found()
    findings = [Finding("sidecars", "problem", problem, "correct this file") for problem in problems]
    if not sidecars.known_names():
        text = "None is described in .planck/mcp.json or in your own folder."
        return [*findings, Finding("sidecars", "ok", text)]
    if version_of("mcp") is None:
        text = "Sidecars cannot start, as the package mcp is missing."
        return [*findings, Finding("sidecars", "problem", text, f"{install_command('mcp')}, {RESTART}")]
    starting = spawn(sidecars.start(), name="planck doctor")
    await asyncio.wait([starting], timeout=seconds)
    if starting.done() and isinstance(error := starting.exception(), PlanckError):
        findings.append(Finding("sidecars", "problem", str(error), "correct that"))
    return [*findings, *(_sidecar(row) for row in sidecars.rows())]


def _sidecar(row: Mapping[str, object]) -> Finding:
    name, state = str(row["sidecar"]), row["state"]
    if state == "connected":
        return Finding("sidecars", "ok", f"{name} is connected and has {counted(int(str(row['tools'])), 'tool')}.")
    if state in {"starting", "building"}:
        return Finding("sidecars", "note", f"{name} is still {state}.", f"wait; see `%planck sidecar logs {name}`")
    if state == "idle":  # it waits for trust, which has its own line
        return Finding("sidecars", "note", f"{name} is not started: {row['remark'] or 'it was stopped'}.", "")
    source = f" in {row['source']}" if row["source"] else ""
    fix = f"correct its command or address{source}, then `%planck sidecar start {name}`"
    return Finding("sidecars", "problem", str(row["remark"]), fix)
