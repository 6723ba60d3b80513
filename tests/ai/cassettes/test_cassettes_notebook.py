"""A notebook recorded against a real llama.cpp server, and run again when that is gone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.kernel import Cell, running_kernel
from support.llama import llama_server

pytestmark = pytest.mark.kernel

TOOLS = """def get_weather(city: str, note: str = '') -> str:
    'Weather of a city.'
    return f'{city}: sun, {note}'

def get_time(city: str) -> str:
    'Local time of a city.'
    return f'12:00 in {city}'"""

PARALLEL = """import asyncio
from planck_nb import Workspace, ai
workspace = Workspace()
model = ai.get_model('llama_cpp', 'default', base_url='@SERVER')
agents = [workspace.add_agent(name, model=model, tools=[get_weather, get_time]) for name in ('ann', 'bob')]
results = await asyncio.gather(*(
    agent.prompt(f'I am {agent.name}. What is the weather in Paris and the time in Rome?') for agent in agents
))
for result in results:
    print([call.args for message in result.messages if message.type == 'assistant' for call in message.tool_calls])
    print(result.text, result.usage.output_tokens)"""

ABORTED = """agent = workspace.add_agent('eve', model=model, tools=[get_weather, get_time])
run = agent.prompt('What is the weather in Paris and the time in Rome?')
async for event in run:
    if event.type in ('text_delta', 'thinking_delta'):
        await agent.abort()
        break
result = await run
reply = [message for message in result.messages if message.type == 'assistant'][-1]  # a fast server has called tools
print(result.aborted, reply.type, repr(reply.text), repr(getattr(reply, 'thinking', '')))
await workspace.close()"""

CELLS = (
    "%load_ext planck_nb",
    "%planck model llama_cpp:default --base-url @SERVER",
    TOOLS,
    "%%planck --tools get_weather,get_time\nWhat is the weather in Paris and the time in Rome?",
    "%%planck sql\nSELECT role, text FROM messages ORDER BY id",
    PARALLEL,
    ABORTED,
)


def shown(cell: Cell) -> str:
    """What a cell showed, without the ids of widgets, which are random."""
    kept: list[Any] = [
        {kind: data for kind, data in output["data"].items() if "widget" not in kind} for output in cell.outputs
    ]
    return json.dumps([cell.status, cell.text, cell.error, kept], indent=1)


def run_notebook(folder: Path, tape: Path, mode: str, server: str) -> list[str]:
    """What the cells of the notebook show in a kernel of their own."""
    folder.mkdir()
    with running_kernel(folder, PLANCK_NB_CASSETTE=str(tape), PLANCK_NB_CASSETTE_MODE=mode) as kernel:
        return [shown(kernel.run(source.replace("@SERVER", server))) for source in CELLS]


@pytest.mark.timeout(240)
def test_a_recorded_notebook_shows_the_same_without_the_server(tmp_path: Path) -> None:
    tape = tmp_path / "notebook.jsonl"
    (tmp_path / "llama").mkdir()
    with llama_server(tmp_path / "llama") as server:
        live = run_notebook(tmp_path / "live", tape, "record", server)
    assert "It is sunny in Paris, and 12:00 in Rome." in live[3]
    assert live[5].count("It is sunny in Paris, and 12:00 in Rome.") == 2
    assert "True assistant" in live[6]
    assert [json.loads(cell)[0] for cell in live] == ["ok"] * len(CELLS)
    recorded = tape.read_bytes()
    ends = [json.loads(line)["end"] for line in recorded.splitlines()]
    # A server may drop an idle connection at the moment when it is used: the request is then sent again.
    *answered, aborted = (end for end in ends if end != "ProviderConnectionError")
    assert aborted == "closed"
    assert answered in (["eof"] * 6, ["eof"] * 7)  # a fast server has called tools before the abort
    assert run_notebook(tmp_path / "replay", tape, "replay", server) == live
    assert tape.read_bytes() == recorded


@pytest.mark.timeout(180)
def test_the_verb_switches_the_mode_and_reports_it(llama: str, tmp_path: Path) -> None:
    ask = "answer = %planck -q --new -t get_weather,get_time What is the weather in Paris and the time in Rome?"
    with running_kernel(tmp_path) as kernel:
        kernel.run("%load_ext planck_nb")
        assert kernel.run("%planck cassette").plain == "No cassette: models are asked and nothing is recorded."
        kernel.run(TOOLS)
        kernel.run(f"%planck model llama_cpp:default --base-url {llama}")
        missing = kernel.run("%planck cassette replay none.jsonl").error
        assert missing.startswith("CassetteError: There is no cassette none.jsonl; record it first")
        assert kernel.run("%planck cassette").plain.startswith("No cassette")
        assert "are recorded in my tape.jsonl" in kernel.run("%planck cassette record 'my tape.jsonl'").plain
        kernel.run(ask)
        said = kernel.run("answer.text").plain
        assert "12:00 in Rome" in said
        # From here on the model is asked at an address where nothing answers.
        kernel.run("%planck model llama_cpp:default --base-url http://127.0.0.1:9")
        replaying = kernel.run("%planck cassette replay my tape.jsonl").plain
        # One for the calls, or one for each, and one for the text.
        assert re.fullmatch(r"Answers come from my tape\.jsonl \([23] answers\); no model is asked\.", replaying)
        kernel.run(ask)
        assert kernel.run("answer.text").plain == said
        missed = kernel.run("%planck something else")
        assert "contains no answer to this request to llama_cpp:default; the nearest" in missed.error
        either = kernel.run("%planck cassette auto my tape.jsonl").plain
        assert either.startswith("Answers come from my tape.jsonl if it has them")
        kernel.run(ask)
        assert kernel.run("answer.text").plain == said
        assert kernel.run("%planck cassette off").plain.startswith("No cassette")
        assert "No server answers" in kernel.run(ask).error
        assert "does not accept 'recrod'; write `%planck cassette [" in kernel.run("%planck cassette recrod").error
        assert "`%planck cassette record` needs FILE" in kernel.run("%planck cassette record").error
