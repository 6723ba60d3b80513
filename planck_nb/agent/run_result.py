"""The outcome of a prompt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias

from planck_nb.agent.answers import ENDINGS, problem_of
from planck_nb.ai.messages import AssistantMessage, Message, StopReason, Usage
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
        usage: The tokens of all requests in the turn, with summaries, replies for sidecars and failed requests.
        cost: Their cost in US dollars, None if a price is unknown.
        aborted: Whether the turn was stopped; `text` is then what was written so far.
        output: The structured answer if the prompt had an `output`, otherwise the text of the answer. None if the turn
            was stopped before there was a structured answer.
        limit: The sentence about the limit that ended the turn early, empty if none did.
        warning: A sentence that says that the answer is cut off, was refused, or is missing because the model only
            thought; empty otherwise.
    """

    messages: tuple[Message, ...]
    usage: Usage
    cost: float | None
    aborted: bool = False
    output: T = None  # type: ignore[assignment]  # the agent sets it; None only if a turn was stopped
    limit: str = ""
    warning: str = ""

    @property
    def stop_reason(self) -> StopReason:
        """Why the last reply ended: "stop" if it is complete, "length" if it was cut off, or "refusal".

        Also "tool_use" if a limit ended the turn after tool calls, "aborted" if the turn was stopped.
        """
        if self.aborted:
            return "aborted"
        return "stop" if self.reply is None else self.reply.stop_reason

    @property
    def reply(self) -> AssistantMessage | None:
        """The last reply, None if there is none."""
        return last_reply(self.messages)

    @property
    def text(self) -> str:
        """The text of the last reply."""
        return "" if self.reply is None else self.reply.text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        words = ENDINGS[problem_of(self.reply)] if self.warning and self.reply else ""
        ended = "aborted " if self.aborted else "limited " if self.limit else f"{words} ".lstrip()
        return f"<RunResult {ended}{one_line(self.text)!r}>"

    def _repr_markdown_(self) -> str:
        """What a notebook shows for a result: its text, or the data of a structured answer."""
        structured = self.output is not None and not isinstance(self.output, str)
        text = f"```json\n{self.text}\n```" if structured else self.text
        return f"{text}\n\n> {self.warning}".lstrip() if self.warning else text


def last_reply(messages: Sequence[Message]) -> AssistantMessage | None:
    """The last reply among the messages, None if there is none."""
    for message in reversed(messages):
        if isinstance(message, AssistantMessage):
            return message
    return None
