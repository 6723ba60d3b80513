"""Approval by typed answers, in terminals and in cells which block clicks."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from planck_nb.agent.agent import Agent
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.events import DEFAULT_SCOPE, AgentEvent
from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.base.event_log import EventLog
from planck_nb.jupyter.display.approval_text import pending_text
from planck_nb.jupyter.ipython.bridge import interrupts_raise
from planck_nb.jupyter.live.run_agents import RunAgents

LineReader: TypeAlias = Callable[[str], Awaitable[str]]
"""A reader which shows a question and returns the typed line.

Raises `EOFError`. It may be cancelled.
"""

_MAX_LINE_LENGTH = 65_536
_HOW = "Answer y, n or a; after n you can write why."


@dataclass(frozen=True, slots=True)
class TypedAnswer:
    """The answer to a request for approval."""

    allow: bool
    remember: bool = False
    reason: str = ""


def read_answer(line: str) -> TypedAnswer | None:
    """Read a typed answer: yes, always, or no with a reason.

    Other text gives None.
    """
    word, _, rest = line.strip().partition(" ")
    match word.lower().rstrip(",:"):
        case "y" | "yes" if not rest:
            return TypedAnswer(allow=True)
        case "a" | "always" if not rest:
            return TypedAnswer(allow=True, remember=True)
        case "n" | "no":
            return TypedAnswer(allow=False, reason=rest.strip())
        case _:
            return None


class ApprovalPrompt:
    """Asks about calls in a run, and passes the answers on.

    Args:
        agent: The run's agent.
        approvals: The approvals in its workspace.
        log: The run's events.
        read: Reads an answer; None to deny calls at once, where the user cannot be asked.
        write: Shows text.
        agents: All agents in the run; None for this agent alone.
    """

    def __init__(
        self,
        agent: Agent,
        approvals: Approvals,
        log: EventLog[AgentEvent],
        *,
        read: LineReader | None,
        write: Callable[[str], None],
        agents: RunAgents | None = None,
    ) -> None:
        self._agent = agent
        self._approvals = approvals
        self._log = log
        self._read = read
        self._write = write
        self._agents = agents

    async def follow(self) -> None:
        """Ask about the run's calls under approval, one after another."""
        async for event in self._log.subscribe(0):
            if event.type == "approval_request":
                await self.ask(event.id, event.agent_id)

    async def ask(self, call_id: str, agent_id: str | None = None) -> None:
        """Ask about a call, and return once it is decided.

        The decision may come from elsewhere.

        Args:
            call_id: The waiting call's id.
            agent_id: The calling agent; None for the run's agent.
        """
        agent = self._agent
        with suppress(UsageError):  # it has left the team, and its call has ended
            agent = agent if self._agents is None else self._agents.find(agent_id)
        pending = next((call for call in agent.state.pending_approvals if call.id == call_id), None)
        if pending is None:
            return
        if self._read is None:
            self._approvals.deny_unattended(agent.id, call_id)
            return
        self._approvals.attend()
        can_remember = bool(pending.rule) or pending.for_prompt
        always = "[a]lways" if pending.rule else "[a]ll for this prompt"
        self._write(f"{pending_text(agent.name, pending, always=always, for_prompt=always)}\n")
        question = f"Allow? [y]es, [n]o, {always}: " if can_remember else "Allow? [y]es, [n]o: "
        while (line := await self._line(self._read, question, agent, call_id)) is not None:
            answer = read_answer(line)
            if answer is None or (answer.remember and not can_remember):
                self._write(f"{_HOW}\n")
                continue
            if time.time() >= pending.deadline:  # `input` blocked the event loop, which would have noticed
                await self._decided(agent, call_id)
                self._write("That was too late: the call was denied.\n")
                return
            with suppress(AgentError):  # it was decided in this moment
                scope = DEFAULT_SCOPE if pending.rule else "prompt"
                agent.decide(call_id, allow=answer.allow, remember=answer.remember, reason=answer.reason, scope=scope)
            return

    async def _line(self, read: LineReader, question: str, agent: Agent, call_id: str) -> str | None:
        """Return the typed line, or None if the call is decided before."""
        answering = spawn(_line_or_no(read, question), name="planck approval prompt")
        deciding = spawn(self._decided(agent, call_id), name="planck approval decided")
        try:
            await asyncio.wait([answering, deciding], return_when=asyncio.FIRST_COMPLETED)
            if not deciding.done():
                return answering.result()
        finally:
            await cancel_and_wait(answering, deciding)
        self._write("\n")
        return None

    async def _decided(self, agent: Agent, call_id: str) -> None:
        while any(call.id == call_id for call in agent.state.pending_approvals) and not self._log.closed:
            await self._log.wait_beyond(self._log.end)


async def _line_or_no(read: LineReader, question: str) -> str:
    try:
        return await read(question)
    except EOFError:
        return "no"


def one_at_a_time(read: LineReader) -> LineReader:
    """Return a reader for several prompts in turn.

    Each waits until the line for another is typed.
    """
    lock = asyncio.Lock()

    async def read_alone(question: str) -> str:
        async with lock:
            return await read(question)

    return read_alone


async def read_terminal(question: str) -> str:
    """Read a line from the terminal while the event loop goes on.

    Text typed before the question is discarded: it cannot be the answer.
    """
    loop = asyncio.get_running_loop()
    file = sys.stdin.fileno()
    _discard_input(file)
    readable = asyncio.Event()
    try:
        loop.add_reader(file, readable.set)
    except NotImplementedError:  # the event loop of Windows
        return await read_by_input(question)
    try:
        print(question, end="", flush=True)  # noqa: T201 - for the person at the terminal
        await readable.wait()
    finally:
        loop.remove_reader(file)
    line = os.read(file, _MAX_LINE_LENGTH)  # a terminal gives one whole line
    if not line:
        raise EOFError
    return line.decode(errors="replace")


async def read_by_input(question: str) -> str:
    """Read a line by `input`, which blocks the event loop.

    An interrupt is passed on to the cell.
    """
    try:
        with interrupts_raise():
            return input(question)  # noqa: ASYNC250 - a kernel receives typed text in this way only
    except KeyboardInterrupt:
        signal.raise_signal(signal.SIGINT)
        cancellation: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        return await cancellation


def _discard_input(file: int) -> None:
    try:
        import termios  # noqa: PLC0415 - not on Windows
    except ImportError:
        return
    termios.tcflush(file, termios.TCIFLUSH)
