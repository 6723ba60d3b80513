"""The context window that a local server reports, in the agent and in the stored session."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.loopback import Exchange, Handler, serving
from support.wire import CHAT_HELLO

from planck_nb import Config, Workspace, ai
from planck_nb.ai.model_lookup.model_source import find_again, model_source


def local_server(window: Callable[[], int]) -> Handler:
    """A server of llama.cpp and of Ollama with one model, whose window may change."""

    async def answer(exchange: Exchange) -> None:
        match exchange.path:
            case "/props":
                await exchange.answer("200 OK", json.dumps({"default_generation_settings": {"n_ctx": window()}}))
            case "/api/show":
                facts = {"model_info": {"general.architecture": "x", "x.context_length": window()}}
                await exchange.answer("200 OK", json.dumps(facts))
            case "/api/chat":
                line = {"message": {"role": "assistant", "content": "Hi"}, "done": True, "done_reason": "stop"}
                await exchange.answer("200 OK", json.dumps(line) + "\n", "application/x-ndjson")
            case _:
                await exchange.head()
                for chunk in CHAT_HELLO:
                    await exchange.send(chunk)
                await exchange.end()

    return answer


def workspace(folder: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=folder, trust=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama_cpp:default", "ollama:qwen"])
async def test_the_window_of_a_local_model_is_that_of_its_server_now(tmp_path: Path, name: str) -> None:
    size = 4_096
    async with serving(local_server(lambda: size)) as host:
        async with workspace(tmp_path) as first:
            while (model := await first.find_model(name, base_url=host.url)).context_window is None:
                pass  # a busy machine answered too late
            agent = first.add_agent("main", model=model)
            assert agent.model.context_window == size
            await agent.prompt("hi")
            await first.fork()
            assert first.agent("main").model.context_window == size
            await first.agent("main").prompt("hi")
            session = first.session.id
        size = 2_048
        async with workspace(tmp_path) as second:
            await second.resume(session)
            assert second.agent("main").model.context_window == size
            await second.agent("main").prompt("hi")
            rewound = second.agent("main").state.messages[2].id
            await second.rewind(rewound)
            assert second.agent("main").model.context_window == size
    async with workspace(tmp_path) as third:  # whose server is down
        await third.resume(session)
        model = third.agent("main").model
        assert model.unavailable is None
        assert model.context_window == size
        assert find_again(str(model), model_source(model)).context_window == size


@pytest.mark.parametrize("name", ["llama_cpp:default", "ollama:qwen"])
async def test_an_agent_in_python_learns_the_window_with_its_first_turn(tmp_path: Path, name: str) -> None:
    async with serving(local_server(lambda: 4_096)) as host, workspace(tmp_path) as space:
        agent = space.add_agent("main", model=ai.get_model(name, base_url=host.url))
        await agent.prompt("hi")
        assert agent.model.context_window == 4_096
        if name.startswith("ollama"):
            assert host.exchanges[-1].body["options"]["num_ctx"] == 4_096


async def test_a_window_that_was_set_by_hand_stays(tmp_path: Path) -> None:
    model = ai.get_model("ollama:qwen")
    async with serving(local_server(lambda: 4_096)) as host, workspace(tmp_path) as space:
        agent = space.add_agent("main", model=replace(model, base_url=host.url, context_window=1_000))
        await agent.prompt("hi")
        assert agent.model.context_window == 1_000
        assert [exchange.path for exchange in host.exchanges] == ["/api/chat"]
