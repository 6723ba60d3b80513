"""Calls that wait until somebody decides whether they may run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakSet

from planck_nb.agent import events as ev
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.effect import Effect
from planck_nb.agent.calling.tool import Tool
from planck_nb.ai.messages import ToolCallPart
from planck_nb.base.aio import cancel_and_wait, spawn
from planck_nb.base.errors import AgentError, ToolError
from planck_nb.base.json_types import JsonObject

DEADLINE = 300.0
"""Seconds that somebody has to decide."""

PATIENCE = 3.0
"""Seconds that a frontend has to show up before nobody is asked."""


@dataclass
class Approvals:
    """How it is decided whether a call may run; agents of one workspace share one.

    `policy` decides, and what it leaves open is asked. `deadline` is in seconds. `attendance` is set once somebody is
    there who can be asked; without one it is assumed that somebody is.
    """

    policy: Policy
    deadline: float = DEADLINE
    attendance: asyncio.Event | None = None
    patience: float = PATIENCE

    def __post_init__(self) -> None:
        self._gates: WeakSet[Gate] = WeakSet()

    def guard(self, gate: Gate) -> None:
        """Have `gate`, as long as it lives, look again at what waits there when a rule is added."""
        self._gates.add(gate)

    def remember(self, rule: Rule) -> None:
        """Follow this rule from now on, for calls that wait already too."""
        self.policy = self.policy.with_rule(rule)
        for gate in list(self._gates):
            gate.review()

    def attend(self) -> None:
        """Take in that somebody is there who can be asked."""
        if self.attendance is not None:
            self.attendance.set()

    async def attended(self, answer: asyncio.Future[_Decision]) -> bool:
        """Whether there is somebody to ask, after a moment in which a frontend, or the answer, may come."""
        if self.attendance is None or self.attendance.is_set():
            return True
        arrival = spawn(self.attendance.wait(), name="planck-attendance")
        try:
            first: list[asyncio.Future[Any]] = [arrival, answer]
            await asyncio.wait(first, timeout=self.patience, return_when=asyncio.FIRST_COMPLETED)
        finally:
            await cancel_and_wait(arrival)
        return self.attendance.is_set()


@dataclass(frozen=True, slots=True)
class _Decision:
    """What somebody decided, as `ApprovalDecision` says it."""

    allowed: bool
    by: Literal["rule", "user", "deadline", "nobody"]
    args: JsonObject | None = None
    rule: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class _Waiting:
    tool: Tool
    args: JsonObject
    touches: tuple[Effect, ...]
    answer: asyncio.Future[_Decision]


class Gate:
    """Lets one agent's calls through, or not.

    `emit` tells whoever watches; `keep` does so and returns once what was told cannot be lost any more.
    """

    def __init__(self, approvals: Approvals, emit: Callable[..., None], keep: Callable[..., Awaitable[None]]) -> None:
        self._approvals = approvals
        self._emit = emit
        self._keep = keep
        self._waiting: dict[str, _Waiting] = {}
        approvals.guard(self)

    async def approve(self, tool: Tool, call: ToolCallPart) -> JsonObject:
        """The arguments to run the call with, once it may run. Raises `ToolError` where it may not."""
        tool.check(call.args)
        touches = tool.touched(call.args)
        verdict = self._approvals.policy.decide(tool.name, touches, call.args)
        rule = "" if verdict.rule is None else str(verdict.rule)
        if verdict.action == "allow":
            if touches or rule:
                await self._decided(call, True, "rule", None, rule)
            return call.args
        if verdict.action == "deny":
            await self._decided(call, False, "rule", None, rule, verdict.reason)
            raise ToolError(f"{call.name} was denied: {verdict.reason}")
        answer = await self._ask(tool, call, touches, verdict.reason)
        await self._decided(call, answer.allowed, answer.by, answer.args, answer.rule, answer.reason)
        if not answer.allowed:
            raise ToolError(answer.reason)
        return call.args if answer.args is None else answer.args

    def decide(
        self, call_id: str, *, allow: bool, args: JsonObject | None = None, remember: bool = False, reason: str = ""
    ) -> None:
        """Answer a request.

        Raises `AgentError` where none waits and for edited arguments that the policy denies, `ToolError` for edited
        arguments that do not fit.
        """
        waiting = self._waiting.get(call_id)
        if waiting is None or waiting.answer.done():
            raise AgentError(f"No call {call_id} waits for a decision; it was decided or stopped before.")
        self._approvals.attend()
        if not allow:
            said = f"The user denied this call: {reason}" if reason else "The user denied this call."
            waiting.answer.set_result(_Decision(False, "user", reason=said))
            return
        touches = waiting.touches
        if args is not None:
            waiting.tool.check(args)
            touches = waiting.tool.touched(args)
            verdict = self._approvals.policy.decide(waiting.tool.name, touches, args)
            if verdict.action == "deny":
                raise AgentError(f"The edited arguments cannot be approved: {verdict.reason}")
        rule = self._approvals.policy.remembering(waiting.tool.name, touches) if remember else None
        waiting.answer.set_result(_Decision(True, "user", args, str(rule or "")))
        if rule is not None:
            self._approvals.remember(rule)

    def review(self) -> None:
        """Decide what waits and needs nobody any more, by the rules there are now."""
        for waiting in self._waiting.values():
            verdict = self._approvals.policy.decide(waiting.tool.name, waiting.touches, waiting.args)
            if verdict.action != "ask" and not waiting.answer.done():
                allowed = verdict.action == "allow"
                reason = "" if allowed else f"{waiting.tool.name} was denied: {verdict.reason}"
                waiting.answer.set_result(_Decision(allowed, "rule", rule=str(verdict.rule or ""), reason=reason))

    async def _decided(self, call: ToolCallPart, *said: object) -> None:
        """Tell of a decision; it is on disk, and nobody has stopped the call meanwhile, when this returns."""
        await self._keep(ev.ApprovalDecision, call.id, call.name, *said)
        await asyncio.sleep(0)  # where a stop that came while the disk was waited for is delivered

    async def _ask(self, tool: Tool, call: ToolCallPart, touches: tuple[Effect, ...], reason: str) -> _Decision:
        seconds = self._approvals.deadline
        answer: asyncio.Future[_Decision] = asyncio.get_running_loop().create_future()
        self._waiting[call.id] = _Waiting(tool, call.args, touches, answer)
        self._emit(ev.ApprovalRequest, call.id, call.name, call.args, touches, reason, time.time() + seconds)
        try:
            if not await self._approvals.attended(answer) and not answer.done():
                return _Decision(False, "nobody", reason=_nobody(call.name))
            await asyncio.wait([answer], timeout=seconds)
            if answer.done():
                return answer.result()
            late = f"Nobody approved {call.name} within {seconds:g} s; go on without it, or ask the user."
            return _Decision(False, "deadline", reason=late)
        except asyncio.CancelledError:
            said = "The turn was stopped before anybody decided."
            self._emit(ev.ApprovalDecision, call.id, call.name, False, "stop", None, "", said)
            raise
        finally:
            del self._waiting[call.id]


def _nobody(name: str) -> str:
    return (
        f"{name} needs approval and there is nobody to ask; the user can allow it up front with `--allow {name}` "
        "before the prompt."
    )
