"""Markdown beyond CommonMark: web addresses, task lists, footnotes and mathematics.

`labextension/src/text/markdown-rules.ts` contains the same rules for the live view. `tests/fixtures/markdown` holds
texts which both must render the same. Every rule takes time in proportion to the paragraph length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

PARAGRAPH_CHARACTERS = 10_000
"""Longest paragraph with emphasis, links and inline code.

Parsing these is the slowest part.
"""

_FORMULA_CHARACTERS = 5_000
_CODE_INDENT = 4
_ADDRESS = re.compile(
    r"""(?:https?://[\w-]|www\.[\w-]{1,63}\.[\w-])[^\s<>"`\\]{0,2000}""".replace(r"\w", "A-Za-z0-9_")
    + r"|[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}".replace(r"\w", "A-Za-z0-9_"),
    re.IGNORECASE,
)
_MAY_HAVE_ADDRESS = re.compile(r"[@:]|www\.", re.IGNORECASE)
_BEFORE_ADDRESS = re.compile(r"[\w/.+-]", re.ASCII)
_PUNCTUATION = "?!.,:;*_~'$"
_FOOTNOTE = re.compile(r"\[\^([^\s\]^]{1,100})\]:[ \t]*")
_FOOTNOTE_MARK = re.compile(r"\[\^([^\s\]^]{1,100})\]")
_TASK = re.compile(r"\[([ xX])\][ \t]+")
_BLOCK_ENDS = {"$$": "$$", "\\[": "\\]"}
_INLINE_ENDS = {"$$": "$$", "\\(": "\\)", "\\[": "\\]"}
_DISPLAYED = {"$$", "\\]"}
_UNSAFE_TEX = re.compile(
    r"\\(?:href|url|style|class|cssId|data|html[a-z]*|require|include[a-z]*|input|csname|[egx]?def|let|futurelet"
    r"|(?:re|provide)?new[a-z]*|renew[a-z]*|Declare[a-z]*|mmlToken|bbox|unicode|catcode)(?![a-z])",
    re.IGNORECASE,
)
"""Commands for links, attributes and definitions."""

_DELIMITER = re.compile(r"\\[()\[\]]")


def is_safe_tex(tex: str) -> bool:
    """Return whether a formula may be typeset; others are shown as source."""
    # In the saved output, a delimiter would end the formula.
    has_delimiters = _DELIMITER.search(tex.replace("\\\\", "")) is not None
    return len(tex) <= _FORMULA_CHARACTERS and _UNSAFE_TEX.search(tex) is None and not has_delimiters


def with_inline_limit(parser: MarkdownIt) -> MarkdownIt:
    """Keep a parser from parsing the text in very long paragraphs."""
    parser.core.ruler.at("inline", _parse_inline)
    return parser


def with_rules(parser: MarkdownIt) -> MarkdownIt:
    """Add this module's rules to a parser."""
    with_inline_limit(parser)
    alternatives = {"alt": ["paragraph", "reference", "blockquote", "list"]}
    parser.block.ruler.before("fence", "math_block", _math_block, alternatives)  # type: ignore[arg-type]
    parser.block.ruler.before("reference", "footnote", _footnote_text)
    parser.inline.ruler.before("escape", "math", _inline_math)
    parser.inline.ruler.before("link", "footnote_mark", _footnote_mark)
    parser.core.ruler.push("footnotes", _append_footnotes)
    parser.core.ruler.push("tasks", _mark_tasks)
    parser.core.ruler.push("addresses", _link_addresses)
    return parser


@dataclass(slots=True)
class _Footnotes:
    """Footnote texts by label in lower case, and labels in reading order."""

    texts: dict[str, str] = field(default_factory=dict)
    used: list[str] = field(default_factory=list)


def _footnotes(env: object) -> _Footnotes:
    return cast("dict[str, _Footnotes]", env).setdefault("footnotes", _Footnotes())


def _parse_inline(state: StateCore) -> None:
    """Parse the text inside blocks, except in very long ones.

    This replaces the parser's own rule with the same name.
    """
    for token in state.tokens:
        _parse_inline_token(state, token)


def _parse_inline_token(state: StateCore, token: Token) -> None:
    if token.type != "inline":
        return
    token.children = []
    if len(token.content) > PARAGRAPH_CHARACTERS:
        token.children.append(Token("text", "", 0, content=token.content))
    else:
        state.md.inline.parse(token.content, state.md, state.env, token.children)


def _line(state: StateBlock, line: int) -> str:
    return state.src[state.bMarks[line] + state.tShift[line] : state.eMarks[line]]


def _math_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    r"""Parse `$$…$$` or `\[…\]` over whole lines without an empty one."""
    start = _line(state, start_line)
    closing = _BLOCK_ENDS.get(start[:2])
    if closing is None or state.sCount[start_line] - state.blkIndent >= _CODE_INDENT:
        return False
    searches = cast("dict[str, dict[tuple[str, str], range]]", state.env).setdefault("unclosed", {})
    if start_line in searches.get((closing, state.src), ()):
        return False  # an earlier line has searched in vain
    lines: list[str] = []
    line = start_line
    for line in range(start_line, end_line):
        if line > start_line and (state.sCount[line] < state.blkIndent or state.isEmpty(line)):
            break
        text = (start[2:] if line == start_line else _line(state, line)).rstrip()
        end = text.find(closing)
        if end < 0:
            lines.append(text)
            continue
        tex = "\n".join((*lines, text[:end])).strip()
        if end + 2 != len(text) or not tex:
            return False
        if not silent:
            token = state.push("math_block", "math", 0)
            token.content = tex
            token.block = True
            token.map = [start_line, line + 1]
            state.line = line + 1
        return True
    searches[closing, state.src] = range(start_line, line + 1)
    return False


def _inline_math(state: StateInline, silent: bool) -> bool:
    r"""`$…$`, `$$…$$`, `\(…\)` and `\[…\]`.

    An amount of money is not a formula: after `$` and before the next `$` spaces are forbidden, and so is a digit after
    that.
    """
    source, position = state.src, state.pos
    two = source[position : position + 2]
    closing = _INLINE_ENDS.get(two, "$" if two[:1] == "$" else "")
    if not closing:
        return False
    start = position + len(closing)
    end = _end_of_math(source, start) if closing == "$" else source.find(closing, start)
    tex = source[start:end].strip() if end >= 0 else ""
    if not tex or "`" in tex:
        if closing != "$$":
            return False
        if not silent:
            state.pending += closing  # neither character begins a formula
        state.pos += 2
        return True
    if not silent:
        token = state.push("math_inline", "math", 0)
        token.content = tex
        token.markup = "display" if closing in _DISPLAYED else ""
    state.pos = end + len(closing)
    return True


def _end_of_math(source: str, start: int) -> int:
    """Return the position of the final `$`, -1 for other text.

    The formula would begin at `start`.
    """
    if start >= len(source) or source[start].isspace():
        return -1
    end = start
    while end < len(source) and source[end] != "$":
        end += 2 if source[end] == "\\" else 1
    if end >= len(source) or source[end - 1].isspace():
        return -1
    following = source[end + 1 : end + 2]
    return -1 if following.isascii() and following.isdigit() else end


def _footnote_text(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Set aside a paragraph after `[^label]:`, with its indented paragraphs."""
    first = _line(state, start_line)
    match = _FOOTNOTE.match(first)
    if match is None or state.level > 0 or state.sCount[start_line] >= _CODE_INDENT:
        return False
    if silent:
        return True
    lines = [first[match.end() :]]
    line = start_line + 1
    while line < end_line:
        text, indent = _line(state, line), state.sCount[line]
        if not text:
            following = line + 1
            if following >= end_line or state.sCount[following] < _CODE_INDENT or state.isEmpty(following):
                break
            lines.append("")
        elif indent < _CODE_INDENT and (not lines[-1] or _FOOTNOTE.match(text)):
            break
        else:
            lines.append(" " * max(indent - _CODE_INDENT, 0) + text)
        line += 1
    _footnotes(state.env).texts.setdefault(match[1].lower(), "\n".join(lines))
    state.line = line
    return True


def _footnote_mark(state: StateInline, silent: bool) -> bool:
    match = _FOOTNOTE_MARK.match(state.src, state.pos)
    footnotes = _footnotes(state.env)
    if match is None or (label := match[1].lower()) not in footnotes.texts:
        return False
    if not silent:
        if label not in footnotes.used:
            footnotes.used.append(label)
        state.push("footnote_mark", "sup", 0).content = str(footnotes.used.index(label) + 1)
    state.pos = match.end()
    return True


def _append_footnotes(state: StateCore) -> None:
    """Append a list with all used footnotes."""
    footnotes = _footnotes(state.env)
    if not footnotes.used:
        return
    state.tokens += (Token("footnotes_open", "section", 1), Token("ordered_list_open", "ol", 1))
    for label in footnotes.used:  # grows while footnotes use others
        tokens: list[Token] = []
        state.md.block.parse(footnotes.texts[label], state.md, state.env, tokens)
        for token in tokens:
            token.map = None
            _parse_inline_token(state, token)
        state.tokens += (Token("list_item_open", "li", 1), *tokens, Token("list_item_close", "li", -1))
    state.tokens += (Token("ordered_list_close", "ol", -1), Token("footnotes_close", "section", -1))


def _mark_tasks(state: StateCore) -> None:
    """Turn leading `[ ]` and `[x]` in list items into task marks."""
    for item, _, token in zip(state.tokens, state.tokens[1:], state.tokens[2:], strict=False):
        text = token.children[0] if token.children else None
        if token.type != "inline" or item.type != "list_item_open" or text is None or text.type != "text":
            continue
        match = _TASK.match(text.content)
        if match is not None and token.children is not None:
            item.meta = {"task": True}
            text.content = text.content[match.end() :]
            token.children.insert(0, Token("task", "span", 0, meta={"done": match[1] != " "}))


def _link_addresses(state: StateCore) -> None:
    """Turn web and mail addresses in the text into links."""
    for token in state.tokens:
        if token.children is None or _MAY_HAVE_ADDRESS.search(token.content) is None:
            continue
        links = 0
        children: list[Token] = []
        for child in token.children:
            if child.type in {"link_open", "link_close"}:
                links += child.nesting
            children += _linked(state, child) if child.type == "text" and not links else (child,)
        token.children = children


def _linked(state: StateCore, token: Token) -> Iterator[Token]:
    start, content = 0, token.content
    for match in _ADDRESS.finditer(content):
        at = match.start()
        if at < start or (at and _BEFORE_ADDRESS.match(content[at - 1])):
            continue
        address = _without_end(match[0])
        lower = address.lower()
        scheme = "" if lower.startswith(("http:", "https:")) else "https://" if lower.startswith("www.") else "mailto:"
        if at > start:
            yield Token("text", "", 0, content=content[start:at])
        yield Token("link_open", "a", 1, attrs={"href": state.md.normalizeLink(scheme + address)})
        yield Token("text", "", 0, content=address)
        yield Token("link_close", "a", -1)
        start = at + len(address)
    if start < len(content) or not start:
        yield token if not start else Token("text", "", 0, content=content[start:])


def _without_end(address: str) -> str:
    """Return the address without trailing punctuation and closing brackets."""
    text = address
    while text[-1] in _PUNCTUATION or (text[-1] == ")" and text.count(")") > text.count("(")):
        text = text[:-1]
    return text
