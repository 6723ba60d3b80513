"""Agents after each way of coming back, compared argument by argument with what they were."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from support.ledger import check_ledger
from support.wire import chat_chunk, replying, sse

from planck_nb import Agent, Config, Limits, Workspace
from planck_nb.agent.agent_access import compactor_of, fallbacks_of, skills_of
from planck_nb.agent.context.compactor import stored_compactor
from planck_nb.agent.limits import restored_limits
from planck_nb.ai import Client, Options, get_model
from planck_nb.ai.messages import UserMessage
from planck_nb.base.errors import LimitError

OF_THE_WORKSPACE = {
    "session",
    "session_spend",
    "approvals",
    "client",
    "observers",
    "prompt_parts",
    "cwd",
    "turn",
    "usual_limits",
    "deltas",
}
"""Arguments that a workspace gives all its agents, or that only count how far a conversation is."""

READ: dict[str, Callable[[Agent], object]] = {
    "tools": lambda agent: sorted(tool.name for tool in agent.tools),
    "fallbacks": lambda agent: list(map(str, fallbacks_of(agent))),
    "available_models": lambda agent: list(map(str, agent.available_models)),
    "on_compact": lambda agent: None if (found := compactor_of(agent)) is None else stored_compactor(found),
    "skills": skills_of,
    "usage": lambda agent: agent.state.usage,
    "cost": lambda agent: agent.state.cost,
}

TEAM = {
    "name": "Builders",
    "members": [
        {
            "type": "orchestrator",
            "name": "lead",
            "provider": "demo",
            "model_id": "demo",
            "system_prompt": "Lead.",
            "tools": ["read", "bash"],
            "grants": {"tools": ["read"], "skills": ["sums"]},
            "limits": {"cost": 0.1, "seconds": 60, "rounds": 3, "session_cost": None},
        },
        {
            "type": "builder",
            "description": "Builds.",
            "provider": "demo",
            "model_id": "demo",
            "tools": ["read", "edit"],
            "skills": ["sums"],
            "opts": {"temperature": 0.5, "max_tokens": 100},
            "limits": {"repeated_calls": None},
        },
        {"type": "tester", "provider": "demo", "model_id": "demo"},
    ],
}

Facts: TypeAlias = dict[str, dict[str, object]]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "project"
    (folder / ".planck" / "teams" / "builders").mkdir(parents=True)
    (folder / ".planck" / "teams" / "builders" / "TEAM.json").write_text(json.dumps(TEAM))
    (folder / ".planck" / "skills" / "sums").mkdir(parents=True)
    (folder / ".planck" / "skills" / "sums" / "SKILL.md").write_text("---\nname: sums\ndescription: Adds.\n---\nAdd.")
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(tmp_path))
    return folder


def place(**settings: str) -> Workspace:
    given: dict[str, Any] = {"limits": "tokens=500000", "fallbacks": "demo", **settings}
    return Workspace(Config.load(environment={}, **given), trust=True)


def arguments(agent: Agent) -> dict[str, object]:
    """The arguments of `Agent` that made this one or would make it again."""
    names = set(inspect.signature(Agent).parameters) - OF_THE_WORKSPACE
    return {name: READ[name](agent) if name in READ else getattr(agent, name) for name in sorted(names)}


def facts(workspace: Workspace) -> Facts:
    """All agents with their arguments, and what the session sets for new ones."""
    agents = [*workspace.agents.values(), *(agent for team in workspace.teams.values() for agent in team.agents)]
    found: Facts = {agent.name: arguments(agent) for agent in agents}
    rules = [str(rule) for rule in workspace.approvals.policy.rules]
    readable = dict(workspace.readable_names)
    return {**found, "": {"limits": workspace.limits, "rules": rules, "readable": readable}}


async def fill(workspace: Workspace) -> None:
    """Start agents and a team, and change what can change."""
    ann = workspace.add_agent(
        "ann",
        model=get_model("demo"),
        system_prompt="Be Ann.",
        tools=[],
        options=Options(temperature=0.25, max_tokens=50),
        description="Answers.",
    )
    await ann.prompt("Hello.")
    ann.limits = Limits(cost=0.01, rounds=7, tokens=None)
    team = await workspace.start_team("builders")
    [spawn] = [tool for tool in team.orchestrator.tools if tool.name == "spawn_agent"]
    await spawn.run({"type": "helper", "tools": ["read"]}, agent_id=team.orchestrator.id, call_id="1")
    workspace.add_agent("bob", model=get_model("demo"))
    workspace.limits = Limits(rounds=9, session_cost=1.5)
    workspace.add_agent("cid", model=get_model("demo"))
    workspace.readable_names[ann.id] = {"orders"}
    await workspace.save_session_settings()


def without(found: Facts, *names: str) -> Facts:
    return {owner: {name: value for name, value in each.items() if name not in names} for owner, each in found.items()}


async def resumed(workspace: Workspace) -> Workspace:
    session_id = workspace.session.id
    await workspace.close()
    other = place()
    assert await other.resume(session_id) == []
    return other


async def forked(workspace: Workspace) -> Workspace:
    assert await workspace.fork("copy") == []
    return workspace


async def forked_and_resumed(workspace: Workspace) -> Workspace:
    return await resumed(await forked(workspace))


async def rewound(workspace: Workspace) -> Workspace:
    """Take back a later prompt, in which nothing was set."""
    ann = workspace.agent("ann")
    usage = ann.state.usage
    run = ann.prompt("More.")
    await run
    assert ann.state.usage != usage
    await workspace.rewind(next(entry.id for entry in ann.state.messages if entry.message == UserMessage("More.")))
    return workspace


async def rewound_and_resumed(workspace: Workspace) -> Workspace:
    return await resumed(await rewound(workspace))


async def resumed_twice(workspace: Workspace) -> Workspace:
    return await resumed(await resumed(workspace))


WAYS: list[Callable[[Workspace], Awaitable[Workspace]]] = [
    resumed,
    forked,
    forked_and_resumed,
    rewound,
    rewound_and_resumed,
    resumed_twice,
]


@pytest.mark.parametrize("way", WAYS)
async def test_every_argument_and_setting_comes_back(
    project: Path, way: Callable[[Workspace], Awaitable[Workspace]]
) -> None:
    workspace = place()
    await fill(workspace)
    before = facts(workspace)
    assert before["lead"]["limits"] == Limits(cost=0.1, seconds=60, rounds=3, session_cost=None, tokens=500_000)
    assert before["helper"]["limits"] == before["lead"]["limits"]
    after = await way(workspace)
    # What was taken back is paid for, too, and a fork has paid for nothing.
    spent = () if way in {resumed, resumed_twice} else ("usage", "cost")
    assert without(facts(after), *spent) == without(before, *spent)
    await check_ledger(after)
    await after.close()


async def test_limits_that_were_set_before_a_rewind_still_hold_after_it(project: Path) -> None:
    """The event that set them is among those that the rewind hides."""
    workspace = place()
    ann = workspace.add_agent("ann", model=get_model("demo"))
    await ann.prompt("One.")
    first = ann.state.messages[0].id
    ann.limits = Limits(cost=0.01)
    await ann.prompt("Two.")
    await workspace.rewind(first)
    workspace = await resumed(workspace)
    assert workspace.agent("ann").limits == Limits(cost=0.01)
    await workspace.close()


@pytest.mark.parametrize("early", [True, False])
async def test_limits_set_in_python_need_no_call_to_be_stored(project: Path, *, early: bool) -> None:
    """The kernel ends without a further prompt."""
    workspace = place()
    if early:
        workspace.limits = Limits(cost=0.1)
    workspace.add_agent("ann", model=get_model("demo"))
    if not early:
        workspace.set_limits(Limits(cost=0.1))
    await workspace.session.flush()
    copy = shutil.copytree(workspace.sessions_dir, project / "copy")
    async with place(sessions_dir=str(copy)) as other:
        await other.resume(workspace.session.id)
        assert other.limits == other.agent("ann").limits == Limits(cost=0.1)
    await workspace.close()


async def test_tokens_without_a_price_still_count_after_a_resume(project: Path) -> None:
    """500 tokens are $1.50 at `unknown_price`."""
    usage = {"prompt_tokens": 400, "completion_tokens": 100, "total_tokens": 500}
    reply = sse(chat_chunk({"content": "Hello."}), chat_chunk({}, "stop"), {"choices": [], "usage": usage}, "[DONE]")
    config = Config.load(environment={}, limits="session_cost=2 unknown_price=3000")

    def opened() -> Workspace:
        return Workspace(config, client=Client(transport=replying(reply), credentials={"GROQ_API_KEY": "gsk_1"}))

    async with opened() as workspace:
        await workspace.add_agent("ann", model=get_model("groq:any-model")).prompt("Hello?")
        session_id = workspace.session.id
    async with opened() as other:
        await other.resume(session_id)
        with pytest.raises(LimitError, match=r"has only \$0.5000 of its 2 US dollars left"):
            await other.agent("ann").prompt("And now?")


async def test_limits_that_were_set_hold_although_the_configuration_had_the_same(project: Path) -> None:
    async with place(limits="rounds=5") as workspace:
        workspace.set_limits(Limits(rounds=5))
        workspace.add_agent("ann", model=get_model("demo"))
        session_id = workspace.session.id
    async with place(limits="rounds=500") as other:
        await other.resume(session_id)
        assert other.limits.rounds == other.agent("ann").limits.rounds == 5


async def test_a_saved_team_starts_as_it_was(project: Path) -> None:
    workspace = place()
    await fill(workspace)
    before = facts(workspace)
    workspace.save_team("builders", project / ".planck" / "teams" / "again")
    await workspace.close()
    other = place()
    other.limits = Limits(rounds=9, session_cost=1.5)
    await other.start_team("again")
    own = ("id", "team_id", "parent_id", "usage", "cost", "grants", "fallbacks")
    after = without(facts(other), *own)
    for name in ("lead", "builder", "tester"):
        assert after[name] == without(before, *own)[name]
    assert after["helper"]["limits"] == before["helper"]["limits"]
    await other.close()


async def test_limits_of_the_configuration_that_change_hold_for_agents_without_their_own(project: Path) -> None:
    workspace = place()
    await fill(workspace)
    session_id = workspace.session.id
    await workspace.close()
    async with place(limits="session_tokens=8, rounds=2, tokens=500000") as other:
        await other.resume(session_id)
        found = {name: each["limits"] for name, each in facts(other).items()}
        assert found[""] == found["cid"] == Limits(rounds=9, session_cost=1.5, session_tokens=8)
        assert found["bob"] == Limits(rounds=50, session_tokens=8, tokens=500_000)
        lead = Limits(cost=0.1, seconds=60, rounds=3, session_cost=None, session_tokens=8, tokens=500_000)
        assert found["lead"] == lead


async def test_another_session_has_the_limits_of_the_configuration(project: Path) -> None:
    workspace = place()
    await fill(workspace)
    first = workspace.session.id
    async with place() as other:
        other.add_agent("ann", model=get_model("demo"))
        second = other.session.id
    await workspace.resume(second)
    assert workspace.limits.rounds == Limits().rounds
    await workspace.resume(first)
    assert workspace.limits == Limits(rounds=9, session_cost=1.5)
    await workspace.close()


def rewrite(journal: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Edit rows of a closed session."""
    lines = [json.loads(line) for line in journal.read_bytes().splitlines()]
    for line in lines:
        change(line)
    journal.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in lines))
    for other in journal.parent.glob(f"{journal.name.partition('.')[0]}*.duckdb*"):
        other.unlink()


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"cost": 100.0, "rounds": None}, {}),
        ({"cost": 0.5, "rounds": 2, "tokens": 600_000}, {"cost": 0.5, "rounds": 2}),
        ({"cost": "much", "rounds": -1, "unknown": 3}, {}),
        ("much", {}),
    ],
)
async def test_limits_that_somebody_else_wrote_can_only_be_lower(
    project: Path, written: object, expected: dict[str, float]
) -> None:
    async with place() as workspace:
        workspace.add_agent("ann", model=get_model("demo"))
        workspace.limits = Limits(rounds=40)
        await workspace.save_session_settings()
        journal = workspace.session.path
        usual = workspace.config.limits

    def edit(line: dict[str, Any]) -> None:
        if line.get("type") == "agent_started":
            line["data"]["limits"] = written
        if "choices" in line.get("data", {}):
            line["data"]["choices"]["limits"] = written

    rewrite(journal, edit)
    other = place()
    await other.resume(journal.name.partition("_")[0])
    assert other.limits == restored_limits(expected, usual, trusted=True)
    assert other.agent("ann").limits == other.limits
    await other.close()


async def test_a_copied_folder_of_sessions_brings_its_limits(project: Path, tmp_path: Path) -> None:
    workspace = place()
    await fill(workspace)
    before = facts(workspace)
    session_id = workspace.session.id
    await workspace.close()
    shutil.copytree(workspace.sessions_dir, tmp_path / "sessions")
    other = place(sessions_dir=str(tmp_path / "sessions"))
    assert await other.resume(session_id) == []
    assert facts(other) == before
    await other.close()
