"""What `%%planck` gives back: the answer of a run, and its transcript from the run's events."""

from __future__ import annotations

from collections.abc import Sequence

from planck_nb.agent.events import AgentEvent
from planck_nb.ai.messages import AssistantMessage, Message, Usage, UserMessage
from planck_nb.base.json import JsonObject
from planck_nb.jupyter.transcript import Outcome, Transcript


def transcript_of(agent: str, model: str, events: Sequence[AgentEvent]) -> Transcript:
    """The transcript of a run that is over."""
    messages: list[Message] = []
    usage: Usage | None = None
    cost: float | None = None
    outcome: Outcome = "done"
    error: str | None = None
    warnings: list[str] = []
    for event in events:
        match event.type:
            case "message":
                if not isinstance(event.message, UserMessage):
                    messages.append(event.message)
            case "usage_delta":
                usage = (usage or Usage()) + event.delta
                cost = cost if event.cost is None else (cost or 0.0) + event.cost
            case "warning":
                warnings.append(event.text)
            case "aborted":
                outcome = "stopped"
            case "error":
                outcome = "cut off" if event.kind == "StreamTruncated" else "failed"
                error = event.reason
            case _:
                pass
    seconds = events[-1].time - events[0].time if events else 0.0
    return Transcript(agent, model, outcome, tuple(messages), usage, cost, error, seconds, tuple(warnings))


class Answer:
    """The answer to a prompt: `text`, the `messages` of the run, `usage` in tokens and `cost` in US dollars.

    `outcome` is "done" or "stopped". The cell that ran the prompt has shown the transcript already, so the answer
    shows itself in later cells only.
    """

    def __init__(self, transcript: Transcript, *, shown_in: object = None) -> None:
        self.transcript = transcript
        self._shown_in = shown_in

    @property
    def text(self) -> str:
        """The text of the last reply."""
        for message in reversed(self.messages):
            if isinstance(message, AssistantMessage):
                return message.text
        return ""

    @property
    def messages(self) -> tuple[Message, ...]:
        """Replies and tool results of the run, in order, without the prompt."""
        return self.transcript.messages

    @property
    def usage(self) -> Usage | None:
        """Tokens of all replies, None where the provider counted none."""
        return self.transcript.usage

    @property
    def cost(self) -> float | None:
        """What the run cost in US dollars, None where no price is known."""
        return self.transcript.cost

    @property
    def outcome(self) -> Outcome:
        """How the run ended."""
        return self.transcript.outcome

    def was_shown_in(self, cell: object) -> bool:
        """Whether this cell execution has shown the transcript already."""
        return self._shown_in is not None and self._shown_in == cell

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.transcript.bundle()["text/plain"]

    def mime_bundle(self) -> tuple[dict[str, str], JsonObject]:
        """The transcript by MIME type, and the metadata of the output that shows it."""
        return self.transcript.bundle(), self.transcript.metadata()
