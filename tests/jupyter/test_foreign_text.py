"""Foreign texts take CPU time in proportion to their length.

It is compared with a floor in the same run.
"""

from __future__ import annotations

import json
import textwrap
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.growth import check_linear

from planck_nb.agent.output import NoJsonError, read_json, read_partial_json
from planck_nb.base.errors import SessionFormatError
from planck_nb.base.line_diff import diff_lines, unified_diff
from planck_nb.base.markdown import to_html, to_markdown
from planck_nb.base.safe_html import framed_html, static_html, text_of_html
from planck_nb.base.secrets import redact
from planck_nb.base.visible import visible
from planck_nb.jupyter.prompts.expansion import expanded, hint
from planck_nb.jupyter.prompts.mentions import mentioned
from planck_nb.rendering.diff_lines import diff_in
from planck_nb.rendering.plain_output import PlainStream, Tail, for_terminal, plain
from planck_nb.sessions import import_session
from planck_nb.sidecars.mcp_client.transports.log_lines import LogLines
from planck_nb.teams.json_text import parse_json

HTML = (
    *("<a ", "<", "</", "<!--", "<!", "<?", "<b>", "<div>", "<p><b a=c>", "<b a=", '<b a="', "<b a='", "<b a ", "a=b "),
    *("<table>x", "<td id=x>", "<object>", "<b><i></b>", "</b>", "&amp;", "&#1", "&a", "&", "<title>", "<textarea>"),
    *("<style>", "</style", "<style a", "<style></style>", "<svg><style>", "<math><mi>", "<template>", "<p \n", "a b "),
)
GRAPHICS = (
    "<svg>",
    "<g>",
    "<path d='M",
    "<path d=x/>",
    "<svg><style>",
    "<use href=#x>",
    "<text x='",
    "<![CDATA[",
    "<a/",
)
STYLES = (
    *(
        "#a{",
        "#a{color:red}",
        "#a,",
        "{",
        "}",
        "{}",
        "a;",
        "color:",
        "/*",
        "#",
        "url(",
        "u\\72l(",
        "\\",
        "\\6",
        "@import ",
    ),
    *("-", "a-", "a(", '"', "<", "color:red;", " "),
)
MARKDOWN = ("[[[[", "****", "*a ", "|a", "|a|\n|-|\n", "> ", "- a\n", "](<", "`a ", "<a ", "&#", "[^a]: a\n", "$$")
CODE = ("(", "a ", "a.", "<!--", "<?", "@", "/", "x=", "&a", "-", "a:", '"')
TERMINAL = (
    "\x1b[",
    "\x1b[1",
    "\x1b]",
    "\x1b]0;",
    "\x1bP",
    "\x1b ",
    "\x90a",
    "\x9b1",
    "\r",
    "\r\n",
    "\ra",
    "a\r\r",
    "\x1b",
)
DIFFS = ("a\nb\n", "\n", "a", "--- a\n+++ b\n", "--- ", "@@ ", "+a\n-a\n", "a\r\n")
JSON = ("[", '{"a":', '{"a":1}', "[1,", '["', "\\u", "\\ud800", "{ ", '"a', "```json\n", "```\n{\n", "1", "{}", "-")
PROMPTS = (
    "@a ",
    "@a/",
    "'a ",
    '"a',
    "“",
    "„",
    "](",
    "@media",
    "\n@a(",
    "$a ",
    "{a",
    "{a:",
    "$$a",
    "- @a\n",
    "|@a|\n|-|\n",
)
SECRETS = ("://a:", "sk-", "eyJaaaaaaaaaa.", "-----BEGIN A PRIVATE KEY-----", "Bearer a", "AKIA", "SG.a.", "password=")


def in_style(rewrite: Callable[[str], str], text: str) -> None:
    rewrite(f"<style>{text}</style><td id=a style='{text}'>x")


def as_code(language: str, text: str) -> None:
    """Render it as one line, and as blocks within the limits."""
    blocks = [text, *("\n".join(textwrap.wrap(text[at : at + 2_800], 80)) for at in range(0, len(text), 2_800))]
    to_html("\n".join(f"```{language}\n{block}\n```\n" for block in blocks))


def in_pieces(text: str) -> None:
    stream, tail, log = PlainStream(), Tail(), LogLines()
    for at in range(0, len(text), 1_000):
        stream.feed(text[at : at + 1_000])
        tail.feed(text[at : at + 1_000])
        log.feed(text[at : at + 1_000].encode())
    tail.shown()
    log.lines()


def compared(text: str) -> None:
    """Compare with another order, and repeated lines between unique ones."""
    old = text.split("\n")
    new = [*old[len(old) // 3 :], *old[: len(old) // 3]]
    list(diff_lines(old, new))
    list(unified_diff(old, new, "f"))
    lines = [line for at in range(len(text) // 20) for line in ("a", f"b{at}")]
    list(diff_lines(lines, [line.replace("b", "c") for line in lines]))


def answered(text: str) -> None:
    with suppress(NoJsonError):
        read_json(text, arrays=True)
    read_partial_json(text, arrays=True)
    with suppress(ValueError):
        parse_json(text.encode())


def imported(text: str) -> None:
    """Import a row with the text, and the text instead of rows."""
    stamp = "2026-01-01T00:00:00.000000Z"
    head = {
        "v": 1,
        "id": 0,
        "kind": "session",
        "ts": stamp,
        "data": {"session_id": "0" * 16, "name": "a", "segment": 1},
    }
    data = {"content": [{"text": text, "type": "text"}], "type": "user"}
    row = {"v": 1, "id": 1, "kind": "message", "agent_id": "main", "turn": 0, "ts": stamp, "time": 1.0, "role": "user"}
    with TemporaryDirectory() as folder:
        file = Path(folder) / "export.jsonl"
        file.write_text(f"{json.dumps(head)}\n{json.dumps({**row, 'text': text, 'data': data})}\n")
        import_session(Path(folder) / "sessions", file)
        file.write_text(f"{json.dumps(head)}\n{text}\n", encoding="utf-8")
        with suppress(SessionFormatError):
            import_session(Path(folder) / "others", file)


def repeated(piece: str, length: int) -> str:
    return piece * (length // len(piece))


NAMESPACE = {"a": 1}
DOORS: dict[str, tuple[Callable[[str], object], tuple[str, ...], int]] = {
    "HTML in a frame": (framed_html.__wrapped__, HTML, 20_000),
    "HTML in a saved notebook": (static_html, HTML, 20_000),
    "the text in HTML": (text_of_html, HTML, 20_000),
    "SVG": (framed_html.__wrapped__, GRAPHICS, 20_000),
    "styles in a frame": (partial(in_style, framed_html.__wrapped__), STYLES, 20_000),
    "colours in cells": (partial(in_style, static_html), STYLES, 20_000),
    "Markdown": (to_html, MARKDOWN, 5_000),
    "Markdown in Markdown": (to_markdown, MARKDOWN, 5_000),
    **{f"code in {language}": (partial(as_code, language), CODE, 6_000) for language in ("html", "ts", "diff", "java")},
    "terminal output": (lambda text: (plain(text), for_terminal(text)), TERMINAL, 20_000),
    "terminal output in pieces": (in_pieces, TERMINAL, 20_000),
    "diffs": (compared, DIFFS, 10_000),
    "diffs in results": (diff_in, DIFFS, 20_000),
    "JSON": (answered, JSON, 20_000),
    "imports": (imported, (*JSON, "a", "\x00", "é", "\n"), 50_000),
    "mentions": (mentioned, PROMPTS, 5_000),
    "names in prompts": (lambda text: (hint(text, NAMESPACE), expanded(text, {})), PROMPTS, 5_000),
    "secrets": (lambda text: redact(text, formats=True), SECRETS, 20_000),
    "invisible characters": (visible, ("⟨U+", "⟨", "\u202e", "а", "aа"), 20_000),  # noqa: RUF001 - lookalikes
}
"""Functions by the kind of text, with texts to repeat and the shortest length in characters."""


@pytest.mark.slow
@pytest.mark.no_cover
@pytest.mark.parametrize("door", DOORS)
def test_cpu_time_is_linear(door: str) -> None:
    function, pieces, size = DOORS[door]
    for piece in pieces:
        check_linear(function, f"{door}, {piece!r}", partial(repeated, piece), size)


@pytest.mark.slow
@pytest.mark.no_cover
def test_quadratic_time_is_noticed() -> None:
    def visit_pairs(text: str) -> None:
        for _ in text:
            for _ in text:
                pass

    def is_noticed(_: int) -> bool:
        try:
            check_linear(visit_pairs, "pairs", "x".__mul__, 1_000)
        except pytest.fail.Exception:
            return True
        return False

    assert any(map(is_noticed, range(5)))  # a slow moment of the machine hides it in one of them
