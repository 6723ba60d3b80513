"""Verbs that act on what runs: steer it, approve what it asks for, shorten what it has said."""

from __future__ import annotations

from typing import TYPE_CHECKING

from planck_nb.agent.agent import Agent
from planck_nb.agent.approval import ACTIONS, KINDS
from planck_nb.agent.state import PendingApproval
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.base.text import one_line
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.options import rules
from planck_nb.jupyter.verbs.verb import Notebook, Text, Verb, table

if TYPE_CHECKING:
    import pandas as pd

_SHOWN = 100


async def _steer(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    if not argument:
        raise UsageError("Write `%planck steer TEXT`: what the running agent should take into account.")
    agent = _running(controller)
    controller.steer(agent, argument)
    return Text(f"{agent.name} reads it before its next step.")


def _running(controller: Controller) -> Agent:
    """The agent that was talked to last, where it runs, else the only one that does. Raises `AgentError`."""
    running = {name: agent for name, agent in controller.workspace.agents.items() if agent.status != "idle"}
    if controller.current in running:
        return running[controller.current]
    if not running:
        raise AgentError("No agent runs that could be steered; say it in a prompt.")
    if len(running) > 1:
        raise AgentError(f"{', '.join(running)} run; talk to one of them first, or steer it in its live view.")
    return next(iter(running.values()))


async def _approve(controller: Controller, argument: str, _notebook: Notebook) -> object:
    waiting = _waiting(controller)
    if not argument and len(waiting) != 1:
        return _table(waiting)
    agent, asking, rest = _chosen(waiting, argument)
    if rest:
        raise UsageError("Write `%planck approve`, or `%planck approve AGENT CALL` where several calls wait.")
    agent.decide(asking.id, allow=True)
    return Text(f"{asking.name} runs.")


async def _deny(controller: Controller, argument: str, _notebook: Notebook) -> object:
    waiting = _waiting(controller)
    if not argument and len(waiting) != 1:
        return _table(waiting)
    agent, asking, reason = _chosen(waiting, argument)
    agent.decide(asking.id, allow=False, reason=reason)
    return Text(f"{asking.name} does not run.")


async def _policy(controller: Controller, argument: str, _notebook: Notebook) -> pd.DataFrame:
    approvals = controller.workspace.approvals
    action, _, written = argument.partition(" ")
    if action and (action not in ACTIONS or not written.strip()):
        raise UsageError("Write `%planck policy`, or `%planck policy allow RULES` (or ask, deny), such as bash:git *.")
    for known in ACTIONS:
        if action == known:
            for rule in rules(known)(written):
                approvals.remember(rule)
            await controller.workspace.save_session_settings()
    policy = approvals.policy
    settings = set(controller.workspace.policy().rules)
    rows = [
        {"what": str(rule), "action": rule.action, "from": "settings" if rule in settings else "session"}
        for rule in policy.rules
    ]
    for kind in KINDS:
        where = " (below the working directory)" if kind == "read" else ""
        rows.append({"what": f"{kind}{where}", "action": policy.default.get(kind, "ask"), "from": "default"})
    return table(rows, ["what", "action", "from"])


async def _compact(controller: Controller, argument: str, _notebook: Notebook) -> Text:
    agent = controller.agent(argument)
    before = agent.context_usage().tokens
    if not await agent.compact():
        return Text(f"{agent.name} has nothing to shorten, or could not; the conversation stays as it was.")
    after = agent.context_usage().tokens
    return Text(f"{agent.name} goes on from a summary: about {after:,} tokens instead of {before:,}.")


def _waiting(controller: Controller) -> list[tuple[Agent, PendingApproval]]:
    return [(agent, asking) for agent in controller.workspace.agents.values() for asking in agent.state.asking]


def _chosen(waiting: list[tuple[Agent, PendingApproval]], argument: str) -> tuple[Agent, PendingApproval, str]:
    """The call that the argument begins with, by its agent, its id or both, and what follows that.

    Ids are the model's, so two agents may have the same. Without an argument it is the only call that waits.
    """
    if not argument:
        return *waiting[0], ""
    named = [
        (len(key), agent, asking)
        for agent, asking in waiting
        for key in (f"{agent.name} {asking.id}", agent.name, asking.id)
        if f"{argument} ".startswith(f"{key} ")
    ]
    longest = max((length for length, _, _ in named), default=0)
    found = [(agent, asking) for length, agent, asking in named if length == longest]
    if not found:
        word = argument.split(maxsplit=1)[0]
        raise AgentError(f"No call {word} waits for approval; `%planck approve` lists those that do.")
    if len(found) > 1:
        raise AgentError(f"{len(found)} calls that wait are meant by {argument[:longest]}; write its agent and its id.")
    return *found[0], argument[longest:].strip()


def _table(waiting: list[tuple[Agent, PendingApproval]]) -> object:
    if not waiting:
        return Text("Nothing waits for approval.")
    rows = [
        {
            "call": asking.id,
            "agent": agent.name,
            "tool": asking.name,
            "touches": "; ".join(one_line(f"{touch.kind} {touch.target}", _SHOWN) for touch in asking.touches),
            "why": asking.reason,
        }
        for agent, asking in waiting
    ]
    return table(rows, ["call", "agent", "tool", "touches", "why"])


VERBS = {
    "steer": Verb("steer TEXT", "say something to the running agent, between two of its steps", _steer),
    "approve": Verb("approve [agent] [CALL]", "let the call that waits run; where several wait, list them", _approve),
    "deny": Verb("deny [agent] [CALL] [REASON]", "refuse a call that waits; the model reads the reason", _deny),
    "policy": Verb("policy [ACTION RULES]", "show what calls may do, or allow, ask about or deny some", _policy),
    "compact": Verb("compact [agent]", "replace what was said so far by a summary", _compact),
}
