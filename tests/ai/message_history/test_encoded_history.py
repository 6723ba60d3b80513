"""What was encoded of a conversation is kept for its next request, and never changes what is sent."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from support.dialects import WIRES

from planck_nb import ai
from planck_nb.ai.dialects.json_wire import write_json
from planck_nb.ai.message_history.encoded_history import encode_history
from planck_nb.ai.message_history.portable_history import PreparedMessage, prepare
from planck_nb.ai.providers import dialect
from planck_nb.ai.request import HistoryCache
from planck_nb.errors import UnsupportedFeatureError

MODEL = ai.get_model("openai", "gpt-4o")
STATES: dict[str, dict[str, Any]] = {
    "chat": {"field": "reasoning_content"},
    "responses": {"item": {"type": "reasoning", "id": "r1", "encrypted_content": "e", "summary": []}},
    "messages": {"type": "thinking", "signature": "s"},
    "generate_content": {"thoughtSignature": "s"},
    "interactions": {"signature": "s"},
    "ollama": {},
}
IMAGE = ai.ImagePart(b"\x89PNG", "image/png")


class Conversation:
    """A conversation that grows and changes at random, as agents, people and interruptions change it."""

    def __init__(self, seed: int, model: ai.Model) -> None:
        self.messages: list[ai.Message] = []
        self.system = "Help."
        self.model = self._first = model
        self._random = random.Random(seed)

    def change(self) -> None:
        usual = [self.prompt, self.reply, self.call, self.call]
        self._random.choice([*usual, *usual, self.take_back, self.summarize, self.change_model, self.change_system])()

    def prompt(self) -> None:
        image = [IMAGE] if self._random.random() < 0.2 else []
        self.messages.append(ai.UserMessage([ai.TextPart(f"prompt {len(self.messages)} é\u2028"), *image]))

    def reply(self) -> None:
        self.messages.append(self._said(ai.TextPart(f"reply {len(self.messages)}")))

    def call(self) -> None:
        """Call tools, and perhaps get results: of all calls, of some, of others."""
        ids = [self._random.choice(["call_1", "call_1", "x" * 50, f"id {len(self.messages)}"]) for _ in range(2)]
        self.messages.append(self._said(*(ai.ToolCallPart(each, "look", {"n": 1}) for each in ids)))
        for _ in range(self._random.choice([0, 1, 1, 1, 2])):
            images = (IMAGE,) if self._random.random() < 0.3 else ()
            results = [ai.ToolResultPart(each, "look", "seen", images=images) for each in ids]
            self.messages.append(ai.ToolResultMessage(tuple(results[: self._random.choice([1, 2, 2])])))

    def take_back(self) -> None:
        del self.messages[self._random.randrange(len(self.messages) + 1) :]

    def summarize(self) -> None:
        self.messages = [ai.SummaryMessage("So far."), *self.messages[-2:]]

    def change_model(self) -> None:
        other = replace(self._first, id="other-model", modalities=("text",))
        self.model = self._random.choice([self._first, other])

    def change_system(self) -> None:
        self.system = f"Help {len(self.messages)}."

    def _said(self, *parts: ai.AssistantPart) -> ai.AssistantMessage:
        own = self._random.random() < 0.8
        thought = ai.ThinkingPart("Hm.", STATES[self.model.api] if self._random.random() < 0.5 else None)
        return ai.AssistantMessage(
            (thought, *parts),
            self._random.choice(["stop", "aborted"]),
            provider=self.model.provider if own else "other",
            model=self.model.id,
            api=self.model.api,
        )


@pytest.mark.parametrize("api", WIRES)
def test_requests_are_the_same_with_and_without_what_was_kept(api: str) -> None:
    model = WIRES[api].model
    for seed in range(12):
        cache, conversation = HistoryCache(), Conversation(seed, model)
        for _ in range(25):
            conversation.change()
            context = ai.Context(conversation.system, [*conversation.messages])
            first, again, anew = (
                _request(conversation.model, replace(context, cache=each)) for each in (cache, cache, None)
            )
            assert first == again == anew, seed


def _request(model: ai.Model, context: ai.Context) -> tuple[bytes, tuple[str, ...], str | None] | str:
    try:
        request = dialect(model).request(model, context, ai.Options(), "key")
    except UnsupportedFeatureError as error:
        return str(error)
    return write_json(request.body), request.warnings, request.prefix


def test_one_more_turn_encodes_only_what_is_new() -> None:
    encoded: list[PreparedMessage] = []

    def encode(_model: ai.Model, message: PreparedMessage, _before: object, _warnings: object) -> PreparedMessage:
        encoded.append(message)
        return message

    context = ai.Context(messages=_turns(1_000), cache=HistoryCache())
    encode_history(context, MODEL, encode)
    encoded.clear()
    longer = [*context.messages, ai.UserMessage("more")]
    history = encode_history(replace(context, messages=longer), MODEL, encode)
    assert len(encoded) == 3  # the latest reply, whose calls might get results, and the prompts after it
    assert history.wire == prepare(longer, MODEL)


class Counted(list[ai.Message]):
    """Messages that count how often one of them is read by its position."""

    read = 0

    def __getitem__(self, index: Any) -> Any:
        found = super().__getitem__(index)
        self.read += len(found) if isinstance(index, slice) else 1
        return found


def _turns(count: int) -> list[ai.Message]:
    return [
        ai.UserMessage("hi") if number % 2 == 0 else ai.AssistantMessage((ai.TextPart("yes"),))
        for number in range(2 * count + 1)
    ]


@pytest.mark.slow
def test_preparing_takes_time_in_proportion_to_the_messages() -> None:
    """Each reply calls a tool under the same id, as some servers write it."""
    count = 20_000
    pair: list[ai.Message] = [
        ai.AssistantMessage((ai.ToolCallPart("call_1", "look", {}),)),
        ai.ToolResultMessage((ai.ToolResultPart("call_1", "look", "seen"),)),
    ]
    messages = Counted(pair * count)
    prepared = prepare(messages, MODEL)
    assert messages.read < 4 * len(messages)
    ids = {part.id for message in prepared for part in message.content if part.type == "tool_call"}
    assert len(ids) == count
