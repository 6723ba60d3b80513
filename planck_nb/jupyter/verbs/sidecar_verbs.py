"""`%planck sidecar`: MCP servers whose tools and compactors the agents of the notebook use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import UsageError
from planck_nb.base.text import one_line
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import SIDECAR
from planck_nb.jupyter.parsing.parameters import INTEGER, Option, Parameter, choice
from planck_nb.jupyter.similar_words import nearest
from planck_nb.jupyter.terminal.question_prompt import QuestionPrompt
from planck_nb.jupyter.verbs.declaration import Text, table, verb
from planck_nb.sidecars.mcp_client.link.status import SidecarStatus
from planck_nb.workspace.sidecar_notices import listed_tools

SUBJECT = "Sidecars"

_ACTIONS = {
    "list": "list the sidecars and their states, or what one of them offers",
    "start": "start sidecars, by default all that are trusted",
    "stop": "stop sidecars, by default all",
    "restart": "stop sidecars and start them again",
    "logs": "show the newest lines that a sidecar wrote",
    "add": "add the sidecars from the JSON file of another MCP client",
}
_ROLES = {
    "sidecar_observers": "gets all agents' events",
    "sidecar_sampling": "may ask your models",
    "sidecar_roots": "is told this folder",
}
"""Roles by setting."""


def _may_be_sidecar_line(notebook: Notebook, words: Sequence[str]) -> bool:
    """Recognise an action with one more word, or with known sidecars."""
    action, *names = words
    if action not in _ACTIONS:
        return not names and bool(nearest(action, _ACTIONS))
    return len(names) <= 1 or all(name in notebook.workspace.sidecars.known_names() for name in names)


_LINES = 40
_REASON_CHARACTERS = 1_000
_OFFER_COLUMNS = ["kind", "name", "runs", "description", "remark"]
_COLUMNS = ["sidecar", "state", "transport", "tools", "source", "remark"]


@verb(
    "sidecar",
    SUBJECT,
    "list sidecars (MCP servers); add, start, stop or restart some, or show the log of one",
    Parameter("action", choice(**_ACTIONS), "what to do, by default list", optional=True),
    Parameter("names", SIDECAR, "names of sidecars, or with add a JSON file with mcpServers", optional=True),
    Option("lines", None, INTEGER, "with logs: how many lines, 1 or more; by default 40"),
    example="sidecar start files",
    synonyms=("mcp", "sidecars", "servers"),
    shortcuts={"logs": "logs"},
    shows=True,
    fits=_may_be_sidecar_line,
)
async def sidecar(notebook: Notebook, action: str | None, names: Sequence[str] | None, lines: int | None) -> object:
    """Do one of the actions."""
    sidecars = notebook.workspace.sidecars
    action, chosen = action or "list", list(names or ())
    if lines is not None and action != "logs":
        raise UsageError("--lines is for `%planck sidecar logs`.")
    if action == "list":
        return await _offered(notebook, chosen) if chosen else _listed(notebook)
    if action == "add":
        return _added(notebook, chosen)
    if action == "logs":
        if len(chosen) != 1:
            raise UsageError("`%planck sidecar logs` needs the name of one sidecar; `%planck sidecar` lists them.")
        written = sidecars.logs(chosen[0], lines or _LINES)
        return Text("\n".join(written) or f"The sidecar {chosen[0]} has written nothing.")
    if action == "stop":
        await sidecars.stop(chosen)
        stopped = ", ".join(chosen) or ("all sidecars" if sidecars.known_names() else "nothing, as there is no sidecar")
        return Text(f"Stopped: {stopped}.")
    if action == "restart":
        await sidecars.stop(chosen)
    with sidecars.progress.showing(_print, chosen):
        async with _questions_asked(notebook):
            statuses = await sidecars.start(chosen)
    if not statuses:
        return Text("There is no sidecar to start. `%planck sidecar` lists those that are known and not trusted yet.")
    started = [_started(status, list(sidecars.tool_names(status.name))) for status in statuses]
    return Text("\n".join([*started, *sidecars.manager.notes()]))


def _listed(notebook: Notebook) -> object:
    sidecars = notebook.workspace.sidecars
    rows, problems = sidecars.rows(), sidecars.found()[1]
    if not rows and not problems:
        return Text(
            "There are no sidecars. Describe some in `.planck/mcp.json`, name the file of another MCP client with "
            "`%planck sidecar add FILE`, or write your own with `planck-nb new sidecar NAME`."
        )
    root = notebook.workspace.config.root
    for row in rows:
        source = Path(str(row["source"]))
        row["source"] = str(source.relative_to(root)) if source.is_relative_to(root) else str(row["source"])
    rows += [{**dict.fromkeys(_COLUMNS, ""), "remark": problem} for problem in problems]
    return table(rows, _COLUMNS)


def _added(notebook: Notebook, chosen: Sequence[str]) -> Text:
    if len(chosen) != 1:
        raise UsageError("`%planck sidecar add` needs one JSON file with `mcpServers`.")
    workspace = notebook.workspace
    names, problems = workspace.sidecars.add_file(Path(chosen[0]))
    roles = [
        f"{name} {role}, by the setting {setting}."
        for setting, role in _ROLES.items()
        for name in names
        if name in getattr(workspace.config, setting)
    ]
    return Text("\n".join([f"Added: {', '.join(names)}. `%planck sidecar start` starts them.", *roles, *problems]))


async def _offered(notebook: Notebook, chosen: Sequence[str]) -> object:
    if len(chosen) != 1:
        raise UsageError("`%planck sidecar list` describes one sidecar at a time; `%planck sidecar` lists them.")
    return table(await notebook.workspace.sidecars.described(chosen[0]), _OFFER_COLUMNS)


@asynccontextmanager
async def _questions_asked(notebook: Notebook) -> AsyncIterator[None]:
    """Ask questions about sidecars that no agent has called yet, such as to sign in, by typed answers."""
    read = notebook.line_reader()
    if read is None:
        yield
        return
    write = partial(print, end="", flush=True)
    prompt = QuestionPrompt(notebook.controller.questions, lambda agent: not agent, read=read, write=write)
    asking = spawn(prompt.follow(), name="planck question prompts")
    try:
        yield
    finally:
        await cancel_and_wait(asking)


def _print(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - a line in the cell's output


def _started(status: SidecarStatus, tools: Sequence[str]) -> str:
    if status.state != "connected":
        return f"{status.name}: {status.state}. {one_line(status.reason, _REASON_CHARACTERS)}".rstrip()
    compactors = f", compactors: {', '.join(status.compactors)}" if status.compactors else ""
    return f"{status.name}: connected, {listed_tools(dict(zip(tools, tools, strict=True)))}{compactors}."
