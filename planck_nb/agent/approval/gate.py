"""Tool calls that wait until it is decided whether they may run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from weakref import WeakSet

from planck_nb.agent import events as ev
from planck_nb.agent.approval.policy import Policy
from planck_nb.agent.approval.rule import Rule
from planck_nb.agent.approval.shown_call import MAX_CHARACTERS, MAX_LINES, call_size
from planck_nb.agent.calling.approved_call import ApprovedCall, file_version
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.effect import Effect
from planck_nb.agent.events import DEFAULT_SCOPE, RuleScope
from planck_nb.agent.identity import AgentIdentity
from planck_nb.agent.recorder import EventRecorder
from planck_nb.ai.messages import ToolCallPart
from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import AgentError, ToolError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.threads import run_in_thread

DEADLINE = 300.0
"""Seconds that a person has to decide."""

UNRESTRICTED = "It can do everything that you can, so each call needs approval; look at all of it."
"""The reason for asking about an unrestricted tool."""

CONNECT_TIMEOUT = 3.0
"""Seconds in which a frontend has to connect before a call is denied or a question declined."""


@dataclass
class Approvals:
    """Decides whether calls may run, by rules or by asking a person; the agents of a workspace share one.

    Args:
        policy: The rules; a person decides about calls that need approval.
        deadline: Seconds that a person has to decide. The `deadline` of an `ApprovalRequest` is the time at which they
            have passed.
        attendance: Set while a frontend is connected, so that a person sees requests; None if a person can always be
            asked.
        patience: Seconds to wait for a frontend before a call is denied.

    Example:
        >>> from pathlib import Path
        >>> from planck_nb import Effect, Rule
        >>> approvals = Approvals(Policy.ask_before_changes(Path("/project")))
        >>> approvals.remember(Rule.parse("allow", "write:notes/**"))
        >>> approvals.policy.decide("write", [Effect("write", "/project/notes/monday.md")], {}).action
        'allow'
    """

    policy: Policy
    deadline: float = DEADLINE
    attendance: asyncio.Event | None = None
    patience: float = CONNECT_TIMEOUT

    def __post_init__(self) -> None:
        self._gates: WeakSet[Gate] = WeakSet()

    def add_gate(self, gate: Gate) -> None:
        """Review the calls that wait at a gate whenever a rule is added.

        Args:
            gate: The gate of an agent; it is not kept alive.
        """
        self._gates.add(gate)

    def remember(self, rule: Rule) -> None:
        """Add a rule, which also applies to calls that are already waiting.

        Args:
            rule: The rule to follow from now on.
        """
        self.policy = self.policy.with_rule(rule)
        for gate in list(self._gates):
            gate.review()

    def forget(self, rule: Rule) -> None:
        """Take a rule back, also for calls that are already waiting.

        Args:
            rule: The rule.
        """
        self.policy = replace(self.policy, rules=tuple(other for other in self.policy.rules if other != rule))
        for gate in list(self._gates):
            gate.review()

    def attend(self) -> None:
        """Note that a frontend is connected: from now on, calls that need approval wait for a person to decide."""
        if self.attendance is not None:
            self.attendance.set()

    def leave(self) -> None:
        """Note that no frontend is connected any more: later requests wait for one again."""
        if self.attendance is not None:
            self.attendance.clear()

    def deny_unattended(self, agent_id: str, call_id: str) -> None:
        """Deny a call that waits, because it is known that nobody can be asked about it.

        Args:
            agent_id: The agent that asks.
            call_id: The id of the call; one that does not wait is ignored.
        """
        for gate in list(self._gates):
            gate.deny_unattended(agent_id, call_id)

    async def attended(self, answer: asyncio.Future[_Decision]) -> bool:
        """Wait briefly for a frontend to connect, or for a decision.

        Args:
            answer: Ends the wait when it is done.

        Returns:
            Whether there is a frontend, so that a person can be asked.
        """
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
    """A decision, with the fields of `ApprovalDecision`."""

    allowed: bool
    by: Literal["rule", "user", "deadline", "nobody"]
    args: JsonObject | None = None
    rule: str = ""
    reason: str = ""
    scope: RuleScope = ""
    call: ApprovedCall | None = None
    """The call as it may run, None if it may not."""


@dataclass(frozen=True, slots=True)
class _Waiting:
    tool: Tool
    call: ApprovedCall
    rule: Rule | None
    """The rule that may be remembered, None if each call needs its own decision."""
    allow_for_prompts: Callable[[], None] | None
    """Permission for the present prompts, if possible."""
    answer: asyncio.Future[_Decision]


class Gate:
    """Decides which calls of one agent may run.

    Args:
        approvals: The rules, and how long to wait for a person.
        agent: The agent that makes the calls.
        recorder: Publishes and stores requests and decisions.
    """

    def __init__(self, approvals: Approvals, agent: AgentIdentity, recorder: EventRecorder) -> None:
        self._approvals = approvals
        self._agent = agent
        self._recorder = recorder
        self._waiting: dict[str, _Waiting] = {}
        approvals.add_gate(self)

    async def approve(
        self,
        tool: Tool,
        call: ToolCallPart,
        *,
        allowed: bool = False,
        allow_for_prompts: Callable[[], None] | None = None,
    ) -> ApprovedCall:
        """Wait until the call may run.

        Args:
            tool: The tool.
            call: The call.
            allowed: Whether the prompts that are answered allow the tool.
            allow_for_prompts: Makes these prompts allow the tool; used for unrestricted tools, which no rule can allow.

        Returns:
            The call as it was approved; the user may have edited its arguments.

        Raises:
            ToolError: If it may not run, or its arguments do not fit the tool.
        """
        tool.check(call.args)
        # Before the rules are read: a rule that is added later is applied to the calls that wait, which this does not.
        sandboxed = None if tool.sandboxed is None else await run_in_thread(tool.sandboxed)
        policy = self._policy_for(tool, allowed=allowed)
        touches = policy.resolved(tool.touched(call.args))
        verdict = policy.decide(tool.name, touches, call.args)
        rule = "" if verdict.rule is None else str(verdict.rule)
        if verdict.action == "allow":
            if touches or rule:
                await self._decided(call, _Decision(True, "rule", rule=rule))
            return ApprovedCall(call.args, touches)
        reason = verdict.reason
        if verdict.action == "ask":
            reason = _too_long(tool.name, call.args, touches)
        if reason:
            await self._decided(call, _Decision(False, "rule", rule=rule, reason=reason))
            raise ToolError(f"{call.name} was denied: {reason}")
        reason = UNRESTRICTED if tool.unrestricted and verdict.rule is None and not allowed else verdict.reason
        grant = allow_for_prompts if tool.unrestricted else None
        answer = await self._ask(tool, call, touches, reason, sandboxed, grant)
        await self._decided(call, answer)
        if answer.call is None:
            raise ToolError(answer.reason)
        return answer.call

    def decide(
        self,
        call_id: str,
        *,
        allow: bool,
        args: JsonObject | None = None,
        remember: bool = False,
        reason: str = "",
        scope: RuleScope = DEFAULT_SCOPE,
    ) -> None:
        """Decide about a call that is waiting; see `Agent.decide`."""
        waiting = self._waiting.get(call_id)
        if waiting is None or waiting.answer.done():
            raise AgentError(f"No call {call_id} is waiting for a decision; it was decided or stopped already.")
        if allow and remember and scope == "prompt":
            self._allow_for_prompts(waiting, args)
            return
        if allow and remember and (scope not in ("agent", "role", "all") or (scope == "role" and not self._agent.role)):
            raise UsageError(f"A rule cannot be remembered for {scope!r}; use 'agent', 'all', or 'role' in a team.")
        if allow and remember and waiting.rule is None:
            raise UsageError(
                f"{waiting.tool.name} can do everything that you can, so it is allowed one call at a time; allow only "
                "this call."
            )
        self._approvals.attend()
        if not allow:
            sentence = f"The user denied this call: {reason}" if reason else "The user denied this call."
            waiting.answer.set_result(_Decision(False, "user", reason=sentence))
            return
        approved, rule = waiting.call, waiting.rule
        if args is not None:
            waiting.tool.check(args)
            policy = self._policy_for(waiting.tool)
            touches = policy.resolved(waiting.tool.touched(args))
            verdict = policy.decide(waiting.tool.name, touches, args)
            if verdict.action == "deny":
                raise AgentError(f"The edited arguments cannot be approved: {verdict.reason}")
            approved = _asked(args, touches)
            rule = None if waiting.tool.unrestricted else policy.remembering(waiting.tool.name, touches)
        if rule is None or not remember:
            waiting.answer.set_result(_Decision(True, "user", args, call=approved))
            return
        rule = rule.limited_to(self._agent, scope)
        waiting.answer.set_result(_Decision(True, "user", args, str(rule), scope=scope, call=approved))
        self._approvals.remember(rule)

    def _allow_for_prompts(self, waiting: _Waiting, args: JsonObject | None) -> None:
        """Allow a tool for the present prompts.

        Its other waiting calls run, too, unless they name secret files.
        """
        if waiting.allow_for_prompts is None:
            raise UsageError(f"{waiting.tool.name} cannot be allowed for a prompt; allow this call, or always.")
        if args is not None:
            raise UsageError("Edited arguments are allowed once; allow the tool for this prompt at its next call.")
        self._approvals.attend()
        waiting.allow_for_prompts()
        policy = self._policy_for(waiting.tool, allowed=True)
        for other in self._waiting.values():
            verdict = policy.decide(other.tool.name, other.call.touches or (), other.call.args)
            is_allowed = other is waiting or (other.tool.name == waiting.tool.name and verdict.action == "allow")
            if is_allowed and not other.answer.done():
                other.answer.set_result(_Decision(True, "user", scope="prompt", call=other.call))

    def deny_unattended(self, agent_id: str, call_id: str) -> None:
        """Deny a call of this agent that waits, because nobody can be asked; see `Approvals.deny_unattended`."""
        waiting = self._waiting.get(call_id)
        if agent_id == self._agent.id and waiting is not None and not waiting.answer.done():
            waiting.answer.set_result(_Decision(False, "nobody", reason=_nobody(waiting.tool.name)))

    def withdraw(self, tool: Tool) -> None:
        """Deny a tool's waiting calls, before it is removed or replaced."""
        for waiting in self._waiting.values():
            if waiting.tool is tool and not waiting.answer.done():
                reason = f"{tool.name} was removed or replaced while the call waited for approval; it did not run."
                waiting.answer.set_result(_Decision(False, "rule", reason=reason))

    def review(self) -> None:
        """Decide about the waiting calls that the rules now allow or deny."""
        for waiting in self._waiting.values():
            policy = self._policy_for(waiting.tool)
            verdict = policy.decide(waiting.tool.name, waiting.call.touches or (), waiting.call.args)
            if verdict.action != "ask" and not waiting.answer.done():
                allowed = verdict.action == "allow"
                reason = "" if allowed else f"{waiting.tool.name} was denied: {verdict.reason}"
                call = waiting.call if allowed else None
                rule = str(verdict.rule or "")
                waiting.answer.set_result(_Decision(allowed, "rule", rule=rule, reason=reason, call=call))

    @property
    def _policy(self) -> Policy:
        """The rules that are for this agent."""
        return self._approvals.policy.for_agent(self._agent)

    def _policy_for(self, tool: Tool, *, allowed: bool = False) -> Policy:
        """The rules for calls of this tool by this agent."""
        policy = self._policy.for_unrestricted() if tool.unrestricted else self._policy
        return policy.with_rule(Rule("allow", tool.name)) if allowed else policy

    async def _decided(self, call: ToolCallPart, made: _Decision) -> None:
        """Publish a decision and return once it is durable, unless the call was cancelled meanwhile."""
        await self._recorder.keep(
            ev.ApprovalDecision,
            call.id,
            call.name,
            made.allowed,
            made.by,
            made.args,
            made.rule,
            made.reason,
            made.scope,
        )
        await asyncio.sleep(0)  # a cancellation that arrived during the disk write is delivered here

    async def _ask(  # noqa: PLR0917 - each is a part of the request
        self,
        tool: Tool,
        call: ToolCallPart,
        touches: tuple[Effect, ...],
        reason: str,
        sandboxed: bool | None,
        allow_for_prompts: Callable[[], None] | None,
    ) -> _Decision:
        timeout = self._approvals.deadline
        answer: asyncio.Future[_Decision] = asyncio.get_running_loop().create_future()
        rule = None if tool.unrestricted else self._policy.remembering(tool.name, touches)
        self._waiting[call.id] = _Waiting(tool, _asked(call.args, touches), rule, allow_for_prompts, answer)
        shown = tuple(Effect(touch.kind, str(touch.target), touch.cwd) for touch in touches)
        deadline = time.time() + timeout
        self._recorder.emit(
            ev.ApprovalRequest,
            call.id,
            call.name,
            call.args,
            shown,
            reason,
            deadline,
            str(rule or ""),
            sandboxed,
            allow_for_prompts is not None,
        )
        try:
            if not await self._approvals.attended(answer) and not answer.done():
                return _Decision(False, "nobody", reason=_nobody(call.name))
            await asyncio.wait([answer], timeout=timeout)
            if answer.done():
                return answer.result()
            late = f"Nobody approved {call.name} within {timeout:g} s; go on without it, or ask the user."
            return _Decision(False, "deadline", reason=late)
        except asyncio.CancelledError:
            stopped = "The turn was stopped before anybody decided."
            self._recorder.emit(ev.ApprovalDecision, call.id, call.name, False, "stop", None, "", stopped)
            raise
        finally:
            del self._waiting[call.id]


def _asked(args: JsonObject, touches: tuple[Effect, ...]) -> ApprovedCall:
    """The call that a person is asked about, with the current versions of the files that it would change."""
    written = [touch.target for touch in touches if touch.kind == "write" and touch.target]
    return ApprovedCall(args, touches, {str(path): file_version(Path(path)) for path in written})


def _too_long(name: str, args: JsonObject, touches: tuple[Effect, ...]) -> str:
    """A sentence on a call that is too long to be shown as a whole, and so cannot be approved; else empty."""
    size = call_size(args, touches)
    if size.can_be_shown:
        return ""
    return (
        f"It has {size.characters:,} characters in {size.lines:,} lines, and at most {MAX_CHARACTERS:,} in "
        f"{MAX_LINES:,} can be shown for approval; do it in smaller parts, or ask the user to allow it with "
        f"`--allow {name}`."
    )


def _nobody(name: str) -> str:
    return (
        f"{name} needs approval and there is nobody to ask; the user can allow it up front with `--allow {name}` "
        "before the prompt."
    )
