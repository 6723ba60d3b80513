"""A notebook that talks to a real llama.cpp server, executed as `jupyter execute` does it."""

from __future__ import annotations

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

TOOLS = """def get_weather(city: str, note: str = '') -> str:
    'Weather of a city.'
    return f'{city}: sun, {note}'

def get_time(city: str) -> str:
    'Local time of a city.'
    return f'12:00 in {city}'"""
ASK = "%%planck --tools get_weather,get_time\nWhat is the weather in Paris and the time in Rome?"
HISTORY = "%%planck sql\nSELECT role, text FROM messages ORDER BY id"


@pytest.mark.timeout(180)
def test_thinking_parallel_calls_and_answer(llama: str, tmp_path: Path) -> None:
    choose = f"%planck model llama_cpp:default --base-url {llama}"
    cells = [nbformat.v4.new_code_cell(source) for source in ("%load_ext planck_nb", choose, TOOLS, ASK, HISTORY)]
    saved = nbformat.v4.new_notebook(cells=cells)
    NotebookClient(saved, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    live, transcript = saved.cells[3].outputs
    assert dict(live.data) == {"text/html": "", "text/plain": ""}  # a program sees no live view
    html = transcript.data["text/html"]
    for said in ("Thinking", "get_weather", "get_time", "It is sunny in Paris, and 12:00 in Rome."):
        assert said in html
    assert "Paris: sun, héllo 🎉" in html  # the tool's own result, from the arguments that the model wrote
    assert "12:00 in Rome" in html
    table = saved.cells[4].outputs[0].data["text/plain"]
    assert [line.split()[1] for line in table.splitlines()[1:]] == ["user", "assistant", "tool_result", "assistant"]
