"""No export runs, loads or navigates anything, whatever was written in whatever place."""

from __future__ import annotations

import json
from collections.abc import Callable
from html import escape
from typing import Any

import pytest
from markdown_it import MarkdownIt
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from support.hostile_session import hostile_session
from support.payloads import COUNT, Findings, payloads

from planck_nb.ai.messages import AssistantMessage, TextPart, UserMessage
from planck_nb.base import markdown
from planck_nb.rendering.plain_output import plain
from planck_nb.sessions import Session, export_session

RENDERERS: dict[str, Callable[[str], str]] = {
    "markdown-it": MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"]).render,
    "nbconvert": markdown2html_mistune,
}


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    info = hostile_session(tmp_path_factory.mktemp("sessions"), payloads())
    return {form: export_session(info, form) for form in ("markdown", "html", "ipynb")}


@pytest.mark.parametrize("renderer", RENDERERS)
@pytest.mark.parametrize("number", range(COUNT))
def test_safe_markdown_is_safe_in_renderers_that_trust_it(number: int, renderer: str) -> None:
    text = payloads()[number]
    render = RENDERERS[renderer]
    following = f"{markdown.to_markdown(text)}\n\n{markdown.fenced(text)}\n\n{markdown.to_markdown('x ' + text)}"
    for safe in (
        markdown.to_markdown(text),
        following,
        "\n".join(f"> {row}" for row in following.split("\n")),
        f"## {markdown.inline(text)}",
        f"**{markdown.inline(text)}**",
        f"*{markdown.inline(text)}*",
        markdown.code_span(text),
    ):
        assert Findings(render(safe)).found == [], safe


@pytest.mark.parametrize("number", range(COUNT))
def test_html_is_safe(number: int) -> None:
    text = payloads()[number]
    assert Findings(markdown.to_html(text)).found == []
    assert Findings(markdown.to_html(f"x\n\n- {text}\n\n> {text}")).found == []


@pytest.mark.slow
@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_markdown_export_is_safe(exports: dict[str, str], renderer: str) -> None:
    assert Findings(RENDERERS[renderer](exports["markdown"])).found == []


@pytest.mark.slow
def test_the_html_export_is_safe_and_loads_nothing(exports: dict[str, str]) -> None:
    head, _, body = exports["html"].partition("<body>")
    assert head.count("<") == 10
    assert "Content-Security-Policy\" content=\"default-src 'none'; img-src data:;" in head
    assert Findings(body.replace("</body></html>", "")).found == []


@pytest.mark.slow
@pytest.mark.parametrize("renderer", RENDERERS)
def test_the_notebook_is_safe(exports: dict[str, str], renderer: str) -> None:
    cells = json.loads(exports["ipynb"])["cells"]
    outputs = [output["data"] for cell in cells for output in cell.get("outputs", ())]
    assert len(outputs) == COUNT
    for data in outputs:
        assert Findings(data["text/html"]).found == []
        assert Findings(RENDERERS[renderer](data["text/markdown"])).found == []
    for cell in cells:
        assert cell["metadata"] == {}
        if cell["cell_type"] == "markdown":
            assert Findings(RENDERERS[renderer](cell["source"])).found == []


def test_code_cells_are_prompts_of_the_user(exports: dict[str, str]) -> None:
    cells = [cell for cell in json.loads(exports["ipynb"])["cells"] if cell["cell_type"] == "code"]
    assert cells[0]["source"] == "%load_ext planck_nb"
    for cell, text in zip(cells[1:], payloads(), strict=True):
        assert cell["source"].startswith(f"%%planck\n{text}\n\n")


def test_nothing_is_lost(exports: dict[str, str]) -> None:
    cells = json.loads(exports["ipynb"])["cells"]
    for cell, text in zip(cells[2:], payloads(), strict=True):
        data = cell["outputs"][0]["data"]
        assert data["text/plain"].count(text.strip()) >= 6
        assert data["text/html"].count(f">{escape(plain(text))}</pre>") >= 2  # arguments and results


async def test_a_prompt_of_another_agent_is_not_a_cell(tmp_path: Any) -> None:
    with Session.create(tmp_path) as session:
        await session.append("worker", UserMessage("do it", sender_id="boss"))
        await session.append("worker", AssistantMessage((TextPart("done"),)))
        await session.append("boss", UserMessage("my own"))
        notebook = json.loads(session.export("ipynb"))
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["source"] for cell in code] == ["%load_ext planck_nb", "%%planck\nmy own"]
    assert "do it" in code[0]["outputs"][0]["data"]["text/plain"]
