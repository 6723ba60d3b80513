"""Tools that can do everything that the user can: no rule allows them, and no decision about them is remembered."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from planck_nb import Agent
from planck_nb.agent.approval import Policy, Rule
from planck_nb.agent.approval.gate import Approvals
from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.effect import Effect
from planck_nb.base.errors import AgentError, UsageError
from planck_nb.testing import Call, Reply, scripted_model

CODE = "open('notes.txt')"
ROOT = Path("/project")


def agent_with(policy: Policy, *replies: Reply | str, patience: float = 5.0) -> tuple[Agent, list[str]]:
    """An agent that calls `run` once in each turn, and the code that ran."""
    ran: list[str] = []

    def execute(args: dict[str, str]) -> str:
        ran.append(args["code"])
        return "done"

    tool = Tool(
        name="run",
        description="Run code.",
        execute_fn=execute,
        touches=lambda args: [Effect("execute", args["code"])],
        unrestricted=True,
    )
    usual: list[Reply | str] = [Reply(calls=[Call("run", {"code": CODE})]), "ok"]
    model = scripted_model(list(replies) or usual * 3)
    return Agent(model=model, tools=[tool], approvals=Approvals(policy, deadline=patience)), ran


async def next_request(agent: Agent) -> str:
    async with agent.subscribe(since=0) as events:
        async for event in events:
            if event.type == "approval_request" and any(call.id == event.id for call in agent.state.pending_approvals):
                assert event.rule == ""
                assert "everything that you can" in event.reason
                return event.id
    raise AssertionError


ALLOWING: Sequence[Rule] = [
    Rule.parse("allow", text) for text in ("run", "*", "ru*", "execute", "execute@run", "*:*", f"run:{CODE}", "*@run")
]


@pytest.mark.parametrize("rule", ALLOWING, ids=str)
async def test_no_rule_allows_it(rule: Rule) -> None:
    agent, ran = agent_with(Policy(root=ROOT, rules=(rule,)))
    run = agent.prompt("go")
    call = await next_request(agent)
    agent.decide(call, allow=False)
    await run
    assert ran == []


async def test_a_policy_that_allows_everything_does_not_allow_it() -> None:
    agent, ran = agent_with(Policy.allow_all())
    run = agent.prompt("go")
    agent.decide(await next_request(agent), allow=True)
    await run
    assert ran == [CODE]


async def test_no_rule_that_is_added_while_it_waits_allows_it() -> None:
    agent, ran = agent_with(Policy(root=ROOT), patience=0.3)
    run = agent.prompt("go")
    await next_request(agent)
    gate = agent._runner.gate
    assert gate is not None
    gate._approvals.remember(Rule.parse("allow", "run"))
    result = await run
    assert ran == []
    assert "Nobody approved run within" in str(result.messages)


@pytest.mark.parametrize("scope", ["agent", "all"])
async def test_a_decision_cannot_be_remembered(scope: str) -> None:
    agent, ran = agent_with(Policy(root=ROOT))
    run = agent.prompt("go")
    call = await next_request(agent)
    for args in (None, {"code": "1"}):
        with pytest.raises(UsageError, match="one call at a time"):
            agent.decide(call, allow=True, args=args, remember=True, scope=scope)  # type: ignore[arg-type]
    agent.decide(call, allow=True)
    await run
    assert ran == [CODE]


def calls(*codes: str) -> Reply:
    return Reply(calls=[Call("run", {"code": code}) for code in codes])


async def test_a_person_allows_it_for_this_prompt_only() -> None:
    agent, ran = agent_with(Policy(root=ROOT), calls("1"), calls("2", "3"), "done", calls("4"), "done")
    run = agent.prompt("go")
    agent.decide(await next_request(agent), allow=True, remember=True, scope="prompt")
    await run
    assert ran == ["1", "2", "3"]
    decided = [event for event in run.events.since(0) if event.type == "approval_decision"]
    assert [(event.by, event.scope) for event in decided] == [("user", "prompt"), ("rule", ""), ("rule", "")]
    again = agent.prompt("go again")
    agent.decide(await next_request(agent), allow=False)
    await again
    assert ran == ["1", "2", "3"]


async def test_allowed_for_this_prompt_all_waiting_calls_run_but_those_that_name_secrets() -> None:
    secret = "open('.env')"
    agent, ran = agent_with(Policy(root=ROOT), calls("1", "2", secret), calls(secret), "done")
    run = agent.prompt("go")
    first = await next_request(agent)
    while len(agent.state.pending_approvals) < 3:
        await run.events.wait_beyond(run.events.end)
    agent.decide(first, allow=True, remember=True, scope="prompt")
    for call in ("call_1_3", "call_2_1"):
        while [pending.id for pending in agent.state.pending_approvals] != [call]:
            await run.events.wait_beyond(run.events.end)
        agent.decide(call, allow=False)
    await run
    assert sorted(ran) == ["1", "2"]


async def test_allowed_for_this_prompt_a_prompt_that_joins_is_not_included() -> None:
    agent, ran = agent_with(Policy(root=ROOT), calls("1"), "first", calls("2"), "done", patience=0.5)
    run = agent.prompt("mine")
    call = await next_request(agent)
    other = agent.prompt("another's", join=True)
    agent.decide(call, allow=True, remember=True, scope="prompt")
    await run
    await other
    assert ran == ["1"]


async def test_only_an_unrestricted_tool_is_allowed_for_a_prompt_and_only_unedited() -> None:
    agent, ran = agent_with(Policy(root=ROOT))
    run = agent.prompt("go")
    call = await next_request(agent)
    with pytest.raises(UsageError, match="Edited arguments are allowed once"):
        agent.decide(call, allow=True, args={"code": "1"}, remember=True, scope="prompt")
    agent.decide(call, allow=False)
    await run
    assert ran == []
    tool = Tool(name="ls", description="List.", execute_fn=lambda: "a", touches=lambda _: [Effect("execute", "ls")])
    plain = Agent(
        model=scripted_model([Reply(calls=[Call("ls", {})]), "ok"]),
        tools=[tool],
        approvals=Approvals(Policy(root=ROOT)),
    )
    run = plain.prompt("go")
    async for event in run.events.subscribe(0):
        if event.type == "approval_request":
            assert not event.for_prompt
            with pytest.raises(UsageError, match="cannot be allowed for a prompt"):
                plain.decide(event.id, allow=True, remember=True, scope="prompt")
            plain.decide(event.id, allow=False)
            break
    await run


@pytest.mark.parametrize("allow", [["run"], "run", {"run", "other"}])
async def test_a_prompt_allows_it_for_itself_only(allow: Sequence[str]) -> None:
    agent, ran = agent_with(Policy(root=ROOT))
    await agent.prompt("go", allow=allow)
    assert ran == [CODE]
    run = agent.prompt("go again")
    agent.decide(await next_request(agent), allow=False)
    await run
    assert ran == [CODE]


async def test_a_rule_that_denies_it_counts_more_than_the_prompt() -> None:
    agent, ran = agent_with(Policy(root=ROOT, rules=(Rule.parse("deny", "run"),)))
    result = await agent.prompt("go", allow=["run"])
    assert ran == []
    assert "forbidden by the rule" in str(result.messages)


async def test_code_that_names_a_secret_file_asks_also_if_the_prompt_allows_it() -> None:
    agent, ran = agent_with(Policy(root=ROOT), Reply(calls=[Call("run", {"code": "open('.env')"})]), "ok", patience=0.2)
    result = await agent.prompt("go", allow=["run"])
    assert ran == []
    assert "Nobody approved run within" in str(result.messages)


async def test_a_prompt_that_allows_it_does_not_allow_it_to_the_prompts_that_are_answered_with_it() -> None:
    agent, ran = agent_with(
        Policy(root=ROOT), "first", Reply(calls=[Call("run", {"code": CODE})]), "both", patience=0.2
    )
    runs = [
        agent.prompt("busy"),
        agent.prompt("mine", join=True, allow=["run"]),
        agent.prompt("another's", join=True),
    ]
    for run in runs:
        await run
    assert runs[1].turn == runs[2].turn
    assert ran == []


async def test_too_much_code_names_the_way_to_allow_it() -> None:
    agent, _ = agent_with(Policy(root=ROOT), Reply(calls=[Call("run", {"code": "1\n" * 30_000})]), "ok")
    result = await agent.prompt("go")
    assert "--allow run" in str(result.messages)
    with pytest.raises(AgentError):
        agent.decide("call_1", allow=True)
