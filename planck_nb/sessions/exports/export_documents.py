"""Sessions as documents for readers: Markdown, HTML and notebooks.

What models, tools and prompts wrote is shown and never executed: no document runs a script, loads anything from the
network, or contains a link to anything but a web page or a mail address.

Very long texts are cut and very large pictures left out, as in saved answers; the JSONL export has everything.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC
from functools import cached_property, partial
from html import escape

from planck_nb.ai.messages import Message, TextPart, UserPart
from planck_nb.base import markdown
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable
from planck_nb.rendering import block_html
from planck_nb.rendering.block_text import markdown_block, markdown_prompt, plain_block, plain_prompt
from planck_nb.rendering.blocks import Block, reply_blocks
from planck_nb.sessions.database.paging import Row
from planck_nb.sessions.directory import SessionInfo

_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;color-scheme:light dark}"
    "h2{font-size:1rem;margin:1.5rem 0 0}img{max-width:100%}"
)
_NOTHING_LOADED = (
    '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
    "style-src 'unsafe-inline'; form-action 'none'; base-uri 'none'\">"
)
_TASKS = "Tasks between agents"


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

    def entries(self) -> Iterator[_Entry]:
        """Yield the messages with something to show.

        Results are shown with their calls, and one author's messages in a row are together.
        """
        conversations: dict[str, list[Message]] = {}
        places: list[int] = []
        for row in self.rows:
            conversation = conversations.setdefault(row.agent_id, [])
            places.append(len(conversation))
            conversation.append(row.message)
        last: _Entry | None = None
        for row, place in zip(self.rows, places, strict=True):
            prompt, blocks = _parts_of(conversations[row.agent_id], place)
            entry = _Entry(row, self._speaker(row), prompt, blocks)
            if last is not None and blocks and last.blocks and entry.speaker == last.speaker:
                last = replace(last, blocks=[*last.blocks, *blocks])
            elif prompt or blocks:
                if last is not None:
                    yield last
                last = entry
        if last is not None:
            yield last

    def _speaker(self, row: Row) -> str:
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
class _Entry:
    """A message in a document: a prompt's parts or a reply's blocks."""

    row: Row
    speaker: str
    prompt: Sequence[UserPart]
    blocks: Sequence[Block]

    @property
    def is_prompt(self) -> bool:
        """Whether a person or a program prompted the agent, and not another agent."""
        return self.row.message.type == "user" and self.row.message.sender_id is None

    def html(self) -> str:
        return "\n".join([*map(block_html.prompt, self.prompt), *map(block_html.block, self.blocks)])

    def markdown(self) -> str:
        texts = [*map(markdown_prompt, self.prompt), *map(partial(markdown_block, images=True), self.blocks)]
        return "\n\n".join(texts)

    def plain(self) -> str:
        return "\n".join(filter(None, [*map(plain_prompt, self.prompt), *map(plain_block, self.blocks)]))


def _parts_of(conversation: Sequence[Message], place: int) -> tuple[Sequence[UserPart], Sequence[Block]]:
    message = conversation[place]
    match message.type:
        case "user":
            return [part for part in message.content if part.type != "text" or part.text], ()
        case "summary":
            return (), [TextPart(message.text)] if message.text else []
        case _:
            return (), list(reply_blocks(conversation, place))


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


def _markdown(content: ExportContent) -> Iterator[str]:
    yield f"# {markdown.inline(content.session.name)}\n\n{content.about}"
    for entry in content.entries():
        yield f"\n\n## {markdown.inline(entry.speaker)}\n\n{entry.markdown()}"
    yield "".join(f"\n\n{part}" for part in _markdown_tasks(content)) + "\n"


def _markdown_tasks(content: ExportContent) -> list[str]:
    """The tasks that agents gave each other, as a section; nothing if there are none."""
    items = "\n".join(f"- {markdown.inline(task)}" for task in content.tasks)
    return [f"## {_TASKS}", items] if items else []


def _html(content: ExportContent) -> Iterator[str]:
    name = escape(content.session.name)
    yield (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8">{_NOTHING_LOADED}'
        f"<title>{name}</title><style>{_STYLE}</style></head>\n<body><h1>{name}</h1><p>{escape(content.about)}</p>\n"
    )
    for entry in content.entries():
        yield f'<article class="{entry.row.message.type}"><h2>{escape(entry.speaker)}</h2>{entry.html()}</article>\n'
    if content.tasks:
        items = "".join(f"<li>{escape(task)}</li>" for task in content.tasks)
        yield f'<section class="delegations"><h2>{_TASKS}</h2><ul>{items}</ul></section>\n'
    yield "</body></html>\n"


def _notebook(content: ExportContent) -> Iterator[str]:
    """Make a notebook with a cell for each prompt, whose output is the conversation that followed.

    Code cells contain prompts of the user and nothing that a model wrote. Outputs have HTML, which notebooks and
    converters prefer, because renderers of Markdown differ.
    """
    all_entries = list(content.entries())
    prompted = next((entry.row.agent_id for entry in all_entries if entry.is_prompt), None)
    cells = [
        _cell("markdown", f"# {markdown.inline(content.session.name)}\n\n{content.about}"),
        _cell("code", "%load_ext planck_nb", outputs=[]),
    ]
    answer: list[_Entry] = []
    answers = [answer]
    for entry in all_entries:
        if entry.row.agent_id == prompted and entry.is_prompt:
            answer = []
            answers.append(answer)
            texts = [part.text if part.type == "text" else markdown_prompt(part) for part in entry.prompt]
            cells.append(_cell("code", "\n\n".join(["%%planck", *texts]).replace("\n\n", "\n", 1), outputs=[]))
        else:
            answer.append(entry)
    for cell, entries in zip(cells[1:], answers, strict=True):
        cell["outputs"] = [_output(entries)] if entries else []
    if content.tasks:
        cells.append(_cell("markdown", "\n\n".join(_markdown_tasks(content))))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    yield from json.JSONEncoder(ensure_ascii=False, indent=1).iterencode(notebook)
    yield "\n"


def _output(entries: Iterable[_Entry]) -> JsonObject:
    html, texts, plain = [], [], []
    for entry in entries:
        html += [f"<p><b>{escape(entry.speaker)}</b></p>", entry.html()]
        texts += [f"**{markdown.inline(entry.speaker)}**", entry.markdown()]
        plain += [entry.speaker, entry.plain()]
    data = {
        "text/html": f'<div style="text-align:left;max-width:720px">\n{chr(10).join(html)}\n</div>',
        "text/markdown": "\n\n".join(texts),
        "text/plain": "\n\n".join(filter(None, plain)),
    }
    return {
        "output_type": "display_data",
        "data": {kind: encodable(text) for kind, text in data.items()},
        "metadata": {},
    }


def _cell(kind: str, source: str, *, outputs: list[JsonObject] | None = None) -> JsonObject:
    cell: JsonObject = {"cell_type": kind, "metadata": {}, "source": source}
    return cell if outputs is None else {**cell, "execution_count": None, "outputs": outputs}


WRITERS: Mapping[str, Callable[[ExportContent], Iterator[str]]] = {
    "markdown": _markdown,
    "html": _html,
    "ipynb": _notebook,
}
"""The functions that write documents, by format."""
