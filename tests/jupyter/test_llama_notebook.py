"""A notebook that talks to a real llama.cpp server, run as `jupyter execute` runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

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
    path = tmp_path / "llama.ipynb"
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    command = [sys.executable, "-m", "jupyter", "execute", "--inplace", str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3_000:]
    saved = nbformat.read(path, as_version=4)
    live, transcript = saved.cells[3].outputs
    assert dict(live.data) == {"text/html": "", "text/plain": ""}  # a program sees no live view
    html = transcript.data["text/html"]
    for said in ("Thinking", "get_weather", "get_time", "It is sunny in Paris, and 12:00 in Rome."):
        assert said in html
    assert "Paris: sun, héllo 🎉" in html  # the tool's own result, from the arguments that the model wrote
    assert "12:00 in Rome" in html
    table = saved.cells[4].outputs[0].data["text/plain"]
    assert [line.split()[1] for line in table.splitlines()[1:]] == ["user", "assistant", "tool_result", "assistant"]
    page = subprocess.run(
        [sys.executable, "-m", "jupyter", "nbconvert", "--to", "html", "--stdout", str(path)],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert "It is sunny in Paris, and 12:00 in Rome." in page
