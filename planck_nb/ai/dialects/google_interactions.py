"""Google's Interactions.

A conversation is a sequence of typed steps: user input, thoughts, calls, results, model output. The whole conversation
is sent with each request, with `store` off, so that the vendor stores nothing. Steps have an index, a start and an end;
the items of a step's content have none, so that an image within text splits the text into two parts.

`provider_state` contains the fields of a step except its text, name and arguments. A step of another kind, such as a
search that Google ran, is a text part without text whose state is `{"step": …}`, the whole step; an image or other item
within the model's output is one whose state is `{"content": …}`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from planck_nb.ai.dialect import Decoder, WireRequest
from planck_nb.ai.dialects.google_common import (
    OUTPUT_SCHEMAS,
    TOOL_SCHEMAS,
    failure,
    headers_for,
    http_failure,
    level_for,
    merge,
    sampling,
)
from planck_nb.ai.dialects.json_wire import read_object, text_of, write_json
from planck_nb.ai.dialects.request_checks import check_choice, check_media
from planck_nb.ai.dialects.token_counts import TokenCounts, as_object
from planck_nb.ai.dialects.tool_fields import fit_context, wire_tools
from planck_nb.ai.message_builder import parse_arguments
from planck_nb.ai.message_history.encoded_history import encode_history
from planck_nb.ai.message_history.portable_history import PreparedMessage
from planck_nb.ai.messages import (
    AssistantPart,
    FilePart,
    ImagePart,
    StopReason,
    ToolResultPart,
    UserPart,
    VideoPart,
)
from planck_nb.ai.models import Model
from planck_nb.ai.providers import base_url_of
from planck_nb.ai.request import Context, Options
from planck_nb.ai.schemas.fitted_output import fit_output
from planck_nb.ai.status_errors import cut_off, quoted, truncated
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
)
from planck_nb.base.errors import ProviderError
from planck_nb.base.json_types import JsonObject

REVISION = "2026-05-20"
"""The revision of the API, the first one with typed steps."""

_STOP_REASONS: Mapping[str, StopReason] = {
    "completed": "stop",
    "requires_action": "tool_use",
    "incomplete": "length",
    "budget_exceeded": "length",
    "requires_continuation": "length",
}
_FAILURES = {"failed": 500, "cancelled": 409}
"""Statuses of a failed request, with the corresponding HTTP status."""

_SNAKE = {"maxOutputTokens": "max_output_tokens", "topP": "top_p", "stopSequences": "stop_sequences"}
_PLAIN = frozenset({"user_input", "model_output", "thought", "function_call"})
_STEP_OF = {"text": "model_output", "thought_summary": "thought", "thought_signature": "thought"}
_CHOICES = {"auto": "auto", "none": "none", "required": "any"}


_SERVER_TOOLS: Mapping[str, JsonObject] = {
    "web_search": {"type": "google_search"},
    "web_fetch": {"type": "url_context"},
    "code_execution": {"type": "code_execution"},
}


class Interactions:
    """The Interactions dialect."""

    framing: Literal["sse", "ndjson"] = "sse"

    def request(self, model: Model, context: Context, options: Options, key: str | None) -> WireRequest:
        """Build the request for one streamed reply."""
        context, fitted_tools = fit_context(model, context, TOOL_SCHEMAS)
        output = None if options.output is None else fit_output(options.output, OUTPUT_SCHEMAS)
        body: JsonObject = {
            "model": model.id,
            "input": _joined(encode_history(context, model, _steps, fitted_tools=fitted_tools).wire),
            "stream": True,
            "store": False,
        }
        if context.system:
            body["system_instruction"] = context.system
        if context.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                }
                for tool in context.tools
            ]
        if context.server_tools:
            body["tools"] = [*body.get("tools", ()), *wire_tools(model, context.server_tools, _SERVER_TOOLS)]
        if output is not None:
            body["response_format"] = {"type": "text", "mime_type": "application/json", "schema": output.schema}
        values, warnings = sampling(model, options)
        config: JsonObject = {_SNAKE.get(name, name): value for name, value in values.items()}
        check_choice(options.tool_choice, context.tools)
        if options.tool_choice is not None and context.tools:
            config["tool_choice"] = _choice(options.tool_choice)
        warnings.extend(_add_thinking(config, model, options.thinking))
        if config:
            body["generation_config"] = config
        merge(body, options.extra)
        return WireRequest(
            url=f"{base_url_of(model)}/interactions",
            body=body,
            headers={**headers_for(key), "api-revision": REVISION},
            warnings=tuple(warnings),
            tools=fitted_tools,
            output=output,
        )

    def decoder(self, model: Model) -> Decoder:
        """Create a decoder for one reply."""
        return InteractionsDecoder(model)

    def error(self, model: Model, status: int, headers: Mapping[str, str], body: bytes) -> ProviderError:
        """Convert an HTTP error response to an error."""
        return http_failure(model, status, headers, body)


DIALECT = Interactions()


def _steps(
    model: Model, message: PreparedMessage, _before: PreparedMessage | None, _warnings: list[str]
) -> list[JsonObject]:
    match message.type:
        case "user":
            return [{"type": "user_input", "content": [_content(model, part) for part in message.content]}]
        case "assistant":
            steps: list[JsonObject] = []
            for part in message.content:
                _add_step(steps, part)
            return steps
        case "tool_result":
            return [_result(part) for part in message.content]


def _joined(messages: Iterable[list[JsonObject]]) -> list[JsonObject]:
    """The steps of all messages. Output that follows output of the message before is one step with it."""
    result: list[JsonObject] = []
    for steps in messages:
        for step in steps:
            if result and step["type"] == result[-1]["type"] == "model_output":
                result[-1] = {**result[-1], "content": [*result[-1]["content"], *step["content"]]}
            else:
                result.append(step)
    return result


def _content(model: Model, part: UserPart) -> JsonObject:
    if part.type == "text":
        return {"type": "text", "text": part.text}
    check_media(model, part)
    return _media(part)


def _media(part: ImagePart | FilePart | VideoPart) -> JsonObject:
    kind = "document" if part.type == "file" else part.type
    place = {"uri": part.url} if part.data is None else {"data": part.data}
    return {"type": kind, "mime_type": part.mime, **place}


def _add_step(steps: list[JsonObject], part: AssistantPart) -> None:
    """Add the step of a part. Model output is added to the previous step if that is model output, too."""
    state = part.provider_state or {}
    if part.type == "tool_call":
        steps.append({"type": "function_call", **state, "id": part.id, "name": part.name, "arguments": part.args})
    elif part.type == "thinking":
        # The API does not accept a thought without a signature.
        if "signature" in state:
            summary: JsonObject = {"summary": [{"type": "text", "text": part.text}]} if part.text else {}
            steps.append({"type": "thought", **state, **summary})
    elif "step" in state:
        steps.append(state["step"])
    elif "content" in state or part.text:
        content = state.get("content") or {"type": "text", "text": part.text, **state}
        if steps and steps[-1]["type"] == "model_output":
            steps[-1]["content"].append(content)
        else:
            steps.append({"type": "model_output", "content": [content]})


def _result(part: ToolResultPart) -> JsonObject:
    images = [_media(image) for image in part.images]
    step: JsonObject = {
        "type": "function_result",
        "call_id": part.id,
        "name": part.name,
        "result": [{"type": "text", "text": part.text}, *images] if images else part.text,
    }
    return {**step, "is_error": True} if part.is_error else step


def _choice(choice: str) -> str | JsonObject:
    return _CHOICES.get(choice) or {"allowed_tools": {"mode": "any", "tools": [choice]}}


def _add_thinking(config: JsonObject, model: Model, level: str | None) -> list[str]:
    if level is None:
        return []
    name, sentence = level_for(model, level)
    if name is not None:
        config["thinking_level"] = name.lower()
        config["thinking_summaries"] = "none" if level == "off" else "auto"
    return [sentence] if sentence else []


@dataclass(slots=True)
class _Step:
    """A step that is being received.

    `index` is the index of its current part, None if it has none. `fields` are the fields of that part's state, `given`
    the arguments that the start of the step contained, `arguments` the chunks of arguments that followed it.
    """

    kind: str
    fields: JsonObject
    index: int | None = None
    given: JsonObject | None = None
    arguments: list[str] = field(default_factory=list)


class InteractionsDecoder:
    """Decodes one streamed reply."""

    def __init__(self, model: Model) -> None:
        self._model = model
        self._steps: dict[int, _Step] = {}
        self._parts = 0
        self._error: JsonObject | None = None
        self._counts = TokenCounts(model)
        self._finished = False

    def feed(self, data: bytes) -> Iterable[StreamEvent]:
        """The events for one event of the API. Events of unknown kinds are skipped."""
        if self._finished or data == b"[DONE]":
            return ()
        event = read_object(data, self._model)
        events: list[StreamEvent] = []
        kind = event.get("event_type")
        if kind == "step.delta":
            self._delta(event["index"], event["delta"], events)
            if metadata := event.get("metadata"):
                self._count(as_object(metadata).get("total_usage"), events)
        elif kind == "step.start":
            self._start(event["index"], event["step"], events)
        elif kind == "step.stop":
            if (step := self._steps.pop(event["index"], None)) is not None:
                self._stop(step, events)
        elif kind == "interaction.completed":
            self._complete(event["interaction"], events)
        elif kind == "error" or "error" in event:
            raise failure(self._model, None, event)
        elif kind == "interaction.status_update":
            self._count(event.get("usage"), events)
        return events

    def end(self) -> Iterable[StreamEvent]:
        """Check that the reply is complete. Raises `StreamTruncated` if its end is missing."""
        if not self._finished:
            raise truncated(self._model)
        return ()

    def _start(self, index: int, start: JsonObject, events: list[StreamEvent]) -> None:
        fields = {name: value for name, value in start.items() if name != "type"}
        step = self._steps[index] = _Step(start["type"], fields)
        match step.kind:
            case "user_input":
                pass
            case "model_output":
                step.fields = {}
                if error := fields.get("error"):
                    self._error = error
                for content in fields.get("content") or ():
                    self._piece(step, content, events)
            case "thought":
                step.index = self._next()
                summary = fields.pop("summary", None) or ()
                events.append(ThinkingChunk(step.index, "".join(content.get("text") or "" for content in summary)))
            case "function_call":
                step.index = self._next()
                step.given = fields.pop("arguments", None)
                events.append(ToolCallStart(step.index, fields.pop("id", None) or "", fields.pop("name", None)))
            case _:
                step.index = self._next()
                events.append(TextChunk(step.index, ""))

    def _delta(self, index: int, delta: JsonObject, events: list[StreamEvent]) -> None:
        kind = delta["type"]
        step = self._steps.get(index)
        if step is None:
            self._start(index, {"type": _STEP_OF.get(kind, kind)}, events)
            step = self._steps[index]
        if kind == "text" and step.index is not None and step.kind == "model_output":  # the hot path
            text = delta["text"]
            events.append(TextChunk(step.index, text if isinstance(text, str) else text_of(text)))
        elif kind == "arguments_delta":
            if text := text_of(delta.get("arguments")):
                step.arguments.append(text)
                if step.kind == "function_call" and step.index is not None:
                    events.append(ToolArgsChunk(step.index, text))
        elif kind == "thought_summary" and step.index is not None:
            events.append(ThinkingChunk(step.index, text_of((delta.get("content") or {}).get("text"))))
        elif step.kind == "model_output":
            self._piece(step, delta, events)
        else:
            for name, value in delta.items():
                if name != "type":
                    earlier = step.fields.get(name)
                    are_lists = isinstance(earlier, list) and isinstance(value, list)
                    step.fields[name] = [*earlier, *value] if are_lists and earlier else value

    def _piece(self, step: _Step, content: JsonObject, events: list[StreamEvent]) -> None:
        """Add an item of the model's output: text to the part before it, anything else as a part of its own."""
        kind = content.get("type")
        if kind not in {"text", "text_annotation_delta"}:
            self._close(step, events)
            index = self._next()
            events.extend((TextChunk(index, ""), PartEnd(index, {"content": content})))
            return
        if step.index is None:
            step.index = self._next()
        if annotations := content.get("annotations"):
            step.fields["annotations"] = [*step.fields.get("annotations", ()), *annotations]
        events.append(TextChunk(step.index, text_of(content.get("text"))))

    def _stop(self, step: _Step, events: list[StreamEvent]) -> None:
        if step.kind == "function_call" and step.given and not step.arguments and step.index is not None:
            events.append(ToolArgsChunk(step.index, write_json(step.given).decode()))
        elif step.kind not in _PLAIN:
            if step.arguments:
                text = "".join(step.arguments)
                args = parse_arguments(text)
                step.fields["arguments"] = text if args is None else args
            step.fields = {"step": {"type": step.kind, **step.fields}}
        self._close(step, events)

    def _close(self, step: _Step, events: list[StreamEvent]) -> None:
        if step.index is not None:
            events.append(PartEnd(step.index, step.fields or None))
            step.index, step.fields = None, {}

    def _complete(self, interaction: JsonObject, events: list[StreamEvent]) -> None:
        if not self._parts:  # a server that does not stream may send all steps at the end
            for index, step in enumerate(interaction.get("steps") or ()):
                self._start(index, step, events)
        for step in self._steps.values():
            self._stop(step, events)
        self._count(interaction.get("usage"), events)
        status = quoted(str(interaction.get("status")))
        if status in _FAILURES and not self._parts:
            error = self._error or {"message": f"the interaction ended as {status}"}
            raise failure(self._model, _FAILURES[status], error)
        if status not in _STOP_REASONS:
            events.append(cut_off(self._model, status))
        self._finished = True
        events.append(Finish(_STOP_REASONS.get(status, "length")))

    def _count(self, usage: Any, events: list[StreamEvent]) -> None:  # noqa: ANN401 - any JSON value
        """Add the usage. Google counts the input of tools such as a search, and thinking, separately."""
        if not usage:
            return
        if not isinstance(usage, dict):
            events.extend(self._counts.unreadable(usage))
        elif "total_input_tokens" in usage:
            thinking = usage.get("total_thought_tokens")
            events.extend(
                self._counts.update(
                    read=(usage["total_input_tokens"], usage.get("total_tool_use_tokens")),
                    written=(usage.get("total_output_tokens"), thinking),
                    cache_read=usage.get("total_cached_tokens"),
                    thinking=thinking,
                )
            )

    def _next(self) -> int:
        self._parts += 1
        return self._parts - 1
