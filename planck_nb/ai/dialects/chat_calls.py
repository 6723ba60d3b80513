"""Tool calls from a streamed Chat Completions reply.

OpenAI sends a call's id and name in its first delta, and the same index in all its deltas. Other servers leave
out ids or indexes, give several calls one index, send a name in pieces or after the arguments, and repeat what they
have sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from planck_nb.ai.dialects.json_wire import write_json
from planck_nb.ai.message_builder import MAX_ID_LENGTH, parse_arguments
from planck_nb.ai.stream_events import StreamEvent, ToolArgsChunk, ToolCallStart
from planck_nb.base.json_types import JsonObject


class StreamedCalls:
    """One reply's calls.

    Args:
        next_index: Returns a new part's index.
        opaque_fields: The fields in a call which go back to the server unread.
    """

    def __init__(self, next_index: Callable[[], int], opaque_fields: tuple[str, ...]) -> None:
        self._next_index = next_index
        self._opaque_fields = opaque_fields
        self._calls: list[_StreamedCall] = []
        self._by_id: dict[str, _StreamedCall] = {}
        self._by_place: dict[object, _StreamedCall] = {}

    def feed(self, delta: JsonObject, place: object) -> Iterator[StreamEvent]:
        """Decode one delta.

        Args:
            delta: An entry in `tool_calls`.
            place: Its index, or where it stands without an index; None if it stands alone, so that only the last call
                is near.

        Yields:
            The events. A call starts with its arguments, because only then is its name complete.
        """
        function = delta.get("function") or {}
        name, arguments = _text(function.get("name")), _arguments(function.get("arguments"))
        call = self._find(_text(delta.get("id")), place, name, arguments)
        for field in self._opaque_fields:
            for source in (delta, function):
                if source.get(field):
                    call.fields[field] = source[field]
        yield from call.feed(name, arguments)

    def end(self) -> Iterator[StreamEvent]:
        """Start the calls without arguments.

        Yields:
            The events.
        """
        for call in self._calls:
            yield from call.end()

    def states(self, endpoint: str) -> dict[int, JsonObject]:
        """Return the state to send back with each call, by part index."""
        states = ((call.index, call.state(endpoint)) for call in self._calls)
        return {index: state for index, state in states if state}

    def _find(self, call_id: str, place: object, name: str, arguments: str) -> _StreamedCall:
        """Return the call for a delta, which may be a new one."""
        call = self._by_id.get(call_id) if call_id else None
        if call is not None and name and place is not None and self._by_place.get(place) is not call:
            call = None if call.is_complete else call  # some servers give every call the same id
        elif call is None:
            is_rest = not (call_id or name)  # https://github.com/agno-agi/agno/pull/8880
            call = self._by_place.get(place)
            if call is None and self._calls and (is_rest or place is None):
                call = self._calls[-1]
            if call is not None and not is_rest and _begins_another(call, call_id, name, arguments):
                call = None
        if call is None:
            call = _StreamedCall(self._next_index())
            self._calls.append(call)
        if place is not None:
            self._by_place[place] = call
        if call_id:
            call.id = call.id or call_id
            self._by_id[call_id] = call
        return call


def _begins_another(call: _StreamedCall, call_id: str, name: str, arguments: str) -> bool:
    """Return whether a delta at a call's place begins another call."""
    if call_id and call.id:
        return call_id != call.id
    if not (name and call.name) or not call.is_complete:
        return False
    # Some servers repeat the name in each delta.
    return bool(call_id) or name != call.name or arguments not in ("", call.text)


class _StreamedCall:
    __slots__ = ("_is_shown", "_pieces", "fields", "id", "index", "length", "name")

    def __init__(self, index: int) -> None:
        self.index = index
        self.id = ""
        self.name = ""
        self.fields: JsonObject = {}
        self.length = 0
        self._pieces: list[str] = []
        self._is_shown = False

    @property
    def is_complete(self) -> bool:
        """True if the arguments are a whole object."""
        return self.length > 0 and parse_arguments(self.text) is not None

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self._pieces)

    def feed(self, name: str, arguments: str) -> Iterator[StreamEvent]:
        if name and not self._is_shown:
            # Sent again, or as far as it is known, or in pieces.
            self.name = name if name.startswith(self.name) else self.name + name
        if arguments:
            # All arguments so far instead of what is new: two objects which begin alike are not JSON.
            if 0 < self.length <= len(arguments) and arguments[0] == "{" and arguments.startswith(text := self.text):
                arguments = arguments[len(text) :]
            self._pieces.append(arguments)
            self.length += len(arguments)
        if self._is_shown:
            if arguments:
                yield ToolArgsChunk(self.index, arguments)
        elif self.length and self.name:
            yield from self.end()

    def end(self) -> Iterator[StreamEvent]:
        """Start the call, unless it has started."""
        if self._is_shown:
            return
        self._is_shown = True
        yield ToolCallStart(self.index, self.id, self.name)
        if self.length:
            yield ToolArgsChunk(self.index, self.text)

    def state(self, endpoint: str) -> JsonObject:
        """Return the state to send back with the call."""
        state: JsonObject = {"fields": self.fields} if self.fields else {}
        if len(self.id) > MAX_ID_LENGTH:
            state["id"] = self.id
        return {**state, "endpoint": endpoint} if state else state


def merged_details(earlier: Iterable[JsonObject], details: object) -> list[JsonObject]:
    """Add pieces of `reasoning_details` to the earlier ones.

    Each detail has to be whole when it goes back.

    Args:
        earlier: The details so far.
        details: The field's value in a delta.

    Returns:
        All details; pieces with one kind and index are one detail.

    Example:
        >>> first = {"type": "reasoning.text", "index": 0, "text": "Let me"}
        >>> merged_details([first], [{"type": "reasoning.text", "index": 0, "text": " see.", "signature": "c2ln"}])
        [{'type': 'reasoning.text', 'index': 0, 'text': 'Let me see.', 'signature': 'c2ln'}]
    """
    whole = [*earlier]
    for detail in details if isinstance(details, list) else [details]:
        if not isinstance(detail, dict):
            continue
        last = whole[-1] if whole else {}
        continues = "type" in detail and all(last.get(name) == detail.get(name) for name in ("type", "index"))
        if not continues or ("signature" in last and "index" not in last and "signature" not in detail):
            whole.append(detail)
            continue
        longer = {**last}
        for name, value in detail.items():
            if name in _TEXTS and isinstance(value, str) and isinstance(longer.get(name), str):
                longer[name] += value
            elif value is not None:
                longer[name] = value
        whole[-1] = longer
    return whole


_TEXTS = frozenset({"text", "summary", "data", "thinking", "signature"})


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> str:
    return value if isinstance(value, str) else write_json(value).decode() if value else ""
