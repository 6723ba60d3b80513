"""Separates thinking in tags, and calls as JSON, from a reply's text.

Open models write both, and some servers leave them in the text. Thinking is recognised at a text's beginning; a call
only if it stands alone, ends the text in a fenced block, or has its own tags. Text which may become either is held back
until this is certain, so it is never shown twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Sequence
from typing import Any, Literal

from planck_nb.ai.message_history.portable_history import IN_TEXT
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
)

_CALL_TAGS = (
    ("<tool_call>", "</tool_call>"),  # Hermes, Qwen
    ("<function_call>", "</function_call>"),
    ("<tools>", "</tools>"),
    ("[TOOL_CALLS]", "\n\n\n"),  # Mistral
)
_NAMES = ("name", "tool", "tool_name", "function", "action")
_ARGUMENTS = ("arguments", "parameters", "args", "input", "action_input")
_KEYS = frozenset({*_NAMES, *_ARGUMENTS, "type", "id", "index", "call_id"})
_FIRST_KEY = re.compile(r'[\[\s]*\{\s*"([^"]*)"')
_BEGINNING = re.compile(r'[\[\s]*(\{\s*("[^"]*)?)?')
_NAMED = re.compile(r'"(?:name|tool|tool_name|function|action)"\s*:\s*"([^"]*)"')
_ARGUMENTS_TEXT = re.compile(r'"(?:arguments|parameters|args|input|action_input)"\s*:\s*(.*)', re.DOTALL)
_FENCE = re.compile(r"```(\w*)[ \t]*\n(.*)", re.DOTALL)
_FENCED = re.compile(r"```\w*[ \t]*\n(.*?)(?:\n[ \t]*```|\Z)", re.DOTALL)
_FENCES = ("```json", "```tool")
_FENCE_HEAD = re.compile(r"```\w{0,12}[ \t]*")
_LANGUAGES = frozenset({"", "json", "tool_call", "tool", "tool_code"})
_LONGEST_HEAD = 200
"""Characters with a call's first key and its name."""

_MAX_WATCHED = 200_000
"""Characters before a closing tag which may prove to be thinking."""

_OF_TEXT = (TextChunk, ToolCallStart, PartEnd, Finish)
"""Events which concern texts."""

_Mode = Literal["start", "thinking", "plain", "call"]


class ReplyText:
    """Texts in one reply.

    Args:
        tags: Pairs with tags around thinking.
        tools: Tool names for calls in the text; empty if calls stay text.
        may_lack_opening: Whether thinking may begin without its opening tag, which some templates put into the prompt.
    """

    def __init__(
        self, tags: Sequence[tuple[str, str]], tools: Collection[str] = (), *, may_lack_opening: bool = False
    ) -> None:
        self.tags = tags
        self.tools = frozenset(tools)
        self.may_lack_opening = may_lack_opening
        self.inserted = 0
        """Number of inserted parts."""
        self._texts: dict[int, _Text] = {}
        self._places: dict[int, int] = {}
        self._is_plain = False

    def feed(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """Convert events.

        Args:
            events: The decoder's events.

        Returns:
            The events for the message; the same object if unchanged.
        """
        if self._is_plain:
            return events
        result: list[StreamEvent] = []
        for place, event in enumerate(events, 1):
            if not isinstance(event, _OF_TEXT):
                if isinstance(event, (ThinkingChunk, ToolArgsChunk)):
                    event.index = self.place(event.index)
                result.append(event)
                continue
            if isinstance(event, TextChunk) and self._begins_plain(event.text):
                self._is_plain = True
                return [*result, *events[place - 1 :]]
            result.extend(self._convert(event))
            if self._may_end():
                self._is_plain = True
                self._texts.clear()  # they refer to this object
                return [*result, *events[place:]]
        return result

    def _begins_plain(self, text: str) -> bool:
        """Tell if a first text excludes thinking and calls, as most do."""
        if self._texts or self.inserted or self.tools or self.may_lack_opening:
            return False
        beginning = text.lstrip()[:1]
        return beginning != "" and beginning not in [opening[:1] for opening, _ in self.tags]

    def _may_end(self) -> bool:
        """Tell if all later events stay unchanged."""
        if self.inserted or not self._texts:
            return False
        return all(text.is_plain for text in self._texts.values())

    def held(self) -> dict[int, str]:
        """Text held back, by part index."""
        return {self.place(index): text.pending for index, text in self._texts.items() if text.pending}

    def place(self, index: int) -> int:
        """A part's index after insertions."""
        if index not in self._places:
            self._places[index] = self.new_place(index)
        return self._places[index]

    def new_place(self, index: int) -> int:
        """A free index near another part."""
        place = index + self.inserted
        while place in self._places.values():
            place += 1
        return place

    def insert(self, index: int) -> int:
        """Insert a part before another one; return its index."""
        place = self.new_place(index)
        self.inserted += 1
        self._places[-1 - len(self._places)] = place  # reserves it
        return place

    def _convert(self, event: StreamEvent) -> Iterator[StreamEvent]:
        match event:
            case TextChunk():
                text = self._texts.get(event.index)
                if text is None:
                    text = self._texts[event.index] = _Text(self, event.index)
                yield from text.feed(event.text)
            case ToolCallStart():
                self.tools = frozenset()  # the server finds calls itself
                yield from self._end()
                event.index = self.place(event.index)
                yield event
            case PartEnd():
                if (text := self._texts.get(event.index)) is not None:
                    yield from text.end()
                    if event.text is None:
                        event.text = text.remaining
                event.index = self.place(event.index)
                yield event
            case _:
                yield from self._end()
                yield event

    def _end(self) -> Iterator[StreamEvent]:
        for text in self._texts.values():
            yield from text.end()


class _Text:
    """One text part, as it is received."""

    def __init__(self, reply: ReplyText, index: int) -> None:
        self.pending = ""
        """Text held back."""
        self.remaining: str | None = None
        """The text after thinking without an opening tag."""
        self._reply = reply
        self._index = index
        self._mode: _Mode = "start"
        self._closing = ""
        self._part = 0
        self._has_thought = False
        self._is_empty = True
        self._ended = False
        self._watched: list[str] | None = [] if reply.may_lack_opening and reply.tags else None
        self._size = 0

    @property
    def is_plain(self) -> bool:
        """Tell if only text can follow."""
        return self._mode == "plain" and not self.pending and not self._reply.tools and self._watched is None

    def feed(self, text: str) -> Iterator[StreamEvent]:
        self.pending += text
        while self.pending:  # each step ends where it needs more text, or in another mode
            mode, pending = self._mode, self.pending
            match self._mode:
                case "start":
                    yield from self._begin()
                case "thinking":
                    yield from self._think()
                case "call":
                    yield from self._call()
                case "plain":
                    yield from self._say()
            if (mode, pending) == (self._mode, self.pending):
                return

    def end(self) -> Iterator[StreamEvent]:
        """Decide on text held back, at the end."""
        if self._ended:
            return
        self._ended = True
        if self._mode == "plain" and self._watched is not None and self.pending:
            yield from self._say()
        rest, self.pending = self.pending, ""
        if self._mode == "thinking":
            if rest:
                yield ThinkingChunk(self._part, rest)
            yield PartEnd(self._part)
        else:
            yield from self._decide(rest)

    def _decide(self, held_text: str) -> Iterator[StreamEvent]:
        """Show held text as calls if it contains some."""
        calls, rest = (
            calls_in(held_text, self._reply.tools) if self._reply.tools and held_text.strip() else ([], held_text)
        )
        yield from self._shown(rest)
        if calls:
            self._reply.place(self._index)
        for name, arguments in calls:
            part = self._reply.insert(self._index)
            yield ToolCallStart(part, "", name)
            yield ToolArgsChunk(part, arguments)
            yield PartEnd(part, {IN_TEXT: True})

    def _begin(self) -> Iterator[StreamEvent]:
        """At the beginning: thinking in tags, a call, or text."""
        beginning = self.pending.lstrip()
        for opening, closing in self._reply.tags:
            if beginning.startswith(opening):
                self.pending = beginning[len(opening) :]
                self._mode, self._closing, self._is_empty = "thinking", closing, True
                self._part = self._reply.insert(self._index)
                self._watched = None
                yield ThinkingChunk(self._part, "")
                return
        openings = [opening for opening, _ in self._reply.tags]
        openings += [opening for opening, _ in _CALL_TAGS] if self._reply.tools else []
        if any(opening.startswith(beginning) for opening in openings):
            return  # not decided, or only white space
        if self._reply.tools and _may_be_call(beginning, self._reply.tools):
            return
        if self._has_thought:
            self.pending = self.pending.lstrip("\n")
        self._mode = "plain"

    def _think(self) -> Iterator[StreamEvent]:
        if self._is_empty:
            self.pending = self.pending.lstrip("\n")
        thought, closing, rest = self.pending.partition(self._closing)
        if not closing:
            thought, rest = _without_beginning_of(self.pending, (self._closing,))
        self.pending = rest
        if thought:
            self._is_empty = False
            yield ThinkingChunk(self._part, thought)
        if closing:
            self._mode, self._has_thought = "start", True
            yield PartEnd(self._part)

    def _say(self) -> Iterator[StreamEvent]:
        """Show text up to what may be something else."""
        calls = tuple(tag for tag, _ in _CALL_TAGS) + _FENCES if self._reply.tools else ()
        closings = tuple(closing for _, closing in self._reply.tags) if self._watched is not None else ()
        places = [(at, tag) for tag in (*calls, *closings) if (at := self.pending.find(tag)) >= 0]
        if not places:
            text, self.pending = _without_beginning_of(self.pending, (*calls, *closings))
            yield from self._watch(text)
            return
        at, tag = min(places)
        before, self.pending = self.pending[:at], self.pending[at:]
        if tag in closings:
            last_text = before or (self._watched[-1] if self._watched else "")
            if self.pending == tag and not last_text.endswith("\n") and not self._ended:
                self.pending = before + tag  # what follows says whether it ends a line
            else:
                yield from self._end_thinking(before, self.pending[len(tag) :], tag)
            return
        yield from self._watch(before)
        self._closing = dict(_CALL_TAGS).get(tag, "")
        self._mode = "call"

    def _watch(self, text: str) -> Iterator[StreamEvent]:
        """Show text, which may still turn out to be thinking."""
        if self._watched is not None and text:
            self._watched.append(text)
            self._size += len(text)
            if self._size > _MAX_WATCHED:
                self._watched = None
        yield from self._shown(text)

    def _end_thinking(self, before: str, rest: str, tag: str) -> Iterator[StreamEvent]:
        """Make text before a closing tag thinking, except within a sentence."""
        pieces, self._watched = self._watched or [], None
        thought = "".join([*pieces, before])
        is_tag = thought.endswith("\n") or rest.startswith("\n") or not rest
        if not is_tag or any(opening in thought for opening, _ in self._reply.tags):
            self.pending = rest
            yield from self._shown(before + tag)
            return
        part = -1 if pieces else self._reply.insert(self._index)
        self.pending = rest
        self.remaining = "" if pieces else None
        self._mode, self._has_thought = "start", True
        yield ThinkingChunk(part, thought)
        yield PartEnd(part)

    def _call(self) -> Iterator[StreamEvent]:
        """Hold back text in call tags, or in a possible fenced call."""
        if not self._closing:
            if not _may_be_call(self.pending, self._reply.tools):
                text, self.pending = self.pending[: len(_FENCES[0])], self.pending[len(_FENCES[0]) :]
                self._mode = "plain"
                yield from self._shown(text)
            return
        end = self.pending.find(self._closing)
        if end >= 0:
            end += len(self._closing)
            text, self.pending = self.pending[:end], self.pending[end:]
            self._mode = "plain"
            yield from self._decide(text)

    def _shown(self, text: str) -> Iterator[StreamEvent]:
        if not text:
            return
        if self.remaining is not None:
            self.remaining += text
        yield TextChunk(self._reply.place(self._index), text)


def calls_in(text: str, tools: Collection[str]) -> tuple[list[tuple[str, str]], str]:
    """Find calls at the beginning of a text.

    Args:
        text: A whole text, or one in call tags.
        tools: The tool names.

    Returns:
        Name and arguments for each call, and the text after them; an empty list and the whole text if it begins
        otherwise. Arguments with invalid JSON are reported to the model as text.

    Example:
        >>> calls_in('{"name": "get_weather", "arguments": {"city": "Paris"}}', ["get_weather"])
        ([('get_weather', '{"city": "Paris"}')], '')
    """
    inner, rest = _unfenced(text.strip())
    for opening, closing in _CALL_TAGS:
        if inner.startswith(opening):
            inner, _ = _unfenced(inner.removeprefix(opening).removesuffix(closing).strip())
            inner = inner.replace(closing, "").replace(opening, "")
    values, after = _values(inner)
    calls: list[tuple[str, str]] = []
    for value in values:
        value_calls = _calls_of(value, tools)
        if not value_calls:
            return [], text
        calls += value_calls
    if not calls:
        calls = _broken_call(inner, tools)
        return (calls, "") if calls else ([], text)
    if _may_be_call(after, tools):  # a further call, cut off
        after = ""
    rest = f"{after}\n{rest}".strip()
    if rest and not all(name in tools for name, _ in calls):
        return [], text
    return list(dict.fromkeys(calls)), rest  # small models repeat themselves


class _Object(dict[str, Any]):
    """A JSON object with its repeated keys."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


_DECODER = json.JSONDecoder(object_pairs_hook=_Object)


def _values(text: str) -> tuple[list[Any], str]:
    """Parse JSON values at a text's beginning; return them and the rest."""
    values: list[Any] = []
    at = 0
    while at < len(text):
        try:
            value, at = _DECODER.raw_decode(text, at)
        except (ValueError, RecursionError):
            break
        values += value if isinstance(value, list) else [value]
        while at < len(text) and text[at] in " \t\r\n,;":
            at += 1
    return values, text[at:]


def _calls_of(value: Any, tools: Collection[str]) -> list[tuple[str, str]]:  # noqa: ANN401 - any JSON value
    if not isinstance(value, _Object):
        return []
    if isinstance(items := value.get("tool_calls"), list) and len(value) == 1:
        return [call for item in items for call in _calls_of(item, tools)]
    if isinstance(inner := value.get("function"), _Object):
        value = inner
    if not value.keys() <= _KEYS:
        return []
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    key = next((key for key in _ARGUMENTS if key in value), None)
    arguments = {} if key is None else value[key]
    if name is None or (key is None and name not in tools) or _is_definition(arguments):
        return []
    return [(name, text) for text in _written(arguments)]


def _is_definition(arguments: object) -> bool:
    """Tell if a model has repeated a tool's parameters."""
    return isinstance(arguments, dict) and arguments.get("type") == "object" and "properties" in arguments


def _written(arguments: object) -> list[str]:
    """Write arguments as JSON text, for several calls if keys are repeated."""
    if isinstance(arguments, str):
        return [arguments]
    if isinstance(arguments, _Object) and len(arguments) < len(arguments.pairs):
        times, rest = divmod(len(arguments.pairs), len(arguments))
        values = {key: [value for name, value in arguments.pairs if name == key] for key in arguments}
        if rest or any(len(items) != times for items in values.values()):
            return [f"a key more than once: {[key for key, _ in arguments.pairs]}"]
        return [json.dumps({key: items[at] for key, items in values.items()}) for at in range(times)]
    return [json.dumps(arguments)]


def _broken_call(text: str, tools: Collection[str]) -> list[tuple[str, str]]:
    """Find a call with invalid JSON, for the model to correct."""
    name = _NAMED.search(text[:_LONGEST_HEAD])
    if name is None or name[1] not in tools or not _may_be_call(text, tools):
        return []
    arguments = _ARGUMENTS_TEXT.search(text)
    return [(name[1], arguments[1] if arguments else text)]


def _may_be_call(text: str, tools: Collection[str]) -> bool:
    """Tell if a beginning text may become a call."""
    if text.startswith("`"):
        if "```".startswith(text) or _FENCE_HEAD.fullmatch(text):
            return True
        block = _FENCE.fullmatch(text)
        return block is not None and block[1] in _LANGUAGES and _may_be_call(block[2].lstrip(), tools)
    if any(text.startswith(opening) for opening, _ in _CALL_TAGS):
        return True
    head = text[:_LONGEST_HEAD]
    if (first := _FIRST_KEY.match(head)) is None:
        return _BEGINNING.fullmatch(head) is not None
    return first[1] in {*_KEYS, "tool_calls"} and _may_name_call(first[1], head, tools)


def _may_name_call(first_key: str, head: str, tools: Collection[str]) -> bool:
    """Tell if a beginning object may name a tool.

    With an unknown name, arguments must follow.
    """
    if (name := _NAMED.search(head)) is None:
        return len(head) < _LONGEST_HEAD or first_key in {*_ARGUMENTS, "tool_calls"}
    follows = head[name.end() :].lstrip().removeprefix(",").lstrip()
    has_arguments = any(f'"{key}"'.startswith(follows[: len(key) + 2]) for key in _ARGUMENTS)
    return has_arguments or name[1] in tools or first_key in _ARGUMENTS


def _unfenced(text: str) -> tuple[str, str]:
    """Split a fenced block at the beginning from the text after it."""
    block = _FENCED.match(text)
    return (block[1].strip(), text[block.end() :].strip()) if block else (text, "")


def _without_beginning_of(text: str, tags: Sequence[str]) -> tuple[str, str]:
    """Split an end which may begin a tag from a text."""
    for length in range(min(len(text), max(map(len, tags), default=1) - 1), 0, -1):
        end = text[-length:]
        if any(tag.startswith(end) for tag in tags):
            return text[:-length], end
    return text, ""
