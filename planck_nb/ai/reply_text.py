"""Takes out of a reply's text what is not meant for the reader: thinking in tags, and tool calls as JSON.

Open models write both, and not every server takes them out of the text. Thinking is recognised at the beginning of a
text; a call only if nothing else is written, or if it is in tags of its own. Text that may become either is held back
until that is certain, so that it is never shown twice.
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
"""Characters within which the first key of a call and its name must come."""

_MAX_WATCHED = 200_000
"""Characters before a closing tag that may turn out to be thinking."""

_Mode = Literal["start", "thinking", "plain", "call"]


class ReplyText:
    """The texts of one reply.

    Args:
        tags: Pairs of tags around thinking.
        tools: The names of the tools that a call in the text may name; empty if calls are not looked for.
        may_lack_opening: Whether thinking may begin without its opening tag, which some templates put into the prompt.
    """

    def __init__(
        self, tags: Sequence[tuple[str, str]], tools: Collection[str] = (), *, may_lack_opening: bool = False
    ) -> None:
        self.tags = tags
        self.tools = frozenset(tools)
        self.may_lack_opening = may_lack_opening
        self.inserted = 0
        """Parts that were inserted so far."""
        self._texts: dict[int, _Text] = {}
        self._places: dict[int, int] = {}
        self._is_plain = False

    def feed(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """Convert events.

        Args:
            events: The events of the decoder.

        Returns:
            The events to build the message from; the same object if nothing changes.
        """
        if self._is_plain:
            return events
        converted: list[StreamEvent] = []
        for event in events:
            converted.extend(self._convert(event))
        texts = self._texts.values()
        self._is_plain = bool(texts) and not self.inserted and all(text.is_plain for text in texts)
        return converted

    def held(self) -> dict[int, str]:
        """The text that is held back, by the index of its part."""
        return {self.place(index): text.pending for index, text in self._texts.items() if text.pending}

    def place(self, index: int) -> int:
        """The index of a part after those that were inserted."""
        if index not in self._places:
            self._places[index] = self.new_place(index)
        return self._places[index]

    def new_place(self, index: int) -> int:
        """A free index for a part that is inserted at the place of another one."""
        place = index + self.inserted
        while place in self._places.values():
            place += 1
        return place

    def insert(self, index: int) -> int:
        """The index of a new part before the part with this index."""
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
            case ThinkingChunk() | ToolArgsChunk():
                event.index = self.place(event.index)
                yield event
            case ToolCallStart():
                self.tools = frozenset()  # the server takes calls out of the text itself
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
            case Finish():
                yield from self._end()
                yield event
            case _:
                yield event

    def _end(self) -> Iterator[StreamEvent]:
        for text in self._texts.values():
            yield from text.end()


class _Text:
    """One text part that is being received."""

    def __init__(self, reply: ReplyText, index: int) -> None:
        self.pending = ""
        """What is held back."""
        self.remaining: str | None = None
        """The text without the thinking that began without a tag."""
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
        """Whether whatever follows is text."""
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
        """Decide on what is held back, because nothing follows."""
        if self._ended:
            return
        self._ended = True
        if self._mode == "plain" and self._watched is not None and self.pending:
            yield from self._say()
        held, self.pending = self.pending, ""
        if self._mode == "thinking":
            if held:
                yield ThinkingChunk(self._part, held)
            yield PartEnd(self._part)
        else:
            yield from self._decide(held)

    def _decide(self, held: str) -> Iterator[StreamEvent]:
        """Show what was held back as calls if it is some, otherwise as text."""
        calls, rest = calls_in(held, self._reply.tools) if self._reply.tools and held.strip() else ([], held)
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
        stripped = self.pending.lstrip()
        for opening, closing in self._reply.tags:
            if stripped.startswith(opening):
                self.pending = stripped[len(opening) :]
                self._mode, self._closing, self._is_empty = "thinking", closing, True
                self._part = self._reply.insert(self._index)
                self._watched = None
                yield ThinkingChunk(self._part, "")
                return
        openings = [opening for opening, _ in self._reply.tags]
        openings += [opening for opening, _ in _CALL_TAGS] if self._reply.tools else []
        if any(opening.startswith(stripped) for opening in openings):
            return  # not decided, or only white space
        if self._reply.tools and _may_be_call(stripped, self._reply.tools):
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
            shown = before or (self._watched[-1] if self._watched else "")
            if self.pending == tag and not shown.endswith("\n") and not self._ended:
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
        """Make thinking of what came before a closing tag, unless the tag stands within a sentence."""
        watched, self._watched = self._watched or [], None
        thought = "".join([*watched, before])
        is_tag = thought.endswith("\n") or rest.startswith("\n") or not rest
        if not is_tag or any(opening in thought for opening, _ in self._reply.tags):
            self.pending = rest
            yield from self._shown(before + tag)
            return
        part = -1 if watched else self._reply.insert(self._index)
        self.pending = rest
        self.remaining = "" if watched else None
        self._mode, self._has_thought = "start", True
        yield ThinkingChunk(part, thought)
        yield PartEnd(part)

    def _call(self) -> Iterator[StreamEvent]:
        """Hold back what is in the tags of a call, or in a fenced block that may be one."""
        if not self._closing:
            if not _may_be_call(self.pending, self._reply.tools):
                text, self.pending = self.pending[: len(_FENCES[0])], self.pending[len(_FENCES[0]) :]
                self._mode = "plain"
                yield from self._shown(text)
            return
        end = self.pending.find(self._closing)
        if end >= 0:
            end += len(self._closing)
            held, self.pending = self.pending[:end], self.pending[end:]
            self._mode = "plain"
            yield from self._decide(held)

    def _shown(self, text: str) -> Iterator[StreamEvent]:
        if not text:
            return
        if self.remaining is not None:
            self.remaining += text
        yield TextChunk(self._reply.place(self._index), text)


def calls_in(text: str, tools: Collection[str]) -> tuple[list[tuple[str, str]], str]:
    """The tool calls that a text begins with, and the rest of it.

    Args:
        text: A whole text, or one within the tags of a call.
        tools: The names of the tools.

    Returns:
        The name and the arguments of each call, and the text that follows; no call and the whole text if it begins with
        anything else. The arguments of a call that is not valid JSON are its text, which is reported to the model.

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
        found = _calls_of(value, tools)
        if not found:
            return [], text
        calls += found
    if not calls:
        broken = _broken_call(inner, tools)
        return (broken, "") if broken else ([], text)
    if _may_be_call(after, tools):  # a further call that was cut off
        after = ""
    rest = f"{after}\n{rest}".strip()
    if rest and not all(name in tools for name, _ in calls):
        return [], text
    return list(dict.fromkeys(calls)), rest  # small models repeat themselves


class _Object(dict[str, Any]):
    """A JSON object that remembers keys which it has several times."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        self.pairs = pairs


_DECODER = json.JSONDecoder(object_pairs_hook=_Object)


def _values(text: str) -> tuple[list[Any], str]:
    """The JSON values that a text begins with, those of a list one by one, and what follows them."""
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
    if isinstance(several := value.get("tool_calls"), list) and len(value) == 1:
        return [call for each in several for call in _calls_of(each, tools)]
    if isinstance(inner := value.get("function"), _Object):
        value = inner
    if not value.keys() <= _KEYS:
        return []
    name = next((value[key] for key in _NAMES if isinstance(value.get(key), str)), None)
    key = next((key for key in _ARGUMENTS if key in value), None)
    arguments = {} if key is None else value[key]
    if name is None or (key is None and name not in tools) or _is_definition(arguments):
        return []
    return [(name, each) for each in _written(arguments)]


def _is_definition(arguments: object) -> bool:
    """Whether these are the parameters of a tool itself, which a model has repeated."""
    return isinstance(arguments, dict) and arguments.get("type") == "object" and "properties" in arguments


def _written(arguments: object) -> list[str]:
    """The arguments as JSON text; of several calls if each key is there as often."""
    if isinstance(arguments, str):
        return [arguments]
    if isinstance(arguments, _Object) and len(arguments) < len(arguments.pairs):
        times, rest = divmod(len(arguments.pairs), len(arguments))
        values = {key: [value for name, value in arguments.pairs if name == key] for key in arguments}
        if rest or any(len(each) != times for each in values.values()):
            return [f"a key more than once: {[key for key, _ in arguments.pairs]}"]
        return [json.dumps({key: each[at] for key, each in values.items()}) for at in range(times)]
    return [json.dumps(arguments)]


def _broken_call(text: str, tools: Collection[str]) -> list[tuple[str, str]]:
    """A call of a known tool that is not valid JSON, for the model to correct."""
    named = _NAMED.search(text[:_LONGEST_HEAD])
    if named is None or named[1] not in tools or not _may_be_call(text, tools):
        return []
    arguments = _ARGUMENTS_TEXT.search(text)
    return [(named[1], arguments[1] if arguments else text)]


def _may_be_call(text: str, tools: Collection[str]) -> bool:
    """Whether a text that has just begun may become a call."""
    if text.startswith("`"):
        if "```".startswith(text) or _FENCE_HEAD.fullmatch(text):
            return True
        fenced = _FENCE.fullmatch(text)
        return fenced is not None and fenced[1] in _LANGUAGES and _may_be_call(fenced[2].lstrip(), tools)
    if any(text.startswith(opening) for opening, _ in _CALL_TAGS):
        return True
    head = text[:_LONGEST_HEAD]
    if (first := _FIRST_KEY.match(head)) is None:
        return _BEGINNING.fullmatch(head) is not None
    return first[1] in {*_KEYS, "tool_calls"} and _may_name_call(first[1], head, tools)


def _may_name_call(first_key: str, head: str, tools: Collection[str]) -> bool:
    """Whether an object that has just begun may name a tool. Arguments that follow say so of an unknown name."""
    if (named := _NAMED.search(head)) is None:
        return len(head) < _LONGEST_HEAD or first_key in {*_ARGUMENTS, "tool_calls"}
    follows = head[named.end() :].lstrip().removeprefix(",").lstrip()
    has_arguments = any(f'"{key}"'.startswith(follows[: len(key) + 2]) for key in _ARGUMENTS)
    return has_arguments or named[1] in tools or first_key in _ARGUMENTS


def _unfenced(text: str) -> tuple[str, str]:
    """What is in the fenced block that a text begins with, and what follows it; the text itself if there is none."""
    fenced = _FENCED.match(text)
    return (fenced[1].strip(), text[fenced.end() :].strip()) if fenced else (text, "")


def _without_beginning_of(text: str, tags: Sequence[str]) -> tuple[str, str]:
    """A text, and its end that may be the beginning of a tag."""
    for length in range(min(len(text), max(map(len, tags), default=1) - 1), 0, -1):
        end = text[-length:]
        if any(tag.startswith(end) for tag in tags):
            return text[:-length], end
    return text, ""
