"""The answer that `%%planck` returns, and the transcript of a run, built from its events."""

from __future__ import annotations

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
from planck_nb.base.text import encodable, one_line
from planck_nb.jupyter.display.beside_view import beside_view
from planck_nb.jupyter.display.formatting import count
from planck_nb.jupyter.display.plain_output import Tail
from planck_nb.jupyter.display.run_facts import Aliases
from planck_nb.jupyter.transcript.blocks import UNNAMED, Decision, Execution, Notice, TranscriptEntry
from planck_nb.jupyter.transcript.team_story import TeamAgent, TeamStory, is_team, names_of, steps_of
from planck_nb.jupyter.transcript.transcript import Outcome, Transcript, figures_of

_PRINTED_CHARACTERS = 3_000
"""How much of the end of a tool's output does not depend on how it was divided into events."""

NO_ALIASES = Aliases()

OUTCOMES: Mapping[ReplyProblem, Outcome] = {
    "": "done",
    "cut_off": "cut off",
    "refused": "refused",
    "no_answer": "no answer",
}
"""How a run ended that was neither stopped nor failed, by what is wrong with its last reply."""


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
    """Build the transcript of a run that is over.

    Args:
        agent: The name of the agent.
        model: The display name of its model.
        events: All events of the run, of this agent and of those that it made work.
        prompts: Whether to include the prompts, for runs whose prompt is not the text of the cell.
        agent_id: The id of the agent; by default that of the first event.
        timed: Whether the transcript shows durations, which differ from one execution to the next.
        structured: Whether the answer is structured, so that its text is JSON.
        limits: The limits of the run, which are shown beside what it used.
        aliases: What people call the models of the other agents.
    """
    leader = agent_id or (events[0].agent_id if events else "")
    own = _of_agent([event for event in events if event.agent_id == leader], prompts=prompts, timed=timed)
    total = _of_agent(events)
    team = _story(events, leader, agent, own.entries, aliases) if is_team(events) else None
    ending = own.ending
    return Transcript(
        agent,
        model,
        ending.outcome,
        own.entries,
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
    """What some events add up to."""

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
    estimated = False
    for event in events:
        ending.follow(event)
        if event.type == "usage_delta":
            usage = (usage or Usage()) + event.delta
            cost = cost if event.cost is None else (cost or 0.0) + event.cost
            estimated = estimated or event.estimated
    entries = tuple(_entries(events, prompts=prompts, everything=everything, timed=timed))
    return _Course(entries, ending, usage, cost, estimated)


def _story(
    events: Sequence[AgentEvent],
    leader: str,
    name: str,
    own: Sequence[TranscriptEntry],
    aliases: Aliases,
) -> TeamStory:
    """The run of a team, without what its orchestrator did itself."""
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
        """By the first task, or else by the name: which agent was faster makes no difference."""
        known = names.get(agent_id, UNNAMED)
        return first_steps.get(known, len(steps)), known

    agents = [
        _team_agent(names.get(agent_id, UNNAMED), by_agent[agent_id], aliases)
        for agent_id in sorted(by_agent, key=place)
    ]
    shown = {id(entry) for entry in own}
    messages = tuple(
        event.message
        for event in events
        if event.type == "message" and (event.agent_id != leader or id(event.message) in shown)
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
    """How a run ended, and the warnings on the way."""

    def __init__(self) -> None:
        self.outcome: Outcome = "done"
        self.error: str | None = None
        self.error_kind = ""
        self.warnings: list[str] = []
        self.warning = ""
        """The sentence about the newest reply, if something is wrong with it."""

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
                self.error = None  # an earlier turn of a run of a team may have failed
            case "aborted":
                self.outcome = "stopped"
            case "error":
                self.outcome = "cut off" if event.kind == "StreamTruncated" else "failed"
                self.error, self.error_kind = event.reason, event.kind
            case _:
                pass


def _returned(events: Sequence[AgentEvent]) -> Iterator[str]:
    """The texts of the user's prompts that were not sent because the run was stopped."""
    texts = {event.prompt_id: event.text for event in events if event.type == "queued" and event.sender_id is None}
    for event in events:
        if event.type == "unqueued" and event.returned and event.prompt_id in texts:
            yield texts[event.prompt_id]


def _entries(
    events: Sequence[AgentEvent], *, prompts: bool, everything: bool = False, timed: bool = False
) -> Iterator[TranscriptEntry]:
    """The entries in order. Of the user's messages only those that came later than the first prompt are included.

    With `prompts` the first one is included, too. With `everything` all prompts are, from any sender.
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


class _Executions:
    """What running calls have printed, and how long they take."""

    def __init__(self, *, timed: bool) -> None:
        self._timed = timed
        self._started: dict[str, float] = {}
        self._printed: dict[str, str] = {}
        self._previews: dict[str, tuple[Preview, ...]] = {}

    def follow(self, event: ToolStart | ToolProgress | ToolPreview) -> None:
        """Apply the next event of a call."""
        if event.type == "tool_preview":
            self._previews[event.id] = (*event.tables, *event.documents)
        elif event.type == "tool_start":
            self._started[event.id] = event.time
            self._printed[event.id] = ""
        else:
            self._printed[event.id] = f"{self._printed.get(event.id, '')}{event.text}"[-_PRINTED_CHARACTERS:]

    def end(self, event: ToolEnd) -> Iterator[Execution]:
        """Yield what is known of a call that has ended, if that is anything."""
        started = self._started.pop(event.id, event.time)
        tail = Tail()
        tail.feed(self._printed.pop(event.id, ""))
        text, earlier = tail.shown()
        previews = self._previews.pop(event.id, ())
        if self._timed or text or previews:
            seconds = event.time - started if self._timed else None
            yield Execution(event.id, seconds, encodable(text), bool(earlier), previews)


def sentence_of(event: Compacted | LimitReached | Fallback) -> str:
    """Return what an event between two messages means, as one sentence."""
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

    The cell that ran the prompt has shown the transcript already, so the answer shows itself in later cells only.

    Args:
        transcript: The transcript of the run.
        agent: The agent that answered.
        run: The run that made the answer. Awaiting it gives the run's result, or raises what failed.
        shown_in: The cell execution that has shown the transcript.
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
        """The text of the last reply."""
        for message in reversed(self.transcript.own_messages):
            if isinstance(message, AssistantMessage):
                return message.text
        return ""

    @property
    def output(self) -> Any:  # noqa: ANN401 - an instance of the type that the prompt named
        """The structured answer of a prompt with `--output`, otherwise the text of the answer.

        None if the run was stopped or failed before there was an answer.
        """
        result = None if self.run is None else self.run.outcome
        return result.output if isinstance(result, RunResult) else None

    @property
    def stop_reason(self) -> StopReason:
        """Why the last reply ended: "stop" if it is complete, "length" if it was cut off, or "refusal".

        Also "aborted" if the run was stopped, "error" if it failed.
        """
        if self.outcome == "stopped":
            return "aborted"
        if self.transcript.error is not None:
            return "error"
        replies = [message for message in self.transcript.own_messages if isinstance(message, AssistantMessage)]
        return replies[-1].stop_reason if replies else "stop"

    @property
    def warning(self) -> str:
        """The sentence about an answer that was cut off, refused or is missing; empty otherwise."""
        return self.transcript.warning

    @property
    def messages(self) -> tuple[Message, ...]:
        """Replies, tool results and messages that steered the run, in order, without the prompt.

        Of a run of a team, the messages of all its agents.
        """
        return self.transcript.messages

    @property
    def usage(self) -> Usage | None:
        """Tokens of all replies, None if the provider reported none."""
        return self.transcript.usage

    @property
    def cost(self) -> float | None:
        """The cost of the run in US dollars, None if no price is known."""
        return self.transcript.cost

    @property
    def outcome(self) -> Outcome:
        """How the run ended."""
        return self.transcript.outcome

    @property
    def figures(self) -> str:
        """How the run ended, its tokens, its cost and its model, as one line."""
        return self.transcript.figures

    def was_shown_in(self, cell: object) -> bool:
        """Return whether this cell execution has shown the transcript already.

        Args:
            cell: The execution count of the cell.
        """
        return self._shown_in is not None and self._shown_in == cell

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.transcript.bundle()["text/plain"]

    def mime_bundle(self, marker: str = "") -> tuple[dict[str, str], JsonObject]:
        """Render the answer for an output.

        Args:
            marker: A class for the HTML, by which the live view in the same cell finds it; it contains no spaces. The
                HTML then also has a style that hides that view where it cannot be loaded.

        Returns:
            The transcript by MIME type, and the metadata of the output.
        """
        bundle = self.transcript.bundle()
        if marker:
            bundle["text/html"] = beside_view(bundle["text/html"], marker)
        return bundle, self.transcript.metadata()
