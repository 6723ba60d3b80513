"""Google's generateContent.

Its stream is a sequence of chunks of one message: parts have neither an index nor an end, and only a finish reason
marks the end of the message. Consecutive texts without other fields are one part. A text with other fields, above all a
thought signature, is a part of its own, because the API requires the signature on the part that it was received with.

`provider_state` contains the fields of such a part except its text, name and arguments; for a part of another kind,
such as executed code, it is `{"part": …}`, the whole part. Metadata of the message, such as the sources of a search, is
`{"about": …}` and is not sent back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from planck_nb.ai.dialect import Decoder, WireRequest
from planck_nb.ai.dialects.google_common import (
    OUTPUT_SCHEMAS,
    TOOL_SCHEMAS,
    failure,
    generation,
    headers_for,
    http_failure,
    level_for,
    merge,
    path_of,
    sampling,
)
from planck_nb.ai.dialects.json_wire import read_object, text_of, write_json
from planck_nb.ai.dialects.request_checks import check_choice, check_media
from planck_nb.ai.dialects.token_counts import TokenCounts
from planck_nb.ai.dialects.tool_fields import fit_context, wire_tools
from planck_nb.ai.message_history.encoded_history import encode_history
from planck_nb.ai.message_history.portable_history import PreparedMessage
from planck_nb.ai.messages import (
    AssistantMessage,
    AssistantPart,
    FilePart,
    ImagePart,
    StopReason,
    ToolCallPart,
    ToolResultMessage,
    UserPart,
    VideoPart,
)
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.request import Context, Options
from planck_nb.ai.schemas.fitted_output import FittedOutput, fit_output
from planck_nb.ai.schemas.fitted_tools import FittedTool
from planck_nb.ai.server_rules import NO_SIGNATURE
from planck_nb.ai.status_errors import cut_off, quoted, truncated
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    StreamWarning,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
)
from planck_nb.base.errors import ProviderError, UnsupportedFeatureError
from planck_nb.base.json_types import JsonObject

_SIGNED_SINCE = 3
"""The first generation that requires a signature on the first call of a step, and that accepts images in results."""

_BLOCKED = "PROMPT_BLOCKED"
"""Stands for the finish reason if the prompt was blocked before it reached the model."""

_STOP_REASONS: Mapping[str, StopReason] = {
    "STOP": "stop",
    "FUNCTION_CALL": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "refusal",
    "RECITATION": "refusal",
    "LANGUAGE": "refusal",
    "BLOCKLIST": "refusal",
    "PROHIBITED_CONTENT": "refusal",
    "SPII": "refusal",
    "IMAGE_SAFETY": "refusal",
    "IMAGE_PROHIBITED_CONTENT": "refusal",
    "IMAGE_RECITATION": "refusal",
    "ESCALATION": "refusal",
    "MODEL_ARMOR": "refusal",
    _BLOCKED: "refusal",
}

_FAILURES = {
    "MALFORMED_FUNCTION_CALL": 500,
    "UNEXPECTED_TOOL_CALL": 500,
    "TOO_MANY_TOOL_CALLS": 500,
    "MALFORMED_RESPONSE": 500,
    "IMAGE_OTHER": 500,
    "NO_IMAGE": 500,
    "OTHER": 500,
    "MISSING_THOUGHT_SIGNATURE": 400,
    "PUP_LIMITED_DISABLED": 403,
}
"""Finish reasons of a failed request, with the corresponding HTTP status."""

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}

_BUDGETS = {"off": 0, "minimal": 512, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 32768}
_BUDGET_RANGES = {"gemini-2.5-pro": (128, 32768), "gemini-2.5-flash-lite": (512, 24576), "gemini-2.5": (0, 24576)}
"""The range of thinking tokens; all but the first also accept 0 (ai.google.dev, "Thinking")."""
_ALWAYS_THINKS = "gemini-2.5-pro"

_ABOUT = ("groundingMetadata", "urlContextMetadata", "citationMetadata")


_SERVER_TOOLS: Mapping[str, JsonObject] = {
    "web_search": {"googleSearch": {}},
    "web_fetch": {"urlContext": {}},
    "code_execution": {"codeExecution": {}},
}


_SAMPLING = {"top_k": "topK", "seed": "seed"}
"""Google's names for what other formats have at the top: https://ai.google.dev/api/generate-content"""


class GenerateContent:
    """The generateContent dialect."""

    framing: Literal["sse", "ndjson"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """Build the request for one streamed reply."""
        context, fitted_tools = fit_context(model, context, TOOL_SCHEMAS)
        body: JsonObject = {"contents": _contents(context, model, fitted_tools)}
        if context.system:
            body["systemInstruction"] = {"parts": [{"text": context.system}]}
        if context.tools:
            declarations = [
                {"name": tool.name, "description": tool.description, "parametersJsonSchema": tool.parameters}
                for tool in context.tools
            ]
            body["tools"] = [{"functionDeclarations": declarations}]
        _add_server_tools(body, model, context)
        check_choice(options.tool_choice, context.tools)
        if options.tool_choice is not None and context.tools:
            calling = {"functionCallingConfig": _calling(options.tool_choice)}
            body["toolConfig"] = {**body.get("toolConfig", {}), **calling}
        config, warnings = sampling(model, options)
        warnings.extend(_add_thinking(config, model, options.thinking))
        output = None if options.output is None else fit_output(options.output, OUTPUT_SCHEMAS)
        warnings.extend(_add_output(config, model, output, with_tools=bool(context.tools)))
        config.update({_SAMPLING[name]: options.extra[name] for name in _SAMPLING.keys() & options.extra.keys()})
        if config:
            body["generationConfig"] = config
        merge(body, {name: value for name, value in options.extra.items() if name not in _SAMPLING})
        return WireRequest(
            url=f"{base_url_of(model)}/{path_of(model)}:streamGenerateContent?alt=sse",
            body=body,
            headers=headers_for(key),
            warnings=tuple(warnings),
            tools=fitted_tools,
            output=output,
        )

    def decoder(self, model: Model) -> Decoder:
        """Create a decoder for one reply."""
        return GenerateContentDecoder(model)

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Convert an HTTP error response to an error."""
        return http_failure(model, status, headers, body)


DIALECT = GenerateContent()


def _add_server_tools(body: JsonObject, model: Model, context: Context) -> None:
    """Add the tools that Google runs. Raises `UnsupportedFeatureError` for a model that has them without functions."""
    if not context.server_tools:
        return
    body["tools"] = [*body.get("tools", ()), *wire_tools(model, context.server_tools, _SERVER_TOOLS)]
    if context.tools:
        if 0 < generation(model) < _SIGNED_SINCE:
            names = ", ".join(tool.name for tool in context.server_tools)
            raise UnsupportedFeatureError(
                f"{model} cannot use its server tools ({names}) together with other tools; give it one kind only, or "
                "choose a model of generation 3 or later."
            )
        body["toolConfig"] = {"includeServerSideToolInvocations": True}


def _contents(context: Context, model: Model, fitted_tools: Mapping[str, FittedTool]) -> list[JsonObject]:
    history = encode_history(context, model, _content, fitted_tools=fitted_tools)
    return [content for content in history.wire if content["parts"]]


def _content(
    model: Model, message: PreparedMessage, before: PreparedMessage | None, _warnings: list[str]
) -> JsonObject:
    match message.type:
        case "user":
            return {"role": "user", "parts": [_user_part(model, part) for part in message.content]}
        case "assistant":
            return {"role": "model", "parts": _model_parts(message, model)}
        case "tool_result":
            calls = before.tool_calls if isinstance(before, AssistantMessage) else ()
            given_ids = {call.id: _given_id(call) for call in calls}
            return {"role": "user", "parts": _result_parts(message, model, given_ids)}


def _user_part(model: Model, part: UserPart) -> JsonObject:
    if part.type == "text":
        return {"text": part.text}
    check_media(model, part)
    return _media(part)


def _media(part: ImagePart | FilePart | VideoPart) -> JsonObject:
    if part.data is not None:
        return {"inlineData": {"mimeType": part.mime, "data": part.data}}
    return {"fileData": {"mimeType": part.mime, "fileUri": part.url}}


def _model_parts(message: AssistantMessage, model: Model) -> list[JsonObject]:
    parts = [wire for part in message.content if (wire := _model_part(part)) is not None]
    if generation(model) >= _SIGNED_SINCE:
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None:
            first.setdefault("thoughtSignature", NO_SIGNATURE)
    return parts


def _model_part(part: AssistantPart) -> JsonObject | None:
    """A part with the fields that it was received with; None for a part that is not sent."""
    state = part.provider_state or {}
    match part.type:
        case "tool_call":
            call = {**state.get("functionCall", {}), "name": part.name, "args": part.args}
            return {**state, "functionCall": call}
        case "thinking":
            # The model does not need a summary without a signature.
            return {**state, "text": part.text, "thought": True} if state else None
        case "text":
            if "part" in state:
                opaque: JsonObject = state["part"]
                return opaque
            return {**state, "text": part.text} if part.text or (state and "about" not in state) else None


def _given_id(call: ToolCallPart) -> str:
    """The id that the model gave its call; empty for a generated id, which the model does not know."""
    return str((call.provider_state or {}).get("functionCall", {}).get("id") or "")


def _result_parts(message: ToolResultMessage, model: Model, given_ids: Mapping[str, str]) -> list[JsonObject]:
    """The results in the order of their calls, because the API matches results without an id by position."""
    results: list[JsonObject] = []
    beside: list[JsonObject] = []
    for part in message.content:
        result: JsonObject = {"name": part.name, "response": {"error" if part.is_error else "output": part.text}}
        if given := given_ids.get(part.id):
            result["id"] = given
        for image in part.images:
            inside = image.data is not None and generation(model) >= _SIGNED_SINCE
            (result.setdefault("parts", []) if inside else beside).append(_media(image))
        results.append({"functionResponse": result})
    return results + beside


def _calling(choice: str) -> JsonObject:
    if choice in _MODES:
        return {"mode": _MODES[choice]}
    return {"mode": "ANY", "allowedFunctionNames": [choice]}


def _add_thinking(config: JsonObject, model: Model, level: str | None) -> list[str]:
    """Add the thinking parameters that the model has. Returns warnings."""
    if level is None:
        return []
    prefix = next((prefix for prefix in _BUDGET_RANGES if model.id.startswith(prefix)), None)
    if prefix is not None and level in _BUDGETS:
        least, most = _BUDGET_RANGES[prefix]
        if level == "off" and prefix != _ALWAYS_THINKS:
            config["thinkingConfig"] = {"thinkingBudget": 0}
            return []
        config["thinkingConfig"] = {
            "thinkingBudget": min(max(_BUDGETS[level], least), most),
            "includeThoughts": level != "off",
        }
        return [f"{model} cannot turn thinking off; it thinks as little as possible."] if level == "off" else []
    name, sentence = level_for(model, level)
    if name is not None:
        config["thinkingConfig"] = {"thinkingLevel": name.upper(), "includeThoughts": level != "off"}
    return [sentence] if sentence else []


def _add_output(config: JsonObject, model: Model, output: FittedOutput | None, *, with_tools: bool) -> list[str]:
    if output is None:
        return []
    if with_tools and 0 < generation(model) < _SIGNED_SINCE:
        return [f"{model} does not accept an output schema together with tools, so the schema was not sent."]
    config["responseMimeType"] = "application/json"
    config["responseJsonSchema"] = output.schema
    return []


class GenerateContentDecoder:
    """Decodes one streamed reply. It ends with the connection: counts and parts may follow the finish reason."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._index = -1
        self._open: type[TextChunk | ThinkingChunk] | None = None
        self._reason: str | None = None
        self._words = ""
        self._about: JsonObject = {}
        self._counts: JsonObject = {}
        self._reported: JsonObject = {}
        self._tokens = TokenCounts(model)

    def feed(self, data: bytes) -> Iterable[StreamEvent]:
        """The events of one chunk. Raises `ProviderError` for an error that the server reports."""
        piece = read_object(data, self._model)
        events: list[StreamEvent] = []
        candidates = piece.get("candidates")
        if candidates:
            candidate = candidates[0]
            if not candidate.get("index"):  # skip alternative answers
                content = candidate.get("content")
                if content:
                    for part in content.get("parts") or ():
                        self._part(part, events)
                self._about_answer(candidate)
        elif "error" in piece:
            raise failure(self._model, None, piece)
        elif feedback := piece.get("promptFeedback"):
            self._about_prompt(feedback)
        counts = piece.get("usageMetadata")
        if counts and (not isinstance(counts, dict) or "promptTokenCount" in counts):
            first = not self._counts
            self._counts = counts
            # Every chunk has counts; reporting only the first and the last saves a third of the time.
            if first or self._reason is not None:
                self._count(events)
        return events

    def end(self) -> Iterable[StreamEvent]:
        """The last events. Raises `StreamTruncated` without a finish reason, and `ProviderError` for a failure."""
        reason = self._reason
        if reason is None:
            raise truncated(self._model)
        if reason in _FAILURES and self._index < 0:
            words = f"{reason}: {self._words}" if self._words else reason
            raise failure(self._model, _FAILURES[reason], {"message": words, "status": reason})
        events: list[StreamEvent] = []
        self._close(events)
        self._count(events)
        if self._about:
            self._whole(TextChunk, "", {"about": self._about}, events)
        stop_reason = _STOP_REASONS.get(reason, "length")
        if reason not in _STOP_REASONS:
            events.append(cut_off(self._model, f"{reason}: {self._words}" if self._words else reason))
        elif stop_reason == "refusal":
            events.append(StreamWarning(_sentence(self._model, reason, self._words), about="refused"))
        events.append(Finish(stop_reason))
        return events

    def _part(self, part: JsonObject, events: list[StreamEvent]) -> None:
        text = part.get("text")
        if isinstance(text, str):
            if len(part) == 1:  # the hot path
                self._more(TextChunk, text, events)
                return
            state = {name: value for name, value in part.items() if name not in {"text", "thought"}}
            delta = ThinkingChunk if part.get("thought") else TextChunk
            if state:
                self._whole(delta, text, state, events)
            else:
                self._more(delta, text, events)
        elif isinstance(call := part.get("functionCall"), dict):
            self._call(part, call, events)
        elif part:
            self._whole(TextChunk, "", {"part": part}, events)

    def _more(self, delta: type[TextChunk | ThinkingChunk], text: str, events: list[StreamEvent]) -> None:
        if not text:
            return
        if self._open is not delta:
            self._close(events)
            self._index += 1
            self._open = delta
        events.append(delta(self._index, text))

    def _whole(
        self, delta: type[TextChunk | ThinkingChunk], text: str, state: JsonObject, events: list[StreamEvent]
    ) -> None:
        """Add a part that is complete."""
        self._close(events)
        self._index += 1
        events.append(delta(self._index, text))
        events.append(PartEnd(self._index, state))

    def _call(self, part: JsonObject, call: JsonObject, events: list[StreamEvent]) -> None:
        self._close(events)
        self._index += 1
        state = {name: value for name, value in part.items() if name != "functionCall"}
        if rest := {name: value for name, value in call.items() if name not in {"name", "args"}}:
            state["functionCall"] = rest
        events.append(ToolCallStart(self._index, str(call.get("id") or ""), call.get("name") or ""))
        if args := call.get("args"):
            events.append(ToolArgsChunk(self._index, write_json(args).decode()))
        events.append(PartEnd(self._index, state or None))

    def _close(self, events: list[StreamEvent]) -> None:
        if self._open is not None:
            events.append(PartEnd(self._index))
            self._open = None

    def _count(self, events: list[StreamEvent]) -> None:
        if self._counts and self._counts is not self._reported:
            self._reported = self._counts
            events.extend(self._usage(self._counts))

    def _usage(self, counts: Any) -> Iterable[StreamEvent]:  # noqa: ANN401 - any JSON value
        """The usage. Google counts the input of tools such as a search, and thinking, separately."""
        if not isinstance(counts, dict):
            return self._tokens.unreadable(counts)
        thinking = counts.get("thoughtsTokenCount")
        return self._tokens.update(
            read=(counts.get("promptTokenCount"), counts.get("toolUsePromptTokenCount")),
            written=(counts.get("candidatesTokenCount"), thinking),
            cache_read=counts.get("cachedContentTokenCount"),
            thinking=thinking,
        )

    def _about_answer(self, candidate: JsonObject) -> None:
        reason = candidate.get("finishReason")
        if reason and reason != "FINISH_REASON_UNSPECIFIED":
            self._reason = text_of(reason)
            self._words = quoted(str(candidate.get("finishMessage") or ""))
        for name in _ABOUT:
            if value := candidate.get(name):
                self._about[name] = value

    def _about_prompt(self, feedback: JsonObject) -> None:
        if reason := feedback.get("blockReason"):
            self._reason = _BLOCKED
            self._words = quoted(f"{reason} {feedback.get('blockReasonMessage') or ''}")


def _sentence(model: Model, reason: str, words: str) -> str:
    """The warning about a reply that the vendor refused."""
    quote = f": {words}" if words else ""
    if reason == _BLOCKED:
        return f"{model.provider} blocked the prompt for {model.id}{quote}; change what it asks."
    return f"{model.provider} ended the answer of {model.id} with {reason}{quote}; ask for something else."
