"""Sessions as documents for readers: Markdown, HTML and notebooks.

What models, tools and prompts wrote is shown and never executed: no document runs a script, loads anything from the
network, or contains a link to anything but a web page or a mail address.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from functools import cached_property
from html import escape

from planck_nb.ai.messages import FilePart, ImagePart, Message, Part, VideoPart
from planck_nb.base import markdown
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.sessions.database.paging import Row
from planck_nb.sessions.directory import SessionInfo

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere;font:inherit}"
    ".call pre,.result pre{font:14px/1.4 ui-monospace,monospace}"
    ".thinking{opacity:.7;font-style:italic}h2{font-size:1rem;margin:1.5rem 0 0}img{max-width:100%}"
)
_NOTHING_LOADED = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'\">"
)
_TASKS = "Tasks between agents"
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True)
class ExportContent:
    """What a document shows of a session.

    Args:
        session: The session.
        rows: Its messages.
        names: The names of agents by their ids; other agents are shown by their ids.
        tasks: A line of plain text for each task that an agent gave to another one.
    """

    session: SessionInfo
    rows: Sequence[Row]
    names: Mapping[str, str]
    tasks: Sequence[str] = ()

    def speaker(self, row: Row) -> str:
        """A heading for a message: who wrote it and, if there are several agents, in whose conversation it is."""
        who = _author(row.message)
        return f"{who} · {self.names.get(row.agent_id, row.agent_id)}" if self._has_several_agents else who

    @cached_property
    def _has_several_agents(self) -> bool:
        return len({row.agent_id for row in self.rows}) > 1

    @property
    def about(self) -> str:
        """A sentence about the session."""
        return f"Session {self.session.id}, begun {self.session.created.astimezone(UTC):%Y-%m-%d %H:%M} UTC."


@dataclass(frozen=True, slots=True)
class _ExportBlock:
    """A part of a message to show. `kind` is the part's type, or "error"; `label` is a heading or empty."""

    kind: str
    text: str
    label: str = ""
    media: ImagePart | FilePart | VideoPart | None = None

    @property
    def image(self) -> str:
        """The address of an image that the document contains; empty for everything else."""
        media = self.media
        if media is None or media.type != "image" or media.mime not in _IMAGE_TYPES:
            return ""
        return f"data:{media.mime};base64,{media.data}" if _BASE64.fullmatch(media.data or "") else ""


def _blocks(message: Message) -> Iterator[_ExportBlock]:
    for part in message.content:
        yield from _part_blocks(part)
    if message.type == "assistant" and message.error:
        yield _ExportBlock("error", message.error, "Error")


def _part_blocks(part: Part) -> Iterator[_ExportBlock]:
    match part.type:
        case "text" | "thinking":
            if part.text:
                yield _ExportBlock(part.type, part.text)
        case "tool_call":
            args = part.invalid if part.invalid is not None else json.dumps(part.args, ensure_ascii=False, indent=2)
            yield _ExportBlock("call", args, f"{part.name} called")
        case "tool_result":
            yield _ExportBlock("result", part.text, f"{part.name} {'failed' if part.is_error else 'returned'}")
            for image in part.images:
                yield from _part_blocks(image)
        case "image":
            yield _ExportBlock("media", part.url or "image", media=part)
        case "video":
            yield _ExportBlock("media", part.url or "video", media=part)
        case "file":
            yield _ExportBlock("media", part.url or part.name, media=part)


def _author(message: Message) -> str:
    match message.type:
        case "assistant":
            return ":".join(filter(None, (message.provider, message.model))) or "Model"
        case "user" if message.sender_id is not None:
            return f"{(message.purpose or 'message').capitalize()} from {message.sender_name or message.sender_id}"
        case "user":
            return "User"
        case "tool_result":
            return "Tools"
        case "summary":
            return "Summary"


def _markdown(content: ExportContent) -> str:
    parts = [f"# {markdown.inline(content.session.name)}", content.about]
    for row in content.rows:
        parts += [f"## {markdown.inline(content.speaker(row))}", *map(_markdown_block, _blocks(row.message))]
    return "\n\n".join([*parts, *_markdown_tasks(content)]) + "\n"


def _markdown_tasks(content: ExportContent) -> list[str]:
    """The tasks that agents gave each other, as a section; nothing if there are none."""
    items = "\n".join(f"- {markdown.inline(task)}" for task in content.tasks)
    return [f"## {_TASKS}", items] if items else []


def _markdown_block(block: _ExportBlock) -> str:
    if block.kind == "text":
        return markdown.to_markdown(block.text)
    if block.kind == "thinking":
        return "\n".join(f"> {line}".rstrip() for line in markdown.to_markdown(block.text).splitlines())
    if block.media is not None:
        return f"![image]({block.image})" if block.image else f"*{markdown.inline(block.text)}*"
    fence = markdown.fence_of(block.text)
    language = "json" if block.kind == "call" else ""
    return f"**{markdown.inline(block.label)}**\n\n{fence}{language}\n{block.text}\n{fence}"


def _html(content: ExportContent) -> str:
    articles = []
    for row in content.rows:
        blocks = "".join(map(_html_block, _blocks(row.message)))
        title = escape(content.speaker(row))
        articles.append(f'<article class="{row.message.type}"><h2>{title}</h2>{blocks}</article>\n')
    if content.tasks:
        items = "".join(f"<li>{escape(task)}</li>" for task in content.tasks)
        articles.append(f'<section class="delegations"><h2>{_TASKS}</h2><ul>{items}</ul></section>\n')
    name = escape(content.session.name)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{_NOTHING_LOADED}'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n<body><h1>{name}</h1><p>{escape(content.about)}</p>\n{''.join(articles)}</body></html>\n"
    )


def _html_block(block: _ExportBlock) -> str:
    if block.image:
        return f'<p><img alt="image" src="{escape(block.image)}"></p>'
    label = f"<strong>{escape(block.label)}</strong>" if block.label else ""
    return f'<div class="{block.kind}">{label}<pre>{escape(block.text)}</pre></div>'


def _notebook(content: ExportContent) -> str:
    """Make a notebook with a cell for each prompt, whose output is the conversation that followed.

    Code cells contain prompts of the user and nothing that a model wrote. Outputs have HTML, which notebooks and
    converters prefer, because renderers of Markdown differ.
    """
    prompted = next((row.agent_id for row in content.rows if _is_prompt(row)), None)
    cells = [
        _cell("markdown", f"# {markdown.inline(content.session.name)}\n\n{content.about}"),
        _cell("code", "%load_ext planck_nb", outputs=[]),
    ]
    answer: list[_OutputEntry] = []
    answers = [answer]
    for row in content.rows:
        blocks = list(_blocks(row.message))
        if row.agent_id == prompted and _is_prompt(row):
            answer = []
            answers.append(answer)
            texts = [block.text if block.kind == "text" else _markdown_block(block) for block in blocks]
            cells.append(_cell("code", "\n\n".join(["%%planck", *texts]).replace("\n\n", "\n", 1), outputs=[]))
        else:
            answer.append(_OutputEntry(content.speaker(row), blocks))
    for cell, entries in zip(cells[1:], answers, strict=True):
        cell["outputs"] = [_output(entries)] if entries else []
    if content.tasks:
        cells.append(_cell("markdown", "\n\n".join(_markdown_tasks(content))))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"


def _is_prompt(row: Row) -> bool:
    """Whether a person or a program prompted the agent, and not another agent."""
    return row.message.type == "user" and row.message.sender_id is None


@dataclass(frozen=True, slots=True)
class _OutputEntry:
    """A message in an output of a notebook."""

    speaker: str
    blocks: list[_ExportBlock]


def _output(entries: Iterable[_OutputEntry]) -> JsonObject:
    html, texts, plain = [], [], []
    for entry in entries:
        html += [f"<p><b>{escape(entry.speaker)}</b></p>", *map(_output_block, entry.blocks)]
        texts += [f"**{markdown.inline(entry.speaker)}**", *map(_markdown_block, entry.blocks)]
        plain += [entry.speaker, *("\n".join(filter(None, (block.label, block.text))) for block in entry.blocks)]
    data = {
        "text/html": f'<div style="text-align:left;max-width:720px">\n{chr(10).join(html)}\n</div>',
        "text/markdown": "\n\n".join(texts),
        "text/plain": "\n\n".join(plain),
    }
    return {
        "output_type": "display_data",
        "data": {kind: encodable(text) for kind, text in data.items()},
        "metadata": {},
    }


def _output_block(block: _ExportBlock) -> str:
    """A block as HTML with inline styles, as an output must have."""
    match block.kind:
        case "text":
            return markdown.to_html(block.text)
        case "thinking":
            return f'<blockquote style="{markdown.QUOTE};white-space:pre-wrap">{escape(block.text)}</blockquote>'
        case "media" if block.image:
            return f'<p><img alt="image" src="{escape(block.image)}" style="max-width:100%;height:auto"></p>'
        case "media":
            return f"<p><em>{escape(block.text)}</em></p>"
    return f'<p><b>{escape(block.label)}</b></p>\n<pre style="{markdown.TEXT_BOX}">{escape(block.text)}</pre>'


def _cell(kind: str, source: str, *, outputs: list[JsonObject] | None = None) -> JsonObject:
    cell: JsonObject = {"cell_type": kind, "metadata": {}, "source": source}
    return cell if outputs is None else {**cell, "execution_count": None, "outputs": outputs}


WRITERS: Mapping[str, Callable[[ExportContent], str]] = {
    "markdown": _markdown,
    "html": _html,
    "ipynb": _notebook,
}
"""The functions that write a session as a document, by format."""
