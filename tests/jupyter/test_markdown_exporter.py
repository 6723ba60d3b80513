"""Notebooks become Markdown in which answers are Markdown, too."""

from __future__ import annotations

from dataclasses import replace
from importlib.metadata import entry_points

import nbformat
from nbformat.v4 import new_code_cell, new_notebook, new_output

from planck_nb.ai.messages import (
    AssistantMessage,
    ImagePart,
    TextPart,
    ToolCallPart,
    ToolResultMessage,
    ToolResultPart,
    Usage,
)
from planck_nb.jupyter.markdown_exporter import PlanckMarkdownExporter
from planck_nb.jupyter.transcript.transcript import Transcript

ANSWER = Transcript(
    "ana", "demo:x", "done", (AssistantMessage((TextPart("It is **42**."),)),), Usage(1, 2), None, None, 1.0
)


def test_an_answer_is_its_markdown_and_other_html_stays() -> None:
    answer = new_output("display_data", data=ANSWER.bundle(), metadata=ANSWER.metadata())
    table = new_output("display_data", data={"text/html": "<table></table>", "text/markdown": "| |"})
    notebook = new_notebook(cells=[new_code_cell("%%planck\nAsk", outputs=[answer, table])])

    text, _ = PlanckMarkdownExporter().from_notebook_node(nbformat.from_dict(notebook))

    assert "It is **42**." in text
    assert "<div style" not in text
    assert "<table></table>" in text
    assert "text/html" in answer.data, "the notebook itself is unchanged"


def test_a_picture_of_a_call_becomes_a_file() -> None:
    call = ToolCallPart("1", "run_python", {"code": "plot()"})
    result = ToolResultPart("1", "run_python", "[image 1x1 png]", images=(ImagePart(b"PNG"),))
    entries = (AssistantMessage((call,)), ToolResultMessage((result,)), AssistantMessage((TextPart("Drawn."),)))
    drawn = replace(ANSWER, entries=entries)
    answer = new_output("display_data", data=drawn.bundle(), metadata=drawn.metadata())
    notebook = new_notebook(cells=[new_code_cell("%%planck\nDraw", outputs=[answer])])

    text, resources = PlanckMarkdownExporter().from_notebook_node(nbformat.from_dict(notebook))

    [(path, content)] = resources["outputs"].items()
    assert content == b"PNG"
    assert f"- `run_python plot()`\n\n  ![image]({path})\n\nDrawn." in text
    assert "[image" not in text.replace(f"![image]({path})", "")


def test_nbconvert_finds_the_exporter() -> None:
    [entry] = entry_points(group="nbconvert.exporters", name="planck-markdown")
    assert entry.load() is PlanckMarkdownExporter
