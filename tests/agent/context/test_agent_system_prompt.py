"""The system prompt: what it is made of, in which order, and what makes it change."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.agents import Listening

from planck_nb import Agent, BuiltinTools, Config, Tool, Workspace
from planck_nb.agent.context.system_prompt import SystemPromptParts, full_system_prompt, identity_line
from planck_nb.testing import scripted_model


def hint(name: str, guidance: str = "") -> Tool:
    return Tool(name=name, description="", execute_fn=lambda args: "", guidance=guidance)


@pytest.mark.parametrize(
    ("name", "kind", "line"),
    [
        ("Ada", "analyst", "You are Ada, an analyst."),
        ("", "worker", "You are a worker."),
        ("Ada", "", "You are Ada."),
        ("builder", "builder", "You are a builder."),
        ("Analyst", "analyst", "You are an analyst."),
        ("", "", ""),
    ],
)
def test_one_line_says_who_the_agent_is(name: str, kind: str, line: str) -> None:
    assert identity_line(name, kind) == line
    assert full_system_prompt(name, kind, "Be brief.", (), SystemPromptParts()) == f"{line}\n\nBe brief.".strip()


def test_everything_has_its_place() -> None:
    tools = [hint("read", "Read before you edit."), hint("quiet"), hint("bash", "Keep it short.")]
    text = full_system_prompt("Ada", "", "Be brief.", tools, SystemPromptParts("Rules of the house.", "Skills: x"))
    assert text.split("\n\n") == [
        "You are Ada.",
        "Rules of the house.",
        "Be brief.",
        "How to use your tools:\n- read: Read before you edit.\n- bash: Keep it short.",
        "Skills: x",
    ]


def test_without_tools_that_have_guidance_nothing_is_said_about_tools() -> None:
    assert full_system_prompt("", "", "Be brief.", [hint("quiet")], SystemPromptParts()) == "Be brief."
    assert full_system_prompt("", "", " ", [], SystemPromptParts(" \n", "")) == ""


async def test_what_does_not_change_stays_the_same_to_the_letter() -> None:
    client = Listening()
    agent = Agent(
        model=scripted_model(["one", "two", "three"]),
        name="Ada",
        system_prompt="Be brief.",
        tools=BuiltinTools.all(),
        client=client,
        prompt_parts=lambda: SystemPromptParts("Rules.", "Skills: x"),
    )
    for _ in range(3):
        await agent.prompt("go")
    contexts = [context for _, context in client.asked]
    assert len({context.system for context in contexts}) == 1
    assert contexts[0].tools == contexts[1].tools == contexts[2].tools
    longest = contexts[2].messages
    assert all(list(longest[: len(context.messages)]) == list(context.messages) for context in contexts)


async def test_only_tools_that_are_there_are_explained() -> None:
    client = Listening()
    agent = Agent(model=scripted_model(["one", "two", "three"]), client=client)
    agent.add_tool(hint("bash", "Keep it short."))
    await agent.prompt("go")
    agent.remove_tool("bash")
    await agent.prompt("go")
    assert ["bash" in context.system for _, context in client.asked] == [True, False]
    agent.system_prompt = "Be kind."
    await agent.prompt("go")
    assert client.asked[-1][1].system == "Be kind."


async def test_skills_and_instructions_of_the_folder_are_part_of_it(tmp_path: Path) -> None:
    client = Listening()
    skill = tmp_path / ".planck/skills/charts/SKILL.md"
    (tmp_path / "AGENTS.md").write_text("Use SI units.")
    async with Workspace(Config.load(environment={}, directory=tmp_path), client=client) as workspace:
        agent = workspace.add_agent("ann", model=scripted_model(["x"] * 4), system_prompt="Be brief.")
        await agent.prompt("go")
        assert "Use SI units." in client.asked[-1][1].system
        assert "charts" not in client.asked[-1][1].system
        assert not client.asked[-1][1].tools
        skill.parent.mkdir(parents=True)
        skill.write_text("---\nname: charts\ndescription: Draw charts.\n---\nText.")
        await agent.prompt("go")
        system = client.asked[-1][1].system
        assert "Draw charts." in system
        assert system.index("You are ann") < system.index("Use SI units.") < system.index("Be brief.")
        assert system.index("Be brief.") < system.index("load_skill") < system.index("Draw charts.")
        assert {tool.name for tool in client.asked[-1][1].tools} == {"load_skill", "list_skills"}
        skill.write_text("---\nname: charts\ndescription: Draw maps.\n---\nText.")
        await agent.prompt("go")
        assert "Draw maps." in client.asked[-1][1].system
        assert "Draw charts." not in client.asked[-1][1].system
        assert agent.request().system == client.asked[-1][1].system


async def test_the_request_that_is_shown_is_the_one_that_is_sent() -> None:
    client = Listening()
    seen: list[str] = []
    agent = Agent(
        model=scripted_model(["one", "two"]),
        client=client,
        tools=[hint("bash", "Keep it short.")],
        prompt_parts=lambda: SystemPromptParts(skills=f"Skills: {len(seen)}"),
    )
    await agent.prompt("go")
    seen.append("another")
    shown = agent.request()
    assert shown.system.endswith("Skills: 1")
    await agent.prompt("again")
    sent = client.asked[-1][1]
    assert (shown.system, shown.tools) == (sent.system, sent.tools)
    assert list(shown.messages) == list(sent.messages)[:-1]
