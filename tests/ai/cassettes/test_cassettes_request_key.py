"""The identity of a request: the same for the same question, another for any other."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planck_nb import ai
from planck_nb.ai.cassettes.request_key import canonical_request, differences, key_of
from planck_nb.ai.models import Model
from planck_nb.base.secrets import find_secret, known_secrets

MODEL = ai.get_model("anthropic:claude-sonnet-4-6")
TEXT = st.text(st.characters(codec=None), max_size=12)
ARGS = st.dictionaries(TEXT, st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT, max_size=3)
STATE = st.none() | st.dictionaries(TEXT, TEXT, min_size=1, max_size=2)
IMAGE = st.builds(ai.ImagePart, st.binary(max_size=20))
USER = st.builds(
    lambda parts: ai.UserMessage(tuple(parts)),
    st.lists(st.builds(ai.TextPart, TEXT) | IMAGE | st.builds(ai.FilePart, st.binary(max_size=20)), max_size=3),
)


@st.composite
def exchanges(draw: st.DrawFn) -> list[ai.Message]:
    """A reply that calls tools, and their results."""
    said = draw(st.lists(st.builds(ai.TextPart, TEXT, STATE) | st.builds(ai.ThinkingPart, TEXT, STATE), max_size=3))
    ids = draw(st.lists(TEXT, unique=True, max_size=3))
    calls = [ai.ToolCallPart(call_id, draw(TEXT), draw(ARGS), provider_state=draw(STATE)) for call_id in ids]
    results = [ai.ToolResultPart(call.id, call.name, draw(TEXT), draw(st.booleans())) for call in calls]
    reply = ai.AssistantMessage((*said, *calls), "tool_use", provider="anthropic", model=MODEL.id)
    return [reply, ai.ToolResultMessage(tuple(results))] if results else [reply]


MESSAGES = st.lists(USER.map(lambda message: [message]) | exchanges(), max_size=4).map(
    lambda groups: [message for group in groups for message in group]
)


def key(messages: Sequence[ai.Message], model: Model = MODEL, options: ai.Options | None = None) -> str:
    return key_of(canonical_request(model, ai.Context("system", messages), options or ai.Options()))


def of_another_run(message: ai.Message, tag: str) -> ai.Message:
    """The message as another run of the same program has it: other ids, no provider state, other figures."""
    if message.type == "assistant":
        content = [replace(part, provider_state=None) for part in message.content]
        named = [replace(part, id=tag + part.id) if part.type == "tool_call" else part for part in content]
        kept = tuple(part for part in named if part.type == "tool_call" or part.text)
        return replace(message, content=kept, usage=ai.Usage(1, 2), cost=3.0, api="cassette")
    if message.type == "tool_result":
        return replace(message, content=tuple(replace(part, id=tag + part.id) for part in message.content))
    return message


@pytest.mark.slow
@given(MESSAGES)
def test_a_key_survives_another_run_and_the_store(messages: list[ai.Message]) -> None:
    assert key([of_another_run(message, "z") for message in messages]) == key(messages)
    request = canonical_request(MODEL, ai.Context("system", messages), ai.Options())
    assert key_of(json.loads(json.dumps(request))) == key_of(request)


@given(st.dictionaries(TEXT, st.dictionaries(TEXT, TEXT, max_size=3), max_size=3))
def test_the_order_of_names_does_not_count(args: dict[str, dict[str, str]]) -> None:
    turned = {name: dict(reversed(inner.items())) for name, inner in reversed(args.items())}
    one, other = (ai.AssistantMessage((ai.ToolCallPart("1", "f", each),)) for each in (args, turned))
    assert key([one]) == key([other])


CALLED: list[ai.Message] = [
    ai.UserMessage([ai.TextPart("look"), ai.ImagePart(b"image"), ai.FilePart(b"text")]),
    ai.AssistantMessage(
        (ai.ThinkingPart("hm"), ai.TextPart("so"), ai.ToolCallPart("a", "f", {"x": 1}), ai.ToolCallPart("b", "f", {}))
    ),
    ai.ToolResultMessage(
        (ai.ToolResultPart("a", "f", "one", images=(ai.ImagePart(b"plot"),)), ai.ToolResultPart("b", "f", "two"))
    ),
]


def changed(place: int, part: int, **values: object) -> list[ai.Message]:
    messages: list[ai.Message] = copy.deepcopy(CALLED)
    message = messages[place]
    content = list(message.content)
    content[part] = type(content[part])(
        **{**{name: getattr(content[part], name) for name in content[part].__slots__}, **values}
    )
    messages[place] = replace(message, content=tuple(content))  # type: ignore[arg-type]
    return messages


@pytest.mark.parametrize(
    ("messages", "where"),
    [
        (changed(0, 0, text="see"), "message 1 (user) part 1 text"),
        (changed(0, 1, data=b"another"), "message 1 (user) part 2 sha256"),
        (changed(0, 2, mime="text/plain"), "message 1 (user) part 3 mime"),
        (changed(1, 0, text="ha"), "message 2 (assistant) part 1 text"),
        (changed(1, 2, args={"x": 2}), "message 2 (assistant) part 3 args x"),
        (changed(1, 2, invalid="{"), "message 2 (assistant) part 3 invalid"),
        (changed(2, 0, text="three"), "message 3 (tool_result) part 1 text"),
        (changed(2, 0, images=()), "message 3 (tool_result) part 1 images"),
        (changed(2, 0, is_error=True), "message 3 (tool_result) part 1 is_error"),
        (CALLED[:2], "message 3 (tool_result)"),
        ([*CALLED, ai.UserMessage("more")], "message 4 (user)"),
        ([CALLED[0], CALLED[1], ai.UserMessage("no")], "message 3 (tool_result)"),
    ],
)
def test_another_conversation_has_another_key_and_the_difference_is_named(
    messages: list[ai.Message], where: str
) -> None:
    recorded, asked = (canonical_request(MODEL, ai.Context("", said), ai.Options()) for said in (CALLED, messages))
    assert key_of(recorded) != key_of(asked)
    assert differences(recorded, asked)[0].where == where
    assert differences(recorded, recorded) == []


def test_results_that_change_places_are_another_conversation() -> None:
    turned = replace(CALLED[2], content=CALLED[2].content[::-1])  # type: ignore[arg-type]
    assert key([*CALLED[:2], turned]) != key(CALLED)


@pytest.mark.parametrize(
    "options",
    [
        ai.Options(temperature=0.0),
        ai.Options(max_tokens=5),
        ai.Options(stop=["x"]),
        ai.Options(thinking="high"),
        ai.Options(tool_choice="none"),
        ai.Options(output={"type": "object"}),
        ai.Options(extra={"seed": 1}),
    ],
)
def test_every_option_counts(options: ai.Options) -> None:
    assert key(CALLED, options=options) != key(CALLED)


def test_unset_options_do_not_count() -> None:
    assert key(CALLED, options=ai.Options(stop=(), extra={})) == key(CALLED)


def test_model_and_wire_format_count_but_not_the_address() -> None:
    assert key(CALLED, replace(MODEL, id="another")) != key(CALLED)
    assert key(CALLED, replace(MODEL, api="chat")) != key(CALLED)
    assert key(CALLED, replace(MODEL, base_url="http://127.0.0.1:9", api_key="k")) == key(CALLED)


def test_the_bytes_of_images_are_not_in_the_request() -> None:
    request = json.dumps(
        canonical_request(MODEL, ai.Context("", [ai.UserMessage([ai.ImagePart(b"p" * 999)])]), ai.Options())
    )
    assert len(request) < 300


@pytest.mark.parametrize(
    "text",
    [
        "sk-ant-" + "api03-" + "aB3" * 10,
        "sk-proj-" + "aB3" * 10,
        "AIza" + "aB3-_" * 7,
        "key = ghp_" + "aB3" * 12,
        "hf_" + "aB3" * 11,
        "AKIA" + "AB34" * 4,
        "Authorization: Bearer " + "aB3" * 10,
        "-----BEGIN RSA PRIVATE" + " KEY-----",
        "eyJ" + "aB3" * 5 + ".eyJ" + "aB3" * 5 + "." + "aB3" * 5,
    ],
)
def test_secrets_are_known_by_their_form(text: str) -> None:
    for said in (text, f"before {text} after", f"KEY={text}", f'"{text}"', json.dumps(f"line\n{text}\nline")):
        assert find_secret(said, {}) is not None
    assert find_secret("before " + "Q7w" * 200 + text.replace("-", "").replace(" ", "")[:24], {}) is None


def test_secrets_are_known_by_their_variables() -> None:
    known = known_secrets(
        {
            "SOME_API_KEY": "abc12345",
            "A_TOKEN": 'quo"te123',
            "SHORT_KEY": "test",
            "PG_PASSWORD": "postgres",
            "HOME": "/home/ann",
            "KEYBOARD": "layout-9",
        }
    )
    assert set(known) == {"abc12345", 'quo"te123'}
    assert find_secret("x abc12345 y", known) == "the value of SOME_API_KEY"
    assert find_secret(json.dumps({"said": 'quo"te123'}), known) == "the value of A_TOKEN"
    assert find_secret("postgres at /home/ann", known) is None
