from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest

from planck_nb.agent import events as ev
from planck_nb.base.errors import PlanckError, UsageError
from planck_nb.base.event_log import EventLog
from planck_nb.base.json_types import JsonObject
from planck_nb.jupyter.live.frame_throttle import FrameThrottle
from planck_nb.jupyter.live.view import FIRST_PAUSE, LOADER, FirstCode, LiveView, RunSummary, code_of

SUMMARY: RunSummary = {
    "outcome": "done",
    "seconds": 1.0,
    "spent": ("", ""),
    "cost": None,
    "model": "m",
    "text": "answer",
}


class Recorder:
    """Actions that are only recorded; `refusal` is raised instead if it is set."""

    def __init__(self) -> None:
        self.done: list[tuple[Any, ...]] = []
        self.refusal: PlanckError | None = None

    def _note(self, *action: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.done.append(action)

    def stop(self, agent_id: str | None = None) -> None:
        self._note("stop")

    def steer(self, text: str, agent_id: str | None = None) -> None:
        self._note("steer", text)

    def queue(self, text: str) -> None:
        self._note("queue", text)

    def edit_queued(self, prompt_id: str, text: str, agent_id: str | None = None) -> None:
        self._note("edit", prompt_id, text)

    def remove_queued(self, prompt_id: str, agent_id: str | None = None) -> None:
        self._note("remove", prompt_id)

    def decide(
        self,
        call_id: str,
        *,
        allow: bool,
        args: JsonObject | None,
        remember: bool,
        reason: str,
        agent_id: str | None = None,
        scope: str | None = None,
    ) -> None:
        self._note("decide", call_id, allow, args, remember, reason, agent_id, scope)


class Browser:
    """The other end of a view: records what it was sent, and sends commands."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, first_pause: float = FIRST_PAUSE) -> None:
        self.log: EventLog[ev.AgentEvent] = EventLog()
        self.actions = Recorder()
        self.connections = 0
        self.received: asyncio.Queue[JsonObject] = asyncio.Queue()
        self.view = LiveView(
            self.log,
            agent="a",
            actions=self.actions,
            on_connect=self.connect,
            throttle=FrameThrottle(interval=0),
            first_pause=first_pause,
        )
        monkeypatch.setattr(self.view, "send", self.received.put_nowait)

    def connect(self) -> None:
        self.connections += 1

    def say(self, message: object) -> None:
        self.view._receive(self.view, {"type": message} if isinstance(message, str) else message, [])

    def text(self, text: str) -> None:
        self.log.append(ev.TextDelta("a", None, 0, self.log.end, 100.0 + self.log.end, text))

    async def next(self) -> JsonObject:
        return await self.received.get()


@pytest.fixture
async def browser(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Browser(monkeypatch)
    yield made
    made.view.finish(SUMMARY)
    made.view.close()


async def test_frames_go_on_where_the_snapshot_ends(browser: Browser) -> None:
    browser.text("a")
    browser.text("b")
    browser.say("resync")
    snapshot = await browser.next()
    assert (snapshot["type"], snapshot["to"]) == ("snapshot", 2)
    assert [(event["seq"], event["type"], event["text"]) for event in snapshot["events"]] == [(0, "text_delta", "ab")]
    browser.text("c")
    frame = await browser.next()
    assert (frame["type"], frame["from"], frame["to"]) == ("frame", 2, 3)
    assert [(event["seq"], event["type"], event["text"]) for event in frame["events"]] == [(2, "text_delta", "c")]
    assert frame["events"][0]["time"] == 102.0


async def test_a_second_resync_sends_everything_again(browser: Browser) -> None:
    browser.text("a")
    browser.say("resync")
    await browser.next()
    browser.text("b")
    await browser.next()
    browser.say("resync")
    snapshot = await browser.next()
    assert (snapshot["to"], snapshot["events"][0]["text"]) == (2, "ab")


async def test_stop_is_handled_on_the_loop_from_any_thread(browser: Browser) -> None:
    await asyncio.to_thread(browser.say, "stop")
    await asyncio.sleep(0)
    assert browser.actions.done == [("stop",)]


DECISION = {"type": "decide", "id": "1", "allow": True, "args": {"n": [1]}, "remember": False, "reason": ""}


async def test_commands_call_actions(browser: Browser) -> None:
    for agent, args in (("a", {"n": [0], "command": "ls"}), ("b", {"path": "x"})):
        browser.log.append(ev.ApprovalRequest(agent, None, 0, 0, 1.0, "1", "bash", args, (), "", 9.0))
    for message in (
        {"type": "steer", "text": "left\ud800"},
        {"type": "queue", "text": "then right"},
        {"type": "edit", "id": "q1", "text": "then up"},
        {"type": "unqueue", "id": "q1"},
        {**DECISION, "agent_id": "a"},
        {**DECISION, "agent_id": "b", "scope": "all"},
        {**DECISION, "allow": False, "args": None, "remember": True, "reason": "No."},
    ):
        browser.say(message)
    await asyncio.sleep(0)
    assert browser.actions.done == [
        ("steer", "left?"),
        ("queue", "then right"),
        ("edit", "q1", "then up"),
        ("remove", "q1"),
        ("decide", "1", True, {"n": [1], "command": "ls"}, False, "", "a", None),
        ("decide", "1", True, {"n": [1], "path": "x"}, False, "", "b", "all"),
        ("decide", "1", False, None, True, "No.", None, None),
    ]


@pytest.mark.parametrize(
    "junk",
    [
        None, 7, [], ["stop"], {}, {"type": None}, {"type": ["stop"]}, {"type": "explode"}, {"type": "steer"},
        {"type": "steer", "text": " "}, {"type": "steer", "text": 3}, {"type": "edit", "text": "x"},
        {"type": "unqueue", "id": 1}, {"type": "decide", "id": "1", "allow": True}, {**DECISION, "allow": "yes"},
        {**DECISION, "args": [1]}, {**DECISION, "remember": 1}, {**DECISION, "reason": None}, {**DECISION, "id": 1},
        {**DECISION, "agent_id": 1}, {**DECISION, "scope": ["all"]},
    ],
)  # fmt: skip
async def test_junk_does_nothing(browser: Browser, junk: object) -> None:
    failures: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: failures.append(context))
    browser.say(junk)
    await asyncio.sleep(0)
    assert (browser.actions.done, failures) == ([], [])
    assert browser.received.empty()


async def test_a_failed_command_is_refused_with_a_reason_and_its_text(browser: Browser) -> None:
    browser.actions.refusal = UsageError("The agent is stopped; start another run.")
    browser.say({"type": "steer", "text": "left"})
    browser.say({"type": "unqueue", "id": "q1"})
    refused = {"type": "refused", "reason": "The agent is stopped; start another run."}
    assert await browser.next() == {**refused, "text": "left"}
    assert await browser.next() == {**refused, "text": ""}


async def test_the_first_connection_is_reported(browser: Browser) -> None:
    connected = [browser.view.connected]
    for _ in range(2):
        browser.say("resync")
        await browser.next()
        await asyncio.sleep(0)
        connected.append(browser.view.connected)
    assert connected == [False, True, True]
    assert browser.connections == 1


async def test_without_a_browser_small_snapshots_go_out_and_large_ones_do_not(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    browser.view.finish(SUMMARY)
    unconnected = Browser(monkeypatch, first_pause=0.001)
    unconnected.text("a")
    assert (await unconnected.next())["type"] == "snapshot"
    unconnected.text("x" * 100_000)
    unconnected.view.finish(SUMMARY)
    assert unconnected.received.empty()
    unconnected.view.close()


async def test_the_end_flushes_what_was_not_sent(browser: Browser) -> None:
    browser.say("resync")
    await browser.next()
    browser.text("last words")
    browser.view.finish(SUMMARY)
    assert browser.received.get_nowait()["events"][0]["text"] == "last words"
    assert browser.view.phase == "done"
    assert browser.view.summary == SUMMARY
    browser.say("stop")
    await asyncio.sleep(0)
    assert browser.actions.done == []


async def test_a_run_that_is_over_can_be_shown_again_in_a_page_that_was_loaded_again(browser: Browser) -> None:
    browser.say("resync")
    await browser.next()
    browser.text("words")
    browser.view.finish(SUMMARY)
    await browser.next()
    browser.say("resync")
    snapshot = await browser.next()
    assert (snapshot["type"], snapshot["events"][0]["text"]) == ("snapshot", "words")
    browser.view.forget()
    browser.say("resync")
    assert await browser.next() == {"type": "gone"}


@pytest.mark.parametrize(
    ("messages", "missing"),
    [
        ([("page", "a"), "rendered", "end", "shown"], False),
        ([("page", "a"), "rendered", ("page", "b"), "end"], True),  # loaded again, and the cell was not saved
        ([("page", "a"), "rendered", "end", ("page", "b")], True),
        ([("page", "a"), "rendered", "end", "shown", ("page", "b")], True),  # loaded again after the run, not saved
        ([("page", "a"), "rendered", "end", "shown", ("page", "b"), "rendered"], False),
        ([("page", "a"), "rendered", ("page", "b"), "rendered", "end"], False),  # loaded again, and it was saved
        ([("page", "a"), "rendered", ("page", "b"), "end", "shown"], False),  # a second page; the first one has it
    ],
)
async def test_an_answer_is_missing_if_only_pages_that_do_not_show_it_are_left(
    browser: Browser, messages: list[Any], *, missing: bool
) -> None:
    for message in messages:
        if message == "end":
            browser.view.finish(SUMMARY, saved=True)
            continue
        browser.say(message if isinstance(message, str) else {"type": message[0], "page": message[1]})
        await asyncio.sleep(0)
    assert browser.view.is_missing == missing


async def test_the_text_to_copy_is_bounded(browser: Browser) -> None:
    browser.view.finish({**SUMMARY, "text": "x" * 1_000_000})
    assert len(browser.view.summary["text"]) < 110_000


def test_outside_a_loop_and_a_kernel_the_view_is_inert() -> None:
    view = LiveView(EventLog(), agent="a", actions=Recorder())
    view.finish(SUMMARY)
    assert view.phase == "done"
    view.close()


def test_frontends_without_widgets_show_nothing() -> None:
    view = LiveView(EventLog(), agent="a", actions=Recorder())
    data, _ = view._repr_mimebundle_()
    assert data["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert (data["text/plain"], data["text/html"]) == ("", "")
    view.close()


async def test_a_view_sends_its_code_when_asked_even_after_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    file = next(word for word in LOADER.read_text(encoding="utf-8").split('"') if word.startswith("live-"))
    view = LiveView(EventLog(), agent="a", actions=Recorder())
    sent: list[Any] = []
    monkeypatch.setattr(view, "send", lambda content, buffers=None: sent.append((content, buffers)))
    view.finish(SUMMARY)
    sent.clear()
    view._receive(view, {"type": "load", "file": file}, [])
    view._receive(view, {"type": "load", "file": "live-0"}, [])
    await asyncio.sleep(0)
    assert sent == [({"type": "code", "file": file}, [(LOADER.parent / "live.js").read_bytes()])]
    view.close()


async def test_the_state_of_a_view_is_small() -> None:
    LiveView(EventLog(), agent="a", actions=Recorder()).close()
    view = LiveView(EventLog(), agent="a", actions=Recorder())
    state = view.get_state()
    assert len(str(state["_esm"])) + len(str(state.get("_css", ""))) <= 1024
    assert not state["code"]
    assert (state["layout"], state["tooltip"]) == (None, None), "a layout would be a model of its own in the page"
    view.close()


STATIC = LOADER.parent
FILE = next(word for word in LOADER.read_text(encoding="utf-8").split('"') if word.startswith("live-"))


def test_the_loader_requests_the_file_that_was_built() -> None:
    assert code_of(FILE) == (STATIC / "live.js").read_bytes()


@pytest.mark.parametrize(
    "file", ["", "live", "live-", "live-000000000000", f"../static/{FILE}", "/etc/passwd-x", "x" * 9999]
)
def test_nothing_else_is_sent(file: str) -> None:
    assert code_of(file) is None


def test_the_code_is_brought_along_once() -> None:
    first = FirstCode()
    assert [len(first.take()) > 10_000, first.take()] == [True, b""]


@pytest.mark.parametrize(("name", "most"), [("live", 110_000), ("mathematics", 55_000)])
def test_the_code_of_the_view_stays_small(name: str, most: int) -> None:
    """In bytes as they are compressed on their way; each page gets the code once, and formulas when it has one."""
    assert len(gzip.compress((LOADER.parent / f"{name}.js").read_bytes(), mtime=0)) <= most
    assert len(LOADER.read_bytes()) <= 1024
