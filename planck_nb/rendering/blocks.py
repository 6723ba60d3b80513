"""Transcript blocks in reading order: text, thinking, calls and notices."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TypeAlias

from planck_nb.agent.calling.previews import without_previewed
from planck_nb.agent.calling.user_code import STOPPED
from planck_nb.agent.preview_types import Preview
from planck_nb.ai.messages import (
    AssistantMessage,
    AssistantPart,
    ImagePart,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    UserMessage,
)
from planck_nb.ai.server_calls import ServerCall, server_calls
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.rendering.diff_lines import DIFFED_ARGUMENTS, ShownDiff, diff_in
from planck_nb.rendering.formatting import bounded, key_argument, shown_arguments
from planck_nb.rendering.plain_output import plain

YOU = "You"
"""Sender for the user's message."""

UNNAMED = "another agent"
"""Sender for a message from an unnamed agent."""

_IMAGE_LINE = re.compile(r"^\[image(?: \d+x\d+)?(?: [\w.+-]+)?\]\n?", re.MULTILINE)
"""An image's stand-in within a result's text.

`labextension/src/view/tool-calls.ts` has the same.
"""

CALL_GROUP = 8
"""Longest row of ungrouped calls; more are grouped into one line."""


@dataclass(frozen=True, slots=True)
class Notice:
    """An event between two messages, as one sentence."""

    text: str


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision on the call `id`.

    It was denied, or `args` replaced the model's own.
    """

    id: str
    denied: bool = False
    args: JsonObject | None = None


@dataclass(frozen=True, slots=True)
class Execution:
    """Facts about the call `id` besides its result.

    Args:
        id: The call.
        seconds: Its duration, None if hidden.
        printed: The last lines from the tool.
        is_cut: Whether it printed more.
        previews: The tables and the HTML in place of parts of the result.
    """

    id: str
    seconds: float | None = None
    printed: str = ""
    is_cut: bool = False
    previews: tuple[Preview, ...] = ()


TranscriptEntry: TypeAlias = Message | Notice | Decision | Execution
"""An element in a transcript, in chronological order."""


@dataclass(frozen=True, slots=True)
class Interjection:
    """A message into the running turn, from user or agent."""

    text: str
    sender: str = ""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call and its result; `unfinished` describes a missing result."""

    part: ToolCallPart
    result: ToolResultPart | None
    decision: Decision | None
    unfinished: str
    execution: Execution | None = None

    @property
    def seconds(self) -> float | None:
        """Return its duration, None if hidden."""
        return None if self.execution is None else self.execution.seconds

    @property
    def printed(self) -> str:
        """Return the tool's last printed lines, unless the result contains them."""
        execution = self.execution
        if execution is None or not execution.printed.strip() or execution.printed.strip() in self.output:
            return ""
        return f"{'[earlier lines are not shown]' + chr(10) if execution.is_cut else ''}{execution.printed.rstrip()}"

    @property
    def previews(self) -> tuple[Preview, ...]:
        """Return the tables and the HTML which replace result parts."""
        return () if self.execution is None else self.execution.previews

    @property
    def rest(self) -> str:
        """Return the result without the previewed parts, bounded."""
        if self.result is None:
            return ""
        text = without_previewed(plain(self.result.text), self.previews)
        return bounded(_IMAGE_LINE.sub("", text) if self.images else text)

    @property
    def diff(self) -> ShownDiff | None:
        """Return the diff at the result's end."""
        return diff_in(self.output)

    @property
    def name(self) -> str:
        """Return the tool's name."""
        return encodable(self.part.name)

    @property
    def key(self) -> str:
        """Return the argument which identifies the call at a glance."""
        return key_argument(self._args)

    @property
    def trouble(self) -> str:
        """Return a word for a failure; empty for a successful call."""
        if self.decision is not None and self.decision.denied:
            return "denied"
        if self.result is None:
            return self.unfinished
        if self.result.text == STOPPED:
            return "stopped"
        return "failed" if self.result.is_error else ""

    @property
    def state(self) -> str:
        """Return the state to show beside the call; empty for ordinary success."""
        edit_note = "edited by you" if self.decision is not None and self.decision.args is not None else ""
        overwrite_note = "overwrote the file" if self.name == "write" and self.diff else ""
        return ", ".join(word for word in (edit_note, overwrite_note, self.trouble) if word)

    @property
    def output(self) -> str:
        """Return the model's view of the result, bounded."""
        return "" if self.result is None else bounded(plain(self.result.text))

    @property
    def text(self) -> str:
        """Return the output without the images' stand-ins."""
        return _IMAGE_LINE.sub("", self.output) if self.images else self.output

    @property
    def images(self) -> tuple[ImagePart, ...]:
        """Return the result's images."""
        return () if self.result is None else self.result.images

    def arguments(self) -> Iterator[tuple[str, str]]:
        """Yield the arguments besides the key, as name and text."""
        if self.part.invalid is not None:
            yield "arguments", bounded(self.part.invalid)
        hidden_names = DIFFED_ARGUMENTS if self.diff else frozenset[str]()
        for name, text in shown_arguments(self._args):
            if text != self.key and name not in hidden_names:
                yield name, text

    @property
    def _args(self) -> JsonObject:
        """Return the arguments with which it ran."""
        return self.part.args if self.decision is None or self.decision.args is None else self.decision.args


@dataclass(frozen=True, slots=True)
class CallGroup:
    """Many tool calls in one reply."""

    calls: tuple[ToolCall, ...]

    @property
    def names(self) -> str:
        """Return the number of calls per tool: `read 30, bash 4`."""
        return _counted(call.name for call in self.calls)

    @property
    def trouble(self) -> str:
        """Return the number of unsuccessful calls: `1 failed`; empty without failures."""
        times = Counter(call.trouble for call in self.calls if call.trouble)
        return ", ".join(f"{count} {word}" for word, count in times.items())


Block: TypeAlias = TextPart | ThinkingPart | ToolCall | CallGroup | Interjection | Notice


def reply_blocks(messages: Sequence[Message], index: int) -> Iterator[Block]:
    """Yield the blocks for a model's message or for results.

    A result stands with its call; results without one are calls of their own.

    Args:
        messages: The conversation.
        index: The message's place in it.
    """
    message = messages[index]
    if isinstance(message, AssistantMessage):
        yield from _reply(message, *_outcomes(messages, index + 1), "not finished")
        if message.error:
            yield Notice(f"Error: {message.error}")
    elif isinstance(message, ToolResultMessage):
        replies = (place for place in range(index - 1, -1, -1) if isinstance(messages[place], AssistantMessage))
        reply = next(replies, -1)
        results = _outcomes(messages, reply + 1)[0]
        call_ids = {part.id for part in messages[reply].content if part.type == "tool_call"} if reply >= 0 else set()
        for part in message.content:
            if part.id not in call_ids or results.get(part.id) is not part:
                yield ToolCall(ToolCallPart(part.id, part.name, {}), part, None, "")


def blocks(entries: Sequence[TranscriptEntry], unfinished: str) -> Iterator[Block]:
    """Yield a run's blocks.

    Args:
        entries: Its transcript's entries.
        unfinished: The word for calls without a result.
    """
    for index, entry in enumerate(entries):
        match entry:
            case AssistantMessage():
                yield from _reply(entry, *_outcomes(entries, index + 1), unfinished)
            case UserMessage():
                sender = entry.sender_name or (UNNAMED if entry.sender_id else "")
                yield Interjection(encodable(entry.text), encodable(sender))
            case Notice():
                yield entry
            case _:
                pass


_Outcomes: TypeAlias = tuple[Mapping[str, ToolResultPart], Mapping[str, Decision], Mapping[str, Execution]]


def _outcomes(entries: Sequence[TranscriptEntry], start: int) -> _Outcomes:
    """Return the calls' outcomes for the reply before `start`.

    Later replies may reuse ids.
    """
    decisions: dict[str, Decision] = {}
    executions: dict[str, Execution] = {}
    for place in range(start, len(entries)):
        entry = entries[place]
        if isinstance(entry, AssistantMessage):
            break
        if isinstance(entry, Decision):
            decisions[entry.id] = entry
        elif isinstance(entry, Execution):
            executions[entry.id] = entry
        elif not isinstance(entry, Notice) and entry.type == "tool_result":
            return {part.id: part for part in entry.content}, decisions, executions
    return {}, decisions, executions


def _reply(
    message: AssistantMessage,
    results: Mapping[str, ToolResultPart],
    decisions: Mapping[str, Decision],
    executions: Mapping[str, Execution],
    unfinished: str,
) -> Iterator[Block]:
    content, on_server = _with_server_calls(message)
    results = {**results, **on_server}
    for are_calls, parts in groupby(content, lambda part: part.type == "tool_call"):
        if not are_calls:
            yield from (part for part in parts if part.type != "tool_call" and part.text.strip())
            continue
        calls = tuple(
            ToolCall(part, results.get(part.id), decisions.get(part.id), unfinished, executions.get(part.id))
            for part in parts
            if part.type == "tool_call"
        )
        if len(calls) > CALL_GROUP:
            yield CallGroup(calls)
        else:
            yield from calls


def _with_server_calls(message: AssistantMessage) -> tuple[list[AssistantPart], dict[str, ToolResultPart]]:
    """Return the parts and results, with the server's calls as calls."""
    places: dict[int, list[ServerCall]] = {}
    for place, call in server_calls(message.content):
        places.setdefault(place, []).append(call)
    content: list[AssistantPart] = []
    results: dict[str, ToolResultPart] = {}
    for place, part in enumerate(message.content):
        for call in places.get(place, ()):
            content.append(ToolCallPart(call.id, call.name, call.args))
            results[call.id] = ToolResultPart(call.id, call.name, call.result or "", is_error=call.is_error)
        content.append(part)
    return content, results


def _counted(words: Iterator[str]) -> str:
    return ", ".join(f"{word} {count}" for word, count in Counter(words).items())
