"""Approval: what may run runs, what needs approval waits, and every decision is on disk before the call."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
from support.agents import Hold, Listening, calling, kinds, paired, said, until
from support.virtual_time import virtually
from support.wire import chat_chunk, client, sse

from planck_nb import Agent, BuiltinTools, Session, Tool
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.effect import Effect
from planck_nb.agent.events import AgentEvent, ApprovalDecision, ApprovalRequest
from planck_nb.agent.identity import Role
from planck_nb.agent.message_log import MemoryLog
from planck_nb.ai import get_model
from planck_nb.base.async_tasks import uninterrupted
from planck_nb.base.errors import AgentError, ToolError, UsageError
from planck_nb.jupyter.live.approval_display import approval_display
from planck_nb.sessions import query
from planck_nb.testing import Call, Reply, scripted_model
from planck_nb.tools.external import ExternalTool
from planck_nb.tools.sandbox import SandboxMode, find_sandbox


class Shell:
    """A tool that would run commands, and remembers which."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def run(self, args: dict[str, str]) -> str:
        self.ran.append(args["command"])
        return f"ran {args['command']}"

    def tool(self) -> Tool:
        return Tool(
            name="sh",
            description="Run a command.",
            parameters={"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
            execute_fn=self.run,
            touches=lambda args: [Effect("execute", args["command"])],
        )


def asking(root: Path, *rules: Rule, deadline: float = 60.0) -> Approvals:
    policy = Policy.ask_before_changes(root)
    for rule in rules:
        policy = policy.with_rule(rule)
    return Approvals(policy, deadline)


def commands(*texts: str, then: str = "done") -> list[Reply | str]:
    return [Reply(calls=[Call("sh", {"command": text}) for text in texts]), then]


async def requested(run: object) -> ApprovalRequest:
    event = await until(run, "approval_request")
    assert isinstance(event, ApprovalRequest)
    return event


def decisions(events: list[AgentEvent]) -> list[tuple[bool, str]]:
    return [(event.allowed, event.by) for event in events if isinstance(event, ApprovalDecision)]


async def test_what_a_rule_allows_runs_and_is_recorded(tmp_path: Path) -> None:
    shell = Shell()
    approvals = asking(tmp_path, Rule.parse("allow", "sh:git status"))
    agent = Agent(model=scripted_model(commands("git status")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    await run
    told = [event async for event in run]
    assert shell.ran == ["git status"]
    assert decisions(told) == [(True, "rule")]
    assert "approval_request" not in kinds(told)


async def test_a_call_that_a_model_writes_as_text_asks_like_any_other(tmp_path: Path) -> None:
    shell = Shell()
    written = json.dumps({"name": "sh", "arguments": {"command": "rm -r data"}})
    bodies = [sse(chat_chunk({"content": text}), chat_chunk({}, "stop"), "[DONE]") for text in (written, "Gone.")]
    transport = httpx.MockTransport(lambda _: httpx.Response(200, content=b"".join(bodies.pop(0))))
    model = get_model("llama_cpp", "m", base_url="http://127.0.0.1:9", has_api_key=False)
    agent = Agent(model=model, client=client(transport), tools=[shell.tool()], approvals=asking(tmp_path))
    run = agent.prompt("go")
    request = await requested(run)
    assert shell.ran == []
    agent.decide(request.id, allow=True)
    assert (await run).text == "Gone."
    assert shell.ran == ["rm -r data"]


async def test_what_is_allowed_by_default_is_recorded_too(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    script = scripted_model(calling(("read", {"path": "a.txt"})))
    agent = Agent(model=script, tools=[BuiltinTools.read()], cwd=tmp_path, approvals=asking(tmp_path))
    run = agent.prompt("go")
    await run
    [decision] = [event async for event in run if isinstance(event, ApprovalDecision)]
    assert (decision.name, decision.allowed, decision.by, decision.rule) == ("read", True, "rule", "")


async def test_what_a_rule_denies_does_not_run(tmp_path: Path) -> None:
    shell = Shell()
    approvals = asking(tmp_path, Rule.parse("deny", "sh:rm *"))
    agent = Agent(model=scripted_model(commands("rm x")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    assert (await run).text == "done"
    assert not shell.ran
    assert said(agent)[2].startswith("tool_result: Error: sh was denied: Running `rm x` is forbidden by the rule")
    assert decisions([event async for event in run]) == [(False, "rule")]


async def test_tools_without_effects_need_no_approval(tmp_path: Path) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    agent = Agent(model=scripted_model(calling(("add", {"a": 1, "b": 2}))), tools=[add], approvals=asking(tmp_path))
    run = agent.prompt("go")
    await run
    assert decisions([event async for event in run]) == []
    assert said(agent)[2] == "tool_result: 3"


async def test_what_is_allowed_by_default_or_by_a_rule_without_effects_is_recorded(tmp_path: Path) -> None:
    def add(a: int, b: int) -> int:
        return a + b

    look = Tool(
        name="look",
        description="Look.",
        parameters={"type": "object", "properties": {"path": {"type": "string"}}},
        execute_fn=lambda args: args["path"],
        touches=lambda args: [Effect("read", args["path"])],
    )
    agent = Agent(
        model=scripted_model(calling(("look", {"path": "a.txt"}), ("add", {"a": 1, "b": 2}))),
        tools=[look, add],
        approvals=asking(tmp_path, Rule.parse("allow", "add")),
    )
    run = agent.prompt("go")
    await run
    made = [event for event in run.events.since(0) if isinstance(event, ApprovalDecision)]
    assert {(event.allowed, event.by, event.rule) for event in made} == {(True, "rule", ""), (True, "rule", "add")}


async def test_a_call_waits_for_its_answer(tmp_path: Path) -> None:
    shell = Shell()
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=asking(tmp_path))
    run = agent.prompt("go")
    request = await requested(run)
    assert (request.name, request.args, request.touches) == ("sh", {"command": "make"}, (Effect("execute", "make"),))
    assert "needs approval" in request.reason
    assert [call.id for call in agent.state.pending_approvals] == [request.id]
    assert agent.status == "executing_tools"
    assert not shell.ran
    agent.decide(request.id, allow=True)
    assert (await run).text == "done"
    assert shell.ran == ["make"]
    assert agent.state.pending_approvals == ()
    assert decisions([event async for event in run]) == [(True, "user")]


async def test_a_denial_tells_the_model_why(tmp_path: Path) -> None:
    shell = Shell()
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=asking(tmp_path))
    run = agent.prompt("go")
    agent.decide((await requested(run)).id, allow=False, reason="use ninja")
    await run
    assert not shell.ran
    assert said(agent)[2] == "tool_result: Error: The user denied this call: use ninja"


async def test_arguments_can_be_edited_and_are_checked(tmp_path: Path) -> None:
    shell = Shell()
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=asking(tmp_path))
    run = agent.prompt("go")
    request = await requested(run)
    with pytest.raises(ToolError, match="command"):
        agent.decide(request.id, allow=True, args={"cmd": "x"})
    assert not shell.ran
    agent.decide(request.id, allow=True, args={"command": "make -n"})
    await run
    assert shell.ran == ["make -n"]
    (decision,) = [event async for event in run if isinstance(event, ApprovalDecision)]
    assert decision.args == {"command": "make -n"}


async def test_edited_arguments_that_are_denied_are_refused(tmp_path: Path) -> None:
    shell, approvals = Shell(), asking(tmp_path, Rule.parse("deny", "execute:rm *"))
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    request = await requested(run)
    with pytest.raises(AgentError, match="cannot be approved"):
        agent.decide(request.id, allow=True, args={"command": "rm -r x"})
    agent.decide(request.id, allow=True)
    await run
    assert shell.ran == ["make"]


@pytest.mark.parametrize(
    ("rule", "allowed", "reason"),
    [
        (Rule.parse("allow", "execute:make"), True, ""),
        (Rule.parse("deny", "execute:make"), False, "sh was denied: "),
    ],
)
async def test_a_new_rule_decides_about_a_call_that_waits(
    tmp_path: Path, *, rule: Rule, allowed: bool, reason: str
) -> None:
    shell, approvals = Shell(), asking(tmp_path)
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    await requested(run)
    approvals.remember(rule)
    await run
    (decision,) = [event async for event in run if isinstance(event, ApprovalDecision)]
    assert (decision.allowed, decision.by, decision.rule) == (allowed, "rule", str(rule))
    assert decision.reason.startswith(reason)
    assert bool(decision.reason) is not allowed
    assert bool(shell.ran) is allowed


async def test_a_new_default_decides_about_a_call_that_waits(tmp_path: Path) -> None:
    shell, approvals = Shell(), asking(tmp_path)
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    await requested(run)
    approvals.policy = replace(approvals.policy, default={"execute": "allow"})
    approvals.remember(Rule.parse("allow", "write:elsewhere"))
    await run
    (decision,) = [event async for event in run if isinstance(event, ApprovalDecision)]
    assert (decision.allowed, decision.by, decision.rule, decision.reason) == (True, "rule", "", "")
    assert shell.ran == ["make"]


async def test_a_call_without_a_rule_to_remember_is_allowed_alone(tmp_path: Path) -> None:
    """Remembering such a call would have to allow everything that its tool does."""
    shell = Shell()
    tool = Tool(
        name="sh",
        description="Run a command.",
        parameters={"type": "object", "properties": {"command": {"type": "string"}}},
        execute_fn=shell.run,
        touches=lambda args: [Effect("execute")] if args["command"] == "other" else [Effect("execute", "make")],
    )
    agent = Agent(model=scripted_model(commands("make")), tools=[tool], approvals=asking(tmp_path))
    run = agent.prompt("go")
    request = await requested(run)
    agent.decide(request.id, allow=True, args={"command": "other"}, remember=True)
    await run
    assert shell.ran == ["other"]


async def test_the_first_answer_counts(tmp_path: Path) -> None:
    shell = Shell()
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=asking(tmp_path))
    run = agent.prompt("go")
    request = await requested(run)
    agent.decide(request.id, allow=False)
    for again in (request.id, "nobody"):
        with pytest.raises(AgentError, match="is waiting for a decision"):
            agent.decide(again, allow=True)
    await run
    assert not shell.ran
    with pytest.raises(AgentError, match="does not ask for approval"):
        Agent(model="demo").decide("x", allow=True)


async def test_a_remembered_rule_is_for_the_agent_that_asked(tmp_path: Path) -> None:
    shell, approvals = Shell(), asking(tmp_path)
    first = Agent(
        model=scripted_model([*commands("make"), *commands("make")]), tools=[shell.tool()], approvals=approvals
    )
    second = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals, name="second")
    run = first.prompt("go")
    first.decide((await requested(run)).id, allow=True, remember=True)
    await run
    await first.prompt("again")
    assert shell.ran == ["make", "make"]
    (decision,) = [event async for event in run if isinstance(event, ApprovalDecision)]
    assert (decision.scope, decision.rule) == ("agent", f"agent_id={first.id} execute@sh:make")
    run = second.prompt("go")
    second.decide((await requested(run)).id, allow=False)
    await run
    assert shell.ran == ["make", "make"]


async def test_a_rule_can_be_remembered_for_a_role(tmp_path: Path) -> None:
    shell, approvals = Shell(), asking(tmp_path)

    def agent(role: Role) -> Agent:
        return Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals, role=role)

    first, alike, other, alone = agent("worker"), agent("worker"), agent("orchestrator"), agent("")
    run = first.prompt("go")
    first.decide((await requested(run)).id, allow=True, remember=True, scope="role")
    await run
    await alike.prompt("go")
    assert shell.ran == ["make", "make"]
    for one in (other, alone):
        run = one.prompt("go")
        request = await requested(run)
        if not one.role:
            with pytest.raises(UsageError, match="'role' in a team"):
                one.decide(request.id, allow=True, remember=True, scope="role")
        one.decide(request.id, allow=False)
        await run
    assert shell.ran == ["make", "make"]


async def test_a_rule_can_be_remembered_for_all_agents(tmp_path: Path) -> None:
    shell, approvals = Shell(), asking(tmp_path)
    first = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    second = Agent(model=scripted_model(commands("make", "make all")), tools=[shell.tool()], approvals=approvals)
    run = first.prompt("go")
    first.decide((await requested(run)).id, allow=True, remember=True, scope="all")
    await run
    (decision,) = [event async for event in run if isinstance(event, ApprovalDecision)]
    assert Rule.parse("allow", decision.rule) in approvals.policy.rules
    run = second.prompt("go")
    request = await requested(run)
    assert request.args == {"command": "make all"}
    second.decide(request.id, allow=False)
    await run
    assert shell.ran == ["make", "make"]


async def test_what_is_remembered_is_what_somebody_approved(tmp_path: Path) -> None:
    shell, approvals = Shell(), asking(tmp_path)
    agent = Agent(
        model=scripted_model([*commands("rm -rf /")[:1], *commands("rm -rf /", "ls")]),
        tools=[shell.tool()],
        approvals=approvals,
    )
    run = agent.prompt("go")
    request = await requested(run)
    agent.decide(request.id, allow=True, args={"command": "ls"}, remember=True)
    async for event in run:
        if isinstance(event, ApprovalRequest) and event.id != request.id:
            assert event.args == {"command": "rm -rf /"}
            agent.decide(event.id, allow=False)
    assert shell.ran == ["ls", "ls"]


async def test_a_deadline_denies(tmp_path: Path) -> None:
    shell = Shell()
    approvals = asking(tmp_path, deadline=0.01)
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    assert (await run).text == "done"
    assert not shell.ran
    assert decisions([event async for event in run]) == [(False, "deadline")]
    assert "Nobody approved sh within 0.01 s" in said(agent)[2]


async def test_if_nobody_can_be_asked_the_call_is_denied_and_the_option_that_allows_it_named(tmp_path: Path) -> None:
    shell = Shell()
    approvals = replace(asking(tmp_path), attendance=asyncio.Event(), patience=0.01)
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    await run
    assert not shell.ran
    assert decisions([event async for event in run]) == [(False, "nobody")]
    assert "sh needs approval and there is nobody to ask; " in said(agent)[2]
    assert "`--allow sh`" in said(agent)[2]


def test_a_frontend_has_three_seconds_to_connect_and_a_person_five_minutes_to_decide(tmp_path: Path) -> None:
    policy = Policy.ask_before_changes(tmp_path)

    async def attended() -> tuple[bool, float]:
        loop = asyncio.get_running_loop()
        approvals = Approvals(policy, attendance=asyncio.Event())
        return await approvals.attended(loop.create_future()), loop.time()

    async def decided() -> tuple[str, float]:
        agent = Agent(model=scripted_model(commands("make")), tools=[Shell().tool()], approvals=Approvals(policy))
        await agent.prompt("go")
        return said(agent)[2], asyncio.get_running_loop().time()

    assert virtually(attended) == (False, 3.0)
    reason, seconds = virtually(decided)
    assert "within 300 s" in reason
    assert seconds == pytest.approx(300, abs=1)


async def test_a_call_is_denied_at_once_when_it_is_known_that_nobody_can_be_asked(tmp_path: Path) -> None:
    shell = Shell()
    approvals = asking(tmp_path)
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    request = await requested(run)
    approvals.deny_unattended(agent.id, "other call")
    approvals.deny_unattended("other agent", request.id)
    assert [call.id for call in agent.state.pending_approvals] == [request.id]
    for _ in range(2):
        approvals.deny_unattended(agent.id, request.id)
    await run
    assert not shell.ran
    assert decisions([event async for event in run]) == [(False, "nobody")]


async def test_somebody_who_comes_in_time_is_asked(tmp_path: Path) -> None:
    shell, here = Shell(), asyncio.Event()
    approvals = replace(asking(tmp_path), attendance=here, patience=30.0)
    agent = Agent(model=scripted_model(commands("make", "make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    await requested(run)
    here.set()
    for call in agent.state.pending_approvals:
        agent.decide(call.id, allow=True)
    await run
    assert shell.ran == ["make", "make"]


async def test_a_rule_that_is_added_does_not_wait_for_somebody_to_show_up(tmp_path: Path) -> None:
    shell = Shell()
    approvals = replace(asking(tmp_path), attendance=asyncio.Event(), patience=300.0)
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    await requested(run)
    approvals.remember(Rule.parse("allow", "sh"))
    async with asyncio.timeout(30):
        await run
    assert shell.ran == ["make"]


async def test_a_rule_that_is_added_decides_what_waits_as_well(tmp_path: Path) -> None:
    shell, other = Shell(), Shell()
    approvals = asking(tmp_path)
    agent = Agent(model=scripted_model(commands("a", "b", "c", "a")), tools=[shell.tool()], approvals=approvals)
    events = agent.subscribe()
    beside = Agent(model=scripted_model(commands("a")), tools=[other.tool()], approvals=approvals)
    run, second = agent.prompt("go"), beside.prompt("go")
    await until(second, "approval_request")
    first, *_ = requests = [await requested(events) for _ in range(4)]
    agent.decide(first.id, allow=True, remember=True, scope="all")
    await second
    assert other.ran == ["a"]
    approvals.remember(Rule.parse("deny", "sh:b"))
    agent.decide(requests[2].id, allow=True)
    await run
    assert sorted(shell.ran) == ["a", "a", "c"]
    told = {event.id: (event.allowed, event.by) for event in run.events.since(0) if isinstance(event, ApprovalDecision)}
    assert [told[request.id] for request in requests] == [
        (True, "user"),
        (False, "rule"),
        (True, "user"),
        (True, "rule"),
    ]


async def test_an_answer_shows_that_a_frontend_is_connected(tmp_path: Path) -> None:
    shell = Shell()
    approvals = replace(asking(tmp_path), attendance=asyncio.Event(), patience=600.0)
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    agent.decide((await requested(run)).id, allow=True)
    await run
    assert shell.ran == ["make"]


async def test_an_answer_counts_even_if_no_frontend_seemed_connected(tmp_path: Path) -> None:
    shell = Shell()
    approvals = replace(asking(tmp_path), attendance=asyncio.Event(), patience=0.05)
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals)
    run = agent.prompt("go")
    agent.decide((await requested(run)).id, allow=True)
    await run
    assert shell.ran == ["make"]


async def test_stop_while_somebody_is_asked(tmp_path: Path) -> None:
    shell = Shell()
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=asking(tmp_path))
    run = agent.prompt("go")
    request = await requested(run)
    await agent.abort()
    assert not shell.ran
    assert agent.state.pending_approvals == ()
    assert decisions([event async for event in run]) == [(False, "stop")]
    assert paired([entry.message for entry in agent.state.messages])
    with pytest.raises(AgentError, match="decided or stopped"):
        agent.decide(request.id, allow=True)


async def test_several_calls_are_asked_about_at_once_and_decided_apart(tmp_path: Path) -> None:
    shell = Shell()
    agent = Agent(
        model=scripted_model(commands("one", "two", "three")), tools=[shell.tool()], approvals=asking(tmp_path)
    )
    run = agent.prompt("go")
    seen = 0
    async for event in run:
        if event.type == "approval_request":
            seen += 1
            if seen == 3:
                first, second, third = agent.state.pending_approvals
                agent.decide(third.id, allow=True)
                agent.decide(first.id, allow=False)
                agent.decide(second.id, allow=True)
    assert sorted(shell.ran) == ["three", "two"]
    assert said(agent)[2] == "tool_result: Error: The user denied this call.|ran two|ran three"


async def test_calls_with_invalid_arguments_are_not_asked_about(tmp_path: Path) -> None:
    agent = Agent(
        model=scripted_model(calling(("sh", {"cmd": "x"}), ("ghost", {}))),
        tools=[Shell().tool()],
        approvals=asking(tmp_path),
    )
    run = agent.prompt("go")
    await run
    assert "approval_request" not in kinds([event async for event in run])
    assert "Invalid arguments for sh" in said(agent)[2]


async def test_a_decision_is_on_disk_before_the_call_runs(tmp_path: Path) -> None:
    found: list[object] = []

    def look(args: dict[str, object]) -> str:
        rows = query(tmp_path / "s", "select allowed, decided_by from approvals order by decided_by desc")
        found.append(rows.to_numpy().tolist())
        return "looked"

    tool = Tool(name="look", description="", execute_fn=look, touches=lambda args: [Effect("execute", "look")])
    approvals = asking(tmp_path)
    with Session.create(tmp_path / "s") as session:
        agent = Agent(
            model=scripted_model([*calling(("look", {}))[:1], *calling(("look", {}))]),
            tools=[tool],
            approvals=approvals,
            session=session,
        )
        run = agent.prompt("go")
        agent.decide((await requested(run)).id, allow=True, remember=True)
        await run
        await agent.stop()
    assert found == [[[True, "user"]], [[True, "user"], [True, "rule"]]]


@pytest.mark.slow
async def test_every_decision_is_stored(tmp_path: Path) -> None:
    shell = Shell()
    approvals = replace(asking(tmp_path, Rule.parse("deny", "sh:rm *")), deadline=1.0)
    with Session.create(tmp_path / "s") as session:
        agent = Agent(
            model=scripted_model([Reply(calls=[Call("sh", {"command": text}) for text in ("rm x", "a", "b")]), "ok"]),
            tools=[shell.tool()],
            approvals=approvals,
            session=session,
        )
        run = agent.prompt("go")
        async for event in run:
            if isinstance(event, ApprovalRequest) and event.args == {"command": "a"}:
                agent.decide(event.id, allow=True, args={"command": "A"}, remember=True)
        await agent.stop()
    rows = (
        query(tmp_path / "s", "select name, allowed, decided_by from approvals order by decided_by").to_numpy().tolist()
    )
    assert rows == [["sh", False, "deadline"], ["sh", False, "rule"], ["sh", True, "user"]]
    assert shell.ran == ["A"]


class SlowStore:
    """A store whose disk waits for the test when a decision is kept."""

    id = "s"

    def __init__(self) -> None:
        self.writing, self.disk = asyncio.Event(), asyncio.Event()

    def log(self, agent_id: str) -> MemoryLog:
        store = self

        class Log(MemoryLog):
            async def keep(self, event: AgentEvent) -> None:
                store.writing.set()
                await uninterrupted(asyncio.ensure_future(store.disk.wait()))

        return Log()


async def test_a_stop_while_the_decision_is_written_runs_nothing(tmp_path: Path) -> None:
    shell, store = Shell(), SlowStore()
    approvals = asking(tmp_path, Rule.parse("allow", "sh"))
    agent = Agent(model=scripted_model(commands("make")), tools=[shell.tool()], approvals=approvals, session=store)
    run = agent.prompt("go")
    await store.writing.wait()
    aborting = asyncio.create_task(agent.abort())
    await asyncio.sleep(0)
    store.disk.set()
    await aborting
    assert (await run).aborted
    assert shell.ran == []
    assert paired([entry.message for entry in agent.state.messages])


async def test_built_in_tools_are_asked_about_what_they_change(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("old")
    client, hold = Listening(), Hold()
    script = calling(("read", {"path": "a.txt"}), ("write", {"path": "b.txt", "content": "new"}))
    agent = Agent(
        model=scripted_model(script),
        tools=[*BuiltinTools.all(cwd=tmp_path), hold.hold],
        approvals=asking(tmp_path),
        client=client,
    )
    run = agent.prompt("go")
    request = await requested(run)
    assert (request.name, request.touches) == ("write", (Effect("write", str(tmp_path / "b.txt")),))
    agent.decide(request.id, allow=True)
    await run
    assert (tmp_path / "b.txt").read_text() == "new"


def _without_bwrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


def _as_it_is(_monkeypatch: pytest.MonkeyPatch) -> None:
    """Change nothing."""


SANDBOXES: dict[str, tuple[SandboxMode, Callable[[pytest.MonkeyPatch], None], bool]] = {
    "off": ("off", _as_it_is, False),
    "auto": ("auto", _as_it_is, find_sandbox() is not None),
    "auto without bubblewrap": ("auto", _without_bwrap, False),
    "required": ("required", _as_it_is, True),
}


@pytest.mark.process
@pytest.mark.parametrize("name", SANDBOXES)
@pytest.mark.parametrize("kind", ["bash", "TOOL.json"])
async def test_a_request_contains_whether_commands_run_in_a_sandbox(
    kind: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mode, change, expected = SANDBOXES[name]
    change(monkeypatch)
    if kind == "bash":
        tool = BuiltinTools.bash(cwd=tmp_path, sandbox=mode)
    else:
        description = {"name": "count", "description": "Count.", "parameters": {"type": "object"}, "command": "wc -l"}
        (tmp_path / "TOOL.json").write_text(json.dumps(description))
        tool = ExternalTool.from_file(tmp_path / "TOOL.json", cwd=tmp_path, sandbox=mode)
    model = scripted_model([Reply(calls=[Call(tool.name, {"command": "ls"} if kind == "bash" else {})]), "done"])
    async with Agent(model=model, tools=[tool], approvals=asking(tmp_path)) as agent:
        run = agent.prompt("go")
        event = await requested(run)
        assert event.sandboxed is expected
        assert approval_display(event).sandboxed is expected
        agent.decide(event.id, allow=False)
        await run


async def test_whether_a_tool_is_sandboxed_is_unknown_if_it_does_not_say(tmp_path: Path) -> None:
    async with Agent(model=scripted_model(commands("ls")), tools=[Shell().tool()], approvals=asking(tmp_path)) as agent:
        run = agent.prompt("go")
        event = await requested(run)
        assert event.sandboxed is None
        agent.decide(event.id, allow=False)
        await run
