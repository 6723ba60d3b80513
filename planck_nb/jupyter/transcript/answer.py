"""The answer from `%%planck`, and transcripts built from a run's events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from planck_nb.agent.agent import Agent
from planck_nb.agent.answers import ReplyProblem, problem_of
from planck_nb.agent.events import (
    AgentEvent,
    Compacted,
    Fallback,
    LimitReached,
    ToolEnd,
    ToolPreview,
    ToolProgress,
    ToolStart,
)
from planck_nb.agent.limits import Limits
from planck_nb.agent.preview_types import Preview
from planck_nb.agent.run import Run
from planck_nb.agent.run_result import RunResult
from planck_nb.ai.messages import AssistantMessage, Message, StopReason, Usage, UserMessage
from planck_nb.base.json_types import JsonObject
from planck_nb.base.markdown import code_blocks
from planck_nb.base.text import counted, encodable, one_line
from planck_nb.jupyter.display.beside_view import beside_view
from planck_nb.jupyter.display.run_facts import Aliases
from planck_nb.jupyter.transcript.team_story import TeamAgent, TeamStory, is_team, names_of, steps_of
from planck_nb.jupyter.transcript.transcript import Outcome, Transcript, figures_of
from planck_nb.rendering.blocks import UNNAMED, Decision, Execution, Notice, TranscriptEntry
from planck_nb.rendering.formatting import count
from planck_nb.rendering.plain_output import Tail

_PRINTED_CHARACTERS = 3_000
"""Final characters in a tool's output which are always shown alike.

They are the same for any division into events.
"""

_PYTHON = frozenset({"ipython", "ipython3", "py", "python", "python3"})

NO_ALIASES = Aliases()

OUTCOMES: Mapping[ReplyProblem, Outcome] = {
    "": "done",
    "cut_off": "cut off",
    "refused": "refused",
    "no_answer": "no answer",
}
"""Outcome for a run which was neither stopped nor failed, by problem."""


def transcript_of(
    agent: str,
    model: str,
    events: Sequence[AgentEvent],
    *,
    prompts: bool = False,
    agent_id: str | None = None,
    timed: bool = False,
    structured: bool = False,
    limits: Limits | None = None,
    aliases: Aliases = NO_ALIASES,
) -> Transcript:
    """Build a finished run's transcript.

    Args:
        agent: The agent's name.
        model: Its model's display name.
        events: All events in the run, from this agent and those which it set to work.
        prompts: Whether to include the prompts, for runs whose prompt differs from the cell's text.
        agent_id: The agent's id; by default the first event's.
        timed: Whether the transcript shows durations, which differ between executions.
        structured: Whether the answer is structured, so its text is JSON.
        limits: The run's limits, which are shown beside its usage.
        aliases: People's names for the other agents' models.
    """
    leader = agent_id or (events[0].agent_id if events else "")
    leader_course = _of_agent([event for event in events if event.agent_id == leader], prompts=prompts, timed=timed)
    total = _of_agent(events)
    team = _story(events, leader, agent, leader_course.entries, aliases) if is_team(events) else None
    ending = leader_course.ending
    return Transcript(
        agent,
        model,
        ending.outcome,
        leader_course.entries,
        total.usage,
        total.cost,
        ending.error,
        events[-1].time - events[0].time if events else 0.0,
        tuple(ending.warnings),
        ending.warning,
        tuple(_returned(events)),
        total.estimated,
        team,
        timed,
        structured=structured,
        limits=limits,
        error_kind=ending.error_kind,
    )


@dataclass(frozen=True, slots=True)
class _Course:
    """The sum over some events."""

    entries: tuple[TranscriptEntry, ...]
    ending: _Ending
    usage: Usage | None
    cost: float | None
    estimated: bool


def _of_agent(
    events: Sequence[AgentEvent], *, prompts: bool = False, everything: bool = False, timed: bool = False
) -> _Course:
    ending = _Ending()
    usage: Usage | None = None
    cost: float | None = None
    is_estimated = False
    for event in events:
        ending.follow(event)
        if event.type == "usage_delta":
            usage = (usage or Usage()) + event.delta
            cost = cost if event.cost is None else (cost or 0.0) + event.cost
            is_estimated = is_estimated or event.estimated
    entries = tuple(_entries(events, prompts=prompts, everything=everything, timed=timed))
    return _Course(entries, ending, usage, cost, is_estimated)


def _story(
    events: Sequence[AgentEvent],
    leader: str,
    name: str,
    entries: Sequence[TranscriptEntry],
    aliases: Aliases,
) -> TeamStory:
    """Return a team's run, without its orchestrator's own work."""
    names = {**names_of(events), leader: one_line(encodable(name))}
    steps = steps_of(events, leader, names)
    by_agent: dict[str, list[AgentEvent]] = {}
    for event in events:
        if event.agent_id != leader:
            by_agent.setdefault(event.agent_id, []).append(event)
    first_steps: dict[str, int] = {}
    for number, step in enumerate(steps):
        first_steps.setdefault(step.receiver, number)

    def place(agent_id: str) -> tuple[int, str]:
        """Order by the first task or else by name, never by speed."""
        name_of_agent = names.get(agent_id, UNNAMED)
        return first_steps.get(name_of_agent, len(steps)), name_of_agent

    agents = [
        _team_agent(names.get(agent_id, UNNAMED), by_agent[agent_id], aliases)
        for agent_id in sorted(by_agent, key=place)
    ]
    entry_ids = {id(entry) for entry in entries}
    messages = tuple(
        event.message
        for event in events
        if event.type == "message" and (event.agent_id != leader or id(event.message) in entry_ids)
    )
    return TeamStory(steps, tuple(agents), messages)


def _team_agent(name: str, events: Sequence[AgentEvent], aliases: Aliases) -> TeamAgent:
    course = _of_agent(events, everything=True)
    model = next((event.model for event in reversed(events) if event.type in ("turn_start", "fallback")), "")
    ending = course.ending
    figures = figures_of(
        ending.outcome, course.usage, course.cost, aliases.name(events[0].agent_id, model), estimated=course.estimated
    )
    warnings = (*ending.warnings, *filter(None, [ending.warning]))
    return TeamAgent(name, figures, course.entries, warnings, ending.error, ending.outcome == "stopped")


class _Ending:
    """A run's outcome, and the warnings on the way."""

    def __init__(self) -> None:
        self.outcome: Outcome = "done"
        self.error: str | None = None
        self.error_kind = ""
        self.warnings: list[str] = []
        self.warning = ""
        """The sentence about a problem with the newest reply, if any."""

    def follow(self, event: AgentEvent) -> None:
        """Apply the next event."""
        went_on = event.type == "message" and event.message.type != "assistant"
        if self.warning and (went_on or event.type in ("aborted", "error")):
            self.warnings.append(self.warning)
            self.warning = ""
        match event.type:
            case "warning" if event.about:
                self.warning = event.text
            case "warning":
                self.warnings.append(event.text)
            case "turn_end":
                self.outcome = OUTCOMES[problem_of(event.message)]
                self.error = None  # an earlier turn in a team's run may have failed
            case "aborted":
                self.outcome = "stopped"
            case "error":
                self.outcome = "cut off" if event.kind == "StreamTruncated" else "failed"
                self.error, self.error_kind = event.reason, event.kind
            case _:
                pass


def _returned(events: Sequence[AgentEvent]) -> Iterator[str]:
    """Yield the user's prompts left unsent by a stop."""
    texts = {event.prompt_id: event.text for event in events if event.type == "queued" and event.sender_id is None}
    for event in events:
        if event.type == "unqueued" and event.returned and event.prompt_id in texts:
            yield texts[event.prompt_id]


def _entries(
    events: Sequence[AgentEvent], *, prompts: bool, everything: bool = False, timed: bool = False
) -> Iterator[TranscriptEntry]:
    """Yield the entries in order.

    They include the user's messages after the first prompt.

    With `prompts` the first prompt is included, too. With `everything` all prompts are, from any sender.
    """
    steered, turns = False, 0
    executions = _Executions(timed=timed)
    for event in events:
        match event.type:
            case "turn_start":
                turns += 1
            case "message":
                from_user = isinstance(event.message, UserMessage)
                later = turns > 1 and isinstance(event.message, UserMessage) and event.message.sender_id is None
                if steered or prompts or everything or later or not from_user:
                    yield event.message
                steered = steered and not from_user
                prompts = prompts and from_user
            case "steered":
                steered = True
            case "approval_decision" if event.by != "stop" and (not event.allowed or event.args is not None):
                yield Decision(event.id, not event.allowed, event.args)
            case "tool_start" | "tool_progress" | "tool_preview":
                executions.follow(event)
            case "tool_end":
                yield from executions.end(event)
            case "compacted" | "limit_reached" | "fallback":
                yield Notice(sentence_of(event))
            case _:
                pass
    yield from _allowed_for_prompt(events)


def _allowed_for_prompt(events: Sequence[AgentEvent]) -> Iterator[Notice]:
    """Count calls by tools allowed for the whole prompt."""
    calls = Counter[str]()
    for event in events:
        if event.type == "approval_decision" and event.allowed:
            by_rule = event.by == "rule" and event.name in calls
            calls.update([event.name] if event.scope == "prompt" or by_rule else [])
    for name, number in calls.items():
        yield Notice(f"{name} was allowed for this prompt: {counted(number, 'call')}.")


class _Executions:
    """Printed output and durations for running calls."""

    def __init__(self, *, timed: bool) -> None:
        self._timed = timed
        self._started: dict[str, float] = {}
        self._printed: dict[str, str] = {}
        self._previews: dict[str, tuple[Preview, ...]] = {}

    def follow(self, event: ToolStart | ToolProgress | ToolPreview) -> None:
        """Apply the next event in a call."""
        if event.type == "tool_preview":
            self._previews[event.id] = (*event.tables, *event.documents)
        elif event.type == "tool_start":
            self._started[event.id] = event.time
            self._printed[event.id] = ""
        else:
            self._printed[event.id] = f"{self._printed.get(event.id, '')}{event.text}"[-_PRINTED_CHARACTERS:]

    def end(self, event: ToolEnd) -> Iterator[Execution]:
        """Yield the facts about a finished call, if any."""
        start = self._started.pop(event.id, event.time)
        tail = Tail()
        tail.feed(self._printed.pop(event.id, ""))
        text, earlier = tail.shown()
        previews = self._previews.pop(event.id, ())
        if self._timed or text or previews:
            seconds = event.time - start if self._timed else None
            yield Execution(event.id, seconds, encodable(text), bool(earlier), previews)


def sentence_of(event: Compacted | LimitReached | Fallback) -> str:
    """Return the meaning of an event between two messages, in one sentence."""
    match event:
        case LimitReached():
            return event.reason
        case Fallback():
            return f"{event.failed} could not answer, so {event.model} is asked. {event.reason}".rstrip()
        case Compacted(summary_id=None):
            return f"The conversation was not shortened. {event.reason}".rstrip()
        case _:
            sizes = f"{count(event.tokens_before)} tokens became {count(event.tokens_after)}"
            return f"What was said before was summarised: {sizes}."


def is_structured(run: Run) -> bool:
    """Return whether a run has ended with a structured answer."""
    result = run.outcome
    return isinstance(result, RunResult) and result.output is not None and not isinstance(result.output, str)


class Answer:
    """The answer to a prompt in a cell.

    The prompt's own cell has shown the transcript already, so the answer shows itself in later cells only.

    Args:
        transcript: The run's transcript.
        agent: The answering agent.
        run: The answer's run. Awaiting it gives the run's result, or raises its error.
        shown_in: Execution count for the cell which has shown the transcript.
    """

    def __init__(
        self, transcript: Transcript, *, agent: Agent | None = None, run: Run | None = None, shown_in: object = None
    ) -> None:
        self.transcript = transcript
        self.agent = agent
        self.run = run
        self._shown_in = shown_in

    @property
    def text(self) -> str:
        """Return the last reply's text."""
        for message in reversed(self.transcript.own_messages):
            if isinstance(message, AssistantMessage):
                return message.text
        return ""

    @property
    def code(self) -> str:
        """Return the text's last code block in Python, empty without one.

        After `%planck fix` it is the corrected cell.
        """
        return last_code(self.text)

    @property
    def output(self) -> Any:  # noqa: ANN401 - an instance of the type that the prompt named
        """Return the structured answer to a prompt with `--output`, otherwise the text.

        None for a run which was stopped or failed before its answer.
        """
        result = None if self.run is None else self.run.outcome
        return result.output if isinstance(result, RunResult) else None

    @property
    def stop_reason(self) -> StopReason:
        """Return why the last reply ended, such as "stop", "length" or "refusal".

        "stop" is a complete reply, "length" a cut one. A stopped run has "aborted", a failed run "error".
        """
        if self.outcome == "stopped":
            return "aborted"
        if self.transcript.error is not None:
            return "error"
        replies = [message for message in self.transcript.own_messages if isinstance(message, AssistantMessage)]
        return replies[-1].stop_reason if replies else "stop"

    @property
    def warning(self) -> str:
        """Return the sentence about a cut, refused or missing answer; empty otherwise."""
        return self.transcript.warning

    @property
    def messages(self) -> tuple[Message, ...]:
        """Return replies, tool results and steering messages in order, without the prompt.

        For a team's run, they come from all its agents.
        """
        return self.transcript.messages

    @property
    def usage(self) -> Usage | None:
        """Return the tokens in all replies, None if the provider reported none."""
        return self.transcript.usage

    @property
    def cost(self) -> float | None:
        """Return the run's cost in US dollars, None for an unknown price."""
        return self.transcript.cost

    @property
    def outcome(self) -> Outcome:
        """Return the run's outcome."""
        return self.transcript.outcome

    @property
    def figures(self) -> str:
        """Return outcome, tokens, cost and model in one line."""
        return self.transcript.figures

    def was_shown_in(self, cell: object) -> bool:
        """Return whether this cell execution has shown the transcript already.

        Args:
            cell: The cell's execution count.
        """
        return self._shown_in is not None and self._shown_in == cell

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.transcript.bundle()["text/plain"]

    def mime_bundle(self, marker: str = "") -> tuple[dict[str, str], JsonObject]:
        """Render the answer for an output.

        Args:
            marker: A class for the HTML, by which the live view in the same cell finds it; it is without spaces. The
                HTML then also has a style which hides an unloaded view.

        Returns:
            The transcript by MIME type, and the output's metadata.
        """
        bundle = self.transcript.bundle()
        if marker:
            bundle["text/html"] = beside_view(bundle["text/html"], marker)
        return bundle, self.transcript.metadata()


def last_code(text: str) -> str:
    """Return the last Python block in Markdown, empty without one.

    Blocks without a language count where Python is missing.

    Args:
        text: The text.
    """
    blocks = [(language.lower(), code.rstrip("\n")) for language, code in code_blocks(text)]
    python_blocks = [code for language, code in blocks if language in _PYTHON]
    return next(reversed(python_blocks or [code for language, code in blocks if not language]), "")
