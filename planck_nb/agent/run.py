"""A prompt on its way: await it for the answer, iterate over it to watch."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Generator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from planck_nb.agent.events import AgentEvent
from planck_nb.agent.output import OutputSpec
from planck_nb.ai.messages import AssistantMessage, Message, Usage, UserMessage
from planck_nb.base.event_log import EventLog
from planck_nb.base.text import one_line

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=str)
else:
    from typing import TypeVar

    T = TypeVar("T")

RunStatus: TypeAlias = Literal["queued", "running", "done", "aborted", "failed"]


@dataclass(frozen=True, slots=True, repr=False)
class RunResult(Generic[T]):
    """The result of a prompt.

    Args:
        messages: The messages of the turn, the prompt included.
        usage: The tokens of all replies of the turn.
        cost: Their cost in US dollars, None if a price is unknown.
        aborted: Whether the turn was stopped; `text` is then what was written so far.
        output: The structured answer if the prompt had an `output`, otherwise the text of the answer. None if the turn
            was stopped before there was a structured answer.
        limit: The sentence about the limit that ended the turn early, empty if none did.
    """

    messages: tuple[Message, ...]
    usage: Usage
    cost: float | None
    aborted: bool = False
    output: T = None  # type: ignore[assignment]  # the agent sets it; None only where a turn was stopped
    limit: str = ""

    @property
    def text(self) -> str:
        """The text of the last reply."""
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage):
                return message.text
        return ""

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        ended = "aborted " if self.aborted else "limited " if self.limit else ""
        return f"<RunResult {ended}{one_line(self.text)!r}>"

    def _repr_markdown_(self) -> str:
        """What a notebook shows for a result: its text, or the data of a structured answer."""
        structured = self.output is not None and not isinstance(self.output, str)
        return f"```json\n{self.text}\n```" if structured else self.text


class Run(Generic[T]):
    """One prompt to an agent, from the call of `Agent.prompt` on.

    - `await run` gives the `RunResult` and raises what failed; cancelling it aborts the run and keeps the partial text.
    - `async for event in run` shows the turn's events from its start, however late one begins; leaving the loop
      aborts nothing.
    - `await run.wait()` observes like `await run`, without owning: cancelling it leaves the run alone.

    A run that nobody awaits goes on, and its failure prints nothing.
    """

    def __init__(
        self,
        id: str,  # noqa: A002 - the seeds' name
        prompt: UserMessage,
        stop: Callable[[Run[Any]], None],
        output_spec: OutputSpec | None = None,
        *,
        steer: bool = False,
    ) -> None:
        self.id = id
        self.prompt = prompt
        self.output_spec = output_spec
        self.steer = steer
        self.status: RunStatus = "queued"
        self.events: EventLog[AgentEvent] = EventLog()
        """Everything the turn said, from its start, without loss."""
        self.context = contextvars.copy_context()
        """The context variables of whoever prompted, which a notebook goes by to place what tools print."""
        self._stop = stop
        self._done: asyncio.Future[RunResult[T]] = asyncio.get_running_loop().create_future()

    def __await__(self) -> Generator[object, None, RunResult[T]]:
        return self._own().__await__()

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        return self.events.subscribe(0)

    def __repr__(self) -> str:
        return f"<Run {self.status}>"

    @property
    def turn(self) -> int | None:
        """The turn that took the prompt up, None as long as none has."""
        return next((event.turn for event in self.events.since(0) if event.type in ("turn_start", "steered")), None)

    async def wait(self) -> RunResult[T]:
        """Wait for the result without owning the run: cancelling this leaves the run alone.

        Returns:
            The result.

        Raises:
            PlanckError: The run failed.
        """
        return await asyncio.shield(self._done)

    def abort(self) -> None:
        """Stop the run, queued or running; no effect once it is over. What was written so far is kept."""
        if not self._done.done():
            self._stop(self)

    def settle(self, status: RunStatus, outcome: RunResult[T] | BaseException) -> None:
        """The agent's last word on the run."""
        self.status = status
        if self._done.done():
            return
        if isinstance(outcome, BaseException):
            self._done.set_exception(outcome)
            self._done.exception()  # marks it as seen: a run that nobody awaits must not complain at exit
        else:
            self._done.set_result(outcome)
        self.events.close()

    async def _own(self) -> RunResult[T]:
        try:
            return await asyncio.shield(self._done)
        except asyncio.CancelledError:
            self.abort()
            await asyncio.wait([self._done])
            raise
