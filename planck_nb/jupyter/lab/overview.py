"""Copies of the kernel's state for side panels.

They are there also while a cell blocks the kernel.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from IPython.core.interactiveshell import InteractiveShell

from planck_nb.agent.agent import Agent
from planck_nb.agent.events import ApprovalRequest
from planck_nb.base.async_tasks import spawn
from planck_nb.base.errors import AgentError, PlanckError
from planck_nb.base.text import encodable
from planck_nb.config import TrustItem
from planck_nb.jupyter.agent_rows import agent_rows
from planck_nb.jupyter.charts.history_rows import records
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.display.trust_listing import trust_lines, trust_status, trusted_path
from planck_nb.jupyter.lab.protocol import (
    Activity,
    AgentEntry,
    Approve,
    Overview,
    OverviewWanted,
    Stored,
    StoredSession,
    Trust,
    TrustEntry,
    WaitingCall,
)
from planck_nb.jupyter.live.approval_display import ApprovalDisplay, approval_display
from planck_nb.jupyter.live.browser_commands import as_edited
from planck_nb.jupyter.live.run_actions import SCOPES
from planck_nb.workspace.agent_names import full_name, named_agents

FRESH_SECONDS = 0.1
"""An answer's wait for a new copy.

While a cell blocks, it is in vain.
"""

_TELL_SECONDS = 1.0
"""Shortest time between two messages about activity."""

_READ_SECONDS = 10.0
"""Highest age for sessions and usage."""
_READ_SHARE = 10
"""Reading them takes at most one in so many seconds."""

_SESSIONS = """
SELECT session_id AS id, session_name AS name, messages, cost_usd, epoch(greatest(created, last)) AS used
FROM sessions ORDER BY used DESC, session_id LIMIT 2000
"""
_TODAY = """
SELECT sum(coalesce(cost_usd, CASE WHEN model LIKE 'demo:%' THEN 0 END)) AS cost,
    count(*) FILTER (cost_usd IS NULL AND model NOT LIKE 'demo:%') AS unpriced,
    coalesce(sum(coalesce(input_tokens, 0) + coalesce(output_tokens, 0)), 0)::BIGINT AS tokens
FROM charges WHERE ts >= TIMESTAMP '{since}'
"""


@dataclass(frozen=True, slots=True)
class _Copy:
    """The kernel's state at a time."""

    made: float
    overview: Overview
    stored: int = 0
    history: Stored = field(default_factory=Stored)


class OverviewSource:
    """Makes and hands out copies of the kernel's state.

    Copies are made on the event loop: before each cell, and when a panel asks. Sessions and usage are read from the
    disk in a task, if a panel asks.

    Args:
        shell: The notebook's shell.
        controller: Its controller.
        loop: The kernel's event loop.
        is_busy: Whether a cell runs.
    """

    def __init__(
        self,
        shell: InteractiveShell,
        controller: Controller,
        loop: asyncio.AbstractEventLoop,
        is_busy: Callable[[], bool],
    ) -> None:
        self._shell = shell
        self._workspace = controller.workspace
        self._controller = controller
        self._loop = loop
        self._is_busy = is_busy
        self._thread = threading.get_ident()
        self._copy = _Copy(time.monotonic(), Overview("", 0.0, 0.0))
        self._displays: dict[tuple[str, str], ApprovalDisplay] = {}
        self.tell: Callable[[Activity], None] = lambda _activity: None
        """Callback for new activity."""
        self._following: asyncio.Task[None] | None = None
        self._activity: Activity | None = None
        """The last one told."""
        self._reading: asyncio.Task[None] | None = None
        self._read_again = 0.0
        """Time to read the history again."""
        self._pause_ends = 0.0
        """Earliest time to do so for something new."""
        self._read_state: tuple[object, ...] = ()

    def install(self) -> None:
        """Follow the shell."""
        self._shell.events.register("pre_run_cell", self._before_cell)

    def remove(self) -> None:
        """Undo `install`."""
        self._shell.events.unregister("pre_run_cell", self._before_cell)
        for task in (self._reading, self._following):
            if task is not None:
                task.cancel()

    def follow(self) -> None:
        """Tell all pages about the agents' activity from now on."""
        self._activity = None
        self._tell()
        if self._following is None or self._following.done():
            self._following = spawn(self._follow(), name="planck activity")

    def answer(self, question: OverviewWanted) -> Overview:
        """Return the newest copy, on any thread.

        Args:
            question: The panel's question.
        """
        if threading.get_ident() == self._thread:  # ipykernel 6 has no other
            self._refresh()
        else:
            is_fresh = threading.Event()
            with suppress(RuntimeError):  # the loop is closed: the kernel is on its way out
                self._loop.call_soon_threadsafe(self._refresh, is_fresh)
                is_fresh.wait(FRESH_SECONDS)
        copy = self._copy
        history = None if question.stored == copy.stored else copy.history
        age = max(0.0, time.monotonic() - copy.made)
        return replace(
            copy.overview, request=question.request, age=age, now=time.time(), stored=copy.stored, history=history
        )

    def decide(self, decision: Approve) -> str:
        """Decide about a waiting call.

        Args:
            decision: The person's decision.

        Returns:
            The obstacle; empty without one.
        """
        try:
            agent = self._workspace.find_agent(decision.agent_id)
            pending = next((call for call in agent.state.pending_approvals if call.id == decision.id), None)
            if pending is None:
                raise AgentError("The call is not waiting any more; it was decided or stopped.")
            agent.decide(
                decision.id,
                allow=decision.allow,
                args={**pending.args, **as_edited(decision.args)} if decision.args else None,
                remember=decision.remember,
                reason=encodable(decision.reason),
                scope=SCOPES[decision.scope],
            )
        except PlanckError as error:
            return str(error)
        return ""

    def trust(self, choice: Trust) -> str:
        """Trust files as a person has seen them.

        Args:
            choice: What was shown.

        Returns:
            The obstacle; empty without one.
        """
        self._forget_history()  # the panel shows at once what still waits
        waiting = {_key(file.item): file.item for file in self._workspace.trust_items() if file.is_waiting}
        if not choice.keys or not waiting.keys() >= set(choice.keys):
            return "Nothing was trusted, because the files are not as they were shown; read what waits now."
        try:
            self._workspace.trust([waiting[key] for key in choice.keys])
        except PlanckError as error:
            return str(error)
        return ""

    def _forget_history(self) -> None:
        """Read the history for the next question."""
        if self._reading is not None:
            self._reading.cancel()
        self._read_again = self._pause_ends = 0.0

    def _before_cell(self, _info: object) -> None:
        self._copy_state(running=True)
        if self._following is not None and self._following.done():  # another session was opened
            self.follow()

    async def _follow(self) -> None:
        while True:
            events = self._workspace.subscribe()
            try:
                await anext(events)
            except StopAsyncIteration:  # this session is closed
                return
            finally:
                events.close()
            await asyncio.sleep(_TELL_SECONDS)
            self._tell()

    def _tell(self) -> None:
        """Tell the activity if it is new."""
        states = [agent.state for agent in self._agents()]
        costs = [state.cost for state in states if state.cost is not None]
        activity = Activity(
            sum(state.status != "idle" for state in states),
            sum(len(state.pending_approvals) for state in states),
            sum(costs) if costs else None,
        )
        if activity != self._activity:
            self._activity = activity
            self.tell(activity)

    def _refresh(self, event: threading.Event | None = None) -> None:
        """Copy the state, and read the history if it is due."""
        self._copy_state(running=self._is_busy())
        if event is not None:
            event.set()
        now = time.monotonic()
        state = (self._workspace.session_id, *(len(agent.state.messages) for agent in self._agents()))
        is_due = now >= self._read_again or (now >= self._pause_ends and state != self._read_state)
        if is_due and (self._reading is None or self._reading.done()):
            self._read_state = state
            with suppress(RuntimeError):  # outside the loop, as between cells in ipykernel 6
                asyncio.get_running_loop()
                self._reading = spawn(self._read(), name="planck panel")

    def _copy_state(self, *, running: bool) -> None:
        workspace = self._workspace
        rows = agent_rows(workspace)
        overview = Overview(
            "",
            0.0,
            0.0,
            running=running,
            default=self._controller.default,
            session=workspace.session_id or "",
            agents=tuple(
                AgentEntry(name, row["team"], row["status"], row["waits_for"], row["model"], row["cost_usd"])
                for name, row in zip(named_agents(workspace), rows, strict=True)
            ),
            teams=tuple(workspace.teams),
            waiting=tuple(self._waiting()),
        )
        self._copy = replace(self._copy, made=time.monotonic(), overview=overview)

    def _agents(self) -> Collection[Agent]:
        return named_agents(self._workspace).values()

    def _waiting(self) -> list[WaitingCall]:
        """Return the calls that wait, the first to expire first."""
        calls = [
            WaitingCall(
                agent.id,
                full_name(self._workspace, agent),
                agent.state.role,
                call.id,
                call.name,
                call.deadline,
                display,
            )
            for agent in self._agents()
            for call in agent.state.pending_approvals
            if (display := self._display(agent, call.id)) is not None
        ]
        self._displays = {(call.agent, call.id): call.display for call in calls}
        return sorted(calls, key=lambda call: call.deadline)

    def _display(self, agent: Agent, call_id: str) -> ApprovalDisplay | None:
        """Return what a call would do, as in its first copy.

        The file may change meanwhile.
        """
        if (display := self._displays.get((agent.id, call_id))) is not None:
            return display
        for event in reversed(agent.events.since(0)):
            if isinstance(event, ApprovalRequest) and event.id == call_id:
                return approval_display(event)
        return None

    async def _read(self) -> None:
        """Read the sessions, today's usage and what waits for trust."""
        start = time.monotonic()
        root = self._workspace.config.root
        entries = tuple(
            TrustEntry(
                _key(file.item),
                file.item.title,
                trusted_path(file, root),
                trust_status(file),
                tuple(trust_lines(file)),
            )
            for file in self._workspace.trust_items()
            if file.is_waiting
        )
        today = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0).astimezone(UTC)
        try:
            rows = records(await self._workspace.query_async(_SESSIONS))
            [usage] = records(await self._workspace.query_async(_TODAY.format(since=f"{today:%Y-%m-%d %H:%M:%S}")))
            sessions = tuple(
                StoredSession(row["id"], row["name"], int(row["messages"] or 0), row["cost_usd"], row["used"])
                for row in rows
            )
            history = Stored(sessions, usage["cost"], bool(usage["unpriced"]), int(usage["tokens"]), untrusted=entries)
        except PlanckError as error:
            history = replace(self._copy.history, problem=str(error), untrusted=entries)
        now = time.monotonic()
        self._pause_ends = now + _READ_SHARE * (now - start)
        self._read_again = max(self._pause_ends, now + _READ_SECONDS)
        if history != self._copy.history or not self._copy.stored:
            self._copy = replace(self._copy, stored=self._copy.stored + 1, history=history)


def _key(item: TrustItem) -> str:
    """Return a digest for what is used and what is shown."""
    return hashlib.sha256(repr((str(item.path), item.digest, item.text)).encode()).hexdigest()
