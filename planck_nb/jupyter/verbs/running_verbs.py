"""Verbs that control running agents."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import replace

from planck_nb.agent.agent import Agent
from planck_nb.agent.answers import problem_of
from planck_nb.agent.context.window import NOTHING_TO_SHORTEN
from planck_nb.agent.effect import Effect
from planck_nb.agent.events import Compacted, RuleScope
from planck_nb.agent.state import PendingApproval
from planck_nb.ai.messages import AssistantMessage
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.base.text import counted
from planck_nb.base.visible import visible
from planck_nb.jupyter.controller import StartedRun
from planck_nb.jupyter.display.approval_text import pending_text, rule_sentence
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.kinds import AGENT, CALL, is_agent, is_tool, waiting_calls
from planck_nb.jupyter.parsing.parameters import TEXT, Extent, Kind, Option, Parameter, choice
from planck_nb.jupyter.verbs.declaration import Text, table, verb
from planck_nb.workspace.agent_names import named_agents

SUBJECT = "Running agents"

_SCOPE = choice(
    agent="this agent",
    role="all agents of its role in a team",
    all="all agents",
    prompt="this agent until it has answered, for tools that are asked about each time",
)
_CALL = Parameter("call", CALL, "the agent that waits, the id of its call, or both", optional=True)


@verb(
    "steer",
    SUBJECT,
    "give the running agent a message, which it reads before its next step",
    Parameter("text", TEXT, "the message"),
    example="steer use the newer file instead",
)
async def steer(notebook: Notebook, text: str) -> Text:
    """Send the message to the running agent."""
    name, _, rest = text.partition(" ")
    member = named_agents(notebook.workspace).get(name) if "/" in name and rest.strip() else None
    if member is not None:
        text = rest.strip()
        if member.status == "idle":
            raise AgentError(f"{name} is not running, so it cannot be steered; send it a prompt with %%planck {name}.")
    agent = member or _running(notebook)
    notebook.controller.steer(agent, text)
    return Text(f"{agent.name} reads it before its next step.")


def _running(notebook: Notebook) -> Agent:
    """The agent that was prompted last if it runs, else the only one that does. Raises `AgentError`."""
    running = {name: agent for name, agent in named_agents(notebook.workspace).items() if agent.status != "idle"}
    current = notebook.controller.prompted
    if current is not None and current in running.values():
        return current
    leads = any(team.orchestrator is current for team in notebook.workspace.teams.values())
    if current is not None and leads and any(agent.team_id == current.team_id for agent in running.values()):
        return current  # the orchestrator of a team that works, which waits for responses
    if not running:
        raise AgentError("No agent is running that could be steered; prompt one first.")
    if len(running) > 1:
        raise AgentError(f"{', '.join(running)} are running; prompt one of them first, or steer it in its live view.")
    return next(iter(running.values()))


@verb(
    "queue",
    SUBJECT,
    "list waiting prompts; send or drop those that an ended process left unanswered",
    Parameter("agent", AGENT, "the agent whose prompts to list, send or remove; by default, all agents", optional=True),
    Option("send", None, None, "send the unanswered prompts"),
    Option("drop", None, None, "remove the unanswered prompts"),
    example="queue analyst --send",
    shows=True,
)
async def queue(notebook: Notebook, agent: Agent | None, send: bool, drop: bool) -> object:
    """Return a table of the prompts, or send or remove those that were never answered."""
    workspace = notebook.workspace
    if send and drop:
        raise UsageError("`%planck queue` needs either --send or --drop.")
    agents = {name: one for name, one in named_agents(workspace).items() if agent in {None, one}}
    names = {one.id: name for name, one in agents.items()}
    unanswered = [prompt for prompt in workspace.unanswered if prompt.agent_id in names]
    if not (send or drop):
        rows = [
            {"prompt": prompt.id, "agent": name, "state": "waits", "text": prompt.text}
            for name, one in agents.items()
            for prompt in one.state.queue
        ]
        rows += [
            {"prompt": prompt.id, "agent": names[prompt.agent_id], "state": "unanswered", "text": prompt.text}
            for prompt in unanswered
        ]
        return table(rows, ["prompt", "agent", "state", "text"], empty="No prompt waits.")
    if not unanswered:
        return Text("There are no unanswered prompts.")
    chosen = [prompt.id for prompt in unanswered]
    if drop:
        await workspace.drop_unanswered(*chosen)
        return Text(f"Removed {counted(len(chosen), 'prompt')}; what was sent before stays.")
    waiting = list(dict.fromkeys(names[prompt.agent_id] for prompt in unanswered))
    if len(waiting) > 1:
        raise UsageError(
            f"{', '.join(waiting)} have unanswered prompts; write `%planck queue {waiting[0]} --send` for each agent."
        )
    first, *later = workspace.send_unanswered(*chosen)
    return StartedRun(agents[waiting[0]], first, "", tuple(later))


def _agent_to_stop(notebook: Notebook, name: str) -> Agent | None:
    """Return the agent with this name, None for all."""
    return None if name in _EVERYTHING and not is_agent(notebook, name) else notebook.controller.agent(name)


_EVERYTHING = frozenset("all everything it now please that this".split())
"""Words after `stop` for all agents."""


@verb(
    "stop",
    SUBJECT,
    "stop running agents and what waits for them; the text so far is kept",
    Parameter(
        "agent",
        replace(
            AGENT, resolve=_agent_to_stop, fits=lambda notebook, text: text in _EVERYTHING or is_agent(notebook, text)
        ),
        "the agent or the team to stop, by default all",
        optional=True,
    ),
    example="stop analyst",
    synonyms=("abort", "cancel", "interrupt", "kill"),
)
async def stop(notebook: Notebook, agent: Agent | None) -> Text:
    """Stop the agent, or all agents."""
    workspace = notebook.workspace
    teams = [team for team in workspace.teams.values() if agent in {None, team.orchestrator}]
    of_teams = {member for team in teams for member in team.agents}
    running = {
        name: one
        for name, one in named_agents(workspace).items()
        if one.status != "idle" and (agent in {None, one} or one in of_teams)
    }
    maps = workspace.running_maps if agent is None else ()
    if not running and not maps:
        return Text("Nothing is running.")
    lines = [f"Stopped {', '.join(running)}. What was written so far is kept."] if running else []
    lines += [f"Stopped a map at {run.progress.headline}. Its answers are kept." for run in maps]
    for name, one in running.items():
        for prompt in one.state.queue:
            one.remove_queued(prompt.id, returned=True)
            lines.append(f"Not sent to {name}: {prompt.text}")
    alone = [one for one in running.values() if one not in of_teams]
    await asyncio.gather(
        *(one.abort() for one in alone), *(team.abort() for team in teams), *(run.aclose() for run in maps)
    )
    return Text("\n".join(lines))


@verb(
    "continue",
    SUBJECT,
    "let the model go on where its reply was cut off or stopped",
    Parameter("agent", AGENT, "the agent, by default the default agent", optional=True),
    example="continue analyst",
    synonyms=("retry",),
)
async def continue_(notebook: Notebook, agent: Agent | None) -> StartedRun:
    """Let the agent go on, and show it."""
    agent = agent or notebook.controller.agent()
    if agent.status == "idle" and _has_answered(agent):
        raise AgentError(
            f"{agent.name} has answered completely, so there is nothing to continue; ask for more with a prompt."
        )
    run = agent.continue_()
    if run is None:
        raise AgentError(f"{agent.name} is running; wait until it has ended, or steer it.")
    return StartedRun(agent, run, "")


def _has_answered(agent: Agent) -> bool:
    """Whether an agent's conversation ends with a complete answer; a member of a team may also wait for others."""
    messages = (entry.message for entry in reversed(agent.state.messages))
    last = next((message for message in messages if message.content and message.type != "summary"), None)
    if not isinstance(last, AssistantMessage) or agent.team_id is not None:
        return False
    return last.stop_reason == "stop" and not last.tool_calls and not problem_of(last)


_ID = re.compile(r"[A-Za-z]\w*[_\d]\w*")
"""The usual form of a call's id."""


def _is_call_or_tool(notebook: Notebook, words: Sequence[str]) -> bool:
    """Recognise a call, and a single tool, which the verb's error explains."""
    is_call = CALL.fits is not None and CALL.fits(notebook, words[0])
    is_call = is_call or _ID.fullmatch(words[0]) is not None  # of a call which does not wait any more
    tool, narrows, _ = words[0].partition(":")
    is_rule = is_tool(notebook, tool) and (len(words) == 1 or bool(narrows))
    return is_call or is_agent(notebook, words[0]) or is_rule


@verb(
    "approve",
    SUBJECT,
    "show a tool call that waits for approval; run again, allow it",
    _CALL,
    Option(
        "always",
        None,
        _SCOPE,
        "allow such calls, too: of this agent, its role or all, or for this prompt",
    ),
    Option("list", None, None, "only show the calls, with everything they would do"),
    example="approve --always agent analyst",
    synonyms=("accept",),
    shortcuts={"pending": "--list", "approve all": "--list"},
    fits=_is_call_or_tool,
)
async def approve(
    notebook: Notebook,
    call: tuple[Agent, PendingApproval] | None,
    always: RuleScope | None,
    list: bool,  # noqa: A002 - the option
) -> object:
    """Allow a call if all of it was shown before, else show it; of several, return a table."""
    shown = _shown_calls(notebook)
    if list:
        if always is not None:
            raise UsageError("`%planck approve` needs either --list or --always.")
        return _shown_whole(waiting_calls(notebook) if call is None else [call], shown)
    call = call or _only_call(notebook)
    if call is None:
        return _calls(notebook)
    agent, pending = call
    this = _shown_as(agent, pending)
    _, whole, _ = this
    if this not in shown:
        shown.add(this)
        return Text(f"{whole}\n\nNothing runs yet: look at the call, then run this command again to allow it.")
    _allow(agent, pending, always)
    shown.discard(this)
    if always is None:
        return Text(f"{pending.name} runs.")
    if always == "prompt":
        return Text(f"{pending.name} runs. {agent.name} may call it without approval until this prompt is answered.")
    allowed = f" The rule allows {rule_sentence(pending.rule)}." if pending.rule else ""
    of = {"agent": agent.name, "role": f"all {agent.role}s"}.get(always, "all agents")
    return Text(f"{pending.name} runs. Such calls of {of} need no approval for the rest of this session.{allowed}")


def _shown_as(agent: Agent, pending: PendingApproval) -> tuple[str, str, float]:
    """What identifies a call that was shown; an equal call that follows has a later deadline."""
    return agent.id, pending_text(agent.name, pending), pending.deadline


def _shown_calls(notebook: Notebook) -> set[tuple[str, str, float]]:
    """The calls that were shown, after those that no longer wait are removed."""
    shown = notebook.controller.shown_calls
    shown.intersection_update([_shown_as(agent, pending) for agent, pending in waiting_calls(notebook)])
    return shown


def _allow(agent: Agent, pending: PendingApproval, always: RuleScope | None) -> None:
    if always is None:
        agent.decide(pending.id, allow=True)
    else:
        agent.decide(pending.id, allow=True, remember=True, scope=always)


def _shown_whole(calls: Sequence[tuple[Agent, PendingApproval]], shown: set[tuple[str, str, float]]) -> Text:
    """Return everything about these calls, which counts as shown from now on."""
    texts = [_shown_as(agent, waiting) for agent, waiting in calls]
    shown.update(texts)
    return Text("\n\n".join(whole for _, whole, _ in texts) or "Nothing waits for approval.")


@verb(
    "deny",
    SUBJECT,
    "refuse a tool call that waits for approval",
    _CALL,
    Parameter("reason", Kind("REASON", extent=Extent.TEXT), "why; the model reads it", optional=True),
    example="deny analyst use a copy of the file instead",
    fits=_is_call_or_tool,
)
async def deny(notebook: Notebook, call: tuple[Agent, PendingApproval] | None, reason: str | None) -> object:
    """Refuse the call, or return a table of those that wait."""
    call = call or _only_call(notebook)
    if call is None:
        return _calls(notebook)
    agent, pending = call
    agent.decide(pending.id, allow=False, reason=reason or "")
    return Text(f"{pending.name} does not run.")


def _only_call(notebook: Notebook) -> tuple[Agent, PendingApproval] | None:
    waiting = waiting_calls(notebook)
    return waiting[0] if len(waiting) == 1 else None


def _calls(notebook: Notebook) -> object:
    waiting = waiting_calls(notebook)
    if not waiting:
        return Text("Nothing waits for approval.")
    rows = [
        {
            "call": pending.id,
            "agent": agent.name,
            "tool": pending.name,
            "touches": "; ".join(map(_effect, pending.touches)),
            "why": visible(pending.reason),
            "always": rule_sentence(pending.rule),
        }
        for agent, pending in waiting
    ]
    return table(rows, ["call", "agent", "tool", "touches", "why", "always"])


def _effect(effect: Effect) -> str:
    place = f" in {effect.cwd}" if effect.cwd else ""
    return visible(f"{effect.kind} {effect.target}{place}")


@verb(
    "compact",
    SUBJECT,
    "replace the conversation so far with a summary",
    Parameter("agent", AGENT, "the agent, by default the default agent", optional=True),
    example="compact analyst",
)
async def compact(notebook: Notebook, agent: Agent | None) -> Text:
    """Compact the agent's conversation."""
    agent = agent or notebook.controller.agent()
    before, summary, position = agent.estimate_tokens(), _latest_summary(agent), agent.events.end
    if not await agent.compact():
        window = agent.model.context_window
        if window is not None and before > window:
            return Text(
                f"{agent.name} could not shorten its conversation of about {before:,} tokens to its context window of "
                f"{window:,}; take prompts back with `%planck rewind`, or choose a model with a larger window."
            )
        return Text(_why_not_compacted(agent, position))
    after = f"about {agent.estimate_tokens():,} tokens instead of {before:,}"
    if _latest_summary(agent) == summary:
        return Text(
            f"{agent.name} could not be summarised enough, so its longest texts are cut in what is sent: {after}. "
            "They stay in the history."
        )
    if agent.estimate_tokens() >= before:
        return Text(
            f"{agent.name} continues from a summary that is not shorter: {after}; this helps in longer conversations."
        )
    return Text(f"{agent.name} continues from a summary: {after}.")


def _why_not_compacted(agent: Agent, position: int) -> str:
    """Say why the agent's conversation stays as it was, by its events since this position."""
    ended = [event for event in agent.events.since(position) if isinstance(event, Compacted)]
    if not agent.state.messages:
        return f"{agent.name} has nothing to shorten yet; send it a prompt first."
    if not ended:
        return (
            f"The compactor of {agent.name} left the conversation as it is; `--compactor` in a prompt chooses another."
        )
    if ended[-1].reason != NOTHING_TO_SHORTEN:
        return (
            f"The conversation of {agent.name} stays as it was. {ended[-1].reason.rstrip('.')}. Run the command again, "
            "or choose another compactor by `--compactor` in a prompt."
        )
    new = "" if agent.team_id is not None else " `--new` in a prompt begins an empty conversation."
    return (
        f"{agent.name} has nothing to shorten: the newest messages are kept as they are, and there are too few older "
        f"ones.{new}"
    )


def _latest_summary(agent: Agent) -> int | None:
    """The id of the newest summary in the agent's conversation, None without one."""
    return next((entry.id for entry in reversed(agent.state.messages) if entry.message.type == "summary"), None)
