"""The transcript that a run saves in the notebook, readable without kernel, script or style sheet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from textwrap import indent
from typing import Literal, TypeAlias, TypeVar

from planck_nb.agent.limits import Limits
from planck_nb.ai.messages import Message, TextPart, ThinkingPart, Usage
from planck_nb.base import markdown
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable, one_line
from planck_nb.jupyter.display.error_titles import error_title
from planck_nb.jupyter.display.formatting import bounded, bounded_text, count, dollars, elapsed
from planck_nb.jupyter.display.plain_output import for_terminal
from planck_nb.jupyter.display.run_facts import chosen_limits
from planck_nb.jupyter.transcript import html
from planck_nb.jupyter.transcript.blocks import (
    Block,
    CallGroup,
    Decision,
    Execution,
    Interjection,
    Notice,
    ToolCall,
    TranscriptEntry,
    blocks,
)
from planck_nb.jupyter.transcript.team_story import StoryStep, TeamStory

RENDER_IN_THREAD_FROM = 20_000
"""Above this many characters, rendering a transcript would block the event loop for too long."""

T = TypeVar("T")

Outcome: TypeAlias = Literal["done", "stopped", "failed", "cut off", "refused", "no answer"]
"""How a run ended: normally, stopped by the user, with an error, with a reply that is not complete, with a refusal, or
with thinking only."""


@dataclass(frozen=True)
class Transcript:
    """The course of one run, without the prompt, and its outcome.

    `bundle` depends on nothing that changes from one execution to the next: no ids, and no times unless it is `timed`.

    Args:
        agent: The name of the agent.
        model: What people call its model.
        outcome: How the run ended.
        entries: Messages, notices and decisions in order.
        usage: Tokens of all replies, None if the provider reported none.
        cost: US dollars, None if no price is known.
        error: The sentence with which a failed or cut off run ended.
        seconds: The duration of the run.
        warnings: Sentences on what could not be sent to the model as requested.
        warning: The sentence about an answer that was cut off, refused or is missing.
        returned: Prompts that were not sent, because the run was stopped.
        estimated: Whether usage and cost are the least that the run took, because a reply was stopped.
        team: What the other agents did in the run of a team, None for the run of a single agent. The other arguments
            are then about the agent that leads it, apart from usage, cost and seconds, which are of all.
        timed: Whether durations are shown.
        structured: Whether the last text is JSON, which is shown as such.
        limits: What the run might use, which is shown beside what it used; None for nothing.
        error_kind: The kind of the error.
    """

    agent: str
    model: str
    outcome: Outcome
    entries: tuple[TranscriptEntry, ...]
    usage: Usage | None
    cost: float | None
    error: str | None
    seconds: float
    warnings: tuple[str, ...] = ()
    warning: str = ""
    returned: tuple[str, ...] = ()
    estimated: bool = False
    team: TeamStory | None = None
    timed: bool = False
    structured: bool = False
    limits: Limits | None = None
    error_kind: str = ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Replies, tool results and messages that steered the run, in order; of a team, those of all its agents."""
        return self.own_messages if self.team is None else self.team.messages

    @property
    def own_messages(self) -> tuple[Message, ...]:
        """The messages of the agent whose run it is."""
        return tuple(entry for entry in self.entries if not isinstance(entry, Notice | Decision | Execution))

    def bundle(self) -> dict[str, str]:
        """Return the transcript by MIME type: HTML, Markdown and plain text."""
        return dict(self._bundle)

    @cached_property
    def _bundle(self) -> dict[str, str]:
        return {"text/html": self._html(), "text/markdown": self._markdown(), "text/plain": self._plain()}

    @property
    def is_large(self) -> bool:
        """Whether it should be rendered in a thread, before `bundle` is called on the event loop."""
        return (
            sum(len(getattr(part, "text", "")) for message in self.messages for part in message.content)
            > RENDER_IN_THREAD_FROM
        )

    def metadata(self) -> JsonObject:
        """Return what differs from one execution to the next, as metadata of the output."""
        return {"planck_nb": {"agent": self.agent, "outcome": self.outcome, "seconds": round(self.seconds, 3)}}

    @property
    def figures(self) -> str:
        """The outcome, the tokens, the cost and the model, as one line."""
        return figures_of(
            self.outcome,
            self.usage,
            self.cost,
            self.model,
            estimated=self.estimated,
            agents=1 if self.team is None else 1 + len(self.team.agents),
            limits=self.limits,
            seconds=self.seconds if self.timed else None,
        )

    @property
    def _notices(self) -> list[str]:
        """The warnings, each once and on one line."""
        return [one_line(encodable(warning), 500) for warning in dict.fromkeys(self.warnings)]

    @property
    def _not_sent(self) -> list[str]:
        return [f"Not sent: {one_line(encodable(text), 2_000)}" for text in self.returned]

    @property
    def _ending(self) -> tuple[str, str] | None:
        """A title and a sentence for a run that was stopped, failed, or has no complete answer."""
        if self.outcome == "stopped":
            return "Stopped.", "The text so far is kept."
        if self.error is None and self.outcome != "failed":
            return (encodable(self.warning), "") if self.warning else None
        return encodable(self.error or "The run failed."), "What was received is kept."

    @property
    def _blocks(self) -> Iterator[Block]:
        found = list(blocks(self.entries, "stopped" if self.outcome == "stopped" else "not finished"))
        last = max((place for place, block in enumerate(found) if isinstance(block, TextPart)), default=-1)
        if self.structured and last >= 0:
            found[last] = TextPart(markdown.fenced(_indented(getattr(found[last], "text", "")), "json"))
        return iter(found)

    def _html(self) -> str:
        parts = [
            html.header(self.agent, self.figures),
            *map(html.notice, self._notices),
            *([] if self.team is None else html.story(self.team, self.agent)),
            *map(html.block, self._blocks),
        ]
        if self.error is not None:
            reason = f"{encodable(self.error)} What was received is kept."
            parts.append(html.ending(error_title(self.error_kind), reason, bad=True))
        elif self._ending is not None:
            parts.append(html.ending(*self._ending, bad=self.outcome == "failed"))
        parts += map(html.notice, self._not_sent)
        body = "\n".join(parts)
        style = "font-size:14px;line-height:1.6;text-align:left;max-width:740px;padding:0 0 0 6px"  # as the live view
        return f'<div style="{style}">\n{body}\n</div>'

    def _markdown(self) -> str:
        head = f"**{markdown.to_markdown(one_line(encodable(self.agent)))}** · {markdown.to_markdown(self.figures)}"
        story = [] if self.team is None else list(_markdown_story(self.team, self.agent))
        parts = [head, *map(_quoted, self._notices), *story, *map(_markdown_block, self._blocks)]
        if self._ending is not None:
            title, sentence = self._ending
            parts.append(f"> **{markdown.to_markdown(one_line(title, 2_000))}** {sentence}".rstrip())
        parts += map(_quoted, self._not_sent)
        return "\n\n".join(parts) + "\n"

    def _plain(self) -> str:
        lines = [f"[{warning}]" for warning in self._notices]
        lines += () if self.team is None else map(_plain_step, self.team.steps)
        lines += (line for block in self._blocks if (line := _plain_block(block)))
        if self._ending is not None:
            lines.append(f"[{self._ending[0]}]")
        lines += [f"[{notice}]" for notice in self._not_sent]
        return for_terminal(encodable("\n".join(lines))) or f"[{self.outcome}]"


def _indented(text: str) -> str:
    """JSON with a line for each value; the text itself if it is something else."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text.strip()


def figures_of(
    outcome: Outcome,
    usage: Usage | None,
    cost: float | None,
    model: str,
    *,
    estimated: bool = False,
    agents: int = 1,
    seconds: float | None = None,
    limits: Limits | None = None,
) -> str:
    """The outcome, the number of agents, the tokens, the cost and the model, as one line.

    Tokens and cost are followed by the most that the run may use, where that is not the usual limit.
    """
    token_limit, cost_limit = chosen_limits(limits or Limits())
    time = None if seconds is None else elapsed(seconds)
    many = f"{agents} agents" if agents > 1 else None
    tokens = None if usage is None else f"{count(usage.total_tokens)}{_of(token_limit, count)} tokens"
    dollar = None if cost is None else f"{'at least ' if estimated else ''}{dollars(cost)}{_of(cost_limit, dollars)}"
    return " · ".join(encodable(figure) for figure in (outcome, many, time, tokens, dollar, model) if figure)


def _of(limit: T | None, written: Callable[[T], str]) -> str:
    return "" if limit is None else f" of {written(limit)}"


def _markdown_story(story: TeamStory, leader: str) -> Iterator[str]:
    """What the agents of a team sent each other, and the figures of each."""
    for step in story.steps:
        text = f"\n\n{indent(_quoted(step.text), '  ')}" if step.text and step.kind != "left out" else ""
        yield f"- **{markdown.to_markdown(step.label)}**{text}"
    for agent in story.agents:
        yield f"**{markdown.to_markdown(agent.name)}** · {markdown.to_markdown(agent.figures)}"
    yield f"**{markdown.to_markdown(one_line(encodable(leader)))}**"


def _plain_step(step: StoryStep) -> str:
    if step.kind == "left out":
        return f"[{step.label}]"
    return f"{'  ' * step.depth}[{step.label}: {one_line(step.text, 500)}]"


def _markdown_block(block: Block) -> str:
    match block:
        case ToolCall():
            return _markdown_call(block)
        case CallGroup():
            line = f"- **{len(block.calls)} calls** {markdown.code_span(block.names)}"
            line = f"{line} **{block.trouble}**" if block.trouble else line
            return "\n\n".join((line, *(indent(_markdown_call(call), "  ") for call in block.calls)))
        case Interjection():
            sender = f"**{markdown.to_markdown(one_line(block.sender))}:** " if block.sender else ""
            return f"> {sender}{_quoted(bounded(block.text.strip())).removeprefix('> ')}"
        case Notice():
            return _quoted(one_line(encodable(block.text), 500))
        case TextPart():
            return markdown.to_markdown(bounded_text(block.text).strip())
        case ThinkingPart():
            return f"> *Thinking*\n>\n{_quoted(bounded(block.text.strip()))}"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" for line in markdown.to_markdown(text).split("\n"))


def _markdown_call(call: ToolCall) -> str:
    line = f"- {markdown.code_span(f'{call.name} {call.key}'.strip())}"
    parts = [f"{line} **{call.state}**" if call.state else line]
    for name, text in call.arguments():
        parts.append(f"{markdown.code_span(name)}\n{markdown.fenced(text)}")
    if call.output:
        parts.append(markdown.fenced(call.output))
    parts += ["\\[image\\]"] * len(call.images)
    return indent("\n\n".join(parts), "  ").lstrip()


def _plain_block(block: Block) -> str:
    match block:
        case ToolCall():
            state = f": {block.state}" if block.state else ""
            line = f"[{one_line(f'{block.name} {block.key}'.strip(), 100)}{state}]"
            return " ".join((line, *("[image]" for _ in block.images)))
        case CallGroup():
            trouble = f", {block.trouble}" if block.trouble else ""
            return f"[{len(block.calls)} calls: {one_line(block.names, 200)}{trouble}]"
        case Interjection():
            sender = f"{one_line(block.sender)}: " if block.sender else ""
            return "\n".join(f"> {line}" for line in f"{sender}{block.text.strip()}".splitlines())
        case Notice():
            return f"[{one_line(block.text, 500)}]"
        case TextPart():
            return bounded_text(block.text).strip()
        case ThinkingPart():
            return ""
