"""Tool calls in a streamed Chat Completions reply.

OpenAI sends id and name in the first delta for a call, and the same index in each. Other servers leave out ids or
indexes, give several calls one index, send a name in pieces or after the arguments, and repeat deltas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from planck_nb.ai.dialects.json_wire import write_json
from planck_nb.ai.message_builder import MAX_ID_LENGTH, parse_arguments
from planck_nb.ai.stream_events import StreamEvent, ToolArgsChunk, ToolCallStart
from planck_nb.base.json_types import JsonObject


class StreamedCalls:
    """Calls in one reply.

    Args:
        opaque_fields: Fields to be sent back to the server unread.
    """

    def __init__(self, opaque_fields: frozenset[str]) -> None:
        self._opaque_fields = opaque_fields
        self._calls: list[_StreamedCall] = []
        self._by_id: dict[str, _StreamedCall] = {}
        self._by_place: dict[object, _StreamedCall] = {}

    def feed(self, delta: JsonObject, place: object, next_index: Callable[[], int]) -> list[StreamEvent]:
        """Decode one delta.

        Args:
            delta: An entry in `tool_calls`.
            place: Its index; its position if the index is missing; None if it stands alone, and belongs to the last
                call.
            next_index: Returns the index for a new part.

        Returns:
            The events. A call starts with its arguments, because only then is its name complete.
        """
        function = delta.get("function") or {}
        name, arguments = _text(function.get("name")), _arguments(function.get("arguments"))
        call = self._find(_text(delta.get("id")), place, name, arguments, next_index)
        for source in (delta, function):
            if not self._opaque_fields.isdisjoint(source):
                call.fields |= {name: value for name, value in source.items() if name in self._opaque_fields and value}
        return call.feed(name, arguments)

    def end(self) -> list[StreamEvent]:
        """Start calls without arguments.

        Returns:
            The events.
        """
        return [event for call in self._calls for event in call.end()]

    def states(self) -> dict[int, JsonObject]:
        """Fields to be sent back to the server, by part index."""
        return {call.index: state for call in self._calls if (state := call.state())}

    def _find(
        self, call_id: str, place: object, name: str, arguments: str, next_index: Callable[[], int]
    ) -> _StreamedCall:
        """Find the call for a delta, or begin one."""
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
            call = _StreamedCall(next_index())
            self._calls.append(call)
        if place is not None:
            self._by_place[place] = call
        if call_id:
            call.id = call.id or call_id
            self._by_id[call_id] = call
        return call


def _begins_another(call: _StreamedCall, call_id: str, name: str, arguments: str) -> bool:
    """Tell if a delta in a call's place begins another one."""
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
        """Tell if the arguments are a whole object."""
        return self.length > 0 and parse_arguments(self.text) is not None

    @property
    def text(self) -> str:
        """The arguments so far."""
        return "".join(self._pieces)

    def feed(self, name: str, arguments: str) -> list[StreamEvent]:
        if name and not self._is_shown:
            # Sent again, or as far as it is known, or in pieces.
            self.name = name if name.startswith(self.name) else self.name + name
        if arguments:
            # Repeated from the beginning: two objects which begin alike are not JSON.
            if 0 < self.length <= len(arguments) and arguments[0] == "{" and arguments.startswith(text := self.text):
                arguments = arguments[len(text) :]
            self._pieces.append(arguments)
            self.length += len(arguments)
        if self._is_shown:
            return [ToolArgsChunk(self.index, arguments)] if arguments else []
        return self.end() if self.length and self.name else []

    def end(self) -> list[StreamEvent]:
        """Start the call, unless it has started."""
        if self._is_shown:
            return []
        self._is_shown = True
        start = ToolCallStart(self.index, self.id, self.name)
        return [start, ToolArgsChunk(self.index, self.text)] if self.length else [start]

    def state(self) -> JsonObject:
        """State to be sent back to the server with the call."""
        state: JsonObject = {"fields": self.fields} if self.fields else {}
        if len(self.id) > MAX_ID_LENGTH:
            state["id"] = self.id
        return state


def merged_details(earlier: Iterable[JsonObject], details: object) -> list[JsonObject]:
    """Join pieces of `reasoning_details`, so each detail is whole again.

    Args:
        earlier: The details so far.
        details: The field in a delta.

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
        detail_so_far = {**last}
        for name, value in detail.items():
            if name in _TEXTS and isinstance(value, str) and isinstance(detail_so_far.get(name), str):
                detail_so_far[name] += value
            elif value is not None:
                detail_so_far[name] = value
        whole[-1] = detail_so_far
    return whole


_TEXTS = frozenset({"text", "summary", "data", "thinking", "signature"})


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _arguments(value: object) -> str:
    return value if isinstance(value, str) else write_json(value).decode() if value else ""
