"""Agent events as the browser gets them: adjacent deltas joined, long texts cut, times counted from the run's begin."""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from planck_nb.agent import events as ev
from planck_nb.base.json import JsonObject
from planck_nb.base.text import encodable
from planck_nb.jupyter.transcript_text import SHOWN_CHARACTERS, bounded, key_argument, shown_arguments

_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "tool_args_delta": "args"}


class FrameEncoder:
    """Encodes the events of one run in their order, in as many calls as one likes.

    It remembers how much of each call's arguments was sent, because they arrive in pieces and are bounded as a whole.
    """

    def __init__(self) -> None:
        self.origin: float | None = None
        """Time of the run's first event, in seconds since the epoch; the encoded `t` count from it."""
        self._written: dict[str, int] = {}

    def encode(self, events: Iterable[ev.AgentEvent]) -> list[JsonObject]:
        """The events as JSON data; those that nothing is shown of are left out."""
        encoded: list[JsonObject] = []
        pieces: list[str] = []
        current: tuple[str, str | None] | None = None
        for event in events:
            if self.origin is None:
                self.origin = event.time
            kind = _DELTAS.get(event.type)
            if kind is None:
                self._join(encoded, pieces)
                current = None
                shown = self._encode(event)
                if shown is not None:
                    encoded.append({"type": shown.pop("type"), "t": self._since(event), **shown})
                continue
            delta = cast("ev.TextDelta | ev.ThinkingDelta | ev.ToolArgsDelta", event)
            call = delta.id if isinstance(delta, ev.ToolArgsDelta) else None
            if current != (kind, call):
                self._join(encoded, pieces)
                current = (kind, call)
                entry: JsonObject = {"type": kind, "t": self._since(event)}
                if isinstance(delta, ev.ToolArgsDelta):
                    entry |= {"id": delta.id, "name": delta.name}
                encoded.append(entry)
            pieces.append(delta.text)
        self._join(encoded, pieces)
        return encoded

    def _since(self, event: ev.AgentEvent) -> float:
        return round(event.time - (self.origin or event.time), 3)

    def _join(self, encoded: list[JsonObject], pieces: list[str]) -> None:
        """Complete the newest entry, a delta, with the text collected for it."""
        if not pieces:
            return
        entry, text = encoded[-1], encodable("".join(pieces))
        pieces.clear()
        if entry["type"] == "args":
            before = self._written.get(entry["id"], 0)
            self._written[entry["id"]] = before + len(text)
            entry["count"] = before + len(text)
            text = text[: max(SHOWN_CHARACTERS - before, 0)]
        entry["text"] = text

    def _encode(self, event: ev.AgentEvent) -> JsonObject | None:  # noqa: C901, PLR0911 - one case per event type
        match event:
            case ev.TurnStart():
                return {"type": "turn", "model": event.model}
            case ev.Queued():
                return {"type": "queued"}
            case ev.Message():
                return self._message(event)
            case ev.ToolStart():
                self._written.pop(event.id, None)
                return {
                    "type": "tool",
                    "id": event.id,
                    "name": event.name,
                    "key": key_argument(event.args),
                    "args": shown_arguments(event.args),
                }
            case ev.ToolEnd():
                return {
                    "type": "result",
                    "id": event.id,
                    "name": event.name,
                    "text": bounded(event.result),
                    "error": event.error,
                }
            case ev.UsageDelta():
                usage = event.delta
                return {
                    "type": "usage",
                    "input": usage.input_tokens,
                    "output": usage.output_tokens,
                    "cost": event.cost,
                }
            case ev.Retry():
                return {
                    "type": "retry",
                    "attempt": event.attempt,
                    "delay": event.delay,
                    "reason": bounded(event.reason, 500),
                }
            case ev.Warned():
                return {"type": "warning", "text": bounded(event.text, 500)}
            case ev.TurnEnd():
                return {"type": "end"}
            case ev.Aborted():
                return {"type": "aborted"}
            case ev.Error():
                return {"type": "error", "reason": bounded(event.reason, 2_000)}
            case _:
                return None

    def _message(self, event: ev.Message) -> JsonObject | None:
        """An assistant's message closes what it streamed; of results only failures carry news (a call never run)."""
        message = event.message
        if message.type == "assistant":
            return {"type": "message", "stop": message.stop_reason}
        if message.type == "tool_result":
            failed = [[part.id, bounded(part.text)] for part in message.content if part.is_error]
            return {"type": "failures", "calls": failed} if failed else None
        return None
