"""A team's tasks and answers in a run, and each agent's work."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from textwrap import indent
from typing import Literal, TypeAlias

from planck_nb.agent.events import AgentEvent, Delegated, Responded
from planck_nb.ai.messages import Message, TextPart
from planck_nb.base import markdown
from planck_nb.base.markdown import escaped
from planck_nb.base.text import encodable, one_line
from planck_nb.rendering.block_html import SUMMARY, block, muted, notice, opens, quote
from planck_nb.rendering.block_text import markdown_block, quoted
from planck_nb.rendering.blocks import UNNAMED, Block, TranscriptEntry, blocks
from planck_nb.rendering.formatting import SHOWN_CHARACTERS, bounded

STEPS = 400
"""Most tasks and answers, from the beginning and the end."""

STORY_CHARACTERS = 400_000
"""Most characters in all their texts together."""

AGENTS_CHARACTERS = 1_000_000
"""Longest transcripts of a team without its leader, in each form."""

_MIN_TEXT_LENGTH = 500
_STEP_CHARACTERS = 200
_NAME_CHARACTERS = 80
_MAX_DEPTH = 6

StepKind: TypeAlias = Literal["task", "question", "answer", "no answer", "left out"]


@dataclass(frozen=True, slots=True)
class StoryStep:
    """A text from one agent to another.

    Args:
        kind: Its role. "no answer" gives the reason; "left out" has the number of steps.
        sender: The sender's name.
        receiver: The receiver's name.
        text: The text, bounded.
        depth: Tasks around this one.
    """

    kind: StepKind
    sender: str
    receiver: str
    text: str
    depth: int = 0

    @property
    def label(self) -> str:
        """Return who sent what to whom, in a few words."""
        if self.kind == "left out":
            return self.text
        return f"{self.sender} → {self.receiver}, {self.kind}"


@dataclass(frozen=True, slots=True)
class TeamAgent:
    """An agent's work in a team's run.

    Args:
        name: Its name.
        figures: Outcome of its last turn, tokens, cost and model in one line.
        entries: Its messages, notices and decisions in order.
        warnings: Sentences about problems.
        error: The sentence for its last turn's failure, None for success.
        stopped: Whether its last turn was stopped.
    """

    name: str
    figures: str
    entries: tuple[TranscriptEntry, ...]
    warnings: tuple[str, ...] = ()
    error: str | None = None
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class TeamStory:
    """A team's run, without its orchestrator's own work.

    Args:
        steps: The agents' messages, a task before the work for it and its answer.
        agents: The other agents.
        messages: All agents' messages in the order in which they were written.
    """

    steps: tuple[StoryStep, ...]
    agents: tuple[TeamAgent, ...]
    messages: tuple[Message, ...]


def is_team(events: Iterable[AgentEvent]) -> bool:
    """Return whether the events show several agents or a delegated task."""
    first: str | None = None
    for event in events:
        first = first or event.agent_id
        if event.agent_id != first or event.type == "delegated":
            return True
    return False


def names_of(events: Iterable[AgentEvent]) -> Mapping[str, str]:
    """Return the agents' names by id, as known from the events."""
    names: dict[str, str] = {}
    for event in events:
        match event.type:
            case "agent_started":
                names[event.agent_id] = event.name
            case "worker_spawned" | "worker_exit":
                names[event.worker_id] = event.name
            case "delegated" | "responded":
                names[event.target_id] = event.target_name
            case "queued" if event.sender_id and event.sender_name:
                names[event.sender_id] = event.sender_name
            case _:
                pass
    return {agent_id: one_line(encodable(name), _NAME_CHARACTERS) for agent_id, name in names.items() if name}


def steps_of(events: Sequence[AgentEvent], leader: str, names: Mapping[str, str]) -> tuple[StoryStep, ...]:
    """Put a run's tasks and answers in order.

    The order is the same for fast and slow agents: tasks are in the delegator's order, and everything delegated further
    for a task is between the task and its answer.

    Args:
        events: All agents' events.
        leader: The leading agent's id.
        names: The agents' names by id.

    Returns:
        The steps, bounded in number and length.
    """
    tasks = _Tasks(events)
    exchanges: list[tuple[int, Delegated, Responded | None]] = []
    for task in chain(tasks.given_by(leader), tasks.others(names)):
        exchanges += tasks.steps(task)
    selection = exchanges
    if len(exchanges) > STEPS:
        selection = [*exchanges[: STEPS * 2 // 3], *exchanges[STEPS * 2 // 3 - STEPS :]]
    characters = min(max(STORY_CHARACTERS // max(len(selection), 1), _MIN_TEXT_LENGTH), SHOWN_CHARACTERS)
    steps = [_step(*exchange, names, characters) for exchange in selection]
    if left_out := len(exchanges) - len(selection):
        steps.insert(STEPS * 2 // 3, StoryStep("left out", "", "", f"{left_out:,} more tasks and answers"))
    return tuple(steps)


class _Tasks:
    """A run's tasks, each of which is used once."""

    def __init__(self, events: Sequence[AgentEvent]) -> None:
        self._given: dict[str, list[tuple[int, Delegated]]] = {}
        self._answers: dict[str, list[tuple[int, Responded]]] = {}
        self._used: set[str] = set()
        for place, event in enumerate(events):
            if event.type == "delegated":
                self._given.setdefault(event.agent_id, []).append((place, event))
            elif event.type == "responded":
                self._answers.setdefault(event.task_id, []).append((place, event))

    def given_by(self, agent_id: str) -> Iterator[tuple[int, Delegated]]:
        """Return an agent's unused tasks in order."""
        return (item for item in self._given.get(agent_id, ()) if self._use(item[1]))

    def others(self, names: Mapping[str, str]) -> Iterator[tuple[int, Delegated]]:
        """Yield the unused tasks, by their delegator's name."""
        for agent_id in sorted(self._given, key=lambda agent_id: names.get(agent_id, "")):
            yield from self.given_by(agent_id)

    def steps(self, first: tuple[int, Delegated]) -> Iterator[tuple[int, Delegated, Responded | None]]:
        """Yield a task, its parts and its answers, each with the depth.

        The task itself comes with None in place of an answer.

        Not recursive: agents may give tasks to each other as often as they like.
        """
        stack: list[tuple[tuple[int, Delegated], Iterator[tuple[int, Delegated]]]] = []
        yield 0, first[1], None
        stack.append((first, self._parts(first)))
        while stack:
            (_, task), parts = stack[-1]
            part = next(parts, None)
            if part is not None:
                yield len(stack), part[1], None
                stack.append((part, self._parts(part)))
                continue
            stack.pop()
            for _, answer in self._answers.get(task.task_id, ()):
                yield len(stack), task, answer

    def _parts(self, item: tuple[int, Delegated]) -> Iterator[tuple[int, Delegated]]:
        """Yield the tasks which the worker gave to others during this one."""
        place, task = item
        answers = self._answers.get(task.task_id, [])
        last_place = answers[-1][0] if answers else None
        last_turn = answers[-1][1].task_turn if answers else None
        for other in self._given.get(task.target_id, ()):
            too_late = last_place is not None and other[0] > last_place
            of_later_turn = last_turn is not None and other[1].turn > last_turn
            if other[0] > place and not too_late and not of_later_turn and self._use(other[1]):
                yield other

    def _use(self, task: Delegated) -> bool:
        if task.task_id in self._used:
            return False
        self._used.add(task.task_id)
        return True


def _step(
    depth: int, task: Delegated, answer: Responded | None, names: Mapping[str, str], characters: int
) -> StoryStep:
    delegator, worker = names.get(task.agent_id, UNNAMED), names.get(task.target_id, UNNAMED)
    depth = min(depth, _MAX_DEPTH)
    if answer is None:
        kind: StepKind = "question" if task.kind == "ask" else "task"
        return StoryStep(kind, delegator, worker, bounded(task.text.strip(), characters), depth)
    kind = "no answer" if answer.error else "answer"
    return StoryStep(kind, worker, delegator, bounded(answer.text.strip(), characters), depth)


def story_html(team: TeamStory, leader: str, made_by: str, work: Sequence[Block]) -> str:
    """Return a line which opens to the work behind a team's answer.

    Args:
        team: Its tasks and answers, and its other agents.
        leader: The leading agent's name.
        made_by: What it took, in a few words.
        work: The leader's blocks before the answer.
    """
    share = AGENTS_CHARACTERS // max(len(team.agents), 1)
    parts = [*map(_step_html, team.steps), *(_agent_html(agent, share) for agent in team.agents)]
    if work:
        inner = "\n".join(map(block, work))
        parts.append(opens(f"<b>{escaped(encodable(leader))}</b>", inner))
    return opens(f"<b>How it was made</b> {muted(made_by)}", "\n".join(parts))


def _step_html(step: StoryStep) -> str:
    """Return a task or an answer as a line.

    It opens for longer texts.
    """
    indent = f"margin:0 0 0 {16 * step.depth}px"
    if step.kind == "left out":
        return notice(step.label)
    line = one_line(step.text, _STEP_CHARACTERS)
    label = f'<b>{escaped(step.label)}:</b> <span style="opacity:0.8">{escaped(line)}</span>'
    if line == step.text:
        return f'<p style="{indent};font-size:12px;line-height:24px;text-align:left">{label}</p>'
    return f'<details style="{indent}"><summary style="{SUMMARY}">{label}</summary>{quote(step.text)}</details>'


def _agent_html(agent: TeamAgent, characters: int) -> str:
    """Return an agent's folded transcript, in about so many characters."""
    inner = "\n".join(_work_of(agent, characters, block, notice))
    return opens(f"<b>{escaped(agent.name)}</b> {muted(agent.figures)}", inner)


def _work_of(
    agent: TeamAgent, characters: int, show: Callable[[Block], str], note: Callable[[str], str]
) -> Iterator[str]:
    """Yield an agent's transcript, in about so many characters.

    Args:
        agent: The agent.
        characters: The most characters; long texts are cut, then steps are left out.
        show: Renders a block.
        note: Renders a sentence.
    """
    warnings = list(map(note, agent.warnings))
    yield from warnings
    room = characters - sum(map(len, warnings))
    agent_blocks = list(blocks(agent.entries, "stopped" if agent.stopped else "not finished"))
    for index, part in enumerate(agent_blocks):
        markup = show(part)
        if len(markup) > room and isinstance(part, TextPart):
            markup = show(TextPart(bounded(part.text, max(room // 4, _STEP_CHARACTERS))))
        if len(markup) > room and index:
            yield note(f"{len(agent_blocks) - index:,} more steps are not shown here; the session has them.")
            break
        room -= len(markup)
        yield markup
    if agent.error is not None:
        yield note(agent.error)


def story_markdown(team: TeamStory, leader: str, made_by: str, work: Sequence[Block]) -> Iterator[str]:
    """Yield the work behind a team's answer as Markdown.

    Args:
        team: Its tasks and answers, and its other agents.
        leader: The leading agent's name.
        made_by: What it took, in a few words.
        work: The leader's blocks before the answer.
    """
    yield f"**How it was made**: {made_by}"
    for step in team.steps:
        text = f"\n\n{indent(quoted(step.text), '  ')}" if step.text and step.kind != "left out" else ""
        yield f"- **{markdown.to_markdown(step.label)}**{text}"
    share = AGENTS_CHARACTERS // max(len(team.agents), 1)
    for agent in team.agents:
        yield f"**{markdown.to_markdown(agent.name)}** · {markdown.to_markdown(agent.figures)}"
        yield from _work_of(agent, share, markdown_block, quoted)
    if work:
        yield f"**{markdown.to_markdown(one_line(encodable(leader)))}**"
        yield from map(markdown_block, work)


def plain_step(step: StoryStep) -> str:
    """Return a task or an answer as one line of plain text."""
    if step.kind == "left out":
        return f"[{step.label}]"
    return f"{'  ' * step.depth}[{step.label}: {one_line(step.text, 500)}]"
