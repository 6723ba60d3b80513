"""The answers of a notebook: each can be shown again, and those that no page shows are announced."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol
from weakref import WeakKeyDictionary

from planck_nb.agent.agent import Agent
from planck_nb.agent.answers import problem_of
from planck_nb.agent.run import Run
from planck_nb.agent.state import Entry
from planck_nb.ai.messages import AssistantMessage, Usage, UserMessage
from planck_nb.base.errors import UsageError
from planck_nb.jupyter.display.run_facts import model_name
from planck_nb.jupyter.transcript.answer import OUTCOMES, Answer
from planck_nb.jupyter.transcript.transcript import Transcript

_KEPT = 500


class AnswerDisplay(Protocol):
    """What shows a run in the cell of its prompt."""

    @property
    def is_missing(self) -> bool:
        """Whether the newest page with the notebook does not show the answer."""
        ...


@dataclass(slots=True)
class AnswerRecord:
    """A prompt of this notebook.

    Args:
        agent: The agent that answers.
        run: The run.
        cell: The execution count of its cell.
        marker: The class of the HTML that is saved for it.
        client: What identifies the page that executed the cell.
        shown: What shows it; None if that is not known yet.
        answer: The answer, None until the run has ended.
        told: Whether the user was told that it is not shown.
    """

    agent: Agent
    run: Run
    cell: int
    marker: str
    client: str = ""
    shown: AnswerDisplay | None = None
    answer: Answer | None = None
    told: bool = False


class Answers:
    """The answers of one notebook, the newest last."""

    def __init__(self) -> None:
        self._records: deque[AnswerRecord] = deque(maxlen=_KEPT)
        self._background: WeakKeyDictionary[Run, str] = WeakKeyDictionary()
        self._request = ""
        self._number = 0

    def begin(self, agent: Agent, run: Run, cell: int, client: str = "", request: str = "") -> AnswerRecord:
        """Record a run that a cell shows.

        Args:
            agent: The agent.
            run: Its run.
            cell: The execution count of the cell.
            client: What identifies the page that executes it.
            request: The id of the request that executes it; two executions may have the same count.

        Returns:
            The record, to be completed when the run ends. Its marker depends only on the order of the runs of the cell.
        """
        self._number = self._number + 1 if request == self._request else 1
        self._request = request
        record = AnswerRecord(agent, run, cell, f"planck-run-{self._number}", client)
        self._records.append(record)
        return record

    def agent_of(self, run: Run) -> str:
        """Return the name of the agent of a run in the background, empty if it is none."""
        return self._background.get(run, "")

    def add_background(self, agent: Agent, run: Run) -> None:
        """Record a run that goes on after its cell."""
        self._background[run] = agent.name

    def notices(self, client: str = "") -> list[str]:
        """Return a sentence for each answer that is no longer shown, once.

        Args:
            client: What identifies the page that executes the next cell. One that has executed the cell of an answer
                also shows the answer.
        """
        answered = [record for record in self._records if record.answer is not None]
        sentences = []
        for place, record in enumerate(reversed(answered), 1):
            moved = record.client != client
            if moved and not record.told and record.shown is not None and record.shown.is_missing:
                record.told = True
                verb = "%planck answer" if place == 1 else f"%planck answer {place}"
                sentences.append(f"The answer of cell [{record.cell}] was not shown; `{verb}` shows it again.")
        return sentences[::-1]

    def find(self, agents: Iterable[Agent], *, number: int = 1, agent: Agent | None = None) -> Answer:
        """Return a stored answer.

        Args:
            agents: The agents of the notebook, whose messages may have answers of an earlier kernel.
            number: Which answer, counted back from 1, the newest.
            agent: Only answers of this agent.

        Returns:
            The answer, which shows itself in the cell that asks for it.

        Raises:
            UsageError: There is no such answer, or it is not complete yet.
        """
        records = [record for record in reversed(self._records) if agent in {None, record.agent}]
        under_way = [record for record in records if record.answer is None]
        if agent is not None and under_way and number == 1:
            raise UsageError(
                f"{agent.name} is still answering; `%planck answer {agent.name}` shows the answer when it is complete."
            )
        found = [record.answer for record in records if record.answer is not None]
        known = {event.id for record in records for event in record.run.events.since(0) if event.type == "message"}
        if len(found) < number:
            found += _earlier((one for one in agents if agent in {None, one}), known)
        if number < 1 or len(found) < number:
            working = " An agent is still answering." if under_way else ""
            raise UsageError(_missing(len(found), number, agent) + working)
        chosen = found[number - 1]
        return Answer(chosen.transcript, agent=chosen.agent, run=chosen.run)


def background_line(agent: str) -> str:
    """What the cell of a run in the background keeps."""
    return f"{agent} works in the background; `%planck answer {agent}` shows the answer when it is complete."


def _missing(count: int, number: int, agent: Agent | None) -> str:
    whose = "" if agent is None else f" of {agent.name}"
    if not count:
        return f"There is no answer{whose} yet; write a prompt, or open a session with `%planck resume`."
    if number < 1:
        return "Answers are counted back from the newest, which is 1."
    return f"There {'is 1 answer' if count == 1 else f'are {count} answers'}{whose}; write a number up to {count}."


def _earlier(agents: Iterable[Agent], known: set[int]) -> list[Answer]:
    """The answers in the messages of the agents that are not among the known messages, the newest first."""
    found = [
        (part[0].id, answer)
        for agent in agents
        for part in _parts(agent.state.messages)
        if not known & {entry.id for entry in part} and (answer := _answer_in(agent, part)) is not None
    ]
    return [answer for _, answer in sorted(found, key=lambda pair: pair[0], reverse=True)]


def _parts(entries: Sequence[Entry]) -> Iterator[list[Entry]]:
    """The messages from each prompt to the next. A message that steered is the prompt of what follows it."""
    part: list[Entry] = []
    for entry in entries:
        if isinstance(entry.message, UserMessage):
            if part:
                yield part
            part = []
        part.append(entry)
    if part:
        yield part


def _answer_in(agent: Agent, part: Sequence[Entry]) -> Answer | None:
    """The answer that these messages contain, without a duration: the events of the run are not here."""
    prompt, *others = (entry.message for entry in part)
    messages = others if isinstance(prompt, UserMessage) else [prompt, *others]
    replies = [message for message in messages if isinstance(message, AssistantMessage)]
    if not replies:
        return None
    counted = [reply.usage for reply in replies if reply.usage is not None]
    usage = sum(counted, Usage()) if counted else None
    stopped = replies[-1].stop_reason == "aborted"
    outcome = "stopped" if stopped else OUTCOMES[problem_of(replies[-1])]
    transcript = Transcript(agent.name, model_name(agent.model), outcome, tuple(messages), usage, None, None, 0.0)
    return Answer(transcript, agent=agent)
