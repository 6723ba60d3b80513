"""Pages with the JupyterLab extension and this kernel's notebook."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, dataclass, field
from functools import partial
from secrets import token_hex
from typing import Any, TypeVar

import comm
from pydantic import TypeAdapter, ValidationError

from planck_nb.base.async_tasks import spawn
from planck_nb.base.version import __version__
from planck_nb.base.visible import visible
from planck_nb.jupyter.lab.change_book import ChangeBook
from planck_nb.jupyter.lab.protocol import (
    ASK,
    HELLO,
    PROTOCOL,
    TALK,
    Activity,
    Answer,
    AnswerProposed,
    Approve,
    Cells,
    CellsWanted,
    ChangedCells,
    ChangeSet,
    CheckSeen,
    CheckStarted,
    CheckStopped,
    CheckWanted,
    Claim,
    Decided,
    Focused,
    FromKernel,
    FromPage,
    Hello,
    HelpStatus,
    HelpStopped,
    HelpWanted,
    InverseWanted,
    Names,
    NotApproved,
    NotRun,
    Overview,
    OverviewWanted,
    Question,
    RunWanted,
    SaveSettings,
    SearchHits,
    SearchWanted,
    Sets,
    SettingEntry,
    SettingsWanted,
    Started,
    TakenBack,
    TranscriptPage,
    TranscriptWanted,
    Trust,
    TrustSettled,
    Verbs,
    Welcome,
)
from planck_nb.jupyter.live.widget import Widget
from planck_nb.workspace.installation_findings import Finding

ANSWER_SECONDS = 10.0
"""A page's time to answer before it counts as gone."""

_INSTALL = "`pip install -U planck-nb`"
_TOPIC = "extension"

_HELLOS = TypeAdapter(Hello)
_MESSAGES: TypeAdapter[FromPage] = TypeAdapter(FromPage)
_QUESTIONS: TypeAdapter[Question] = TypeAdapter(Question)

_Reply = TypeVar("_Reply", Cells, Started)


@dataclass(eq=False, slots=True)
class Page:
    """A page with the notebook.

    Args:
        client: Its identity in requests.
        path: The notebook's path.
        comm: Its comm.
        version: The extension's version.
        problem: Why it cannot act; may be empty.
        scripts: The extension's address, if the page's policy refuses scripts from kernels.
    """

    client: str
    path: str
    comm: Any = field(repr=False)
    version: str = ""
    problem: str = ""
    scripts: str = ""

    def send(self, message: FromKernel) -> None:
        """Send a message to this page alone."""
        self.comm.send(asdict(message))


class Pages:
    """A kernel's pages.

    The page with a person's latest attention acts, and shows the sets alone.

    Args:
        book: The proposed changes.
        loop: The kernel's event loop.
    """

    def __init__(self, book: ChangeBook, loop: asyncio.AbstractEventLoop) -> None:
        self._book = book
        self._loop = loop
        self._pages: dict[str, Page] = {}
        """By client; the page with the latest attention is at the end."""
        self._replies: dict[str, asyncio.Future[Any]] = {}
        self._hello: Any = None
        self.model: Callable[[], str] = str
        """Callback for the helping model's name; it may be unknown."""
        self.on_help: Callable[[HelpWanted], None] = lambda _request: None
        self.on_stop: Callable[[str], None] = lambda _cell: None
        """Callbacks for a person's request for help, and for its end."""
        self.on_not_run: Callable[[str], None] = lambda _cell: None
        """Callback for a cell whose run never began."""
        self.overview: Callable[[OverviewWanted], Overview] = lambda wanted: Overview(wanted.request, 0.0, 0.0)
        """Callback for side panels, on any thread."""
        self.on_approve: Callable[[Approve], str] = lambda _decision: ""
        """Callback for a decision about a waiting call, which returns the obstacle."""
        self.on_answer: Callable[[Page, AnswerProposed], None] = lambda _page, _answer: None
        """Callback for an answer to be reviewed as a change."""
        self.on_trust: Callable[[Trust], str] = lambda _trust: ""
        """Callback for trust in files, which returns the obstacle."""
        self.settings: Callable[[], tuple[SettingEntry, ...]] = tuple
        self.on_save: Callable[[SaveSettings], str] = lambda _settings: ""
        """Callbacks for project settings, on any thread.

        The second one returns the obstacle.
        """
        self.texts: Callable[[SearchWanted | TranscriptWanted, str], SearchHits | TranscriptPage] = (
            lambda question, _client: SearchHits(question.request)
        )
        """Callback for a page's question about stored messages, on another thread."""
        self.on_page: Callable[[], None] = lambda: None
        """Callback for a new page."""
        self.concurrent = True
        """The kernel answers questions also during a cell."""
        self.verbs: Callable[[], Verbs] = lambda: Verbs({}, {})
        self.names: Callable[[], Names] = lambda: Names({}, {})
        """Callbacks for what pages complete while the kernel is busy."""
        self.on_check: Callable[[Page, CheckWanted | CheckStarted | ChangedCells], None] = lambda _page, _message: None
        """Callback for messages about verification and stale cells."""
        self.on_check_seen: Callable[[str], None] = lambda _set: None
        self.on_check_stopped: Callable[[str], None] = lambda _set: None
        """Callbacks for a page which follows a check, and for its end."""
        self._names = Names({}, {})
        self._statuses: dict[str, HelpStatus] = {}
        """By cell, for pages which connect later."""

    def install(self) -> None:
        """Let pages connect, earlier ones included."""
        manager = comm.get_comm_manager()
        manager.register_target(TALK, self._connect)
        manager.register_target(ASK, self._listen)
        self._hello = comm.create_comm(target_name=HELLO, data={"version": __version__, "protocol": PROTOCOL})
        # A page without the extension closes it, for all others too.
        self._hello.on_close(lambda _message: manager.register_comm(self._hello))
        self._book.on_change, self._book.run_on_loop = self._show, self._later

    def remove(self) -> None:
        """Undo `install`."""
        manager = comm.get_comm_manager()
        for name, target in ((TALK, self._connect), (ASK, self._listen)):
            with suppress(KeyError):
                manager.unregister_target(name, target)
        self._hello.on_close(None)
        with suppress(KeyError):
            manager.unregister_comm(self._hello)
        for page in self._pages.values():
            page.comm.close()
        self._pages.clear()

    def path(self, client: str = "") -> str:
        """Return the notebook's path on the acting page, empty without a page."""
        page = self.acting(client)
        return "" if page is None else page.path

    def acting(self, client: str = "") -> Page | None:
        """Return the acting page for a request.

        Args:
            client: The requesting page; it is preferred.
        """
        pages = [page for page in self._pages.values() if not page.problem]
        senders = [page for page in pages if page.client == client]
        return next(reversed(senders or pages), None)

    @property
    def problem(self) -> str:
        """Return the reason for a missing acting page, as a sentence."""
        if self._pages:
            return next(reversed(self._pages.values())).problem
        return "No page shows this notebook with the JupyterLab extension of planck_nb."

    def examine(self) -> list[Finding]:
        """Return a finding for each page, or about the lack of one."""
        if not self._pages:
            text = f"{self.problem} Agents cannot propose changes to cells; answers and approvals work."
            return [
                Finding(_TOPIC, "note", text, f"run {_INSTALL} where JupyterLab is installed, then reload the page")
            ]
        return [_finding(page) for page in self._pages.values()]

    def tell(self, status: HelpStatus) -> None:
        """Show an agent's progress with a cell on all pages.

        Args:
            status: The progress.
        """
        if status.state:
            self._statuses[status.cell] = status
        else:
            self._statuses.pop(status.cell, None)
        for page in self._pages.values():
            if not page.problem:
                page.send(status)

    def tell_names(self) -> None:
        """Have all pages know changed names."""
        if not self._pages:
            return
        names, self._names = self._names, self.names()
        for page in self._pages.values() if names != self._names else ():
            page.send(self._names)

    def tell_activity(self, activity: Activity) -> None:
        """Show the agents' activity on all pages.

        Args:
            activity: The activity.
        """
        for page in self._pages.values():
            if not page.problem:
                page.send(activity)

    def tell_again(self, cell: str) -> None:
        """Show the latest progress with a cell once more.

        Args:
            cell: The cell's id.
        """
        self.tell(self._statuses.get(cell, HelpStatus(cell, "", "")))

    async def cells(self, client: str = "", *, outputs_of: str = "") -> Cells | None:
        """Return the notebook's cells, None without a page.

        Args:
            client: The page to prefer.
            outputs_of: The cell whose outputs are wanted; empty for none.
        """
        while (page := self.acting(client)) is not None:
            reply = await self._ask(page, CellsWanted(token_hex(8), outputs_of), Cells)
            if reply is not None:
                return reply
        return None

    async def run(self, cell: str, source: str, client: str = "") -> str:
        """Have a page start a cell.

        Args:
            cell: The cell's id.
            source: Its expected text.
            client: The page to prefer.

        Returns:
            The obstacle; empty without one.
        """
        while (page := self.acting(client)) is not None:
            reply = await self._ask(page, RunWanted(token_hex(8), cell, source), Started)
            if reply is not None:
                return reply.problem
        return self.problem

    async def _ask(self, page: Page, message: CellsWanted | RunWanted, kind: type[_Reply]) -> _Reply | None:
        """Ask a page; a silent page counts as gone."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._replies[message.request] = answer
        page.send(message)
        try:
            reply = await asyncio.wait_for(answer, ANSWER_SECONDS)
        except TimeoutError:
            self._drop(page)
            return None
        finally:
            self._replies.pop(message.request, None)
        return reply if isinstance(reply, kind) else None

    # What comes from pages, perhaps on another thread

    def _connect(self, talk: Any, message: Any) -> None:  # noqa: ANN401 - comms have no types
        try:
            hello = _HELLOS.validate_python(message["content"]["data"])
        except ValidationError:
            talk.close()
            return
        problem = "" if hello.protocol == PROTOCOL else _mismatch(newer=hello.protocol > PROTOCOL)
        page = Page(hello.client, hello.path, talk, hello.version, problem, hello.scripts)
        talk.on_msg(lambda message: self._later(partial(self._receive, page, message["content"]["data"])))
        talk.on_close(lambda _message: self._later(partial(self._drop, page)))
        self._later(partial(self._welcome, page))

    def _later(self, function: Callable[[], None]) -> None:
        with suppress(RuntimeError):  # the loop is closed: the kernel is on its way out
            self._loop.call_soon_threadsafe(function)

    def _listen(self, ask: Any, message: Any) -> None:  # noqa: ANN401 - as above
        client = str(message["content"]["data"].get("client", ""))
        ask.on_msg(lambda message: self._answer(ask, client, message["content"]["data"]))

    def _answer(self, ask: Any, client: str, data: object) -> None:  # noqa: ANN401 - as above
        """Answer a question on its own thread.

        The main thread may be in a cell.
        """
        try:
            question = _QUESTIONS.validate_python(data)
        except ValidationError:
            return
        answer: Answer | Overview
        match question:
            case SearchWanted() | TranscriptWanted():
                # Reading may take long, and other questions must not wait. The context has the message to answer.
                context = copy_context()
                arguments = (self._answer_from_disk, ask, client, question)
                threading.Thread(target=context.run, args=arguments, name="planck texts", daemon=True).start()
                return
            case OverviewWanted():
                answer = self.overview(question)
            case SettingsWanted():
                answer = Answer(question.request, ok=True, settings=self.settings())
            case SaveSettings():
                problem = self.on_save(question)
                answer = Answer(question.request, ok=not problem, problem=problem, settings=self.settings())
            case _:
                answer = self._answer_about_set(question, client)
        ask.send(asdict(answer))

    def _answer_from_disk(self, ask: Any, client: str, question: SearchWanted | TranscriptWanted) -> None:  # noqa: ANN401 - as above
        ask.send(asdict(self.texts(question, client)))

    def _answer_about_set(
        self, question: Claim | Decided | InverseWanted | TakenBack | CheckSeen | CheckStopped, client: str
    ) -> Answer:
        match question:
            case Claim():
                problem = self._book.claim(question.set, question.changes, client)
                return Answer(question.request, ok=not problem, problem=problem)
            case InverseWanted():
                inverse = self._book.inverse(question.set)
                is_applied = self._book.is_applied(question.set)  # what a set inserts and deletes needs no operation
                return Answer(question.request, ok=is_applied, inverse=inverse)
            case Decided():
                self._book.decide(question.set, question.decisions, client, question.inverse)
                self._later(partial(self._prefer, client))
            case TakenBack():
                self._book.take_back(question.set)
                self._later(partial(self.on_check_stopped, question.set))
            case CheckSeen():
                self._later(partial(self.on_check_seen, question.set))
            case CheckStopped():
                self._later(partial(self.on_check_stopped, question.set))
        return Answer(question.request, ok=True)

    # On the event loop

    def _welcome(self, page: Page) -> None:
        earlier = [other for other in self._pages.values() if other.client == page.client]
        for other in earlier:  # several views of a notebook in one page share a connection
            self._drop(other)
        self._pages[page.client] = page
        page.send(Welcome(__version__, self.model(), problem=page.problem, concurrent=self.concurrent))
        self._names = self.names()
        for words in () if page.problem else (self.verbs(), self._names):
            page.send(words)
        for status in () if page.problem else self._statuses.values():
            if status.state == "working":
                page.send(status)
        doubtful = [other for other in self._pages.values() if other is not page and other.path == page.path]
        if doubtful:
            spawn(self._look_for(doubtful), name="planck pages")
        self._show()
        self.on_page()

    async def _look_for(self, pages: list[Page]) -> None:
        """Drop pages lost without a word, as after a reload."""
        for page in pages:
            await self._ask(page, CellsWanted(token_hex(8)), Cells)

    def _receive(self, page: Page, data: object) -> None:
        try:
            message = _MESSAGES.validate_python(data)
        except ValidationError:
            return
        match message:
            case Cells() | Started():
                self._set_reply(message)
            case HelpWanted():
                self.on_help(message)
            case HelpStopped():
                self.on_stop(message.cell)
            case NotRun():
                self.on_not_run(message.cell)
            case Focused():
                self._focus(page, message.path)
            case CheckWanted() | CheckStarted() | ChangedCells():
                self.on_check(page, message)
            case _:
                self._decide(page, message)

    def _decide(self, page: Page, message: AnswerProposed | Approve | Trust) -> None:
        """Follow a person's decision in a side panel."""
        match message:
            case AnswerProposed():
                self.on_answer(page, message)
            case Approve():
                page.send(NotApproved(self.on_approve(message)))
            case Trust():
                page.send(TrustSettled(self.on_trust(message)))

    def _set_reply(self, message: Cells | Started) -> None:
        reply = self._replies.get(message.request)
        if reply is not None and not reply.done():
            reply.set_result(message)

    def _focus(self, page: Page, path: str) -> None:
        if page.path != path:
            self._book.rename(page.path, path)
            page.path = path
        self._prefer(page.client)

    def _prefer(self, client: str) -> None:
        """Let a page act and show the sets."""
        if client in self._pages and next(reversed(self._pages)) != client:
            self._pages[client] = self._pages.pop(client)
            self._show()

    def _drop(self, page: Page) -> None:
        if self._pages.get(page.client) is page:
            del self._pages[page.client]
            self._book.release(page.client)
            self._show()

    def _show(self) -> None:
        """Show each set on a single page with its notebook."""
        Widget.extension_url = next((page.scripts for page in self._pages.values() if page.scripts), "")
        views: dict[Page, list[ChangeSet]] = {page: [] for page in self._pages.values() if not page.problem}
        for changes in self._book.sets() if views else ():
            fitting = [page for page in views if page.path == changes.path]
            views[(fitting or list(views))[-1]].append(changes)
        for page, sets in views.items():
            page.send(Sets(tuple(sets)))


def _finding(page: Page) -> Finding:
    if page.problem:
        return Finding(_TOPIC, "problem", page.problem, "update it, then reload the page")
    scripts = " Its policy refuses scripts from kernels, so the extension has them." if page.scripts else ""
    version, path = visible(page.version), visible(page.path)
    return Finding(_TOPIC, "ok", f"Extension {version} on a page with {path}: everything works.{scripts}")


def _mismatch(*, newer: bool) -> str:
    """Return the sentence about a newer or older extension."""
    if newer:
        advice = "The JupyterLab extension is newer than planck_nb in this kernel; run `%pip install -U planck-nb`."
    else:
        advice = (
            "The JupyterLab extension is older than planck_nb in this kernel; "
            f"run {_INSTALL} where JupyterLab is installed."
        )
    return (
        f"{advice} Until then agents neither propose cells nor show in the side panel; answers, approvals in cells and "
        "colours work."
    )
