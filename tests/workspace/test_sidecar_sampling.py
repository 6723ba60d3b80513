"""Replies of models for sidecars: off unless the settings name the sidecar, approved whole, and charged."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.sidecar_links import SERVERS

from planck_nb import Config, Limits, Workspace
from planck_nb.agent.approval import Rule
from planck_nb.agent.events import UsageDelta
from planck_nb.ai.messages import AssistantMessage, ImagePart, TextPart, UserMessage
from planck_nb.base.errors import AgentError
from planck_nb.sidecars.mcp_client.link.questions import Question, QuestionAnswer
from planck_nb.sidecars.mcp_client.link.sampling import SamplingRequest
from planck_nb.testing import Call, Reply, scripted_model

pytestmark = pytest.mark.process


class Person:
    """Answers questions in one way."""

    def __init__(self, answer: QuestionAnswer | None) -> None:
        self.answer = answer
        self.asked: list[Question] = []

    async def __call__(self, question: Question) -> QuestionAnswer | None:
        self.asked.append(question)
        return self.answer


YES = QuestionAnswer("accept")


def workspace_in(folder: Path, person: Person, *, named: str = "", flag: bool = False, own: bool = True) -> Workspace:
    """A workspace with the hostile sidecar, and what the settings and its file allow."""
    server = {
        "command": sys.executable,
        "args": ["-I", "-S", str(SERVERS / "hostile_sidecar.py")],
        "env": {"STATE": str(folder)},
        **({"sampling": True, "roots": True} if flag else {}),
    }
    file = folder / "home/.planck/mcp.json" if own else folder / ".planck/mcp.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"mcpServers": {"hostile": server}}))
    settings = {"PLANCK_NB_SIDECAR_SAMPLING": named, "PLANCK_NB_SIDECAR_ROOTS": named} if named else {}
    environment = {"PLANCK_NB_MODEL": "demo", "PLANCK_NB_TRUST": "1", **settings}
    workspace = Workspace(Config.load(environment=environment, directory=folder, home=folder / "home"), ask=person)
    workspace.approvals.remember(Rule.parse("allow", "execute:sidecar:hostile/*"))
    return workspace


async def sampled(workspace: Workspace) -> tuple[str, int]:
    """The result of a tool that asks for a reply, and the tokens of the agent that were counted meanwhile."""
    await workspace.sidecars.start()
    agent = workspace.add_agent("ada", model=workspace.model("demo"), tools=[workspace.sidecars.tools()["sample"]])
    await agent.prompt('Use sample for "x".')
    events = agent.events.since(0)
    [result] = [event.result for event in events if event.type == "tool_end"]
    start = next(at for at, event in enumerate(events) if event.type == "tool_start")
    end = next(at for at, event in enumerate(events) if event.type == "tool_end")
    charges = [event for event in events[start:end] if isinstance(event, UsageDelta)]
    return result, sum(event.delta.total_tokens for event in charges)


async def test_a_reply_is_approved_whole_and_charged_to_the_agent(tmp_path: Path) -> None:
    person = Person(YES)
    async with workspace_in(tmp_path, person, named="other, hostile") as workspace:
        result, tokens = await sampled(workspace)
        assert '"role": "assistant"' in result, workspace.sidecars.logs("hostile", 50)
        assert tokens > 0
        [question] = person.asked
        assert question.sidecar == "hostile"
        assert question.message.startswith(
            "May it have demo:demo reply to this, with at most 10 tokens, at the expense of ada?"
        )
        assert "User: " in question.message
        assert question.agent_id == workspace.agents["ada"].id
        tool = workspace.sidecars.tools()["roots"]
        assert str(tmp_path) in (await tool.run({})).text, "and it is told the folder"


@pytest.mark.parametrize("answer", [None, QuestionAnswer("decline")])
async def test_without_approval_nothing_is_sent_and_nothing_charged(
    tmp_path: Path, answer: QuestionAnswer | None
) -> None:
    person = Person(answer)
    async with workspace_in(tmp_path, person, named="hostile") as workspace:
        result, tokens = await sampled(workspace)
        assert "did not allow" in result
        assert tokens == 0


@pytest.mark.parametrize(("named", "flag", "own"), [("", False, True), ("other", False, True), ("", True, False)])
async def test_it_is_off_unless_the_user_allows_it_by_name(tmp_path: Path, named: str, flag: bool, own: bool) -> None:
    person = Person(YES)
    async with workspace_in(tmp_path, person, named=named, flag=flag, own=own) as workspace:
        result, tokens = await sampled(workspace)
        assert "not supported" in result.lower()
        assert "not supported" in (await workspace.sidecars.tools()["roots"].run({})).text.lower()
        assert (tokens, person.asked) == (0, [])


async def test_a_request_that_belongs_to_no_agents_call_is_refused(tmp_path: Path) -> None:
    person = Person(YES)
    async with workspace_in(tmp_path, person, named="hostile") as workspace:
        await workspace.sidecars.start()
        result = await workspace.sidecars.tools()["sample"].run({})
        assert "The model did not reply" in result.text
        assert "The request belongs to no agent's call" in str(workspace.sidecars.logs("hostile", 50))
        agent = workspace.add_agent("ada", model=workspace.model("demo"))
        sampling = workspace.sidecars._sampling
        for request, reason in {
            SamplingRequest("hostile", (), agent_id="nobody"): "No agent of this workspace",
            SamplingRequest("hostile", (), agent_id=agent.id): "is not waiting for this sidecar",
        }.items():
            with pytest.raises(AgentError, match=reason):
                await sampling.reply(request)
    assert person.asked == []


async def test_limits_hold_and_a_long_request_is_refused(tmp_path: Path) -> None:
    person = Person(YES)
    async with workspace_in(tmp_path, person, named="hostile") as workspace:
        workspace.set_limits(Limits(rounds=1))
        result, tokens = await sampled(workspace)
        assert "The model did not reply" in result
        assert "raise `rounds`" in str(workspace.sidecars.logs("hostile", 50))
        assert tokens == 0


async def test_images_are_a_part_of_what_is_approved(tmp_path: Path) -> None:
    person = Person(YES)
    one, two = ImagePart("AAAA", "image/png"), ImagePart("BBBB", "image/png")
    messages = (
        UserMessage((TextPart("first"), one)),
        AssistantMessage((TextPart("yes"),)),
        UserMessage((TextPart("second"), one, two)),
    )
    config = Config.load(environment={"PLANCK_NB_MODEL": "demo"}, directory=tmp_path, home=tmp_path / "home")
    async with Workspace(config, ask=person) as workspace:

        async def use() -> str:
            reply = await workspace.sidecars._sampling.reply(
                SamplingRequest("drawer", messages, agent_id=workspace.agents["ada"].id)
            )
            return "" if reply is None else reply.text

        agent = workspace.add_agent(
            "ada", model=scripted_model([Reply(calls=[Call("use", {})]), "a reply", "done"]), tools=[use]
        )
        await agent.prompt("go")
    [question] = person.asked
    assert question.images == (one, one, two)
    assert question.message.endswith("User: first [image 1]\n\nAssistant: yes\n\nUser: second [images 2, 3]")
