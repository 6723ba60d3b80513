"""How a tool call names an agent: every spelling that Planck has had, and nobody outside the team."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.teams import HandMade, call, responded, results

from planck_nb import Agent, Session, orchestrator_tools, worker_tools
from planck_nb.testing import Reply, scripted_model


async def asked(address: dict[str, object], *, tool: str = "ask_agent", key: str = "question") -> str:
    """The result of a call with this address, in a team of ann (a builder) and ben (a reviewer)."""
    team = HandMade()
    lead = team.lead([call(tool, **{key: "go"}, **address), "end"], id="lead-id")
    team.worker("ann", ["I am ann."], type="builder", id="ann-id")
    team.worker("ben", ["I am ben."], type="reviewer", id="ben-id")
    await lead.prompt("go")
    await lead.stop()
    return results(lead)[0]


@pytest.mark.parametrize(
    "address",
    [
        {"agent_id": "ben-id"},
        {"agent_id": "ben"},
        {"agent_id": "reviewer"},
        {"agent_id": "  ben "},
        {"identifier": "ben-id", "identifier_type": "id"},
        {"identifier": "ben", "identifier_type": "name"},
        {"identifier": "reviewer", "identifier_type": "type"},
        {"identifier": "ben"},
        {"identifier": "reviewer", "identifier_type": "nonsense"},
        {"identifier": "ben-id", "identifier_type": "name"},
        {"id": "ben-id"},
        {"name": "ben"},
        {"type": "reviewer"},
        {"type": "builder", "name": "ben"},
        {"type": "builder", "name": "ann", "id": "ben-id"},
        {"agent_id": "", "name": "ben"},
    ],
)
async def test_every_generation_of_addressing_is_understood(address: dict[str, object]) -> None:
    assert await asked(address) == "I am ben."


@pytest.mark.parametrize("tool", ["ask_agent", "call_agent"])
async def test_later_names_of_tools_are_aliases(tool: str) -> None:
    assert await asked({"agent_id": "ben"}, tool=tool) == "I am ben."


async def test_later_names_of_delegation_are_aliases() -> None:
    team = HandMade()
    lead = team.lead([call("send_agent", agent_id="ann", task="t"), "waiting", "done"])
    ann = team.worker("ann", [call("respond_agent", response="R"), "bye"])
    await lead.prompt("go")
    async for event in lead.subscribe(since=0):
        if event.type == "turn_end" and event.turn == 1:
            break
    assert results(ann) == ["Response sent."]
    assert [event.text for event in responded(lead)] == ["R"]


# clause team_integration 2
@pytest.mark.parametrize("address", [{"agent_id": "bem"}, {"name": "bem"}, {"identifier": "bem"}, {"type": "bem"}])
async def test_an_unknown_agent_is_not_found_and_the_turn_goes_on(address: dict[str, object]) -> None:
    text = await asked(address)
    assert text.startswith("Error: Agent not found: bem.")
    assert "ben" in text
    assert text.endswith("Call list_team to see who is there.")


@pytest.mark.parametrize("address", [{}, {"agent_id": " "}, {"identifier": "", "identifier_type": "name"}])
async def test_a_call_that_names_no_agent_is_told_how(address: dict[str, object]) -> None:
    assert await asked(address) == (
        "Error: Say which agent: pass its id or name as `agent_id`. Call list_team to see who is there."
    )


async def pair(*calls: Reply, **worker: Any) -> list[str]:
    """The results of calls in a team with two agents of the same name and type."""
    team = HandMade()
    lead = team.lead([*calls, "end"])
    for number in (1, 2):
        team.worker("twin", [f"I am {number}."], id=f"twin-{number}", type="builder", **worker)
    await lead.prompt("go")
    return results(lead)


async def test_a_name_of_two_agents_is_refused_with_both() -> None:
    by_name, by_type, by_id = await pair(
        call("ask_agent", agent_id="twin", question="?"),
        call("ask_agent", type="builder", question="?"),
        call("ask_agent", agent_id="twin-2", question="?"),
    )
    assert by_name == "Error: twin is the name of 2 agents: twin (twin-1), twin (twin-2). Use an id."
    assert by_type == "Error: builder is the type of 2 agents: twin (twin-1), twin (twin-2). Use an id."
    assert by_id == "I am 2."


async def test_an_id_counts_before_a_name_and_a_name_before_a_type() -> None:
    team = HandMade()
    lead = team.lead(
        [call("ask_agent", agent_id="x", question="?"), call("ask_agent", agent_id="y", question="?"), "."]
    )
    team.worker("a", ["by id"], id="x", type="y")
    team.worker("x", ["by the name of an id"], id="b", type="t")
    team.worker("y", ["by name"], id="c", type="t")
    await lead.prompt("go")
    assert results(lead) == ["by id", "by name"]


# W-35
@pytest.mark.parametrize("tool", ["ask_agent", "delegate_task", "interrupt_agent", "destroy_agent"])
async def test_agents_of_other_teams_are_out_of_reach(tool: str) -> None:
    other = HandMade()
    stranger = other.worker("stranger", ["secret"])
    team = HandMade()
    lead = team.lead([call(tool, agent_id=stranger.id, question="?", task="t"), "end"])
    await lead.prompt("go")
    assert results(lead)[0].startswith(f"Error: Agent not found: {stranger.id}.")
    assert not stranger.state.stopped
    assert stranger.state.messages == ()


async def test_a_team_of_another_session_is_another_team(tmp_path: Path) -> None:
    with Session.create(tmp_path, name="a") as one:
        stored = HandMade(session=one)
        lead = stored.lead([call("ask_agent", agent_id="ann", question="?"), "end"])
        loose = HandMade()
        loose.id = stored.id
        loose.worker("ann", ["hello"])
        await lead.prompt("go")
        assert results(lead)[0].startswith("Error: Agent not found: ann.")
        await lead.stop()


@pytest.mark.parametrize(
    ("tool", "verb"),
    [
        ("ask_agent", "ask"),
        ("delegate_task", "delegate to"),
        ("interrupt_agent", "interrupt"),
        ("destroy_agent", "destroy"),
    ],
)
async def test_nobody_targets_itself(tool: str, verb: str) -> None:
    team = HandMade()
    lead = team.lead([call(tool, agent_id="lead", question="?", task="t"), "end"])
    result = await lead.prompt("go")
    assert results(lead)[0].startswith(f"Error: You cannot {verb} yourself; choose another agent of the team.")
    assert result.text == "end"


@pytest.mark.parametrize("tool", ["interrupt_agent", "destroy_agent"])
async def test_the_orchestrator_is_protected(tool: str) -> None:
    team = HandMade()
    lead = team.lead([])
    ann = team.worker("ann", [call(tool, agent_id="lead"), "end"], tools=orchestrator_tools(), role="worker")
    await ann.prompt("go")
    assert results(ann)[0].endswith("lead, the orchestrator of the team.")
    assert not lead.state.stopped


async def test_an_agent_of_no_team_is_told_so() -> None:
    agent = Agent(model=scripted_model([call("list_team"), "end"]), tools=worker_tools())
    await agent.prompt("go")
    assert results(agent) == ["Error: This agent is in no team; give it a `team_id`."]


PLAIN = {"id", "type", "name", "description", "role", "status", "turn_index", "usage"}


# IA-12
@pytest.mark.parametrize(
    ("args", "more"), [({}, set()), ({"verbose": False}, set()), ({"verbose": True}, {"tools", "model"})]
)
async def test_list_team_shows_tools_and_models_only_when_asked(args: dict[str, object], more: set[str]) -> None:
    team = HandMade()
    lead = team.lead([call("list_team", **args), "end"])
    team.worker("ann", type="builder", description="Builds.")
    await lead.prompt("go")
    mine, other = json.loads(results(lead)[0])
    assert set(mine) == PLAIN | more | {"you"}
    assert set(other) == PLAIN | more
    assert (mine["status"], other["status"]) == ("executing_tools", "idle")
    assert (other["name"], other["type"], other["description"], other["role"], other["turn_index"]) == (
        "ann", "builder", "Builds.", "worker", -1,
    )  # fmt: skip
    if more:
        assert other["tools"] == sorted(["ask_agent", "delegate_task", "send_response", "list_team"])
        assert other["model"] == "demo:script"


async def test_an_agent_without_a_name_is_called_by_its_type() -> None:
    team = HandMade()
    to_builder = [
        call("ask_agent", agent_id="builder", question="q"),
        call("delegate_task", agent_id="builder", task="t"),
    ]
    lead = team.lead([*to_builder, "a", "b"])
    ann = team.worker("", ["one", "two"], type="builder")
    events = lead.subscribe(since=0)
    await lead.prompt("go")
    async for event in events:
        if event.type == "turn_end" and event.turn == 1:
            break
    assert "Task sent to builder." in results(lead)[1]
    names = [entry.message.sender_name for entry in lead.state.messages if entry.message.type == "user"]
    assert names == [None, "builder"]
    assert ann.name == ""
