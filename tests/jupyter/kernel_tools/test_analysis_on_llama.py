"""An agent on a real llama.cpp server analyses a data frame, in a notebook that nbclient executes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from support.llama import llama_server

pytestmark = pytest.mark.kernel

ANSWER = "Oslo sold most on average: 9.5 units."
SCRIPT: list[dict[str, object]] = [
    {
        "thinking": "I look at the variables first.",
        "calls": [{"name": "inspect_variable", "arguments": {"name": "sales"}}],
    },
    {
        "calls": [
            {"name": "run_python", "arguments": {"code": "means = sales.groupby('city').units.mean()\nmeans"}},
            {"name": "run_python", "arguments": {"code": "import matplotlib.pyplot as plt\nmeans.plot.bar();"}},
        ]
    },
    {"text": ANSWER},
]
DATA = """import pandas as pd
sales = pd.DataFrame({'city': ['Rome', 'Oslo', 'Oslo', 'Bern'], 'units': [3, 9, 10, None]})"""
SEEN = """agent = planck_nb.get_workspace().agents['planck']
parts = [part for e in agent.state.messages if e.message.type == 'tool_result' for part in e.message.content]
[(part.name, part.is_error, len(part.images)) for part in parts]"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with llama_server(tmp_path_factory.mktemp("server"), SCRIPT, window=16_384) as url:
        yield url


@pytest.mark.timeout(240)
def test_an_agent_analyses_a_data_frame_with_a_grant_in_the_cell(server: str, tmp_path: Path) -> None:
    sources = [
        f"%load_ext planck_nb\n%planck model llama_cpp:default --base-url {server}",
        DATA,
        "%%planck --tools kernel --allow run_python\nWhich city sold most on average? Draw it, too.",
        f"import planck_nb\n{SEEN}",
        "means['Oslo'].item(), sorted(means.index)",
        "%planck permissions",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources])
    NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    html = notebook.cells[2].outputs[-1].data["text/html"]
    assert ANSWER in html
    assert "data:image/png;base64," in html
    assert "means.plot.bar();" in html
    assert "9.5" in html
    expected = [("inspect_variable", False, 0), ("run_python", False, 0), ("run_python", False, 1)]
    assert ast.literal_eval(notebook.cells[3].outputs[0].data["text/plain"]) == expected
    assert notebook.cells[4].outputs[0].data["text/plain"] == "(9.5, ['Bern', 'Oslo', 'Rome'])"
    assert "run_python" not in notebook.cells[5].outputs[0].data["text/plain"]
