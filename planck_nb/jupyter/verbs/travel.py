"""Verbs that move through a session's past, and from one session to another."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import islice
from typing import TYPE_CHECKING

from planck_nb.agent.agent import Agent
from planck_nb.agent.calling.functions import as_tool
from planck_nb.agent.calling.tool import Tool
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.namespace import is_function
from planck_nb.jupyter.options import Option, count, parse_words
from planck_nb.jupyter.verbs.verb import Notebook, Text, Verb, table
from planck_nb.sessions.branch import Branch
from planck_nb.workspace.workspace import ToolResolver

if TYPE_CHECKING:
    import pandas as pd

FORK = (Option("before", None, "ID", "the message that the new session does not have any more", count),)
_SHOWN = 20
LAST = "last"
"""Stands for the newest prompt or branch."""


def _branch(text: str) -> int:
    return 0 if text == LAST else count(text)


BRANCHES = (Option("return", "r", "BRANCH", "go on where this branch, or the `last` one, left off", _branch),)

_PROMPTS = """
SELECT id, agents.name AS agent, text AS prompt, ts, agent_id FROM messages JOIN agents USING (session_id, agent_id)
WHERE session_id = getvariable('session') AND role = 'user' ORDER BY id
"""


async def _rewind(controller: Controller, argument: str, notebook: Notebook) -> object:
    workspace = controller.workspace
    if not argument:
        return (await workspace.query_async(_PROMPTS)).drop(columns="agent_id")
    word, _, prompt = argument.partition(" ")
    prompts = await workspace.query_async(_PROMPTS)
    owners = dict(zip(map(int, prompts["id"]), prompts["agent_id"], strict=True))
    wanted = max(owners, default=0) if word == LAST else int(word) if word.isdecimal() else 0
    if wanted not in owners:
        raise UsageError(f"There is no prompt {word} to go back to; `%planck rewind` lists them with their ids.")
    said = await workspace.rewind(wanted, find=_finder(notebook))
    controller.choose_current()
    if prompt.strip():
        name = workspace.find_agent(owners[wanted]).name
        started = await controller.start(prompt, {"agent": name}, notebook.names)
        return replace(started, notice="\n".join([*said, started.notice]).strip())
    back = f"Back to before prompt {wanted}. `%planck branches` has what was taken back."
    return Text("\n".join([back, *said]))


async def _branches(controller: Controller, argument: str, notebook: Notebook) -> object:
    parsed = parse_words(argument, BRANCHES, of="%planck branches")
    if parsed.words:
        raise UsageError("Write `%planck branches`, or `%planck branches --return BRANCH` to go on with one.")
    workspace = controller.workspace
    if "return" not in parsed.options:
        return _table(controller)
    known = [branch.id for branch in _known_branches(controller)]
    branch = parsed.options["return"] or max(known, default=0)
    if branch not in known:
        said = f"There is no branch {branch}" if branch else "Nothing was taken back"
        raise UsageError(f"{said} in this session; `%planck branches` lists what there is to return to.")
    problems = await workspace.return_to(branch, find=_finder(notebook))
    controller.choose_current()
    return Text("\n".join([f"Back on branch {branch}.", *problems]))


async def _fork(controller: Controller, argument: str, notebook: Notebook) -> Text:
    parsed = parse_words(argument, FORK, of="%planck fork")
    if len(parsed.words) > 1:
        raise UsageError("Write `%planck fork [NAME]`, with a name in one word.")
    workspace = controller.workspace
    if workspace.session_id is None:
        raise UsageError("This notebook has no session to fork yet; the first prompt makes one.")
    before = workspace.session.name
    name = parsed.words[0] if parsed.words else None
    problems = await workspace.fork(name, before=parsed.options.get("before"), find=_finder(notebook))
    controller.choose_current()
    return Text("\n".join([f"{workspace.session.name} goes on from here; {before} stays as it is.", *problems]))


async def _resume(controller: Controller, argument: str, notebook: Notebook) -> Text:
    parsed = parse_words(argument, of="%planck resume")
    if len(parsed.words) > 1:
        raise UsageError("Write `%planck resume [SESSION]`; `%planck sessions` lists them.")
    workspace = controller.workspace
    problems = await workspace.resume(parsed.words[0] if parsed.words else None, find=_finder(notebook))
    controller.choose_current()
    return Text("\n".join([f"{workspace.session.name} goes on with {_listed(workspace.agents.values())}.", *problems]))


def _listed(agents: Collection[Agent]) -> str:
    shown = [f"{agent.name} ({_count(len(agent.state.messages), 'message')})" for agent in islice(agents, _SHOWN)]
    more = len(agents) - len(shown)
    return ", ".join(shown) + (f" and {_count(more, 'other agent')}" if more else "") or "no agent"


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


async def _remove(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    if not argument:
        raise UsageError("Write `%planck remove AGENT`; `%planck agents` lists them.")
    name = controller.agent(argument).name
    await controller.workspace.remove_agent(name)
    controller.choose_current()
    return Text(f"{name} stopped for good. What it said stays in the session.")


def _finder(notebook: Notebook) -> ToolResolver:
    def find(name: str) -> Tool | None:
        value = notebook.names.get(name)
        return as_tool(value) if is_function(value) else None

    return find


def _known_branches(controller: Controller) -> list[Branch]:
    return controller.workspace.session.branches() if controller.workspace.session_id else []


def _table(controller: Controller) -> pd.DataFrame:
    rows = [
        {
            "branch": branch.id,
            "before": branch.before_id,
            "messages": branch.messages,
            "last": branch.last_text,
            "left_at": branch.left_at,
        }
        for branch in _known_branches(controller)
    ]
    return table(rows, ["branch", "before", "messages", "last", "left_at"])


VERBS = {
    "rewind": Verb(
        "rewind [ID [PROMPT]]", "go back to before a prompt, or the `last` one, and say something else there", _rewind
    ),
    "branches": Verb("branches", "list what was taken back; --return BRANCH goes on with one", _branches, BRANCHES),
    "fork": Verb("fork [NAME]", "go on in a new session that begins like this one", _fork, FORK),
    "resume": Verb("resume [session]", "go on with a stored session, by default the newest", _resume),
    "remove": Verb("remove agent", "stop an agent for good", _remove),
}
