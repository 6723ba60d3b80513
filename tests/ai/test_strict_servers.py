"""A conversation that Anthropic's model began goes on with every provider that has rules, and back again."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from support.agents import Hold
from support.strict_servers import RULES, SERVERS, Refusal, StrictAnthropic, StrictServer
from support.wire import sse

from planck_nb import Agent, ai
from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.ai.compatible_servers import COMPATIBLE
from planck_nb.ai.server_rules import USUAL, ServerRules
from planck_nb.errors import AuthenticationError, NotFoundError, ProviderError, QuotaExceededError, ToolError

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
ADDRESSES = {"azure": "https://mine.openai.azure.com"}
KEYS = {"ANTHROPIC_API_KEY": "sk-ant-1"} | {name: "a-key" for each in COMPATIBLE for name in each.key_variables}
CLAUDE = ai.get_model("anthropic:claude-sonnet-4-6")


def named(*events: dict[str, Any]) -> list[bytes]:
    pairs = zip(events, sse(*events), strict=True)
    return [b"event: %s\n%s" % (event["type"].encode(), chunk) for event, chunk in pairs]


def blocks(*parts: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for index, part in enumerate(parts):
        kind = part["type"]
        field = {"thinking": "thinking", "text": "text"}.get(kind)
        empty = {**part, field: ""} if field else {**part, "input": {}}
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        delta = {"type": f"{kind}_delta", field: part[field]} if field else {
            "type": "input_json_delta", "partial_json": json.dumps(part["input"])
        }  # fmt: skip
        yield {"type": "content_block_delta", "index": index, "delta": delta}
        if kind == "thinking":
            signed = {"type": "signature_delta", "signature": "c2ln"}
            yield {"type": "content_block_delta", "index": index, "delta": signed}
        yield {"type": "content_block_stop", "index": index}


def claude(*parts: dict[str, Any]) -> list[bytes]:
    """A reply of Anthropic's."""
    reason = "tool_use" if any(part["type"] == "tool_use" for part in parts) else "end_turn"
    start = {"type": "message_start", "message": {"usage": {"input_tokens": 9, "output_tokens": 1}}}
    end = {"type": "message_delta", "delta": {"stop_reason": reason}, "usage": {"output_tokens": 5}}
    return named(start, *blocks(*parts), end, {"type": "message_stop"})


THOUGHT = {"type": "thinking", "thinking": "Both at once.", "signature": ""}
LOOK = {"type": "tool_use", "id": "toolu_01A09q90qw90lq917835lq9aX", "name": "look", "input": {"place": "there"}}
FAIL = {"type": "tool_use", "id": "toolu_01B09q90qw90lq917835lq9aY", "name": "fail", "input": {}}
WAIT = {"type": "tool_use", "id": "toolu_01C09q90qw90lq917835lq9aZ", "name": "hold", "input": {}}
SAID = {"type": "text", "text": "I looked."}
BEGUN = [claude(THOUGHT, LOOK, FAIL), claude(THOUGHT, SAID), claude(THOUGHT, WAIT), claude(SAID)]


def model_of(name: str, rules: ServerRules | None = None) -> ai.Model:
    return replace(ai.get_model(name, "some/model", base_url=ADDRESSES.get(name)), rules=rules)


class World:
    """Anthropic and another provider behind one transport."""

    def __init__(self, server: StrictServer) -> None:
        self.server = server
        self.claude = StrictAnthropic(BEGUN)
        self.client = ai.Client(
            credentials=KEYS,
            transport=httpx.MockTransport(self._answer),
            retries=ai.RetryPolicy(retries=0),
        )

    def _answer(self, request: httpx.Request) -> httpx.Response:
        body = json.loads(request.content)
        return self.claude.answer(body) if request.url.host == "api.anthropic.com" else self.server.answer(body)


@pytest.mark.parametrize("name", SERVERS)
async def test_a_conversation_goes_there_and_back(name: str) -> None:
    world = World(SERVERS[name]())
    hold = Hold()

    def look(place: str) -> ToolOutput:
        """Look at a place."""
        return ToolOutput(f"It is fine {place}.", images=(ai.ImagePart(PIXEL),))

    def fail() -> str:
        """Fail."""
        raise ToolError("It broke.")

    options = ai.Options(max_tokens=500, stop=["<END>"])
    async with Agent(model=CLAUDE, tools=[look, fail, hold.hold], client=world.client, options=options) as agent:
        begun = await agent.prompt([ai.TextPart("Look at this."), ai.ImagePart(PIXEL)])
        assert begun.text == "I looked."
        run = agent.prompt("Wait.")
        await hold.entered.wait()
        run.abort()
        await run
        agent.model = model_of(name)
        for prompt in ("Go on.", "And again."):
            assert (await agent.prompt(prompt)).text == "Done."
        agent.model = CLAUDE
        assert (await agent.prompt("Back again.")).text == "I looked."
    assert world.claude.refused == []
    learnt = {"deepseek": 1, "vllm": 1}  # images, and what a template of one model refuses
    assert len(world.server.refused) <= learnt.get(name, 0), world.server.refused
    assert all(len(body["messages"]) > 6 for body in world.server.seen[1:])


CALL = ai.ToolCallPart(str(LOOK["id"]), "look", {"place": "there"})
TOLD = ai.ToolResultMessage((ai.ToolResultPart(CALL.id, "look", "fine"),))
HISTORY: list[ai.Message] = [
    ai.UserMessage("Look."),
    ai.AssistantMessage((ai.ThinkingPart("Let me see.", {"field": "reasoning_content"}), CALL), "tool_use"),
    TOLD,
    ai.UserMessage("Look again."),
    ai.AssistantMessage((replace(CALL, id="call_2"),), "tool_use"),
    ai.ToolResultMessage((ai.ToolResultPart("call_2", "look", "fine"),)),
    ai.UserMessage("Go on."),
]
LOOKED = ai.ToolSpec("look", "Look at a place.", {"type": "object", "properties": {"place": {"type": "string"}}})


async def sent(model: ai.Model, refusal: Refusal) -> dict[str, Any]:
    """What is sent to a model in a conversation that it began itself."""
    own = [
        replace(each, provider=model.provider, model=model.id) if each.type == "assistant" else each for each in HISTORY
    ]
    context = ai.Context("Be brief.", own, [LOOKED, replace(LOOKED, name="peek")])
    async with ai.Client(credentials=KEYS) as client:
        return dict((await client.preview(model, context, ai.Options(**refusal.options))).body)


@pytest.mark.parametrize(
    ("name", "refusal"),
    [
        pytest.param(name, refusal, id=f"{name}-{refusal.source.removeprefix('https://github.com/')}")
        for name, refusals in RULES.items()
        for refusal in refusals
    ],
)
async def test_a_rule_prevents_what_its_source_reports(name: str, refusal: Refusal) -> None:
    assert refusal.response(await sent(model_of(name), refusal)) is None
    with_usual_rules = await sent(model_of(name, USUAL), refusal)
    response = refusal.response(with_usual_rules)
    if refusal.source in NEVER_PROVOKED:
        assert response is None
    else:
        assert response is not None
        assert response.json()


NEVER_PROVOKED = {
    "https://github.com/editor-code-assistant/eca/issues/231",
    "https://github.com/browserbase/stagehand/issues/1204",
    "https://github.com/mpfaffenberger/code_puppy/pull/368",
    "https://github.com/lmstudio-ai/lmstudio-bug-tracker/issues/189",
    "https://github.com/microsoft/agent-framework/issues/2947",
}
"""What requests never have, with whatever rules."""


def test_every_provider_with_rules_has_a_strict_server() -> None:
    assert {known.name for known in COMPATIBLE if known.rules != USUAL} == SERVERS.keys()
    assert all(known.note for known in COMPATIBLE if known.rules == USUAL)


@pytest.mark.parametrize("name", [known.name for known in COMPATIBLE])
@pytest.mark.parametrize(
    ("status", "words", "expected"),
    [
        (401, "Incorrect API key provided: a-key-of-{}", AuthenticationError),
        (404, "The model `some/model` does not exist", NotFoundError),
        (402, "Insufficient Balance", QuotaExceededError),  # https://api-docs.deepseek.com/quick_start/error_codes
        (403, "This model is not available in your region", AuthenticationError),
    ],
)
async def test_what_a_person_can_mend_is_one_sentence_without_the_key(
    name: str, status: int, words: str, expected: type[ProviderError]
) -> None:
    key = f"a-key-of-{name}"
    refusal = httpx.Response(status, json={"error": {"message": words.format(name)}})
    transport = httpx.MockTransport(lambda _: refusal)
    keys = {variable: key for known in COMPATIBLE for variable in known.key_variables}
    address = {**ADDRESSES, "bedrock": "https://bedrock-mantle.eu-central-1.api.aws"}.get(name)
    async with ai.Client(credentials=keys, transport=transport, retries=ai.RetryPolicy(retries=0)) as client:
        with pytest.raises(expected) as caught:
            await client.complete(ai.get_model(name, "some/model", base_url=address), ai.Context(messages=HISTORY[:1]))
    assert key not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith((name, f"The account at {name}"))
