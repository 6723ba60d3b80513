"""Batches of events for the browser: deltas are joined, and only the last lines of running output are included."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TypeAlias

from planck_nb.agent import events as ev
from planck_nb.agent.calling.previews import without_previewed
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.jupyter.display.formatting import SHOWN_CHARACTERS
from planck_nb.jupyter.display.plain_output import Tail
from planck_nb.jupyter.display.shown_images import image_notice, image_source
from planck_nb.jupyter.live.browser_events import (
    ArgumentsDisplay,
    ImageDisplay,
    OutputDisplay,
    ResultsDisplay,
    browser_event,
)

IMAGES_CHARACTERS = 8_000_000
"""The most characters of the images of one batch; the view keeps no more of each agent, either."""

EARLIER_IMAGE = "[image, shown when the run is over]"
"""What replaces the older images."""

Delta: TypeAlias = ev.TextDelta | ev.ThinkingDelta | ev.ToolArgsDelta


@dataclass(slots=True)
class _OpenDelta:
    """The newest delta of an agent in a batch: its encoded form, to be completed with the collected texts."""

    event: Delta
    encoded: JsonObject
    texts: list[str] = field(default_factory=list)

    def continues(self, other: Delta) -> bool:
        """Whether the other delta can be joined to this one."""
        return self.event.type == other.type and _call_of(self.event) == _call_of(other)


@dataclass(slots=True)
class _AgentProgress:
    """What the encoder remembers of one agent from batch to batch."""

    written: dict[str, int] = field(default_factory=dict)
    """The length of the arguments so far, by call."""
    tails: dict[str, Tail] = field(default_factory=dict)
    """The last lines of output, by call."""
    previews: dict[str, ev.ToolPreview] = field(default_factory=dict)
    """What was shown of calls whose result is still to come."""
    steering: int = 0
    """Prompts that steer whose message is still to come."""
    turns: int = 0
    """Turns begun so far."""


class FrameEncoder:
    """Encodes the events of one run in their order, batch by batch.

    It remembers how much of each call's arguments was sent, because they arrive in pieces and are bounded as a whole,
    and the last lines of each running tool's output. Agents do not affect each other: deltas of one are joined across
    the events of others.
    """

    def __init__(self) -> None:
        self._agents: dict[str, _AgentProgress] = {}

    def encode(self, events: Iterable[ev.AgentEvent]) -> list[JsonObject]:
        """Encode the next events.

        Args:
            events: The events that follow those of the calls before.

        Returns:
            JSON data that `labextension/src/model/events.generated.ts` describes. Folding it gives the same state
            however the events were divided into batches.
        """
        events = list(events)
        images = _shown_images(events)
        encoded: list[JsonObject] = []
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
                    encoded.append(delta.encoded)
                delta.texts.append(event.text)
            else:
                _complete(open_deltas.pop(event.agent_id, None), agent)
                if isinstance(event, ev.ToolPreview):
                    agent.previews[event.id] = event
                elif isinstance(event, ev.ToolEnd) and (shown := agent.previews.pop(event.id, None)) is not None:
                    result = without_previewed(event.result, (*shown.tables, *shown.documents))
                    event = replace(event, result=result)  # noqa: PLW2901 - the same event as users see it
                if isinstance(event, ev.ToolStart | ev.ToolEnd):
                    output.pop((event.agent_id, event.id), None)
                    agent.tails.pop(event.id, None)
                    agent.written.pop(event.id, None)
                encoded.append(browser_event(event, shown=_is_shown_prompt(event, agent)))
                if (found := images.get(id(event))) is not None:
                    encoded[-1]["display"] = asdict(found)
        for agent_id, delta in open_deltas.items():
            _complete(delta, self._agents[agent_id])
        encoded += (_encode_output(pieces, self._agents[agent_id]) for (agent_id, _), pieces in output.items())
        return encoded


def _shown_images(events: Sequence[ev.AgentEvent]) -> dict[int, ResultsDisplay]:
    """The images of each message that has some, by the identity of its event: the newest, as far as there is space."""
    found: dict[int, ResultsDisplay] = {}
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
            found[id(event)] = ResultsDisplay(tuple(reversed(images)))
    return found


def _call_of(delta: Delta) -> str | None:
    return delta.id if isinstance(delta, ev.ToolArgsDelta) else None


def _is_shown_prompt(event: ev.AgentEvent, agent: _AgentProgress) -> bool:
    """Whether this is the message of a prompt that is not in the cell: it steers, or is of a later turn."""
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
    """Fill the delta's encoded form in."""
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
    """The last lines of a call's output after these pieces. Calls that ended in the same batch are not encoded."""
    newest = pieces[-1]
    tail = agent.tails.setdefault(newest.id, Tail())
    tail.feed("".join(event.text for event in pieces))
    text, earlier_lines = tail.shown()
    return browser_event(newest) | {"display": asdict(OutputDisplay(encodable(text), earlier_lines))}
