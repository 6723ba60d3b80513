"""Transcript blocks as Markdown and as plain text."""

from __future__ import annotations

from textwrap import indent

from planck_nb.ai.messages import FilePart, ImagePart, TextPart, ThinkingPart, UserPart, VideoPart
from planck_nb.base import markdown
from planck_nb.base.text import encodable, one_line
from planck_nb.rendering.blocks import YOU, Block, CallGroup, Interjection, Notice, ToolCall
from planck_nb.rendering.formatting import bounded, bounded_text
from planck_nb.rendering.shown_images import image_source

IMAGE_MARK = "\\[image\\]"
"""A picture's stand-in within Markdown."""


def markdown_block(block: Block, *, images: bool = False) -> str:
    """Return any block as Markdown.

    Args:
        block: The block.
        images: Whether the text contains pictures; if not, a mark stands for each.
    """
    match block:
        case ToolCall():
            return _markdown_call(block, images=images)
        case CallGroup():
            line = f"- **{len(block.calls)} calls** {markdown.code_span(block.names)}"
            line = f"{line} **{block.trouble}**" if block.trouble else line
            return "\n\n".join((line, *(indent(_markdown_call(call, images=images), "  ") for call in block.calls)))
        case Interjection():
            sender = f"**{markdown.to_markdown(one_line(block.sender or YOU))}:** "
            return f"> {sender}{quoted(bounded(block.text.strip())).removeprefix('> ')}"
        case Notice():
            return quoted(one_line(encodable(block.text), 500))
        case TextPart():
            return markdown.to_markdown(bounded_text(block.text).strip())
        case ThinkingPart():
            return f"> *Thinking*\n>\n{quoted(bounded(block.text.strip()))}"


def markdown_prompt(part: UserPart) -> str:
    """Return a prompt's part as Markdown, with its picture."""
    if part.type == "text":
        return markdown.to_markdown(bounded_text(part.text))
    source = image_source(part) if part.type == "image" else ""
    return f"![image]({source})" if source else f"*{markdown.inline(_name(part))}*"


def plain_prompt(part: UserPart) -> str:
    """Return a prompt's part as plain text."""
    return bounded_text(part.text) if part.type == "text" else f"[{one_line(_name(part), 500)}]"


def _name(part: ImagePart | FilePart | VideoPart) -> str:
    return part.url or (part.name if part.type == "file" else part.type)


def quoted(text: str) -> str:
    """Return a text as a quotation in Markdown."""
    return "\n".join(f"> {line}" for line in markdown.to_markdown(text).split("\n"))


def _markdown_call(call: ToolCall, *, images: bool) -> str:
    line = f"- {markdown.code_span(f'{call.name} {call.key}'.strip())}"
    parts = [f"{line} **{call.state}**" if call.state else line]
    sources = [image_source(image) if images else "" for image in call.images]
    parts += [f"![image]({source})" if source else IMAGE_MARK for source in sources]
    for name, text in call.arguments():
        parts.append(f"{markdown.code_span(name)}\n{markdown.fenced(text)}")
    if call.text.strip():
        parts.append(markdown.fenced(call.text))
    return indent("\n\n".join(parts), "  ").lstrip()


def plain_block(block: Block) -> str:
    """Return any block as plain text; empty for thinking."""
    match block:
        case ToolCall():
            state = f": {block.state}" if block.state else ""
            line = f"[{one_line(f'{block.name} {block.key}'.strip(), 100)}{state}]"
            return " ".join((line, *("[image]" for _ in block.images)))
        case CallGroup():
            trouble = f", {block.trouble}" if block.trouble else ""
            return f"[{len(block.calls)} calls: {one_line(block.names, 200)}{trouble}]"
        case Interjection():
            sender = f"{one_line(block.sender or YOU)}: "
            return "\n".join(f"> {line}" for line in f"{sender}{block.text.strip()}".splitlines())
        case Notice():
            return f"[{one_line(block.text, 500)}]"
        case TextPart():
            return bounded_text(block.text).strip()
        case ThinkingPart():
            return ""
