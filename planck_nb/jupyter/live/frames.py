"""Event batches for the browser, with joined deltas and shortened output."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeAlias

from planck_nb.agent import events as ev
from planck_nb.agent.calling.previews import without_previewed
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.jupyter.live.browser_events import (
    ArgumentsDisplay,
    ImageDisplay,
    OutputDisplay,
    ResultsDisplay,
    browser_event,
)
from planck_nb.rendering.formatting import SHOWN_CHARACTERS
from planck_nb.rendering.plain_output import Tail
from planck_nb.rendering.shown_images import image_notice, image_source

IMAGES_CHARACTERS = 8_000_000
"""Largest total size of the images in a batch, in characters.

The view also keeps only that much per agent.
"""

EARLIER_IMAGE = "[image, shown when the run is over]"
"""Replacement for older images."""

Delta: TypeAlias = ev.TextDelta | ev.ThinkingDelta | ev.ToolArgsDelta


@dataclass(slots=True)
class _OpenDelta:
    """An agent's newest delta in a batch.

    Its encoded form is completed with the collected texts.
    """

    event: Delta
    encoded: JsonObject
    texts: list[str] = field(default_factory=list)

    def continues(self, other: Delta) -> bool:
        """Return whether the other delta can be joined to this one."""
        return self.event.type == other.type and _call_of(self.event) == _call_of(other)


@dataclass(slots=True)
class _AgentProgress:
    """The encoder's memory about an agent, from batch to batch."""

    written: dict[str, int] = field(default_factory=dict)
    """Length of the arguments so far, by call."""
    tails: dict[str, Tail] = field(default_factory=dict)
    """Last lines of output, by call."""
    previews: dict[str, ev.ToolPreview] = field(default_factory=dict)
    """Previews for calls without a result so far."""
    steering: int = 0
    """Steering prompts without a message so far."""
    turns: int = 0
    """Turns begun so far."""


class FrameEncoder:
    """An encoder for a run's events in their order, batch by batch.

    It remembers how much of each call's arguments was sent, because they arrive in pieces and are bounded as a whole,
    and the last lines in each running tool's output. Agents do not affect each other: an agent's deltas are joined
    across other agents' events.
    """

    def __init__(self) -> None:
        self._agents: dict[str, _AgentProgress] = {}

    def encode(self, events: Iterable[ev.AgentEvent]) -> list[JsonObject]:
        """Encode the next events.

        Args:
            events: The events after those in earlier calls.

        Returns:
            JSON data for `labextension/src/model/events.generated.ts`. Folding it gives the same state for any division
            into batches.
        """
        events = list(events)
        images = _shown_images(events)
        frames: list[JsonObject] = []
        open_deltas: dict[str, _OpenDelta] = {}
        output: dict[tuple[str, str], list[ev.ToolProgress]] = {}
        for event in events:
            agent = self._agents.setdefault(event.agent_id, _AgentProgress())
            if isinstance(event, ev.ToolProgress):
                output.setdefault((event.agent_id, event.id), []).append(event)
            elif isinstance(event, Delta):
                delta = open_deltas.get(event.agent_id)
                if delta is None or not delta.continues(event):
                    _complete(delta, agent)
                    delta = open_deltas[event.agent_id] = _OpenDelta(event, {})
                    frames.append(delta.encoded)
                delta.texts.append(event.text)
            else:
                _complete(open_deltas.pop(event.agent_id, None), agent)
                if isinstance(event, ev.ToolPreview):
                    agent.previews[event.id] = event
                elif isinstance(event, ev.ToolEnd) and (preview := agent.previews.pop(event.id, None)) is not None:
                    result = without_previewed(event.result, (*preview.tables, *preview.documents))
                    event = replace(event, result=result)  # noqa: PLW2901 - the same event as users see it
                if isinstance(event, ev.ToolStart | ev.ToolEnd):
                    output.pop((event.agent_id, event.id), None)
                    agent.tails.pop(event.id, None)
                    agent.written.pop(event.id, None)
                frames.append(browser_event(event, shown=_is_shown_prompt(event, agent)))
                if (display := images.get(id(event))) is not None:
                    frames[-1]["display"] = asdict(display)
        for agent_id, delta in open_deltas.items():
            _complete(delta, self._agents[agent_id])
        frames += (_encode_output(pieces, self._agents[agent_id]) for (agent_id, _), pieces in output.items())
        return frames


def _shown_images(events: Sequence[ev.AgentEvent]) -> dict[int, ResultsDisplay]:
    """Return the newest images by their event's identity, within the limit."""
    displays: dict[int, ResultsDisplay] = {}
    space = IMAGES_CHARACTERS
    for event in reversed(events):
        if not isinstance(event, ev.MessageAppended) or event.message.type != "tool_result":
            continue
        images: list[ImageDisplay] = []
        for part in reversed(event.message.content):
            for image in reversed(part.images):
                source = image_source(image)
                notice = EARLIER_IMAGE if source else image_notice(image)
                space -= len(source)
                images.append(ImageDisplay(part.id, source if space >= 0 else "", notice))
        if images:
            displays[id(event)] = ResultsDisplay(tuple(reversed(images)))
    return displays


def _call_of(delta: Delta) -> str | None:
    return delta.id if isinstance(delta, ev.ToolArgsDelta) else None


def _is_shown_prompt(event: ev.AgentEvent, agent: _AgentProgress) -> bool:
    """Return whether this is the message for a prompt outside the cell.

    Such a prompt steers, or belongs to a later turn.
    """
    if isinstance(event, ev.TurnStart):
        agent.steering = 0
        agent.turns += 1
    elif isinstance(event, ev.Steered):
        agent.steering += 1
    elif isinstance(event, ev.MessageAppended) and event.message.type == "user" and agent.steering > 0:
        agent.steering -= 1
        return True
    return isinstance(event, ev.MessageAppended) and agent.turns > 1


def _complete(delta: _OpenDelta | None, agent: _AgentProgress) -> None:
    """Complete the delta's encoded form."""
    if delta is None:
        return
    event, text = delta.event, encodable("".join(delta.texts))
    delta.encoded |= browser_event(event)
    if isinstance(event, ev.ToolArgsDelta):
        before = agent.written.get(event.id, 0)
        agent.written[event.id] = before + len(text)
        delta.encoded["display"] = asdict(ArgumentsDisplay(before + len(text)))
        text = text[: max(SHOWN_CHARACTERS - before, 0)]
    delta.encoded["text"] = text


def _encode_output(pieces: list[ev.ToolProgress], agent: _AgentProgress) -> JsonObject:
    """Return a call's last lines after these pieces.

    A call which ended in the same batch is not encoded.
    """
    newest = pieces[-1]
    tail = agent.tails.setdefault(newest.id, Tail())
    tail.feed("".join(event.text for event in pieces))
    text, earlier_lines = tail.shown()
    return browser_event(newest) | {"display": asdict(OutputDisplay(encodable(text), earlier_lines))}
