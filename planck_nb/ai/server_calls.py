"""What a reply says about the calls of tools that the server has run.

A reply contains such calls and their results as parts with provider state, because they go back to the server
unchanged; here they become readable.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from planck_nb.ai.message_builder import parse_arguments
from planck_nb.ai.messages import AssistantPart
from planck_nb.ai.server_tools import ALIASES
from planck_nb.base.json_types import JsonObject

_MAX_LENGTH = 20_000


@dataclass(frozen=True, slots=True)
class ServerCall:
    """A call that the server has run.

    Args:
        id: The id of the call, unique in its reply.
        name: The name of the tool, one of `SERVER_TOOLS` if it is known.
        args: The arguments.
        result: The readable part of the result, None if there is none.
        is_error: Whether the call failed.
        is_new: Whether nothing about the call was read before.
    """

    id: str
    name: str
    args: JsonObject
    result: str | None = None
    is_error: bool = False
    is_new: bool = True


class ServerCallReader:
    """Reads the calls of one reply from the provider state of its parts, in the order of the parts."""

    def __init__(self) -> None:
        self.open: dict[str, ServerCall] = {}
        """Calls whose result has not been read."""
        self._count = 0

    def read(self, state: JsonObject | None) -> list[ServerCall]:
        """Read a part.

        Args:
            state: The part's provider state.

        Returns:
            What it contains: calls without a result, and calls with one, which end a call of the same id.
        """
        if not state:
            return []
        try:
            return [self._noted(call) for call in self._calls(state)]
        except (LookupError, TypeError, AttributeError, ValueError):  # a server sent something else
            return []

    def _noted(self, call: ServerCall) -> ServerCall:
        if call.result is None:
            self.open[call.id] = call
        elif (begun := self.open.pop(call.id, None)) is not None:
            return ServerCall(call.id, begun.name, call.args or begun.args, call.result, call.is_error, is_new=False)
        return call

    def _calls(self, state: JsonObject) -> Iterator[ServerCall]:
        kind = str(state.get("type") or "")
        if kind in {"server_tool_use", "mcp_tool_use"}:
            yield ServerCall(self._id(state.get("id")), _tool_name(state.get("name")), _object(state.get("input")))
        elif kind.endswith("_tool_result") and "tool_use_id" in state:
            content = state.get("content")
            failed = bool(state.get("is_error")) or "error" in str(_object(content).get("type"))
            yield self._result(state["tool_use_id"], content, is_error=failed, name=kind.removesuffix("_tool_result"))
        elif isinstance(item := state.get("item"), dict) and "content" not in state:
            yield from self._item(item)
        elif isinstance(step := state.get("step"), dict):
            yield from self._step(step)
        elif isinstance(part := state.get("part"), dict):
            yield from self._part(part)
        elif isinstance(about := state.get("about"), dict):
            yield from self._about(about)

    def _item(self, item: JsonObject) -> Iterator[ServerCall]:
        """An item of OpenAI's Responses, which has call and result in one."""
        kind = str(item.get("type") or "")
        if not kind.endswith("_call") or kind == "function_call":
            return
        action = _object(item.get("action"))
        given = parse_arguments(item["arguments"]) if isinstance(item.get("arguments"), str) else None
        shown = action or given or {name: item[name] for name in ("code", "queries", "query") if item.get(name)}
        args = {name: value for name, value in shown.items() if name not in {"type", "sources"}}
        if args.get("queries") == [args.get("query")]:
            del args["queries"]
        result = [action.get("sources"), *(item.get(name) for name in ("outputs", "results", "output", "error"))]
        name = _tool_name(item.get("name") or kind.removesuffix("_call"))
        failed = item.get("status") in {"failed", "incomplete"} or bool(item.get("error"))
        yield ServerCall(self._id(item.get("id")), name, args, _text(result), failed)

    def _step(self, step: JsonObject) -> Iterator[ServerCall]:
        """A step of Google's Interactions."""
        kind = str(step.get("type") or "")
        if kind.endswith("_call"):
            args = _object(step.get("arguments"))
            yield ServerCall(self._id(step.get("id")), _tool_name(kind.removesuffix("_call")), args)
        elif kind.endswith("_result"):
            failed = bool(step.get("is_error"))
            name = kind.removesuffix("_result")
            yield self._result(step.get("call_id"), step.get("result"), is_error=failed, name=name)

    def _part(self, part: JsonObject) -> Iterator[ServerCall]:
        """A part of Google's generateContent."""
        if code := _object(part.get("executableCode")):
            yield ServerCall(self._id(code.get("id")), "code_execution", {"code": code.get("code")})
        elif ran := _object(part.get("codeExecutionResult")):
            failed = ran.get("outcome") not in {"OUTCOME_OK", None}
            yield self._result(ran.get("id"), ran.get("output") or "", is_error=failed, name="code_execution")
        elif call := _object(part.get("toolCall")):
            yield ServerCall(self._id(call.get("id")), _tool_name(call.get("toolType")), _object(call.get("args")))
        elif response := _object(part.get("toolResponse")):
            name = str(response.get("toolType") or "")
            yield self._result(response.get("id"), response.get("response"), is_error=False, name=name)

    def _about(self, about: JsonObject) -> Iterator[ServerCall]:
        """What Google reports about a search, and about pages that were read, at the end of a reply."""
        grounding = _object(about.get("groundingMetadata"))
        pages = [_object(page) for page in _object(about.get("urlContextMetadata")).get("urlMetadata") or ()]
        if pages:
            urls = [page.get("retrievedUrl") for page in pages]
            states = [str(page.get("urlRetrievalStatus")).removeprefix("URL_RETRIEVAL_STATUS_") for page in pages]
            text = "\n".join(f"{url} {state.lower()}" for url, state in zip(urls, states, strict=True))
            yield ServerCall(self._id(None), "web_fetch", {"urls": urls}, text, "SUCCESS" not in states)
        if queries := grounding.get("webSearchQueries"):
            yield ServerCall(
                self._id(None), "web_search", {"queries": queries}, _text(grounding.get("groundingChunks"))
            )

    def _result(self, call_id: object, content: object, *, is_error: bool, name: str) -> ServerCall:
        """The result of a call; one without an id is that of the call before it."""
        begun = call_id if isinstance(call_id, str) and call_id else next(reversed(self.open), None)
        return ServerCall(begun or self._id(None), _tool_name(name), {}, _text(content), is_error)

    def _id(self, given: object) -> str:
        self._count += 1
        return given if isinstance(given, str) and given else f"server_{self._count}"


def server_calls(parts: Iterable[AssistantPart]) -> list[tuple[int, ServerCall]]:
    """The calls of a reply, each with the position of its part among the parts, and with its result if it has one."""
    reader = ServerCallReader()
    found: dict[str, tuple[int, ServerCall]] = {}
    for position, part in enumerate(parts):
        for call in reader.read(part.provider_state if part.type == "text" else None):
            found[call.id] = (found[call.id][0] if call.id in found else position, call)
    return list(found.values())


def _tool_name(given: object) -> str:
    name = str(given or "").lower()
    if "search" in name and "file" not in name:
        return "web_search"
    return ALIASES.get(name, name) or "server_tool"


def _object(value: Any) -> JsonObject:  # noqa: ANN401 - any JSON value
    return value if isinstance(value, dict) else {}


_TITLES = ("title", "filename")
_ADDRESSES = ("url", "uri", "source_url")
_TEXTS = ("stdout", "stderr", "output", "logs", "text", "data", "error_code", "message")
_INNER = ("web", "content", "source", "result", "results", "error")


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    """The readable text of a result, as much as is shown."""
    return "\n".join(_lines(value))[:_MAX_LENGTH]


def _lines(value: Any) -> Iterator[str]:  # noqa: ANN401 - any JSON value
    """The readable lines of a result: titles and addresses, texts, and the output of code. Encrypted content is not."""
    if isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, list):
        for each in value:
            yield from _lines(each)
    elif isinstance(value, dict):
        names = [value.get(name) for names in (_TITLES, _ADDRESSES) for name in names]
        if line := " ".join(name for name in names if isinstance(name, str)):
            yield line
        for name in _TEXTS:
            if isinstance(value.get(name), str):
                yield from _lines(value[name])
        for name in _INNER:
            yield from _lines(value.get(name))
