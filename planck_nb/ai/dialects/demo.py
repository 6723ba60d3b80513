"""The demo models, which need no key, no server and no network.

`demo:demo` finds the tools that match the prompt, calls them and reports their results; without a match it explains
what it is and how to choose a real model. In a team, it delegates the tasks of a prompt one after another, and reports
the responses. A structured answer takes its values from the conversation. `demo:script` answers with the replies of its
script, for tests and demonstrations. Both are deterministic: an answer depends only on the conversation.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast, get_args

from planck_nb.ai.dialects.tool_fields import wire_tools
from planck_nb.ai.messages import Message, StopReason, ToolResultMessage, ToolResultPart, Usage, UserMessage
from planck_nb.ai.models import Model
from planck_nb.ai.request import Context, Options, ToolSpec
from planck_nb.ai.stream_events import (
    Finish,
    PartEnd,
    StreamEvent,
    TextChunk,
    ThinkingChunk,
    ToolArgsChunk,
    ToolCallStart,
    UsageUpdate,
)
from planck_nb.base.errors import ConfigError, ProviderProtocolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.markdown import code_blocks, fenced

_PIECES = re.compile(r"\s*\S+\s*?(?=\s|$)|\s+$")
"""Matches one word with the white space before it."""


_ABOUT_CELL = re.compile(r"^The notebook's cell In \[\d+\]", re.MULTILINE)
_DEMO_MODEL = "I am the demo model: a small script that ships with planck_nb, not a language model"
_REAL_MODEL = (
    "To talk to a real model, set an API key such as `ANTHROPIC_API_KEY`, or start a llama.cpp or Ollama "
    "server, then choose it, for example with `%planck model anthropic:claude-sonnet-4-6`."
)


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call in a scripted reply.

    Args:
        name: The name of the tool.
        args: The arguments.
    """

    name: str
    args: JsonObject


@dataclass(frozen=True, slots=True)
class Reply:
    """One scripted reply: thinking, then text, then calls.

    Args:
        text: The text, in which `{result}` stands for the result of the newest tool call.
        thinking: The thinking before it.
        calls: The tool calls after it.
        error: The message of an error that breaks the stream after text and calls.
        stop_reason: Why the reply ends, such as "length" for one that is cut off; by default "tool_use" or "stop".
    """

    text: str = ""
    thinking: str = ""
    calls: Sequence[Call] = ()
    error: str | None = None
    stop_reason: StopReason | None = None

    @classmethod
    def parse(cls, data: object) -> Reply:
        """Make a reply from script data.

        Args:
            data: A reply, a string, or an object with the keys text, thinking, calls, error and stop_reason.

        Returns:
            The reply.

        Raises:
            ConfigError: The data is anything else. A misspelt key is an error, too.
        """
        if isinstance(data, Reply):
            return data
        if isinstance(data, str):
            return cls(text=data)
        keys = {"text", "thinking", "calls", "error", "stop_reason"}
        if (
            not isinstance(data, Mapping)
            or not set(data) <= keys
            or data.get("stop_reason") not in {None, *get_args(StopReason)}
        ):
            raise ConfigError(
                "A reply of a demo script is a string or an object with text, thinking, calls, error and stop_reason; "
                f"this one is {json.dumps(data, default=repr)[:200]}."
            )
        calls = tuple(Call(str(call["name"]), dict(call.get("arguments", {}))) for call in data.get("calls", ()))
        return cls(
            str(data.get("text", "")), str(data.get("thinking", "")), calls, data.get("error"), data.get("stop_reason")
        )


class Demo:
    """Answers for the demo models.

    `Model.settings` may hold `script` (a list of replies) for `demo:script`, and `pace`, the seconds between words
    (0 by default: all at once).
    """

    async def stream(self, model: Model, context: Context, options: Options) -> AsyncIterator[list[StreamEvent]]:
        """Stream the events of one reply, word by word."""
        wire_tools(model, context.server_tools, {})  # it has none
        script = cast("Sequence[object] | None", model.settings.get("script"))
        reply = answer(context, options.output) if script is None else scripted(script, context)
        pace = float(cast("float", model.settings.get("pace", 0.0)))
        batch: list[StreamEvent] = []
        for event in _events(reply, context):
            batch.append(event)
            if pace:
                yield batch
                batch = []
                await asyncio.sleep(pace)
        yield batch
        if reply.error is not None:
            raise ProviderProtocolError(reply.error, provider=model.provider, model=model.id)


DEMO = Demo()


def scripted(script: Sequence[object], context: Context) -> Reply:
    """The next reply of the script, by the number of the model's messages in this conversation.

    `{result}` in its text stands for the result of the newest tool call, `{results}` for all results of the newest
    message.
    """
    spoken = sum(1 for message in context.messages if message.type == "assistant")
    if spoken >= len(script):
        raise ProviderProtocolError(
            f"The demo script has {len(script)} replies and the conversation asks for reply {spoken + 1}; "
            "add a reply to the script.",
            provider="demo",
            model="script",
        )
    reply = Reply.parse(script[spoken])
    results = [part.text for part in _last_results(context.messages)]
    text = reply.text.replace("{results}", "\n".join(results)).replace("{result}", results[-1] if results else "")
    return replace(reply, text=text)


def answer(context: Context, output: JsonObject | None = None) -> Reply:
    """The answer of the demo model: calls to the tools that match the prompt, or a report of their results.

    Args:
        context: The conversation and the tools.
        output: The JSON Schema of the answer, None for text.
    """
    if output is not None:
        source = _source_text(context.messages, output.get("properties", {}))
        return Reply(text=json.dumps(_structured(output, source), ensure_ascii=False))
    results = _last_results(context.messages)
    return _report(results) if results else _reply(context)


def _report(results: Sequence[ToolResultPart]) -> Reply:
    """What the calls returned."""
    if all(part.name == _DELEGATE and not part.is_error for part in results):
        return Reply(text="I wait for the response.")
    lines = [
        f"`{part.name}` failed: {part.text.removeprefix('Error: ')}"
        if part.is_error
        else f"`{part.name}` returned {_quoted(part.text)}"
        for part in results
    ]
    return Reply(text="\n\n".join(lines))


def _reply(context: Context) -> Reply:
    """Calls to the tools that match the prompt; or what they lack, or what other agents have responded."""
    if (cell := _cell_in(_last_prompt(context.messages))) is not None:
        return Reply(
            text=f"{_DEMO_MODEL}, so I return your cell as it is:\n\n{fenced(cell, 'python')}\n\n{_REAL_MODEL}"
        )
    planned = _plan(context.tools, _last_prompt(context.messages))
    ready = [Call(tool.name, args) for tool, args, missing in planned if not missing]
    delegations = [call for call in ready if call.name == _DELEGATE]
    responses, delegated = _since_prompt(context.messages)
    if responses and delegated >= len(delegations):
        return Reply(text="\n\n".join(f"**{said.sender}** responded: {said.text}" for said in responses))
    # One delegation after another, so that it makes no difference which worker is faster.
    due = delegations[delegated : delegated + 1]
    ready = [call for call in ready if call in due or (call.name != _DELEGATE and not responses)]
    if ready:
        names = " and ".join(f"`{call.name}`" for call in ready)
        return Reply(thinking=f"The prompt is about {names}, and says all that the call needs.", calls=ready)
    if planned:
        tool, _, missing = planned[0]
        wanted = " and ".join(f"`{name}`" for name in missing)
        return Reply(
            text=f"I would call `{tool.name}`, but the prompt gives no value for {wanted}. "
            f'Numbers are taken in their order; text goes in quotes, as in: use {tool.name} with "some text".'
        )
    return Reply(text=_introduction([tool for tool in context.tools if tool.name not in _TEAM_TOOLS]))


def _introduction(tools: Sequence[ToolSpec]) -> str:
    said = f"{_DEMO_MODEL}. I call the tools I am given and tell what they return, nothing else."
    if tools:
        listed = "\n".join(f"- `{tool.name}`: {_first_line(tool.description)}" for tool in tools)
        said += f"\n\nI have these tools:\n\n{listed}\n\nName one, with values for its arguments, and I will call it."
    else:
        said += " I was given no tools."
    return f"{said}\n\n{_REAL_MODEL}"


def _cell_in(prompt: str) -> str | None:
    """Return the cell in a request by `%planck fix` and its siblings."""
    if _ABOUT_CELL.search(prompt) is None:
        return None
    return next((code.rstrip("\n") for language, code in code_blocks(prompt) if language == "python"), None)


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0] or "no description"


def _quoted(text: str) -> str:
    return f"`{text}`." if "\n" not in text and "`" not in text else f"\n\n```\n{text}\n```"


def _last_results(messages: Sequence[Message]) -> Sequence[ToolResultPart]:
    last = messages[-1] if messages else None
    return last.content if isinstance(last, ToolResultMessage) else ()


def _last_prompt(messages: Sequence[Message]) -> str:
    """The newest prompt; responses of other agents do not count as prompts."""
    texts = (_Received.of(message) for message in reversed(messages) if isinstance(message, UserMessage))
    return next((said.text for said in texts if said.kind != "Response"), "")


@dataclass(frozen=True, slots=True)
class _Received:
    """A message, without the line that introduces it if another agent sent it."""

    kind: str
    sender: str
    text: str

    @classmethod
    def of(cls, message: UserMessage) -> _Received:
        found = _INTRODUCTION.match(message.text)
        if found is None:
            return cls("", "", message.text)
        return cls(found["kind"], found["sender"], message.text[found.end() :])


def _since_prompt(messages: Sequence[Message]) -> tuple[list[_Received], int]:
    """The responses of other agents since the newest prompt, and how many tasks were delegated for it."""
    responses: list[_Received] = []
    delegated = 0
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            received = _Received.of(message)
            if received.kind != "Response":
                break
            responses.insert(0, received)
        elif message.type == "assistant":
            delegated += sum(call.name == _DELEGATE for call in message.tool_calls)
    return responses, delegated


def _source_text(messages: Sequence[Message], names: Iterable[str]) -> str:
    """Return the text with a structured answer's values: the newest responses and results, else the prompt.

    Results from before a prompt which itself gives a value by its name do not count.
    """
    given = re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\s*[=:]")
    told: list[str] = []
    for message in reversed(messages):
        if isinstance(message, UserMessage):
            received = _Received.of(message)
            if received.kind == "Response":
                told.insert(0, received.text)
            elif told or given.search(received.text):
                break
        elif isinstance(message, ToolResultMessage):
            told[:0] = [part.text for part in message.content if part.name not in _TEAM_TOOLS - {"ask_agent"}]
    return "\n".join(told) or _last_prompt(messages)


def _structured(schema: JsonObject, text: str) -> JsonObject:
    """Values for the properties of the schema from the text, in their order; empty ones where the text has none."""
    bare = text.replace("`", " ")
    strings = ["".join(groups) for groups in _STRING.findall(bare)]
    numbers = iter(_NUMBER.findall(_STRING.sub(" ", bare)))
    texts = iter(strings or _PROPER.findall(bare))
    empty: JsonObject = {"integer": 0, "number": 0, "boolean": False, "array": [], "object": {}}
    values: JsonObject = {}
    for name, property_schema in cast("JsonObject", schema.get("properties", {})).items():
        value = _value(name, property_schema, bare, numbers, texts)
        values[name] = empty.get(str(property_schema.get("type")), "") if value is None else value
    return values


_DELEGATE = "delegate_task"
_TEAM_TOOLS = frozenset(
    "ask_agent delegate_task send_response list_team spawn_agent destroy_agent interrupt_agent list_models".split()
)
"""Tools for work in a team, which are called only if the prompt names them: any prompt may be about tasks."""

_INTRODUCTION = re.compile(r"(?P<kind>Question|Task|Response) from (?P<sender>[^\n]+?):\s+")
_WORD = re.compile(r"[^\W\d_]+")
_COMMON = frozenset(
    "a about all an and are as at be by call can do does for from get give has have how i if in is it its me my of on "
    "or please returns run tell that the this to tool use using value values was what when where which who will with "
    "you your".split()
)


def _words(text: str) -> set[str]:
    """The significant words of a text: lower case, singular, without the common ones."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text)
    found = {word.lower() for word in _WORD.findall(spaced.replace("_", " "))}
    return {word.removesuffix("s") if len(word) > 3 else word for word in found} - _COMMON  # noqa: PLR2004


def _places(tools: Sequence[ToolSpec], prompt: str) -> list[tuple[int, ToolSpec]]:
    """The positions in the prompt that refer to a tool, in order.

    They are tools' names, or else words shared with their names, or else two words shared with their descriptions.
    """
    named = [(found.start(), tool) for tool in tools for found in re.finditer(_whole(tool.name), prompt)]
    if named:
        return sorted(named, key=_place)
    said = [(found.start(), word) for found in _WORD.finditer(prompt) for word in _words(found.group())]
    for field, enough in (("name", 1), ("description", 2)):
        places: list[tuple[int, ToolSpec]] = []
        for tool in tools:
            if tool.name in _TEAM_TOOLS:
                continue
            shared = [(place, word) for place, word in said if word in _words(getattr(tool, field))]
            if len({word for _, word in shared}) >= enough:
                places += [(place, tool) for place, _ in (shared if enough == 1 else shared[:1])]
        if places:
            return sorted(places, key=_place)
    return []


def _place(found: tuple[int, ToolSpec]) -> int:
    return found[0]


def _plan(tools: Sequence[ToolSpec], prompt: str) -> list[tuple[ToolSpec, JsonObject, list[str]]]:
    """The tools to call with their arguments, and the required arguments that the prompt does not contain.

    Arguments are searched for in the section of the prompt from one reference to a tool to the next. For a tool that
    gets too few arguments in this way, the whole prompt is searched.
    """
    places = _places(tools, prompt)
    starts = [0, *(place for place, _ in places[1:]), len(prompt)]
    shares = [(tool, prompt[starts[number] : starts[number + 1]]) for number, (_, tool) in enumerate(places)]
    planned = [(tool, *_arguments(tool, share)) for tool, share in shares]
    served = {tool.name for tool, _, missing in planned if not missing}
    wanting = {tool.name: tool for tool, _ in shares if tool.name not in served}
    return [plan for plan in planned if plan[0].name in served and not plan[2]] + [
        (tool, *_arguments(tool, prompt)) for tool in wanting.values()
    ]


def _whole(name: str) -> str:
    return rf"(?<!\w){re.escape(name)}(?!\w)"


_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?![\w.]*\w)")
_STRING = re.compile(r"\"([^\"]*)\"|“([^”]*)”|(?<!\w)'([^']*)'(?!\w)|`([^`]*)`")
_PROPER = re.compile(r"(?<![.!?]\s)(?<!^)\b[A-ZÀ-Þ][\w-]*(?:\s+[A-ZÀ-Þ][\w-]*)*", re.MULTILINE)


def _arguments(tool: ToolSpec, prompt: str) -> tuple[JsonObject, list[str]]:
    """Values from the prompt for the tool's parameters in order, and the required parameters without a value."""
    bare = re.sub(f"@?{_whole(tool.name)}", " ", prompt)
    strings = ["".join(groups) for groups in _STRING.findall(bare)]
    unquoted = _STRING.sub(" ", bare)
    numbers = iter(_NUMBER.findall(unquoted))
    texts = iter(strings or _PROPER.findall(unquoted))
    args: JsonObject = {}
    missing: list[str] = []
    required = set(tool.parameters.get("required", ()))
    for name, schema in cast("JsonObject", tool.parameters.get("properties", {})).items():
        value = _value(name, schema, bare, numbers, texts)
        if value is not None:
            args[name] = value
        elif name in required:
            missing.append(name)
    return args, missing


def _value(name: str, schema: JsonObject, prompt: str, numbers: Iterator[str], texts: Iterator[str]) -> object:
    given = re.search(rf"\b{re.escape(name)}\s*(?:=|:)\s*(\"[^\"]*\"|'[^']*'|[^\s,;)]+)", prompt)
    if given:
        written = given.group(1).rstrip(".?!")
        try:
            return json.loads(written.replace("'", '"'))
        except ValueError:
            return written
    if "enum" in schema:
        return next((item for item in schema["enum"] if re.search(rf"\b{re.escape(str(item))}\b", prompt)), None)
    value: object = None
    match schema.get("type"):
        case "integer" | "number":
            value = next(map(json.loads, numbers), None)
        case "boolean":
            value = re.search(rf"\b{re.escape(name)}\b", prompt) is not None or None
        case "array":
            kind = cast("JsonObject", schema.get("items", {})).get("type")
            value = list(map(json.loads, numbers) if kind in {"integer", "number"} else texts) or None
        case "object":
            pass
        case _:
            value = next(texts, None)
    return value


def _events(reply: Reply, context: Context) -> Iterator[StreamEvent]:
    index = 0
    if reply.thinking:
        yield from (ThinkingChunk(index, piece) for piece in _pieces(reply.thinking))
        yield PartEnd(index)
        index += 1
    if reply.text:
        yield from (TextChunk(index, piece) for piece in _pieces(reply.text))
        yield PartEnd(index)
        index += 1
    round_number = sum(1 for message in context.messages if message.type == "assistant") + 1
    for number, call in enumerate(reply.calls, 1):
        yield ToolCallStart(index, f"call_{round_number}_{number}", call.name)
        yield from (ToolArgsChunk(index, piece) for piece in _pieces(json.dumps(call.args, ensure_ascii=False)))
        yield PartEnd(index)
        index += 1
    if reply.error is not None:
        return
    yield UsageUpdate(_usage(reply, context))
    yield Finish(reply.stop_reason or ("tool_use" if reply.calls else "stop"))


def _pieces(text: str) -> list[str]:
    return _PIECES.findall(text)


def _usage(reply: Reply, context: Context) -> Usage:
    """The usage of a reply, with words counted as tokens."""
    read = len(context.system.split())
    for message in context.messages:
        read += sum(len(part.text.split()) for part in message.content if part.type in ("text", "tool_result"))
    thought = len(reply.thinking.split())
    calls = sum(len(json.dumps(call.args).split()) + 1 for call in reply.calls)
    return Usage(input_tokens=read, output_tokens=len(reply.text.split()) + thought + calls, thinking_tokens=thought)
