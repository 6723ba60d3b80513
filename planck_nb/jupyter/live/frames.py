"""Frames of agent events for the browser: adjacent deltas joined, times counted from the run's begin.

Of what a running tool shows, only its tail is sent, once a frame; a prompt that steers is sent as its message comes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import cast

from planck_nb.agent import events as ev
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.jupyter.formatting import SHOWN_CHARACTERS, bounded
from planck_nb.jupyter.live.event_encoding import encode_event
from planck_nb.jupyter.terminal import Tail

_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "tool_args_delta": "args"}


class FrameEncoder:
    """Encodes the events of one run in their order, in as many calls as one likes.

    It remembers how much of each call's arguments was sent, because they arrive in pieces and are bounded as a whole,
    and the last lines of what each running tool shows.
    """

    def __init__(self) -> None:
        self.origin: float | None = None
        """Time of the run's first event, in seconds since the epoch; the encoded `t` count from it."""
        self._written: dict[str, int] = {}
        self._tails: dict[str, Tail] = {}
        self._steered = False

    def encode(self, events: Iterable[ev.AgentEvent]) -> list[JsonObject]:
        """The events as JSON data; those that nothing is shown of are left out."""
        encoded: list[JsonObject] = []
        pieces: list[str] = []
        current: tuple[str, str | None] | None = None
        progress: dict[str, list[ev.ToolProgress]] = {}
        for event in events:
            if self.origin is None:
                self.origin = event.time
            if isinstance(event, ev.ToolProgress):
                progress.setdefault(event.id, []).append(event)
                continue
            kind = _DELTAS.get(event.type)
            if kind is None:
                self._join(encoded, pieces)
                current = None
                if isinstance(event, ev.ToolStart | ev.ToolEnd):
                    progress.pop(event.id, None)
                    self._tails.pop(event.id, None)
                    self._written.pop(event.id, None)
                shown = self._steering(event) or encode_event(event, self.origin)
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
        encoded += map(self._progress, progress.values())
        return encoded

    def _since(self, event: ev.AgentEvent) -> float:
        return round(event.time - (self.origin or event.time), 3)

    def _steering(self, event: ev.AgentEvent) -> JsonObject | None:
        """What somebody said into the running turn; the prompt itself stands in the cell."""
        if isinstance(event, ev.Message) and event.message.type == "user" and self._steered:
            self._steered = False
            return {"type": "said", "text": bounded(event.message.text)}
        self._steered = self._steered or isinstance(event, ev.Steered)
        return None

    def _progress(self, events: list[ev.ToolProgress]) -> JsonObject:
        """The newest lines of a call after more output, which is looked at only here: what has ended costs nothing."""
        newest = events[-1]
        tail = self._tails.setdefault(newest.id, Tail())
        tail.feed("".join(event.text for event in events))
        text, earlier = tail.shown()
        return {
            "type": "progress",
            "t": self._since(newest),
            "id": newest.id,
            "text": encodable(text),
            "earlier": earlier,
        }

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
