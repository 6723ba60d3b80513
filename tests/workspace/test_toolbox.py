"""What agents of a workspace can be given: by name, by group, from files; and what every setting says."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from support.agents import Listening, calling, said

from planck_nb import Config, Workspace
from planck_nb.agent.approval import Rule
from planck_nb.agent.limits import Limits
from planck_nb.base.errors import ConfigError, UsageError
from planck_nb.config import SETTINGS
from planck_nb.testing import scripted_model


def config(folder: Path, **settings: Any) -> Config:
    return Config.load(environment={}, directory=folder, trust=True, **settings)


def describe(folder: Path, name: str, command: str = "echo {{text}}", **more: object) -> None:
    """A TOOL.json in the folder."""
    parameters = {"type": "object", "properties": {"text": {"type": "string"}}}
    data = {"name": name, "description": f"Says {name}.", "command": command, "parameters": parameters, **more}
    (folder / name).mkdir(parents=True)
    (folder / name / "TOOL.json").write_text(json.dumps(data))


def skill(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "SKILL.md").write_text(f"---\nname: {name}\ndescription: About {name}.\n---\nText.")


async def test_tools_are_given_by_name_and_by_group(tmp_path: Path) -> None:
    describe(tmp_path / ".planck/tools", "say")
    async with Workspace(config(tmp_path)) as place:
        kit = place.toolbox

        def named(*names: str) -> list[str]:
            return [tool.name for tool in kit.named(names)]

        assert named("bash", "say") == ["bash", "say"]
        assert named("files") == ["read", "write", "edit"]
        assert named("builtin") == ["read", "write", "edit", "bash"]
        assert named() == []
        assert kit.has("files")
        assert not kit.has("nothing")
        assert {"read", "say", "files"} <= set(kit.described())
        with pytest.raises(UsageError, match=r"There is no tool named raed\. Did you mean read"):
            named("raed")


@pytest.mark.process
async def test_a_tool_of_a_file_works_in_the_workspaces_folder_and_cannot_hide_a_built_in_one(tmp_path: Path) -> None:
    describe(tmp_path / ".planck/tools", "where", "pwd")
    describe(tmp_path / ".planck/tools", "read", "echo not the built-in one")
    async with Workspace(config(tmp_path)) as place:
        tools = place.toolbox.named(["where", "read"])
        assert tools[1] is place.toolbox.builtin["read"]
        (tmp_path / "f").write_text("the built-in one")
        script = calling(("where", {}), ("read", {"path": "f"}))
        agent = place.add_agent("ann", model=scripted_model(script), tools=tools)
        place.approvals.policy = place.approvals.policy.allow_all()
        await agent.prompt("go")
        assert said(agent)[2].endswith(f"/{tmp_path.name}\n|the built-in one")


@pytest.mark.process
async def test_of_two_folders_the_projects_own_comes_first(tmp_path: Path) -> None:
    describe(tmp_path / "a", "say", "echo mine")
    describe(tmp_path / "b", "say", "echo theirs")
    dirs = os.pathsep.join(["a", "b"])
    async with Workspace(config(tmp_path, tools_dirs=dirs)) as place:
        agent = place.add_agent("ann", model=scripted_model(calling(("say", {}))), tools=place.toolbox.named(["say"]))
        place.approvals.policy = place.approvals.policy.allow_all()
        await agent.prompt("go")
        assert said(agent)[2] == "tool_result: mine\n"


async def test_what_an_agent_is_not_given_it_does_not_have(tmp_path: Path) -> None:
    describe(tmp_path / ".planck/tools", "say")
    async with Workspace(config(tmp_path)) as place:
        agent = place.add_agent("ann", model=scripted_model(calling(("say", {}), ("bash", {"command": "true"}))))
        await agent.prompt("go")
        assert agent.tools == ()
        assert said(agent)[2] == "tool_result: Error: unknown tool: say.|Error: unknown tool: bash."


async def test_the_tools_of_skills_are_there_where_there_are_skills(tmp_path: Path) -> None:
    client = Listening()
    async with Workspace(config(tmp_path), client=client) as place:
        agent = place.add_agent("ann", model=scripted_model(["x", *calling(("load_skill", {"name": "charts"}))]))
        await agent.prompt("go")
        assert [len(context.tools) for _, context in client.asked] == [0]
        skill(tmp_path / ".planck/skills", "charts")
        assert list(place.toolbox.skills()) == ["charts"]
        await agent.prompt("go")
        assert {tool.name for tool in client.asked[-1][1].tools} == {"load_skill", "list_skills"}
        assert "Text." in said(agent)[-2]


async def test_every_file_that_cannot_be_used_is_named(tmp_path: Path) -> None:
    describe(tmp_path / ".planck/tools", "good")
    describe(tmp_path / ".planck/tools", "bad", 7)  # type: ignore[arg-type]
    (tmp_path / ".planck/tools/worse").mkdir()
    (tmp_path / ".planck/tools/worse/TOOL.json").write_text("[]")
    (tmp_path / ".planck/skills/odd").mkdir(parents=True)
    (tmp_path / ".planck/skills/odd/SKILL.md").write_text("no front matter")
    async with Workspace(config(tmp_path)) as place:
        skipped = {entry.path.parent.name: entry.reason for entry in place.toolbox.skipped()}
        assert set(skipped) == {"bad", "worse", "odd"}
        assert all(reason.rstrip().endswith(".") and len(reason) > 20 for reason in skipped.values())
        assert "good" in place.toolbox.tools()


@pytest.mark.parametrize(
    ("variable", "text", "field", "value"),
    [
        ("PLANCK_NB_SESSIONS_DIR", "kept", "sessions_dir", "kept"),
        ("PLANCK_NB_MODEL", "demo:demo", "default_model", "demo:demo"),
        ("PLANCK_NB_FALLBACKS", "demo, openai:gpt-5.4", "fallbacks", ("demo", "openai:gpt-5.4")),
        ("PLANCK_NB_LIMITS", "rounds=3, cost=none", "limits", Limits(rounds=3, cost=None)),
        (
            "PLANCK_NB_ALLOW",
            "read, bash:git *",
            "rules",
            (Rule.parse("allow", "read"), Rule.parse("allow", "bash:git *")),
        ),
        ("PLANCK_NB_ASK", "read", "rules", (Rule.parse("ask", "read"),)),
        ("PLANCK_NB_DENY", "network", "rules", (Rule.parse("deny", "network"),)),
        ("PLANCK_NB_APPROVAL_DEADLINE", "5", "approval_deadline", 5.0),
        ("PLANCK_NB_COMPACT_RATIO", "0.5", "compact_ratio", 0.5),
        ("PLANCK_NB_DEMO_PACE", "0.1", "demo_pace", 0.1),
        ("PLANCK_NB_SKILLS_DIRS", f"/a{os.pathsep}/b", "skills_dirs", (Path("/a"), Path("/b"))),
        ("PLANCK_NB_TOOLS_DIRS", "/a", "tools_dirs", (Path("/a"),)),
        ("PLANCK_NB_TEAMS_DIRS", "/a", "teams_dirs", (Path("/a"),)),
        ("PLANCK_NB_CASSETTE", "/a/talk.jsonl", "cassette", Path("/a/talk.jsonl")),
        ("PLANCK_NB_CASSETTE_MODE", "replay", "cassette_mode", "replay"),
        ("PLANCK_NB_SANDBOX", "required", "sandbox", "required"),
    ],
)
def test_each_setting_has_a_variable(tmp_path: Path, variable: str, text: str, field: str, value: object) -> None:
    found = getattr(Config.load(environment={variable: text}, directory=tmp_path), field)
    assert found == (tmp_path / str(value) if field == "sessions_dir" else value)


@pytest.mark.parametrize(
    ("variable", "text", "said_so"),
    [
        ("PLANCK_NB_LIMITS", "rounds", "takes NAME=NUMBER"),
        ("PLANCK_NB_LIMITS", "rounds=many", "must be a whole number above 0 for rounds, or none"),
        ("PLANCK_NB_LIMITS", "rounds=-1", "must be a whole number above 0 for rounds, or none"),
        ("PLANCK_NB_LIMITS", "rounds=nan", "must be a whole number above 0 for rounds, or none"),
        ("PLANCK_NB_LIMITS", "tokens=inf", "must be a whole number above 0 for tokens, or none"),
        ("PLANCK_NB_COMPACT_RATIO", "2", "above 0 and at most 1"),
        ("PLANCK_NB_COMPACT_RATIO", "nan", "above 0 and at most 1"),
        ("PLANCK_NB_APPROVAL_DEADLINE", "soon", "a number of seconds"),
        ("PLANCK_NB_APPROVAL_DEADLINE", "nan", "a number of seconds"),
        ("PLANCK_NB_APPROVAL_DEADLINE", "inf", "a number of seconds"),
        ("PLANCK_NB_DENY", "@write", "names nothing before '@'"),
        ("PLANCK_NB_CASSETTE_MODE", "sometimes", "must be one of"),
        ("PLANCK_NB_SANDBOX", "no", "must be one of auto, off, required"),
    ],
)
def test_an_invalid_setting_is_one_sentence(tmp_path: Path, variable: str, text: str, said_so: str) -> None:
    with pytest.raises(ConfigError) as error:
        Config.load(environment={variable: text}, directory=tmp_path)
    assert str(error.value).startswith(f"{variable} is {text!r}")
    assert said_so in str(error.value)
    assert "\n" not in str(error.value)


def test_every_setting_has_a_line_of_help_and_a_field() -> None:
    assert all(setting.help and setting.variable.startswith("PLANCK_NB_") for setting in SETTINGS)
    with pytest.raises(ConfigError, match=r"There is no setting limit\. Did you mean limits"):
        Config.load(environment={}, limit=1)


async def test_settings_reach_the_agents(tmp_path: Path) -> None:
    settings = config(tmp_path, limits="rounds=1", fallbacks="demo:demo", deny="bash", approval_deadline="7")
    async with Workspace(settings) as place:
        agent = place.add_agent("ann", model=scripted_model([*calling(("ghost", {}))]))
        assert "1 rounds" in (await agent.prompt("go")).limit
        assert place.approvals.deadline == 7.0
        assert Rule.parse("deny", "bash") in place.approvals.policy.rules
        place.set_limits(Limits(rounds=5))
        assert (await agent.prompt("go")).limit == ""


@pytest.mark.parametrize("name", ["pl\u0430nck", "planck\u200b", "\u202eann"])
def test_a_name_that_passes_for_another_is_refused(tmp_path: Path, name: str) -> None:
    workspace = Workspace(Config(tmp_path, root=tmp_path))
    with pytest.raises(UsageError, match="passes for another"):
        workspace.add_agent(name, model=workspace.model("demo"))
    assert workspace.add_agent("\u0430\u043d\u043d\u0430", model=workspace.model("demo")).name


def test_a_skill_of_the_folder_in_place_of_ones_own_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    for folder in (tmp_path, tmp_path / "project"):
        file = folder / ".planck/skills/review/SKILL.md"
        file.parent.mkdir(parents=True)
        file.write_text("---\nname: review\ndescription: Reviews.\n---\nLook.")
    workspace = Workspace(Config.load())
    notices = [notice for notice in workspace.notices() if "skill review replaces" in notice]
    assert len(notices) == 1
    assert "skill review" not in " ".join(workspace.notices())
