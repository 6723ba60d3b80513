"""What a run leaves in the notebook: its transcript, readable without kernel, script and style sheet."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from textwrap import indent
from typing import Literal, TypeAlias

from planck_nb.ai.messages import Message, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, Usage
from planck_nb.base.json import JsonObject
from planck_nb.base.text import encodable, one_line
from planck_nb.jupyter import transcript_markdown as markdown
from planck_nb.jupyter.transcript_text import bounded, count, dollars, key_argument, shown_arguments

Outcome: TypeAlias = Literal["done", "stopped", "failed", "cut off"]
"""How a run ended: by itself, by somebody's wish, by an error, or by a stream that broke off."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A tool call with its result, None where none came; `unfinished` is the word for that."""

    part: ToolCallPart
    result: ToolResultPart | None
    unfinished: str

    @property
    def state(self) -> str:
        """Empty for a call that went well."""
        if self.result is None:
            return self.unfinished
        return "failed" if self.result.is_error else ""

    @property
    def key(self) -> str:
        return key_argument(self.part.args)

    def arguments(self) -> Iterator[tuple[str, str]]:
        """The arguments that the key does not already show."""
        if self.part.invalid is not None:
            yield "arguments", bounded(self.part.invalid)
        for name, text in shown_arguments(self.part.args):
            if text != self.key:
                yield name, text


_Block: TypeAlias = TextPart | ThinkingPart | _Call


@dataclass(frozen=True)
class Transcript:
    """The messages of one run, without the prompt, and how it ended.

    `bundle` depends on nothing that changes from one execution to the next: no ids, no times. `cost` is in US dollars
    and `seconds` is how long the run took; `error` is the sentence that a failed or cut off run ended with; `warnings`
    say what was not sent to the model as asked.
    """

    agent: str
    model: str
    outcome: Outcome
    messages: tuple[Message, ...]
    usage: Usage | None
    cost: float | None
    error: str | None
    seconds: float
    warnings: tuple[str, ...] = ()

    def bundle(self) -> dict[str, str]:
        """The transcript by MIME type."""
        return {"text/html": self._html(), "text/markdown": self._markdown(), "text/plain": self._plain()}

    def metadata(self) -> JsonObject:
        """What differs from one execution to the next, for the output's metadata."""
        return {"planck_nb": {"agent": self.agent, "outcome": self.outcome, "seconds": round(self.seconds, 3)}}

    @property
    def _figures(self) -> str:
        tokens = None if self.usage is None else f"{count(self.usage.total_tokens)} tokens"
        cost = None if self.cost is None else dollars(self.cost)
        return " · ".join(encodable(figure) for figure in (self.outcome, tokens, cost, self.model) if figure)

    @property
    def _notices(self) -> list[str]:
        """The warnings, each once and on one line."""
        return [one_line(encodable(warning), 500) for warning in dict.fromkeys(self.warnings)]

    @property
    def _ending(self) -> tuple[str, str] | None:
        """A title and a sentence for a run that did not end by itself."""
        if self.outcome == "done":
            return None
        if self.outcome == "stopped":
            return "Stopped.", "The text so far is kept."
        return encodable(self.error or "The run failed."), "What was received is kept."

    def _blocks(self) -> Iterator[_Block]:
        unfinished = "stopped" if self.outcome == "stopped" else "not finished"
        for index, message in enumerate(self.messages):
            if message.type != "assistant":
                continue
            following = self.messages[index + 1] if index + 1 < len(self.messages) else None
            results = (
                {part.id: part for part in following.content}
                if following is not None and following.type == "tool_result"
                else {}
            )
            for part in message.content:
                if part.type == "tool_call":
                    yield _Call(part, results.get(part.id), unfinished)
                elif part.text.strip():
                    yield part

    def _html(self) -> str:
        head = (
            f'<p style="margin:0 0 8px 0;padding:0 0 4px 0;border-bottom:{markdown.RULE};font-size:12px;'
            f'line-height:20px;text-align:left"><b>{escape(encodable(self.agent))}</b> '
            f'<span style="opacity:0.7">&nbsp;{escape(self._figures)}</span></p>'
        )
        muted = "margin:0 0 8px 0;font-size:12px;line-height:20px;opacity:0.7;text-align:left"
        blocks = [f'<p style="{muted}">{escape(warning)}</p>' for warning in self._notices]
        blocks += [_html_block(block) for block in self._blocks()]
        if self._ending is not None:
            title, sentence = self._ending
            edge = "2px solid rgba(128,128,128,0.5)" if self.outcome == "stopped" else "2px solid #d32f2f"
            blocks.append(
                f'<div style="margin:12px 0 0 0;padding:4px 0 4px 12px;border-left:{edge}"><p style="margin:0;'
                f'font-size:13px;line-height:20px;text-align:left"><b>{escape(title)}</b><br>{escape(sentence)}</p></div>'
            )
        body = "\n".join((head, *blocks))
        return f'<div style="font-size:14px;line-height:1.6;text-align:left;max-width:720px">\n{body}\n</div>'

    def _markdown(self) -> str:
        head = f"**{markdown.to_markdown(one_line(encodable(self.agent)))}** · {markdown.to_markdown(self._figures)}"
        blocks = [f"> {markdown.to_markdown(warning)}" for warning in self._notices]
        blocks += [_markdown_block(block) for block in self._blocks()]
        if self._ending is not None:
            title, sentence = self._ending
            blocks.append(f"> **{markdown.to_markdown(one_line(title, 2_000))}** {sentence}")
        return "\n\n".join((head, *blocks)) + "\n"

    def _plain(self) -> str:
        lines = [f"[{warning}]" for warning in self._notices]
        for block in self._blocks():
            if isinstance(block, _Call):
                state = f": {block.state}" if block.state else ""
                lines.append(f"[{one_line(f'{block.part.name} {block.key}'.strip(), 100)}{state}]")
            elif isinstance(block, TextPart):
                lines.append(block.text.strip())
        if self._ending is not None:
            lines.append(f"[{self._ending[0]}]")
        return encodable("\n".join(lines)) or f"[{self.outcome}]"


def _html_block(block: _Block) -> str:
    if isinstance(block, _Call):
        return _html_call(block)
    if isinstance(block, TextPart):
        return markdown.to_html(encodable(block.text))
    return (
        '<details style="margin:0"><summary style="font-size:12px;line-height:24px;cursor:pointer">'
        '<span style="opacity:0.7">Thinking</span></summary><div style="margin:0 0 8px 16px;font-size:13px;'
        f'line-height:20px;opacity:0.75;text-align:left;white-space:pre-wrap">{escape(bounded(block.text.strip()))}</div></details>'
    )


def _html_call(call: _Call) -> str:
    state = f' <span style="opacity:0.7">&nbsp;<b>{call.state}</b></span>' if call.state else ""
    wells = [_html_well(name, text) for name, text in call.arguments()]
    if call.result is not None and call.result.text:
        wells.append(_html_well("result" if wells else "", bounded(call.result.text)))
    return (
        '<details style="margin:0;padding:0"><summary style="font-size:12px;line-height:24px;cursor:pointer">'
        f'<code style="{markdown.MONO};font-size:12px;background-color:transparent;padding:0">'
        f"<b>{escape(encodable(call.part.name))}</b> {escape(call.key)}</code>{state}</summary>"
        f"{''.join(wells)}</details>"
    )


def _html_well(name: str, text: str) -> str:
    label = (
        f'<p style="margin:4px 0 0 16px;font-size:12px;line-height:16px;opacity:0.7;text-align:left">{escape(name)}</p>'
    )
    return f'{label if name else ""}<pre style="margin:4px 0 12px 16px;{markdown.WELL}">{escape(text)}</pre>'


def _markdown_block(block: _Block) -> str:
    if isinstance(block, _Call):
        return _markdown_call(block)
    if isinstance(block, TextPart):
        return markdown.to_markdown(encodable(block.text).strip())
    quoted = markdown.to_markdown(bounded(block.text.strip())).replace("\n", "\n> ")
    return f"> *Thinking*\n>\n> {quoted}"


def _markdown_call(call: _Call) -> str:
    line = f"- {markdown.code_span(f'{encodable(call.part.name)} {call.key}'.strip())}"
    parts = [f"{line} **{call.state}**" if call.state else line]
    for name, text in call.arguments():
        parts.append(f"{markdown.code_span(name)}\n{markdown.fenced(text)}")
    if call.result is not None and call.result.text:
        parts.append(markdown.fenced(bounded(call.result.text)))
    return indent("\n\n".join(parts), "  ").lstrip()
