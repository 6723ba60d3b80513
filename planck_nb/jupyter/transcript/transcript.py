"""The saved transcript, readable without kernel, script or style sheet."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias, TypeVar

from planck_nb.agent.limits import Limits
from planck_nb.agent.preview_types import HtmlPreview
from planck_nb.ai.messages import Message, TextPart, Usage
from planck_nb.base import markdown
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable, one_line
from planck_nb.jupyter.display.error_titles import error_title
from planck_nb.jupyter.display.run_facts import chosen_limits
from planck_nb.jupyter.transcript.team_story import TeamStory, plain_step, story_html, story_markdown
from planck_nb.rendering import block_html
from planck_nb.rendering.block_text import markdown_block, plain_block, quoted
from planck_nb.rendering.blocks import Block, CallGroup, Decision, Execution, Notice, ToolCall, TranscriptEntry, blocks
from planck_nb.rendering.formatting import count, dollars, elapsed
from planck_nb.rendering.plain_output import for_terminal

RENDER_IN_THREAD_FROM = 2_000
"""Characters above which rendering would block the event loop for too long."""

T = TypeVar("T")

Outcome: TypeAlias = Literal["done", "stopped", "failed", "cut off", "refused", "no answer"]
"""A run's outcome.

It may be normal, a stop by the user, an error, an incomplete reply, a refusal, or a reply with thinking only.
"""


_TASK_TOOLS = frozenset({"ask_agent", "delegate_task"})
"""Tools whose calls are tasks in a team's story."""

_TITLES: dict[Outcome, str] = {
    "cut off": "The answer is cut off",
    "refused": "The model refused to answer",
    "no answer": "There is no answer",
}

_ABRUPT: tuple[Outcome, ...] = ("stopped", "failed")


@dataclass(frozen=True)
class Transcript:
    """A run's course, without the prompt, and its outcome.

    `bundle` is the same for every execution: it is without ids, and has times only if it is `timed`.

    Args:
        agent: The agent's name.
        model: People's name for its model.
        outcome: The run's outcome.
        entries: Messages, notices and decisions in order.
        usage: Tokens in all replies, None if the provider reported none.
        cost: US dollars, None for an unknown price.
        error: The final sentence in a failed or cut run.
        seconds: The run's duration.
        warnings: Sentences about content which could not be sent to the model as requested.
        warning: The sentence about a cut, refused or missing answer.
        returned: Unsent prompts, because the run was stopped.
        estimated: Whether usage and cost are lower bounds, because a reply was stopped.
        team: The other agents' work in a team's run, None for a single agent. The other arguments are then about the
            leading agent, apart from usage, cost and seconds, which cover all agents.
        timed: Whether durations are shown.
        structured: Whether the last text is JSON, and shown as such.
        limits: The run's limits, shown beside its usage; None to show nothing.
        error_kind: The error's kind.
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
        """Return replies, tool results and steering messages in order.

        For a team, they come from all its agents.
        """
        return self.own_messages if self.team is None else self.team.messages

    @property
    def own_messages(self) -> tuple[Message, ...]:
        """Return the leading agent's messages."""
        return tuple(entry for entry in self.entries if not isinstance(entry, Notice | Decision | Execution))

    def bundle(self) -> dict[str, str]:
        """Return the transcript by MIME type: HTML, Markdown and plain text."""
        return dict(self._bundle)

    @cached_property
    def _bundle(self) -> dict[str, str]:
        return {"text/html": self._html(), "text/markdown": self._markdown(), "text/plain": self._plain()}

    @property
    def is_large(self) -> bool:
        """Return whether to render it in a thread before calling `bundle`."""
        texts = sum(len(getattr(part, "text", "")) for message in self.messages for part in message.content)
        entries = [
            *self.entries,
            *(entry for agent in (self.team.agents if self.team else ()) for entry in agent.entries),
        ]
        executions = (entry for entry in entries if isinstance(entry, Execution))
        previews = (preview for execution in executions for preview in execution.previews)
        documents = sum(len(preview.html) for preview in previews if isinstance(preview, HtmlPreview))
        return texts + documents > RENDER_IN_THREAD_FROM

    def metadata(self) -> JsonObject:
        """Return the facts which differ between executions, as output metadata."""
        return {"planck_nb": {"agent": self.agent, "outcome": self.outcome, "seconds": round(self.seconds, 3)}}

    @property
    def figures(self) -> str:
        """Return outcome, tokens, cost and model in one line."""
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
    def spent(self) -> tuple[str, str]:
        """Return tokens and cost in words; empty for unknown ones."""
        return spent_of(self.usage, self.cost, self.limits, estimated=self.estimated)

    @property
    def made_by(self) -> str:
        """Return what a team's answer took: `3 agents, 2 tasks, 11.4k tokens`; empty for a single agent."""
        if self.team is None:
            return ""
        tasks = sum(step.kind in {"task", "question"} for step in self.team.steps)
        parts = [f"{1 + len(self.team.agents)} agents", f"{tasks:,} {'task' if tasks == 1 else 'tasks'}", self.spent[0]]
        return ", ".join(part for part in parts if part)

    @property
    def trouble(self) -> str:
        """Return the number of failed calls: `1 of 5 calls failed`; empty without failures."""
        calls = [call for block in self._blocks for call in _calls_in(block)]
        failures = sum(call.trouble == "failed" for call in calls)
        return f"{failures} of {len(calls)} calls failed" if failures else ""

    @property
    def _notices(self) -> list[str]:
        """Return the warnings, each once and on one line."""
        return [one_line(encodable(warning), 500) for warning in dict.fromkeys(self.warnings)]

    @property
    def _not_sent(self) -> list[str]:
        return [f"Not sent: {one_line(encodable(text), 2_000)}" for text in self.returned]

    @property
    def ending(self) -> tuple[str, str] | None:
        """Return a title and a sentence for an unusual end.

        It is for runs which were stopped, failed, or lack a complete answer.
        """
        if self.outcome == "stopped":
            has_text = any(isinstance(block, TextPart) for block in self._blocks)
            return "Stopped.", "The text so far is kept." if has_text else ""
        if self.error is None and self.outcome != "failed":
            return (
                (_TITLES.get(self.outcome, "The answer may be incomplete"), encodable(self.warning))
                if self.warning
                else None
            )
        rest = "What was received is kept." if self.messages else ""
        return error_title(self.error_kind), f"{encodable(self.error or '')} {rest}".strip()

    @property
    def _blocks(self) -> Iterator[Block]:
        run_blocks = list(blocks(self.entries, "stopped" if self.outcome == "stopped" else "not finished"))
        last = max((place for place, block in enumerate(run_blocks) if isinstance(block, TextPart)), default=-1)
        if self.structured and last >= 0:
            run_blocks[last] = TextPart(markdown.fenced(_indented(getattr(run_blocks[last], "text", "")), "json"))
        return iter(run_blocks)

    @property
    def _report(self) -> tuple[list[Block], list[Block]]:
        """Return the answer's blocks and the blocks before it.

        The answer is the last text. The calls which gave the tasks are left out, as the story tells them. All blocks of
        a single agent are its answer.
        """
        run_blocks = list(self._blocks)
        if self.team is None:
            return run_blocks, []
        texts = [place for place, block in enumerate(run_blocks) if isinstance(block, TextPart)]
        first = texts[-1] if texts else len(run_blocks)
        work = [
            block for block in run_blocks[:first] if not (isinstance(block, ToolCall) and block.name in _TASK_TOOLS)
        ]
        return run_blocks[first:], work

    def _html(self) -> str:
        report, work = self._report
        parts = [
            block_html.header(self.agent, self.figures),
            *map(block_html.notice, self._notices),
            *map(block_html.block, report),
            *([] if self.team is None else [story_html(self.team, self.agent, self.made_by, work)]),
        ]
        if self.ending is not None:
            parts.append(block_html.ending(*self.ending, bad=self.outcome == "failed" or self.error is not None))
        parts += map(block_html.notice, self._not_sent)
        body = "\n".join(parts)
        style = "font-size:14px;line-height:1.6;text-align:left;max-width:740px;padding:0 0 0 6px"  # as the live view
        return f'<div style="{style}">\n{body}\n</div>'

    def _markdown(self) -> str:
        head = f"**{markdown.to_markdown(one_line(encodable(self.agent)))}** · {markdown.to_markdown(self.figures)}"
        report, work = self._report
        parts = [head, *map(quoted, self._notices), *map(markdown_block, report)]
        if self.team is not None:
            parts += story_markdown(self.team, self.agent, self.made_by, work)
        if self.ending is not None:
            title, sentence = self.ending
            parts.append(quoted(f"**{one_line(title)}** {one_line(sentence, 2_000)}".rstrip()))
        parts += map(quoted, self._not_sent)
        return "\n\n".join(parts) + "\n"

    def _plain(self) -> str:
        lines = [f"[{warning}]" for warning in self._notices]
        report, work = self._report
        lines += (line for block in report if (line := plain_block(block)))
        if self.team is not None:
            lines += [f"[How it was made: {self.made_by}]", *map(plain_step, self.team.steps)]
            lines += (line for block in work if (line := plain_block(block)))
        if self.ending is not None:
            title, sentence = self.ending
            lines.append(f"[{encodable(self.error or (title if self.outcome in _ABRUPT else sentence))}]")
        lines += [f"[{notice}]" for notice in self._not_sent]
        return for_terminal(encodable("\n".join(lines))) or f"[{self.outcome}]"


def _indented(text: str) -> str:
    """Return JSON with a line for each value; other text stays."""
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
    """Return outcome, number of agents, tokens, cost and model in one line."""
    time = None if seconds is None else elapsed(seconds)
    many = f"{agents} agents" if agents > 1 else None
    tokens, price = spent_of(usage, cost, limits, estimated=estimated)
    return " · ".join(encodable(figure) for figure in (outcome, many, time, tokens, price, model) if figure)


def spent_of(
    usage: Usage | None, cost: float | None, limits: Limits | None, *, estimated: bool = False
) -> tuple[str, str]:
    """Return tokens and cost in words, each with the run's limit.

    Usual limits are left out.
    """
    token_limit, cost_limit = chosen_limits(limits or Limits())
    tokens = "" if usage is None else f"{count(usage.total_tokens)}{_of(token_limit, count)} tokens"
    price = "" if cost is None else f"{'at least ' if estimated else ''}{dollars(cost)}{_of(cost_limit, dollars)}"
    return tokens, price


def _calls_in(block: Block) -> tuple[ToolCall, ...]:
    match block:
        case ToolCall():
            return (block,)
        case CallGroup():
            return block.calls
        case _:
            return ()


def _of(limit: T | None, format_number: Callable[[T], str]) -> str:
    return "" if limit is None else f" of {format_number(limit)}"
