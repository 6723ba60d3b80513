"""Tools that the model's server runs: sent besides the agent's own, shown, stored, and sent back in the next turn."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.recordings import body_of, recorded
from support.wire import replying, sse

from planck_nb import Agent, Config, Workspace, ai
from planck_nb.agent import events as ev
from planck_nb.ai.server_calls import ServerCallReader, server_calls
from planck_nb.base.errors import ModelError, UnsupportedFeatureError, UsageError
from planck_nb.jupyter.namespace import tools_named
from planck_nb.rendering.blocks import ToolCall, blocks

HI = ai.UserMessage("hi")
ASK = ai.Context(messages=[HI], tools=[ai.ToolSpec("look", "Look.", {"type": "object", "properties": {}})])
MODELS = {
    "messages": ai.get_model("anthropic", "claude-sonnet-4-6"),
    "responses": ai.get_model("openai", "gpt-5.4"),
    "chat": ai.get_model("openai", "some-model", base_url="http://127.0.0.1:9/v1"),
    "generate_content": ai.get_model("google", "gemini-3.5-flash"),
    "interactions": ai.get_model("google", "gemini-3.5-flash", api="interactions"),
    "ollama": ai.get_model("ollama", "some-model", base_url="http://127.0.0.1:9"),
}
SPELLED: Mapping[str, Mapping[str, Any]] = {
    "messages": {
        "web_search": {"type": "web_search_20250305", "name": "web_search"},
        "web_fetch": {"type": "web_fetch_20250910", "name": "web_fetch"},
        "code_execution": {"type": "code_execution_20250825", "name": "code_execution"},
    },
    "responses": {
        "web_search": {"type": "web_search"},
        "code_execution": {"type": "code_interpreter", "container": {"type": "auto"}},
    },
    "generate_content": {
        "web_search": {"googleSearch": {}},
        "web_fetch": {"urlContext": {}},
        "code_execution": {"codeExecution": {}},
    },
    "interactions": {
        "web_search": {"type": "google_search"},
        "web_fetch": {"type": "url_context"},
        "code_execution": {"type": "code_execution"},
    },
    "chat": {},
    "ollama": {},
}


def client(body: Iterable[bytes] = (), seen: list[Any] | None = None, kind: str = "text/event-stream") -> ai.Client:
    keys = dict.fromkeys(("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"), "key-1")
    return ai.Client(credentials=keys, transport=replying(body, seen=seen, kind=kind))


async def sent(model: ai.Model, context: ai.Context, **extra: Any) -> Any:
    return (await client().preview(model, context, ai.Options(extra=extra))).body


@pytest.mark.parametrize("api", MODELS)
async def test_tools_in_extra_are_added_to_the_agents_own(api: str) -> None:
    own = (await sent(MODELS[api], ASK))["tools"]
    search: dict[str, Any] = {"type": "web_search", "name": "web_search"}
    extra: dict[str, Any] = {"googleSearch": {}} if api == "generate_content" else search
    body = await sent(MODELS[api], ASK, tools=[extra])
    assert body["tools"] == [*own, extra]
    assert (await sent(MODELS[api], ASK, tools=own))["tools"] == own, "a tool of the same name is not sent twice"
    changed = json.loads(json.dumps(own).replace("Look.", "Look well."))
    assert (await sent(MODELS[api], ASK, tools=changed))["tools"] == changed, "it replaces the agent's"
    without = ai.Context(messages=[HI])
    assert (await sent(MODELS[api], without, tools=[extra]))["tools"] == [extra]
    assert (await sent(MODELS[api], ASK, tools=None))["tools"] is None


@pytest.mark.parametrize("name", ["web_search", "web_fetch", "code_execution"])
@pytest.mark.parametrize("api", MODELS)
async def test_server_tools_have_one_name_for_all_vendors(api: str, name: str) -> None:
    context = ai.Context(messages=[HI], tools=ASK.tools, server_tools=[ai.ServerTool(name, {"max_uses": 3})])
    spelled = SPELLED[api].get(name)
    if spelled is None:
        with pytest.raises(UnsupportedFeatureError, match=rf"has no server tool {name} .* choose another model\.$"):
            await sent(MODELS[api], context)
        return
    body = await sent(MODELS[api], context)
    own = (await sent(MODELS[api], ASK))["tools"]
    settings = {"max_uses": 3}
    with_settings = dict.fromkeys(spelled, settings) if "content" in api else {**spelled, **settings}
    assert body["tools"] == [*own, with_settings]
    if api == "generate_content":
        assert body["toolConfig"] == {"includeServerSideToolInvocations": True}
    if api == "responses":
        assert set(body["include"]) > {"reasoning.encrypted_content"}


async def test_an_old_gemini_has_server_tools_or_functions() -> None:
    old = ai.get_model("google", "gemini-2.5-flash")
    search = [ai.ServerTool("web_search")]
    assert (await sent(old, ai.Context(messages=[HI], server_tools=search)))["tools"] == [{"googleSearch": {}}]
    with pytest.raises(UnsupportedFeatureError, match="together with other tools; give it one kind only"):
        await sent(old, ai.Context(messages=[HI], tools=ASK.tools, server_tools=search))


def test_names_of_server_tools() -> None:
    assert ai.ServerTool("google_search") == ai.ServerTool("web_search")
    assert ai.ServerTool("url_context").name == "web_fetch"
    with pytest.raises(ModelError, match=r"no server tool 'web_serach'. Did you mean web_search"):
        ai.ServerTool("web_serach")
    with pytest.raises(UsageError, match=r"no server tool 'web_serach'. Did you mean web_search"):
        Agent(model="demo", tools=["web_serach"])
    tool = ai.ServerTool("web_search", {"allowed_domains": ["a.test", "b.test"]})
    assert ai.ServerTool.parse(str(tool)) == tool
    assert ai.ServerTool.parse("web_search") == ai.ServerTool("web_search")
    for text in ("read", "web_search{", 'web_search["a"]', ""):
        assert ai.ServerTool.parse(text) is None


async def test_an_agent_offers_functions_and_server_tools() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    seen: list[Any] = []
    body = [body_of_search()]
    agent = Agent(
        model=MODELS["messages"], client=client(body, seen), tools=[look, "web_search", ai.ServerTool("web_fetch")]
    )
    await agent.prompt("go")
    assert [tool.get("type", tool["name"]) for tool in seen[0]["tools"]] == [
        "look",
        "web_search_20250305",
        "web_fetch_20250910",
    ]
    agent.remove_tool("web_search")
    await agent.prompt("go")
    assert len(seen[1]["tools"]) == 2


async def test_demo_refuses_server_tools_in_one_sentence() -> None:
    with pytest.raises(UnsupportedFeatureError, match="demo:demo has no server tool web_search"):
        await Agent(model="demo", tools=["web_search"]).prompt("hi")


def body_of_search() -> bytes:
    result = {"type": "web_search_result", "title": "Birds", "url": "https://b.test", "encrypted_content": "c2VjcmV0"}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv1", "content": [result]}
    return b"".join(
        sse(
            {"type": "message_start", "message": {"usage": {"input_tokens": 7}}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "server_tool_use", "id": "srv1", "name": "web_search", "input": {}},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "input_json_delta", "partial_json": '{"query": "birds"}'},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": found},
            {"type": "content_block_stop", "index": 1},
            {"type": "content_block_start", "index": 2, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 2, "delta": {"type": "text_delta", "text": "Two."}},
            {"type": "content_block_stop", "index": 2},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 3}},
            {"type": "message_stop"},
        )
    )


def shown(events: Iterable[ev.AgentEvent]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for event in events:
        if event.type == "tool_start":
            found.append((event.id, event.name, json.dumps(event.args)))
        elif event.type == "tool_end":
            found.append((event.id, event.result))
    return found


async def test_a_call_of_the_server_is_shown_live_and_saved_and_goes_back_unchanged() -> None:
    seen: list[Any] = []
    agent = Agent(model=MODELS["messages"], client=client([body_of_search()], seen), tools=["web_search"])
    run = agent.prompt("go")
    events = [event async for event in run]
    assert (await run).text == "Two."
    assert shown(events) == [("srv1", "web_search", '{"query": "birds"}'), ("srv1", "Birds https://b.test")]
    assert agent.state.running == ()
    message = (await run).messages[-1]
    saved = [block for block in blocks([message], "not finished") if isinstance(block, ToolCall)]
    assert [(call.name, call.key, call.output, call.state) for call in saved] == [
        ("web_search", "birds", "Birds https://b.test", "")
    ]
    await agent.prompt("and?")
    content = seen[1]["messages"][1]["content"]
    assert [block["type"] for block in content] == ["server_tool_use", "web_search_tool_result", "text"]
    assert content[0]["input"] == {"query": "birds"}
    assert content[1]["content"][0]["encrypted_content"] == "c2VjcmV0"


STATES: list[dict[str, list[Any]]] = json.loads(
    (Path(__file__).parents[1] / "fixtures" / "server_tool_states.json").read_text()
)


@pytest.mark.parametrize("row", STATES)
def test_calls_are_read_from_what_vendors_send(row: dict[str, list[Any]]) -> None:
    found = [call for _, call in server_calls([ai.TextPart("", state) for state in row["states"]])]
    assert [[call.name, call.args, call.result, call.is_error] for call in found] == row["calls"]


@pytest.mark.parametrize(
    "state",
    [
        {"about": {"groundingMetadata": 3}},
        {"about": {"groundingMetadata": {"webSearchQueries": 3, "groundingChunks": [[3]]}}},
        {"about": {"urlContextMetadata": {"urlMetadata": 5}}},
        {"part": {"toolCall": "x"}},
        {"part": {"codeExecutionResult": {"outcome": 3, "output": 3}}},
        {"item": {"type": 5}},
        {"item": {"type": "web_search_call", "action": [], "arguments": 3}},
        {"step": {"type": None}},
        {"type": "x_tool_result", "tool_use_id": 7, "content": 9},
        {"type": "server_tool_use", "id": [], "name": {}, "input": "x"},
    ],
)
def test_what_nobody_can_read_is_shown_as_far_as_it_goes(state: dict[str, Any]) -> None:
    for call in ServerCallReader().read(state):
        assert isinstance(call.name, str)
        assert isinstance(call.id, str)
        assert isinstance(call.args, dict)


RECORDED = [
    *recorded("stream", ("anthropic", "messages")),
    *recorded("stream", ("openai", "responses")),
    *recorded("stream", ("google", "generateContent")),
]
SIGNS = (b"server_tool_use", b'"web_search_call"', b"webSearchQueries", b"urlContextMetadata", b"executableCode")


async def test_recorded_calls_of_servers_are_shown_and_the_next_turn_is_the_same_conversation() -> None:
    count = 0
    for parameter in RECORDED:
        row: dict[str, Any] = parameter.values[0] if parameter is not None else {}
        body = body_of(row)
        if not any(sign in body for sign in SIGNS) or b'"server_tool_use":{"web_search_requests":0' in body:
            continue
        model = {"anthropic": MODELS["messages"], "openai": MODELS["responses"], "google": MODELS["generate_content"]}[
            row["provider"]
        ]
        seen: list[Any] = []
        agent = Agent(model=model, client=client([body], seen), tools=["web_search"])
        run = agent.prompt("go")
        events = [event async for event in run]
        message = (await run).messages[-1]
        starts = [event for event in events if event.type == "tool_start"]
        ends = [event for event in events if event.type == "tool_end"]
        calls = server_calls(message.content if isinstance(message, ai.AssistantMessage) else ())
        assert [event.id for event in starts] == [call.id for _, call in calls], row["file"]
        assert sorted(event.id for event in ends) == sorted(event.id for event in starts)
        saved = [block for block in blocks([message], "not finished") if isinstance(block, ToolCall)]
        assert [block.name for block in saved] == [event.name for event in starts]
        if not starts:
            continue
        count += 1
        assert all(event.name in {"web_search", "web_fetch", "code_execution"} for event in starts)
        states = [part.provider_state for part in message.content if part.type == "text" and part.provider_state]
        again = await client().preview(model, ai.Context(messages=[HI, message, HI]))
        sent_back = json.dumps(again.body)
        for state in states:
            kept = state.get("item") if "content" not in state else None
            kept = kept or (state if "type" in state and state["type"] != "text" else state.get("part"))
            assert kept is None or json.dumps(kept) in sent_back, row["file"]
    assert count >= 8


async def test_a_resumed_agent_has_its_server_tools_with_their_settings(tmp_path: Path) -> None:
    limited = ai.ServerTool("web_search", {"allowed_domains": ["a.test"]})

    def workspace() -> Workspace:
        return Workspace(Config(sessions_dir=tmp_path / "sessions", root=tmp_path), client=client([body_of_search()]))

    async with workspace() as first:
        agent = first.add_agent(
            "ann", model=MODELS["messages"], tools=["web_fetch", limited, *first.toolbox.named(["read"])]
        )
        await agent.prompt("go")
        session = first.session.id
        [searching] = tools_named(["google_search"], {}, first.toolbox)
        assert searching.server == ai.ServerTool("web_search")

        def web_search(query: str) -> str:
            """Search with the notebook's own function."""
            return query

        [own] = tools_named(["web_search"], {"web_search": web_search}, first.toolbox)
        assert (own.name, own.server) == ("web_search", None)
        assert "web_search" in first.toolbox.described()
    async with workspace() as second:
        await second.resume(session)
        again = second.agent("ann")
        assert [
            str(tool.server or tool.name) for tool in again.tools if tool.name in {"web_fetch", "web_search", "read"}
        ] == [
            "web_fetch",
            str(limited),
            "read",
        ]
