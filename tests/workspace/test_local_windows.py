"""Long conversations with local servers: all prompts are answered, and no request is longer than the window."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from support.llama import llama_server
from support.loopback import Exchange, Handler, serving

from planck_nb import Config, Workspace
from planck_nb.agent.context.conversation import sent
from planck_nb.base.errors import PromptTooLongError
from planck_nb.sessions import import_session

WINDOW = 8_192


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("llama"), window=4_096) as url:
        yield url


def workspace(folder: Path) -> Workspace:
    return Workspace(Config.load(environment={}, directory=folder, trust=True))


def ollama(sizes: list[int], characters_per_token: float, *, counts: bool) -> Handler:
    """A server of Ollama that measures each request, and writes no summaries that are shorter than asked for."""

    async def answer(exchange: Exchange) -> None:
        if exchange.path == "/api/show":
            facts = {"model_info": {"general.architecture": "x", "x.context_length": WINDOW}}
            await exchange.answer("200 OK", json.dumps(facts))
            return
        assert exchange.body["options"]["num_ctx"] == WINDOW
        messages = exchange.body["messages"]
        size = int(sum(len(message["content"]) for message in messages) / characters_per_token)
        sizes.append(size)
        last = {"message": {"role": "assistant", "content": "Noted."}, "done": True, "done_reason": "stop"}
        if counts:
            last |= {"prompt_eval_count": size, "eval_count": 2}
        await exchange.answer("200 OK", json.dumps(last) + "\n", "application/x-ndjson")

    return answer


@pytest.mark.slow
@pytest.mark.parametrize(("characters_per_token", "counts"), [(3.6, False), (1.0, True)])
async def test_no_request_is_longer_than_the_window_of_ollama(
    tmp_path: Path, characters_per_token: float, counts: bool
) -> None:
    sizes: list[int] = []
    dice = random.Random(7)
    async with serving(ollama(sizes, characters_per_token, counts=counts)) as host, workspace(tmp_path) as space:
        agent = space.add_agent("main", model=await space.find_model("ollama:qwen", base_url=host.url))
        for turn in range(14):
            if turn == 8:
                await space.fork()
                agent = space.agent("main")
            length = int(dice.uniform(0.05, 0.5) * WINDOW * characters_per_token)
            prompt = f"Prompt {turn} tells about the weather in many words. " * (length // 50 + 1)
            assert (await agent.prompt(prompt[:length])).text == "Noted."
        assert agent.model.context_window == WINDOW
        session = space.session.id
        await space.resume()  # another session, so that this one can be resumed
        await space.resume(session)
        assert (await space.agent("main").prompt("and now?")).text == "Noted."
    assert max(sizes) <= WINDOW


async def test_a_prompt_that_ollama_would_cut_is_set_aside_without_being_sent(tmp_path: Path) -> None:
    sizes: list[int] = []
    async with serving(ollama(sizes, 4.0, counts=True)) as host, workspace(tmp_path) as space:
        agent = space.add_agent("main", model=await space.find_model("ollama:qwen", base_url=host.url))
        with pytest.raises(PromptTooLongError, match="8,192 tokens"):
            await agent.prompt("far too long " * 5_000)
        assert sizes == []
        await space.fork()
        await space.agent("main").prompt("and now?")
        agent = space.agent("main")
        assert [message.text for message in agent.request().messages if message.type == "user"] == ["and now?"]
        assert agent.state.messages[0].message.text.startswith("far too long")  # type: ignore[union-attr]


@pytest.mark.parametrize("way", ["resume", "import", "after a summary"])
async def test_a_prompt_that_was_set_aside_is_not_sent_after_a_resume(tmp_path: Path, way: str) -> None:
    sizes: list[int] = []
    async with serving(ollama(sizes, 4.0, counts=True)) as host:
        async with workspace(tmp_path) as space:
            agent = space.add_agent("main", model=await space.find_model("ollama:qwen", base_url=host.url))
            await agent.prompt("hello")
            with pytest.raises(PromptTooLongError):
                await agent.prompt("far too long " * 5_000)
            if way == "after a summary":
                await agent.prompt("and then?")
                await agent._recorder.append_summary("So far.", lambda now: [entry.id for entry in sent(now)[-2:]])
            before = list(agent.request().messages)
            assert "far too long" not in str(before)
            session = space.session.info
            exported = space.session.export("jsonl")
        if way == "import":
            (tmp_path / "exported.jsonl").write_text(exported)
            session = import_session(tmp_path / "elsewhere", tmp_path / "exported.jsonl")
            config = Config.load(environment={}, directory=tmp_path, trust=True)
            space = Workspace(replace(config, sessions_dir=tmp_path / "elsewhere"))
        else:
            space = workspace(tmp_path)
        async with space:
            await space.resume(session.id, trust=way == "import")
            agent = space.agent("main")
            assert (agent.status, agent.state.queue) == ("idle", ()), "it is no prompt without an answer"
            assert list(agent.request().messages) == before
            assert "far too long" in str(space.session.messages())
            sizes.clear()
            assert (await agent.prompt("and now?")).text == "Noted."
            assert len(sizes) == 1
            assert sizes[0] < 1_000


async def test_every_prompt_to_llama_cpp_is_answered_also_after_fork_and_resume(tmp_path: Path, llama: str) -> None:
    """Its tokenizer needs one token for each character, four times as many as estimated; its summaries are empty."""
    dice = random.Random(3)

    def prompt() -> str:
        return ("The weather in Paris matters. " * 100)[: dice.randint(1_400, 2_200)]

    async with workspace(tmp_path) as space:
        agent = space.add_agent("main", model=await space.find_model("llama_cpp:default", base_url=llama))
        assert agent.model.context_window == 4_096
        for _ in range(2):
            assert "get_weather" in (await agent.prompt(prompt())).text
        await space.fork()
        assert space.agent("main").model.context_window == 4_096
        assert "get_weather" in (await space.agent("main").prompt(prompt())).text
        session = space.session.id
    async with workspace(tmp_path) as space:
        await space.resume(session)
        agent = space.agent("main")
        assert agent.model.context_window == 4_096
        assert "get_weather" in (await agent.prompt(prompt())).text
        with pytest.raises(PromptTooLongError, match="4,096"):
            await agent.prompt("The weather in Paris matters. " * 200)
        assert "get_weather" in (await agent.prompt("And in Rome?")).text
