"""In Chromium: nothing that was written into a session runs or loads anything, in any export and in any output."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert import HTMLExporter
from nbconvert.filters.markdown_mistune import markdown2html_mistune
from playwright.sync_api import Browser, Page, Route
from support.hostile_session import hostile_session, previews, turn
from support.listener import Listener
from support.payloads import payloads

from planck_nb.ai.messages import UserMessage
from planck_nb.base.safe_html import framed_html, static_html
from planck_nb.jupyter.transcript.transcript import Transcript
from planck_nb.rendering.blocks import Decision, Execution, Notice
from planck_nb.sessions import ExportFormat, Session, SessionInfo, export_session

NOTED = "window.ran = []; window.fired = number => { window.ran.push(number); };"
INSPECTED = """() => {
    const elements = [...document.querySelectorAll('*')];
    const handlers = elements.flatMap(element => [...element.attributes])
        .filter(attribute => attribute.name.startsWith('on'));
    const links = [...document.querySelectorAll('a[href]')]
        .filter(link => !['http:', 'https:', 'mailto:', 'file:'].includes(link.protocol))
        // An address cut in its host has no protocol at all, and leads nowhere.
        .filter(link => link.protocol !== ':' || !link.getAttribute('href').startsWith('http://'));
    return [window.ran, handlers.map(attribute => attribute.value), links.map(link => link.outerHTML)];
}"""


@pytest.fixture(scope="module")
def listener() -> Iterator[Listener]:
    listener = Listener()
    yield listener
    listener.close()


@pytest.fixture(scope="module")
def session(listener: Listener, tmp_path_factory: pytest.TempPathFactory) -> SessionInfo:
    folder = tmp_path_factory.mktemp("sessions")
    with ThreadPoolExecutor(1) as other_thread:  # Playwright's loop runs in this one
        return other_thread.submit(hostile_session, folder, payloads(listener.url)).result()


@pytest.fixture(scope="module")
def page(chromium: Browser, listener: Listener) -> Iterator[Page]:
    """A page that can reach the listener and nothing else of the network."""
    context = chromium.new_context()
    context.add_init_script(NOTED)
    page = context.new_page()

    def route(request: Route) -> None:
        url = request.request.url
        request.continue_() if url.startswith(("file:", listener.url)) else request.abort()

    page.route(lambda url: url.startswith("http"), route)
    yield page
    context.close()


def exported(form: ExportFormat, session: SessionInfo) -> str:
    return export_session(session, form)


def converted(session: SessionInfo, *, template: str, sanitize: bool) -> str:
    notebook = nbformat.reads(exported("ipynb", session), as_version=4)
    exporter: Any = HTMLExporter
    html, _ = exporter(template_name=template, sanitize_html=sanitize).from_notebook_node(notebook)
    return str(html)


def from_markdown(session: SessionInfo) -> str:
    return f"<!doctype html><body>{markdown2html_mistune(exported('markdown', session))}"


def transcript(text: str) -> Transcript:
    messages = turn(text)
    drawn = Execution("1", previews=previews(text))
    entries = (*messages[1:3], Decision("1", args={"path": text}), drawn, Notice(text), *messages[3:])
    return Transcript(text, text, "failed", entries, None, None, text, 0.0, (text,))


def transcripts(session: SessionInfo, kind: str) -> str:
    rendered = [transcript(text).bundle()[kind] for text in prompts(session)]
    shown = rendered if kind == "text/html" else map(markdown2html_mistune, rendered)
    return f"<!doctype html><body>{''.join(shown)}"


def rewritten(session: SessionInfo, rewrite: Callable[[str], str]) -> str:
    """The payloads as HTML from calls, in a page that allows everything: neither frame nor policy."""
    return f"<!doctype html><body>{''.join(map(rewrite, prompts(session)))}<p>98"


def prompts(session: SessionInfo) -> list[str]:
    """The payloads of the session."""
    with Session.read(session.path.parent, "hostile") as stored:
        messages = [entry.message for entry in stored.messages()]
    return [message.text for message in messages if isinstance(message, UserMessage) and message.sender_id is None]


DOCUMENTS: dict[str, Callable[[SessionInfo], str]] = {
    "html": partial(exported, "html"),
    "lab": partial(converted, template="lab", sanitize=False),
    "classic": partial(converted, template="classic", sanitize=False),
    "lab-sanitized": partial(converted, template="lab", sanitize=True),
    "classic-sanitized": partial(converted, template="classic", sanitize=True),
    "markdown": from_markdown,
    "transcripts-html": partial(transcripts, kind="text/html"),
    "transcripts-markdown": partial(transcripts, kind="text/markdown"),
    "frames": partial(rewritten, rewrite=framed_html),
    "saved-frames": partial(rewritten, rewrite=static_html),
}


def visit(page: Page, file: Path, html: str) -> list[list[Any]]:
    file.write_text(html, encoding="utf-8")
    page.goto(file.as_uri(), wait_until="load")
    found = page.evaluate(INSPECTED)
    assert isinstance(found, list)
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::bleach.sanitizer.NoCssSanitizerWarning")
@pytest.mark.parametrize("document", DOCUMENTS)
def test_nothing_runs_or_loads(
    document: str, session: SessionInfo, page: Page, listener: Listener, tmp_path: Path
) -> None:
    html = DOCUMENTS[document](session)
    assert "98" in html
    before = listener.connections
    assert visit(page, tmp_path / "document.html", html) == [[], [], []]
    assert listener.connections == before


def test_the_payloads_run_and_load_in_a_page_that_trusts_them(page: Page, listener: Listener, tmp_path: Path) -> None:
    before = listener.connections
    ran, handlers, _ = visit(page, tmp_path / "trusting.html", "".join(payloads(listener.url)[:50]))
    assert len(ran) > 5
    assert handlers
    page.set_content(f"<img src={listener.url}/1>")
    page.wait_for_load_state("load")
    assert listener.connections > before
