"""Anthropic Messages: what each model is sent, what goes back to it, and how an answer goes on after a pause."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from support.referees import anthropic_schemas, messages_params
from support.wire import MESSAGES_TOOLS, client, sse

from planck_nb import ai
from planck_nb.ai.dialects.anthropic_options import OUTPUT_SCHEMAS, SAMPLING_VERSION, VERSION
from planck_nb.ai.providers import dialect
from planck_nb.ai.schemas.fitted_output import fit_output
from planck_nb.ai.stream_events import StreamEvent
from planck_nb.base.errors import BadRequestError, ProviderProtocolError, StreamTruncated, UnsupportedFeatureError
from planck_nb.base.json_types import JsonObject

SONNET = ai.get_model("anthropic", "claude-sonnet-4-6")  # adaptive thinking, sampling
OPUS = ai.get_model("anthropic", "claude-opus-5")  # adaptive thinking that is on by itself, no sampling
ALWAYS = ai.get_model("anthropic", "claude-opus-5-5")  # always thinks, binds thinking to all before it
HAIKU = ai.get_model("anthropic", "claude-haiku-4-5")  # thinking in budgets
UNKNOWN = ai.get_model("anthropic", "claude-epos-9")
FOREIGN = ai.get_model("anthropic", "m", base_url="http://127.0.0.1:9")
LLAMA = ai.get_model("llama_cpp", "m", api="messages")

SUMMARIZED = {"type": "adaptive", "display": "summarized"}
LOW = {"thinking": SUMMARIZED, "output_config": {"effort": "low"}}

HI = ai.UserMessage("hi")
TOOL = ai.ToolSpec("get_time", "The time.", {"type": "object", "properties": {}})
PIXEL = ai.ImagePart(b"\x89PNG", "image/png")
WIRE_PIXEL = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw=="}}
PAGE = ai.FilePart(b"%PDF", name="a.pdf")


def request(
    model: ai.Model, *messages: ai.Message, tools: Iterable[ai.ToolSpec] = (TOOL,), system: str = "", **options: Any
) -> Any:
    context = ai.Context(system, messages or (HI,), tuple(tools))
    made = dialect(model).request(model, context, ai.Options(**options), "k")
    messages_params().validate_python(made.body)
    return made


class Server:
    """Answers each request with the next of these: an HTTP error, or events. The last answers all that follow."""

    def __init__(self, *answers: list[bytes] | tuple[int, str]) -> None:
        self.answers = list(answers)
        self.bodies: list[JsonObject] = []

    def __call__(self, sent: httpx.Request) -> httpx.Response:
        self.bodies.append(json.loads(sent.content))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, list):
            return httpx.Response(200, headers={"content-type": "text/event-stream"}, content=b"".join(answer))
        status, words = answer
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": words}}
        return httpx.Response(status, headers={"content-type": "application/json"}, json=error)

    def client(self, retries: int = 0) -> ai.Client:
        return client(httpx.MockTransport(self), retries=retries)


def reply(*blocks: JsonObject, stop: str = "end_turn", used: int = 1, **delta: object) -> list[bytes]:
    """A streamed reply of whole blocks."""
    events: list[object] = [{"type": "message_start", "message": {"usage": {"input_tokens": 10}}}]
    for index, block in enumerate(blocks):
        events += [
            {"type": "content_block_start", "index": index, "content_block": block},
            {"type": "content_block_stop", "index": index},
        ]
    end = {"type": "message_delta", "delta": {"stop_reason": stop, **delta}, "usage": {"output_tokens": used}}
    return sse(*events, end, {"type": "message_stop"})


def thought(text: str = "Hm.", signature: str = "sig") -> JsonObject:
    return {"type": "thinking", "thinking": text, "signature": signature}


def text(words: str = "Yes.") -> JsonObject:
    return {"type": "text", "text": words}


def use(name: str = "toolu_1") -> JsonObject:
    return {"type": "tool_use", "id": name, "name": "get_time", "input": {}}


async def read(stream: ai.Stream) -> list[StreamEvent]:
    return [event async for event in stream]


def warnings(events: Iterable[StreamEvent]) -> list[str]:
    return [event.text for event in events if event.type == "warning"]


# What is sent


@pytest.mark.parametrize(
    ("model", "options", "version"),
    [
        (SONNET, {}, VERSION),
        (SONNET, {"temperature": 0.5}, SAMPLING_VERSION),
        (SONNET, {"extra": {"top_k": 5}}, SAMPLING_VERSION),
        (SONNET, {"temperature": 0.5, "thinking": "low"}, VERSION),
        (OPUS, {"temperature": 0.5, "top_p": 0.5}, VERSION),
        (UNKNOWN, {}, VERSION),
        (FOREIGN, {}, SAMPLING_VERSION),
        (LLAMA, {}, SAMPLING_VERSION),
    ],
)
def test_the_version_of_the_api_follows_model_and_options(
    model: ai.Model, options: dict[str, Any], version: str
) -> None:
    made = request(model, **options)
    assert made.headers["anthropic-version"] == version
    sampling = made.body.keys() & {"temperature", "top_p", "top_k"}
    assert not sampling or version == SAMPLING_VERSION


@pytest.mark.parametrize(
    ("model", "options", "expected", "warned"),
    [
        (SONNET, {"thinking": "high"}, {"thinking": SUMMARIZED, "output_config": {"effort": "high"}}, None),
        (SONNET, {"thinking": "minimal"}, {"thinking": SUMMARIZED, "output_config": {"effort": "low"}}, None),
        (SONNET, {"thinking": "xhigh"}, {"thinking": SUMMARIZED, "output_config": {"effort": "high"}}, "'high' was"),
        (SONNET, {"thinking": "max"}, {"thinking": SUMMARIZED, "output_config": {"effort": "max"}}, None),
        (SONNET, {"thinking": "hgh"}, {}, "no thinking level 'hgh'"),
        (SONNET, {"thinking": "off"}, {}, None),
        (OPUS, {"thinking": "off"}, {"thinking": {"type": "disabled"}}, None),
        (ALWAYS, {}, {}, None),
        (ALWAYS, {"thinking": "off"}, {"output_config": {"effort": "low"}}, "always thinks"),
        (ALWAYS, {"thinking": "minimal"}, {"output_config": {"effort": "low"}}, "'low' was sent instead"),
        (HAIKU, {"thinking": "minimal"}, {"thinking": {"type": "enabled", "budget_tokens": 1024}}, None),
        (HAIKU, {"thinking": "max"}, {"thinking": {"type": "enabled", "budget_tokens": 32768}}, None),
        (
            HAIKU,
            {"thinking": "high", "max_tokens": 4096},
            {"thinking": {"type": "enabled", "budget_tokens": 3072}, "max_tokens": 4096},
            None,
        ),
        (HAIKU, {"thinking": "high", "max_tokens": 2000}, {"max_tokens": 2000}, "allow it 2048"),
        (HAIKU, {"thinking": "off"}, {}, None),
        (UNKNOWN, {"thinking": "max"}, {"thinking": SUMMARIZED, "output_config": {"effort": "max"}}, None),
        (UNKNOWN, {"thinking": "off"}, {}, None),
        (SONNET, {"temperature": 0.5}, {"temperature": 0.5}, None),
        (SONNET, {"temperature": 0, "top_p": 0.5}, {"temperature": 0}, "either temperature or top_p"),
        (SONNET, {"temperature": 0.5, "thinking": "off"}, {"temperature": 0.5}, None),
        (OPUS, {"temperature": 0}, {}, "does not accept temperature, so temperature=0 was not sent"),
        (OPUS, {"top_p": 0.5}, {}, "does not accept top_p"),
        (SONNET, {"top_p": 1, "thinking": "low"}, LOW, "while it thinks"),
        (SONNET, {"stop": ["x", "\n"]}, {"stop_sequences": ["x"]}, "white space only"),
        (SONNET, {"tool_choice": "auto"}, {"tool_choice": {"type": "auto"}}, None),
        (SONNET, {"tool_choice": "none"}, {"tool_choice": {"type": "none"}}, None),
        (SONNET, {"tool_choice": "required"}, {"tool_choice": {"type": "any"}}, None),
        (SONNET, {"tool_choice": "get_time"}, {"tool_choice": {"type": "tool", "name": "get_time"}}, None),
        (SONNET, {"tool_choice": "required", "thinking": "low"}, {"tool_choice": {"type": "any"}}, "thinking='low'"),
        (OPUS, {"tool_choice": "required"}, {"tool_choice": {"type": "any"}, "thinking": {"type": "disabled"}}, None),
        (ALWAYS, {"tool_choice": "required"}, {}, "cannot be made to call a tool"),
        (ALWAYS, {"tool_choice": "get_time"}, {}, "tool_choice='get_time' was not sent"),
        (ALWAYS, {"tool_choice": "none"}, {"tool_choice": {"type": "none"}}, None),
        (SONNET, {"tool_choice": "required", "tools": ()}, {"tools": None}, "was given no tools"),
        (SONNET, {"extra": {"service_tier": "auto"}}, {"service_tier": "auto"}, None),
        (SONNET, {"max_tokens": 7}, {"max_tokens": 7}, None),
    ],
)  # fmt: skip
def test_options(model: ai.Model, options: dict[str, Any], expected: JsonObject, warned: str | None) -> None:
    made = request(model, **options)
    wanted = request(model).body | expected
    assert made.body == {name: value for name, value in wanted.items() if value is not None}
    if warned is None:
        assert made.warnings == ()
    else:
        assert len(made.warnings) == 1
        assert warned in made.warnings[0]
        assert made.warnings[0].startswith((str(model), "There is"))


def test_defaults_that_are_always_sent() -> None:
    assert request(SONNET).body["max_tokens"] == SONNET.max_output
    assert request(FOREIGN).body["max_tokens"] == 8192
    assert "thinking" not in request(SONNET).body
    assert request(ALWAYS).body["thinking"] == SUMMARIZED
    assert request(SONNET).body["cache_control"] == {"type": "ephemeral"}
    assert "cache_control" not in request(FOREIGN).body


def test_an_unknown_tool_choice_is_refused() -> None:
    with pytest.raises(
        UnsupportedFeatureError, match=r"'get_tme' is not a tool of this request\. Did you mean get_time"
    ):
        request(SONNET, tool_choice="get_tme")


async def test_what_was_dropped_is_reported_once_as_a_warning_before_the_answer() -> None:
    server = Server((503, "Busy"), reply(text()))
    events = await read(server.client(retries=1).stream(OPUS, ai.Context(messages=[HI]), ai.Options(temperature=1)))
    assert [event.type for event in events[:3]] == ["warning", "retry", "usage"]
    assert len(warnings(events)) == 1


SCHEMA: JsonObject = {
    "type": "object",
    "title": "Person",
    "properties": {
        "age": {"type": "integer", "minimum": 0, "description": "In years."},
        "minimum": {"type": "string", "format": "date"},
        "tags": {"type": "array", "items": {"$ref": "#/$defs/Tag"}, "minItems": 1, "maxItems": 3},
        "kind": {"oneOf": [{"type": "string", "format": "color"}, {"type": "null"}]},
    },
    "required": ["age"],
    "$defs": {"Tag": {"type": "object", "properties": {"name": {"type": "string", "enum": ["a"]}}}},
}


FITTED = fit_output(SCHEMA, OUTPUT_SCHEMAS).schema


def test_structured_output() -> None:
    body = request(SONNET, output=SCHEMA, thinking="low").body
    assert body["output_config"] == {"effort": "low", "format": {"type": "json_schema", "schema": FITTED}}


def test_a_schema_becomes_what_the_sdk_makes_of_it() -> None:
    def without_words(schema: Any) -> Any:
        if isinstance(schema, dict):
            return {
                name: without_words(value)
                for name, value in schema.items()
                if not (name == "description" and isinstance(value, str)) and not (name == "type" and "enum" in schema)
            }
        return [without_words(item) for item in schema] if isinstance(schema, list) else schema

    assert without_words(FITTED) == without_words(anthropic_schemas.transform_schema(SCHEMA))
    assert FITTED["properties"]["age"]["description"] == "In years. (minimum: 0)"


def test_images_and_files() -> None:
    said = ai.UserMessage(
        [
            ai.TextPart("Look:"),
            PIXEL,
            ai.ImagePart(url="http://h/a.jpg"),
            PAGE,
            ai.FilePart(url="http://h/b.pdf", name="b.pdf"),
            ai.FilePart("Zür".encode(), "text/markdown", "c.md"),
        ]
    )
    assert request(SONNET, said).body["messages"][0]["content"] == [
        text("Look:"),
        WIRE_PIXEL,
        {"type": "image", "source": {"type": "url", "url": "http://h/a.jpg"}},
        {
            "type": "document",
            "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
            "title": "a.pdf",
        },
        {"type": "document", "source": {"type": "url", "url": "http://h/b.pdf"}, "title": "b.pdf"},
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "Zür"},
            "title": "c.md",
        },
    ]


BLIND = ai.Model("anthropic", "blind", "messages", modalities=("text",))


@pytest.mark.parametrize(
    ("model", "part", "sentence"),
    [
        (SONNET, ai.ImagePart(b"x", "image/tiff"), "cannot look at image/tiff; convert"),
        (SONNET, ai.ImagePart(), "image has neither data nor url"),
        (SONNET, ai.FilePart(b"x", "application/zip", "a.zip"), "cannot read the file 'a.zip'"),
        (SONNET, ai.FilePart(None, "text/plain", "a.txt", url="http://h/a.txt"), "cannot read the file 'a.txt'"),
        (BLIND, PIXEL, "cannot look at images; leave them out or choose another model"),
        (BLIND, PAGE, "cannot read the file 'a.pdf'"),
    ],
)
async def test_parts_that_a_model_cannot_take_are_refused_before_anything_is_sent(
    model: ai.Model, part: ai.UserPart, sentence: str
) -> None:
    server = Server(reply(text()))
    with pytest.raises(UnsupportedFeatureError, match=sentence):
        await server.client().complete(model, ai.Context(messages=[ai.UserMessage([part])]))
    assert server.bodies == []


def called(model: ai.Model, *parts: ai.AssistantPart) -> ai.AssistantMessage:
    call = ai.ToolCallPart("t", "get_time", {})
    return ai.AssistantMessage((*parts, call), "tool_use", provider=model.provider, model=model.id)


def result(words: str, *images: ai.ImagePart, error: bool = False) -> ai.ToolResultMessage:
    return ai.ToolResultMessage((ai.ToolResultPart("t", "get_time", words, error, images),))


@pytest.mark.parametrize(
    ("given", "content"),
    [
        (result("noon", PIXEL), [text("noon"), WIRE_PIXEL]),
        (result("", PIXEL), [WIRE_PIXEL]),
        (result(""), ""),
        (result(" ", error=True), "The call failed and said nothing."),
    ],
)  # fmt: skip
def test_tool_results(given: ai.ToolResultMessage, content: object) -> None:
    block = request(SONNET, HI, called(SONNET), given).body["messages"][2]["content"][0]
    assert block["content"] == content
    assert block.get("is_error", False) == given.content[0].is_error


def test_images_of_tools_are_left_out_with_a_warning_for_a_model_without_images() -> None:
    made = request(BLIND, HI, called(BLIND), result("noon", PIXEL))
    assert made.body["messages"][2]["content"][0]["content"] == "noon"
    assert "cannot look at images, so those that tools returned were not sent" in made.warnings[0]


REDACTED = ai.ThinkingPart("", {"type": "redacted_thinking", "data": "x"})
SIGNED = ai.ThinkingPart("Hm.", {"type": "thinking", "signature": "sig"})


@pytest.mark.parametrize(
    ("parts", "thinks"), [((SIGNED,), True), ((REDACTED,), True), ((), False), ((ai.TextPart("So."),), False)]
)
def test_a_budget_model_is_not_asked_to_think_between_calls_made_without_thinking(
    parts: tuple[ai.AssistantPart, ...], thinks: bool
) -> None:
    made = request(HAIKU, HI, called(HAIKU, *parts), result("noon"), thinking="low")
    assert ("thinking" in made.body) is thinks
    assert bool(made.warnings) is not thinks
    later = request(HAIKU, HI, called(HAIKU, *parts), result("noon"), called(HAIKU, SIGNED), HI, thinking="low")
    assert "tool_result" in str(later.body["messages"][-1])
    assert "thinking" in later.body


def test_a_message_does_not_end_with_a_thought() -> None:
    cut = ai.AssistantMessage((ai.TextPart("a"), SIGNED), "aborted", provider="anthropic", model=SONNET.id)
    assert request(SONNET, HI, cut, HI).body["messages"][1]["content"] == [text("a")]
    alone = ai.AssistantMessage((SIGNED,), "aborted", provider="anthropic", model=SONNET.id)
    assert [message["role"] for message in request(SONNET, HI, alone, HI).body["messages"]] == ["user"]


# What is said goes back as it came

ECHOED = [
    thought(),
    thought("", "empty but signed"),
    {"type": "redacted_thinking", "data": "x/+=="},
    {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "ü\u2028"}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "srvtoolu_1",
        "content": [{"type": "web_search_result", "url": "http://h", "encrypted_content": "Zm9v", "page_age": None}],
    },
    {"type": "something_of_next_year", "payload": [1.5, {"deep": None}], "flag": False},
    {"type": "text", "text": "As found.", "citations": [{"type": "web_search_result_location", "url": "http://h"}]},
    {"type": "compaction", "content": "In short.", "encrypted_content": "YmFy"},
    {"type": "tool_use", "id": "toolu_1", "name": "get_time", "input": {"a": 1}, "caller": {"type": "direct"}},
]


async def test_all_kinds_of_blocks_go_back_as_they_came() -> None:
    server = Server(reply(*ECHOED, stop="tool_use"), reply(text()))
    http = server.client()
    message = await http.complete(ALWAYS, ai.Context(messages=[HI], tools=[TOOL]))
    assert message.text == "As found."
    stored = ai.decode_message(json.loads(json.dumps(ai.encode_message(message))))
    noon = ai.ToolResultMessage((ai.ToolResultPart("toolu_1", "get_time", "noon"),))
    await http.complete(ALWAYS, ai.Context(messages=[HI, stored, noon], tools=[TOOL]))
    assert server.bodies[1]["messages"][1]["content"] == ECHOED


async def test_deltas_of_compaction_and_of_unknown_kinds_are_collected() -> None:
    events = [
        {"type": "content_block_start", "index": 0, "content_block": {"type": "compaction", "content": None}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": "In sh"}},
        {"type": "content_block_delta", "index": 0, "delta": {"type": "compaction_delta", "content": "ort."}},
        {"type": "content_block_stop", "index": 0},
        {"type": "content_block_start", "index": 1, "content_block": {"type": "novel"}},
        {"type": "content_block_delta", "index": 1, "delta": {"type": "novel_delta", "word": "new"}},
        {"type": "content_block_stop", "index": 1},
        {"type": "message_stop"},
    ]
    message = await Server(sse(*events)).client().complete(SONNET, ai.Context(messages=[HI]))
    assert request(SONNET, HI, message, HI).body["messages"][1]["content"] == [
        {"type": "compaction", "content": "In short."},
        {"type": "novel", "word": "new"},
    ]


# Refusals, pauses, thinking that is not taken back


async def test_a_refusal_names_its_reason() -> None:
    details = {"type": "refusal", "category": "cyber", "explanation": "It could do harm."}
    stream = (
        Server(reply(text("I"), stop="refusal", stop_details=details)).client().stream(SONNET, ai.Context("", [HI]))
    )
    events = await read(stream)
    assert warnings(events) == [
        (
            f"{SONNET} refused to continue (cyber): It could do harm; rewind and rephrase the prompt, "
            "or choose another model."
        )
    ]
    assert (stream.message.text, stream.message.stop_reason) == ("I", "refusal")


@pytest.mark.parametrize("details", [None, {"type": "refusal", "category": None, "explanation": None}])
async def test_a_refusal_without_details(details: object) -> None:
    server = Server(reply(stop="refusal", stop_details=details))
    stream = server.client().stream(SONNET, ai.Context(messages=[HI]))
    assert "it gave no reason" in warnings(await read(stream))[0]
    assert stream.message.stop_reason == "refusal"


SEARCH: JsonObject = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
FOUND: JsonObject = {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []}


async def test_an_answer_goes_on_after_a_pause() -> None:
    server = Server(
        reply(thought(), SEARCH, stop="pause_turn", used=5),
        (503, "Busy"),
        reply(FOUND, thought("Aha.", "s2"), stop="pause_turn", used=6),
        reply(text("It is noon."), use(), stop="tool_use", used=7),
    )
    http = server.client(retries=1)
    stream = http.stream(SONNET, ai.Context(messages=[HI], tools=[TOOL]))
    events = await read(stream)
    message = stream.message
    assert [event.type for event in events if event.type in {"retry", "finish"}] == ["retry", "finish"]
    assert [event.index for event in events if event.type == "part_end"] == [0, 1, 2, 3, 4, 5]
    assert [part.type for part in message.content] == ["thinking", "text", "text", "thinking", "text", "tool_call"]
    assert message.usage == ai.Usage(input_tokens=30, output_tokens=18)
    assert message.cost == pytest.approx((30 * 3 + 18 * 15) / 1e6)
    assert message.stop_reason == "tool_use"
    so_far = [thought(), SEARCH, FOUND, thought("Aha.", "s2")]
    assert [body["messages"][1:] for body in server.bodies] == [
        [],
        [{"role": "assistant", "content": so_far[:2]}],
        [{"role": "assistant", "content": so_far[:2]}],
        [{"role": "assistant", "content": so_far}],
    ]
    await http.complete(SONNET, ai.Context(messages=[HI, message], tools=[TOOL]))
    assert server.bodies[-1]["messages"][1]["content"] == [*so_far, text("It is noon."), use()]


async def test_a_server_that_keeps_pausing_is_given_up() -> None:
    server = Server(reply(SEARCH, stop="pause_turn"))
    with pytest.raises(ProviderProtocolError, match="paused 21 times"):
        await server.client().complete(SONNET, ai.Context(messages=[HI]))
    assert len(server.bodies) == 21


REFUSED = [
    "messages.1.content.0: Invalid `signature` in `thinking` block. The block is bound to a different conversation.",
    "messages.1.content.1: `thinking` or `redacted_thinking` blocks in the latest message cannot be modified.",
    "messages.1.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`.",
    "messages.1: The final block in an assistant message cannot be `thinking`.",
]
EARLIER = ai.AssistantMessage((SIGNED, ai.TextPart("So.")), provider="anthropic", model=SONNET.id, api="messages")


@pytest.mark.parametrize("words", REFUSED)
async def test_refused_thinking_is_left_out_once_and_visibly(words: str) -> None:
    server = Server((400, words), reply(text("Yes.")))
    http = server.client()
    stream = http.stream(SONNET, ai.Context(messages=[HI, EARLIER, HI]))
    events = await read(stream)
    assert stream.message.text == "Yes."
    assert warnings(events) == [f"{SONNET} did not accept its earlier thinking; the request is sent again without it."]
    assert [body["messages"][1]["content"] for body in server.bodies] == [[thought(), text("So.")], [text("So.")]]
    await http.complete(SONNET, ai.Context(messages=[HI, EARLIER, HI, stream.message, HI]))
    # The conversation does not meet the refusal again.
    assert server.bodies[2]["messages"][1]["content"] == [text("So.")]


async def test_an_answer_goes_on_if_its_thinking_is_refused_after_a_pause() -> None:
    server = Server(
        reply(thought(), text("It is"), stop="pause_turn"),
        (400, REFUSED[0]),
        reply(text(" noon."), stop="pause_turn"),
        reply(text(" And warm.")),
    )
    stream = server.client().stream(SONNET, ai.Context(messages=[HI]))
    assert len(warnings(await read(stream))) == 1
    assert stream.message.text == "It is noon. And warm."
    assert [body["messages"][1:] for body in server.bodies] == [
        [],
        [{"role": "assistant", "content": [thought(), text("It is")]}],
        [{"role": "assistant", "content": [text("It is")]}],
        [{"role": "assistant", "content": [text("It is"), text(" noon.")]}],
    ]


async def test_it_is_left_out_only_once() -> None:
    server = Server((400, REFUSED[0]))
    with pytest.raises(BadRequestError, match="Invalid `signature`"):
        await server.client(retries=3).complete(SONNET, ai.Context(messages=[HI, EARLIER, HI]))
    assert len(server.bodies) == 2


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        (REFUSED[0], [HI]),
        ('"thinking.type.enabled" is not supported for this model.', [HI, EARLIER, HI]),
        ("max_tokens: Field required", [HI, EARLIER, HI]),
    ],
)
async def test_other_refusals_are_reported_at_once(words: str, messages: list[ai.Message]) -> None:
    server = Server((400, words))
    with pytest.raises(BadRequestError):
        await server.client().complete(SONNET, ai.Context(messages=messages))
    assert len(server.bodies) == 1


# Thinking and what it was made for


async def ask(server: Server, model: ai.Model, *messages: ai.Message, **context: Any) -> ai.AssistantMessage:
    return await server.client().complete(model, ai.Context(messages=messages, **context))


def kinds(body: JsonObject) -> list[str]:
    """The kinds of all blocks that the model said."""
    said = (message["content"] for message in body["messages"] if message["role"] == "assistant")
    return [block["type"] for content in said for block in content]


async def conversation(model: ai.Model, **context: Any) -> list[ai.Message]:
    """Three turns, each answered with a thought and a text."""
    messages: list[ai.Message] = []
    for number in range(3):
        messages.append(ai.UserMessage(f"question {number}"))
        server = Server(reply(thought(f"t{number}", f"s{number}"), text(f"answer {number}")))
        messages.append(await ask(server, model, *messages, **context))
    return messages


ALL = ["thinking", "text"] * 3
EDITED = ai.UserMessage("another question")


@pytest.mark.parametrize("model", [SONNET, ALWAYS, HAIKU, FOREIGN])
@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda said: said, ALL),
        (lambda said: [ai.decode_message(json.loads(json.dumps(ai.encode_message(one)))) for one in said], ALL),
        (lambda said: said[:4], ALL[:4]),
        (lambda said: [EDITED, *said[1:]], ["text"] * 3),
        (lambda said: [*said[:2], EDITED, *said[3:]], ["thinking", "text", "text", "text"]),
        (lambda said: said[2:], ["text"] * 2),
        (lambda said: [ai.UserMessage("In short: …"), *said[4:]], ["text"]),
        (lambda said: [*said[:1], EDITED, *said[1:]], ["text"] * 3),
    ],
    ids=["as it was", "stored and read", "rewound", "first edited", "second edited", "cut", "compacted", "inserted"],
)
async def test_thinking_goes_back_only_behind_what_it_was_made_for(
    model: ai.Model, change: Any, expected: list[str]
) -> None:
    said = await conversation(model)
    body = request(model, *change(said), HI, tools=()).body
    assert kinds(body) == expected
    assert "planck" not in json.dumps(body)


async def test_a_thought_behind_one_that_is_gone_is_gone_too() -> None:
    server = Server(reply(thought("a", "1"), text(), thought("b", "2"), text("Done.")))
    message = await ask(server, SONNET, HI)
    assert kinds(request(SONNET, HI, message, HI).body) == ["thinking", "text"] * 2
    shorter = ai.AssistantMessage(message.content[1:], provider="anthropic", model=SONNET.id)
    assert kinds(request(SONNET, HI, shorter, HI).body) == ["text", "text"]


async def test_thinking_after_an_edit_is_kept() -> None:
    first, answer, *_ = await conversation(ALWAYS)
    server = Server(reply(thought("new"), text("new")))
    newer = await ask(server, ALWAYS, EDITED, answer, first)
    assert kinds(server.bodies[0]) == ["text"]
    assert kinds(request(ALWAYS, EDITED, answer, first, newer, HI, tools=()).body) == ["text", "thinking", "text"]


@pytest.mark.parametrize(
    ("model", "bound"),
    [(ALWAYS, True), (UNKNOWN, True), (FOREIGN, True), (SONNET, False), (OPUS, False), (HAIKU, False)],
)
@pytest.mark.parametrize("changed", [{"system": "Other."}, {"tools": (TOOL,)}])
async def test_newer_models_bind_thinking_to_system_prompt_and_tools(
    model: ai.Model, bound: bool, changed: dict[str, Any]
) -> None:
    said = await conversation(model, system="Be brief.")
    as_it_was: dict[str, Any] = {"system": "Be brief.", "tools": ()}
    assert kinds(request(model, *said, HI, **as_it_was).body) == ALL
    assert kinds(request(model, *said, HI, **{**as_it_was, **changed}).body) == (["text"] * 3 if bound else ALL)


async def test_an_interrupted_thought_stays_behind_its_own_question() -> None:
    stream = Server(MESSAGES_TOOLS[:10]).client().stream(SONNET, ai.Context(messages=[HI]))
    with pytest.raises(StreamTruncated):
        await read(stream)
    cut = stream.message
    assert kinds(request(SONNET, HI, cut, HI).body) == ["thinking", "redacted_thinking", "text"]
    assert kinds(request(SONNET, EDITED, cut, HI).body) == ["text"]
