"""Transcript blocks as HTML with inline styles only.

It has neither style sheet nor script, and loads nothing from the network.

Texts have the page's colour, so they are legible on light and dark backgrounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from planck_nb.agent.preview_types import Preview, TablePreview
from planck_nb.ai.messages import ImagePart, TextPart, ThinkingPart, UserPart
from planck_nb.base import markdown
from planck_nb.base.markdown import escaped
from planck_nb.base.safe_html import static_html
from planck_nb.base.text import encodable, one_line
from planck_nb.rendering.blocks import YOU, Block, CallGroup, Interjection, Notice, ToolCall
from planck_nb.rendering.diff_lines import ShownDiff
from planck_nb.rendering.formatting import bounded, bounded_text
from planck_nb.rendering.shown_images import image_notice, image_source

PREVIEW_CHARACTERS = 200_000
"""Longest saved HTML for an object."""

_MINUTE = 60
_FAILED = "border-left:2px solid #d32f2f"
_DIFF_STYLES = {
    "-": ";background-color:rgba(211,47,47,0.12)",
    "+": ";background-color:rgba(56,142,60,0.14)",
    "@": ";opacity:0.7",
}
_EDGE = "20px"
"""Left edge for texts, as in the live view.

The reader's place stays when the run ends.
"""

_MUTED = "margin:0 0 8px 0;font-size:12px;line-height:20px;opacity:0.7;text-align:left"
SUMMARY = "font-size:12px;line-height:24px;cursor:pointer"


def header(agent: str, figures: str) -> str:
    """Return the first line: the agent, and the run's `figures`."""
    return (
        f'<p style="margin:0 0 8px 0;padding:0 0 4px 0;border-bottom:{markdown.RULE};font-size:12px;'
        f'line-height:20px;text-align:left"><b>{escaped(encodable(agent))}</b> '
        f'<span style="opacity:0.7">&nbsp;{escaped(figures)}</span></p>'
    )


def ending(title: str, sentence: str, *, bad: bool) -> str:
    """Return the last lines for an unusual end.

    That is a stop, a failure or an incomplete answer.
    """
    line = f"<br>{_with_code(sentence)}" if sentence else ""
    edge = "2px solid #d32f2f" if bad else "2px solid rgba(128,128,128,0.5)"
    return (
        f'<div style="margin:12px 0 0 0;padding:4px 0 4px 12px;border-left:{edge}"><p style="margin:0;'
        f'font-size:13px;line-height:20px;text-align:left"><b>{escaped(title)}</b>{line}</p></div>'
    )


def _with_code(sentence: str) -> str:
    """Escape a sentence whose code stands between backticks."""
    pieces = map(escaped, sentence.split("`"))
    parts = [f'<code style="{markdown.MONO}">{piece}</code>' if at % 2 else piece for at, piece in enumerate(pieces)]
    return "".join(parts) if len(parts) % 2 else escaped(sentence)


def notice(text: str) -> str:
    """Return a sentence on a separate line."""
    return f'<p style="{_MUTED}">{escaped(one_line(encodable(text), 500))}</p>'


def block(part: Block) -> str:
    """Render any block."""
    match part:
        case ToolCall():
            return _call(part)
        case CallGroup():
            return _call_group(part)
        case Interjection():
            sender = f"<b>{escaped(one_line(part.sender or YOU))}:</b> "
            return f"{quote(bounded(part.text.strip()), sender)}"
        case Notice():
            return notice(part.text)
        case TextPart():
            return f'<div style="padding:0 0 0 {_EDGE}">{markdown.to_html(bounded_text(part.text))}</div>'
        case ThinkingPart():
            return (
                f'<details style="margin:0"><summary style="{SUMMARY}">'
                '<span style="opacity:0.7">Thinking</span></summary><div style="margin:0 0 8px 20px;font-size:13px;'
                'line-height:20px;opacity:0.75;text-align:left;white-space:pre-wrap">'
                f"{escaped(bounded(part.text.strip()))}</div></details>"
            )


def prompt(part: UserPart) -> str:
    """Render a prompt's part as it was typed."""
    if part.type == "text":
        return f'<div style="white-space:pre-wrap;text-align:left">{escaped(bounded_text(part.text))}</div>'
    if part.type == "image" and part.data:
        return _image(part, "the prompt")
    return notice(part.url or (part.name if part.type == "file" else part.type))


def quote(text: str, sender: str = "") -> str:
    """Return somebody's text, behind its sender as HTML."""
    style = f"{markdown.QUOTE};white-space:pre-wrap;text-align:left"
    return f'<blockquote style="{style}">{sender}{escaped(text)}</blockquote>'


def opens(summary: str, inner: str) -> str:
    """Return a line with more below it."""
    return (
        f'<details style="margin:4px 0 0 0"><summary style="{SUMMARY}">{summary}</summary>'
        f'<div style="margin:0 0 8px 20px">{inner}</div></details>'
    )


def muted(text: str) -> str:
    """Return figures beside a name."""
    return f'<span style="opacity:0.7">&nbsp;{escaped(text)}</span>'


def _call(call: ToolCall) -> str:
    boxes = [_text_box(name, text) for name, text in call.arguments()]
    if call.printed:
        boxes.append(_text_box("printed", call.printed))
    diff = call.diff
    if diff is not None:
        boxes.append(diff_box(diff))
    elif call.rest:
        boxes.append(_text_box("result" if boxes else "", call.rest, bad=call.trouble == "failed"))
    boxes += map(_preview, call.previews)
    images = "".join(_image(image, call.name) for image in call.images)
    figures = [diff.counts] if diff is not None else []
    if call.seconds is not None:
        figures.append(f"{call.seconds:.1f} s" if call.seconds < _MINUTE else f"{call.seconds / _MINUTE:.1f} min")
    line = _line(
        call.name,
        call.key,
        call.state,
        "".join(boxes),
        figures=" · ".join(figures),
        is_open=bool(diff or call.previews),
    )
    return f"{line}{images}"


def diff_box(diff: ShownDiff) -> str:
    """Return a diff's lines with their colours."""
    lines: list[str] = []
    for mark, text in diff.lines:
        style = f"display:block;padding:0 12px{_DIFF_STYLES.get(mark, '')}"
        content = escape(text) if mark == "@" else f"{'−' if mark == '-' else mark} {escape(text)}"  # noqa: RUF001
        lines.append(f'<span style="{style}">{content}\n</span>')
    box = markdown.TEXT_BOX.replace("8px 12px", "4px 0").replace(markdown.TINT, "transparent")
    return f'<pre style="margin:4px 0 12px 20px;{box};border:{markdown.RULE}">{"".join(lines)}</pre>'


def _preview(preview: Preview) -> str:
    """Return a table, or the safe remainder of an HTML document."""
    if isinstance(preview, TablePreview):
        return _table(preview)
    safe = static_html(preview.html, text=escaped)
    if len(safe) > PREVIEW_CHARACTERS:
        return _text_box("", bounded(preview.text))
    return f'<div style="margin:4px 0 12px 20px;overflow:auto;max-height:480px">{safe}</div>'


def _table(preview: TablePreview) -> str:
    sides = ["right" if numeric else "left" for numeric in preview.numeric]
    style = "padding:2px 16px 2px 0;white-space:nowrap;background-color:transparent;border-bottom:"

    def row(tag: str, cells: Sequence[str], edge: str, titles: Sequence[str] = ()) -> str:
        parts = []
        for at, cell in enumerate(cells):
            name = "td" if not cell else "th" if at < preview.index else tag
            title = f' title="{escape(titles[at])}"' if titles else ""
            weight = "600" if name == "th" else "400"
            css = f"{style}{edge};text-align:{sides[at]};font-weight:{weight}"
            parts.append(f'<{name}{title} style="{css}">{escaped(cell)}</{name}>')
        return f"<tr>{''.join(parts)}</tr>"

    head = row("th", preview.names, markdown.RULE.replace("0.35", "0.6"), preview.types)
    body = "".join(row("td", cells, markdown.RULE) for cells in preview.rows)
    box = "border-collapse:collapse;margin:0;font-size:12px;line-height:20px"
    return (
        f'<div style="margin:4px 0 12px 20px;overflow:auto"><table style="{box}"><thead>{head}</thead>'
        f'<tbody>{body}</tbody></table><p style="{_MUTED};margin:4px 0 0 0">{escaped(preview.size)}</p></div>'
    )


def _call_group(group: CallGroup) -> str:
    lines = "".join(map(_call, group.calls))
    inner = f'<div style="margin:0 0 0 20px">{lines}</div>'
    return _line(f"{len(group.calls)} calls", group.names, group.trouble, inner)


def _line(name: str, key: str, state: str, inner: str, *, figures: str = "", is_open: bool = False) -> str:
    """Return a line which opens."""
    words = " · ".join(part for part in (f"<b>{state}</b>" if state else "", escape(figures)) if part)
    word = f' <span style="opacity:0.7">&nbsp;{words}</span>' if words else ""
    if "failed" in state:
        word = f' <span style="padding:0 4px;{_FAILED}">&nbsp;{words}</span>'
    return (
        f'<details{" open" if is_open else ""} style="margin:0;padding:0"><summary style="{SUMMARY}">'
        f'<code style="{markdown.MONO};font-size:12px;background-color:transparent;padding:0">'
        f"<b>{escape(name)}</b> {escape(key)}</code>{word}</summary>{inner}</details>"
    )


def _text_box(name: str, text: str, *, bad: bool = False) -> str:
    style = "margin:4px 0 0 20px;font-size:12px;line-height:16px;opacity:0.7;text-align:left"
    label = f'<p style="{style}">{escaped(name)}</p>'
    edge = f";{_FAILED}" if bad else ""
    return f'{label if name else ""}<pre style="margin:4px 0 12px 20px;{markdown.TEXT_BOX}{edge}">{escape(text)}</pre>'


def _image(image: ImagePart, tool: str) -> str:
    """Return a saved image.

    An image with a URL alone, and a very large image, are replaced by a notice.
    """
    if source := image_source(image):
        return (
            f'<p style="margin:4px 0 12px 20px"><img src="{source}" alt="Image from {escape(tool)}" '
            'style="max-width:100%;height:auto"></p>'
        )
    return notice(image_notice(image))
