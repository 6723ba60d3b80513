"""Blocks of a transcript as HTML with inline styles: no style sheet, no script, nothing from the network.

No text has a colour of its own, so that it is legible on light and dark backgrounds.
"""

from __future__ import annotations

import re
from html import escape

from planck_nb.ai.messages import ImagePart, TextPart, ThinkingPart
from planck_nb.base import markdown
from planck_nb.base.text import encodable, one_line
from planck_nb.jupyter.formatting import bounded, bounded_text
from planck_nb.jupyter.transcript.blocks import Block, CallGroup, Interjection, Notice, ToolCall

IMAGE_CHARACTERS = 2_000_000
"""The largest image that is saved in the notebook, in characters of base64."""

_MUTED = "margin:0 0 8px 0;font-size:12px;line-height:20px;opacity:0.7;text-align:left"
_SUMMARY = "font-size:12px;line-height:24px;cursor:pointer"
_IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def header(agent: str, figures: str) -> str:
    """The first line: the agent, and the outcome, tokens, cost and model as `figures`."""
    return (
        f'<p style="margin:0 0 8px 0;padding:0 0 4px 0;border-bottom:{markdown.RULE};font-size:12px;'
        f'line-height:20px;text-align:left"><b>{escape(encodable(agent))}</b> '
        f'<span style="opacity:0.7">&nbsp;{escape(figures)}</span></p>'
    )


def ending(title: str, sentence: str, *, bad: bool) -> str:
    """The last lines of a run that was stopped, failed, or has no complete answer."""
    line = f"<br>{escape(sentence)}" if sentence else ""
    edge = "2px solid #d32f2f" if bad else "2px solid rgba(128,128,128,0.5)"
    return (
        f'<div style="margin:12px 0 0 0;padding:4px 0 4px 12px;border-left:{edge}"><p style="margin:0;'
        f'font-size:13px;line-height:20px;text-align:left"><b>{escape(title)}</b>{line}</p></div>'
    )


def notice(text: str) -> str:
    """A sentence on a line of its own."""
    return f'<p style="{_MUTED}">{escape(one_line(encodable(text), 500))}</p>'


def block(part: Block) -> str:
    """Render any block."""
    match part:
        case ToolCall():
            return _call(part)
        case CallGroup():
            return _call_group(part)
        case Interjection():
            return (
                f'<blockquote style="{markdown.QUOTE};white-space:pre-wrap;text-align:left">'
                f"{escape(bounded(part.text.strip()))}</blockquote>"
            )
        case Notice():
            return notice(part.text)
        case TextPart():
            return markdown.to_html(bounded_text(part.text))
        case ThinkingPart():
            return (
                f'<details style="margin:0"><summary style="{_SUMMARY}">'
                '<span style="opacity:0.7">Thinking</span></summary><div style="margin:0 0 8px 16px;font-size:13px;'
                'line-height:20px;opacity:0.75;text-align:left;white-space:pre-wrap">'
                f"{escape(bounded(part.text.strip()))}</div></details>"
            )


def _call(call: ToolCall) -> str:
    boxes = [_text_box(name, text) for name, text in call.arguments()]
    if call.output:
        boxes.append(_text_box("result" if boxes else "", call.output))
    images = "".join(_image(image, call.name) for image in call.images)
    return f"{_line(call.name, call.key, call.state, ''.join(boxes))}{images}"


def _call_group(group: CallGroup) -> str:
    lines = "".join(map(_call, group.calls))
    inner = f'<div style="margin:0 0 0 16px">{lines}</div>'
    return _line(f"{len(group.calls)} calls", group.names, group.trouble, inner)


def _line(name: str, key: str, state: str, inner: str) -> str:
    """A line that opens."""
    word = f' <span style="opacity:0.7">&nbsp;<b>{state}</b></span>' if state else ""
    return (
        f'<details style="margin:0;padding:0"><summary style="{_SUMMARY}">'
        f'<code style="{markdown.MONO};font-size:12px;background-color:transparent;padding:0">'
        f"<b>{escape(name)}</b> {escape(key)}</code>{word}</summary>{inner}</details>"
    )


def _text_box(name: str, text: str) -> str:
    label = (
        f'<p style="margin:4px 0 0 16px;font-size:12px;line-height:16px;opacity:0.7;text-align:left">{escape(name)}</p>'
    )
    return f'{label if name else ""}<pre style="margin:4px 0 12px 16px;{markdown.TEXT_BOX}">{escape(text)}</pre>'


def _image(image: ImagePart, tool: str) -> str:
    """An image that is saved in the notebook. One that has only a URL, or is too large, is replaced by a notice."""
    data = image.data or ""
    if image.mime in _IMAGE_TYPES and len(data) <= IMAGE_CHARACTERS and _BASE64.fullmatch(data):
        source = f"data:{image.mime};base64,{data}"
        return (
            f'<p style="margin:4px 0 12px 16px"><img src="{source}" alt="Image from {escape(tool)}" '
            'style="max-width:100%;height:auto"></p>'
        )
    size = f", {len(data) * 3 // 4_000_000:,} MB, too large to be kept here" if len(data) > IMAGE_CHARACTERS else ""
    return notice(f"[image{size}]")
