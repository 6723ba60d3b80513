"""`%planck team`, and the verbs that accept members of teams."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from planck_nb import Config, Workspace
from planck_nb.base.errors import AgentError, ConfigError, PlanckError, TrustError, UsageError
from planck_nb.jupyter.completion import suggest
from planck_nb.jupyter.controller import Controller
from planck_nb.jupyter.interpretation import interpret
from planck_nb.jupyter.notebook import Notebook
from planck_nb.jupyter.parsing.options import Prompt
from planck_nb.jupyter.verbs import VERBS

MEMBERS: list[dict[str, Any]] = [
    {"type": "orchestrator", "name": "lead", "provider": "demo", "model_id": "demo"},
    {
        "type": "counter",
        "name": "counter",
        "description": "Counts words.",
        "provider": "demo",
        "model_id": "demo",
        "tools": ["count_words"],
    },
    {"type": "reader", "name": "reader", "provider": "demo", "model_id": "demo", "tools": ["read"]},
]

DELEGATE = """delegate_task to "counter": "count_words 'one two three'"."""


def count_words(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


def write_template(folder: Path, alias: str, members: list[dict[str, Any]] | None = None, **fields: Any) -> Path:
    path = folder / ".planck/teams" / alias / "TEAM.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"description": "Reviews.", "members": members or MEMBERS, **fields}))
    return path


@pytest.fixture
async def notebook(tmp_path: Path) -> AsyncIterator[Notebook]:
    """A notebook in a folder with the template of a team, which is trusted."""
    write_template(tmp_path, "review")
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path / "home")
    async with Workspace(config) as workspace:
        workspace.trust()
        yield Notebook(Controller(workspace), {"count_words": count_words})


async def said(notebook: Notebook, line: str) -> Any:
    name, _, rest = line.partition(" ")
    return await VERBS[name].run(notebook, rest)


async def asked(notebook: Notebook, prompt: str, **options: str) -> str:
    started = await notebook.controller.start(prompt, options, notebook.names)
    return (await started.run).text


async def test_a_team_is_listed_started_shown_saved_and_stopped(notebook: Notebook, tmp_path: Path) -> None:
    listed = await said(notebook, "team")
    assert isinstance(listed, pd.DataFrame)
    assert listed.to_dict("records") == [
        {
            "team": "review",
            "state": "",
            "description": "Reviews.",
            "members": "lead, counter, reader",
            "template": ".planck/teams/review",
        }
    ]
    assert "review: not running" in await said(notebook, "team show review")
    started = await said(notebook, "team start review")
    assert started.splitlines() == [
        "The team review is running: lead (orchestrator), counter, reader.",
        "Prompt it with %%planck --team review.",
    ]
    assert list((await said(notebook, "team list"))["state"]) == ["running"]
    shown = await said(notebook, "team show")
    for text in ("review: running", "review/lead", "orchestrator, demo:demo", "Counts words.", "tools: count_words"):
        assert text in shown
    assert await said(notebook, "team save review copy") == "Saved the team review in copy."
    assert (tmp_path / "copy/TEAM.json").is_file()
    assert "stopped for good" in await said(notebook, "team stop review")
    assert not notebook.workspace.teams


async def test_functions_of_the_notebook_are_tools_of_members(notebook: Notebook) -> None:
    started = await notebook.controller.start(DELEGATE, {"team": "review"}, notebook.names)
    assert "The team review is running" in started.notice
    assert (await started.run).text == "**counter** responded: `count_words` returned `3`."


@pytest.mark.parametrize(
    ("line", "error", "sentence"),
    [
        ("team start", UsageError, "needs the alias or path of a template"),
        ("team stop", UsageError, "needs the name of a team"),
        ("team start revew", ConfigError, "Did you mean review"),
        ("team stop review", AgentError, "No team named review is running"),
        ("team save review", AgentError, "No team is running"),
        ("team list review", UsageError, "`%planck team show review`"),
        ("team show review --name x", UsageError, "--name is for `%planck team start`"),
        ("team stop review --overwrite", UsageError, "--overwrite is for `%planck team save`"),
        ("team show review there", UsageError, "only save needs a path"),
        ("team dance", UsageError, "does not accept 'dance'"),
        ("team start review --model nobody:x", PlanckError, "nobody"),
        ("team check missing/folder", ConfigError, "missing"),
    ],
)
async def test_what_cannot_be_done_is_one_sentence(
    notebook: Notebook, line: str, error: type[Exception], sentence: str
) -> None:
    with pytest.raises(error) as raised:
        await said(notebook, line)
    assert sentence in str(raised.value)
    assert "\n" not in str(raised.value)
    assert not notebook.workspace.teams


@pytest.mark.parametrize(
    "line", ["team start nosuch", "team show nosuch", "team check nosuch", "team start nosuch -n x"]
)
async def test_a_template_that_is_not_there_is_named_with_those_that_are(
    notebook: Notebook, tmp_path: Path, line: str
) -> None:
    with pytest.raises(ConfigError, match=r"^There is no team named nosuch\. Known are: review\.$"):
        await said(notebook, line)
    (tmp_path / ".planck/teams/review/TEAM.json").rename(tmp_path / "old.json")
    (tmp_path / ".planck/teams/review").rmdir()
    with pytest.raises(ConfigError) as raised:
        await said(notebook, line)
    assert str(raised.value) == (
        "There is no team named nosuch, and there are no templates; describe one in "
        f"{tmp_path}/.planck/teams/nosuch/TEAM.json."
    )


@pytest.mark.parametrize("path", ["./nowhere", ".", ".."])
async def test_a_folder_without_a_template_is_named(notebook: Notebook, tmp_path: Path, path: str) -> None:
    with pytest.raises(ConfigError, match=str(tmp_path if path != ".." else tmp_path.parent)):
        await said(notebook, f"team start {path}")


async def test_two_teams_of_one_template_have_different_names(notebook: Notebook) -> None:
    await said(notebook, "team start review")
    with pytest.raises(AgentError, match="--name"):
        await said(notebook, "team start review")
    await said(notebook, "team start review --name second")
    assert list(notebook.workspace.teams) == ["review", "second"]
    with pytest.raises(AgentError, match="2 agents are named counter; write one of review/counter, second/counter"):
        await said(notebook, "tools counter")
    assert "count_words" in set((await said(notebook, "tools second/counter"))["tool"])
    with pytest.raises(UsageError, match="There are review, second"):
        await said(notebook, "team show")


async def test_check_lists_all_problems_also_of_a_template_that_is_not_trusted(
    notebook: Notebook, tmp_path: Path
) -> None:
    members = [
        {**MEMBERS[0], "tempo": 3},
        {**MEMBERS[1], "tools": ["count_words", "reed"], "skills": ["sewing"]},
        {**MEMBERS[2], "provider": "nobody"},
    ]
    write_template(tmp_path, "broken", members)
    with pytest.raises(ConfigError) as raised:
        await said(notebook, "team check broken")
    for text in ("tempo", "reed", "sewing", "nobody"):
        assert text in str(raised.value)
    assert str(raised.value).startswith("The template broken has 4 problems:\n- ")
    assert await said(notebook, "team check review") == "The template review has no problems."
    assert await said(notebook, "team check .planck/teams/review")


async def test_a_template_that_is_not_trusted_is_named_with_what_to_do(notebook: Notebook, tmp_path: Path) -> None:
    path = write_template(tmp_path, "foreign")
    listed = str(await said(notebook, "team list"))
    assert f"{path} is not trusted; " in listed
    assert "`%planck trust`" in listed
    assert "review" in listed
    with pytest.raises(TrustError, match="%planck trust"):
        await said(notebook, "team start foreign")
    await said(notebook, "trust --list")
    await said(notebook, "trust")
    assert "foreign is running" in await said(notebook, "team start foreign")


async def test_what_was_saved_in_the_project_says_that_it_needs_trust(notebook: Notebook, tmp_path: Path) -> None:
    await said(notebook, "team start review --name mine")
    saved = await said(notebook, "team save mine")
    assert saved.splitlines()[0] == "Saved the team mine in .planck/teams/mine."
    assert "%planck trust" in saved
    changed = write_template(tmp_path, "mine", description="Changed.")
    with pytest.raises(ConfigError, match="add --overwrite"):
        await said(notebook, "team save mine")
    assert "Changed." in changed.read_text()
    await said(notebook, "team save mine --overwrite")
    assert "Changed." not in changed.read_text()


@pytest.mark.slow
async def test_a_prompt_goes_to_a_team_by_its_name_and_then_to_the_same_team(notebook: Notebook) -> None:
    assert "responded" in await asked(notebook, DELEGATE, team="review")
    await said(notebook, "use review")
    assert "responded" in await asked(notebook, DELEGATE)
    assert "responded" in await asked(notebook, DELEGATE, agent="review")
    assert list(notebook.workspace.teams) == ["review"]
    assert not notebook.workspace.agents
    assert "demo model" in await asked(notebook, "hello", agent="planck")
    assert "demo model" in await asked(notebook, "hello")
    assert list(notebook.workspace.agents) == ["planck"]


async def test_a_line_to_a_member_that_does_not_exist_is_refused(notebook: Notebook) -> None:
    assert interpret("review/nosuch hi", None, notebook) == Prompt({}, "review/nosuch hi")
    await said(notebook, "team start review")
    with pytest.raises(UsageError) as raised:
        interpret("review/nosuch hi", None, notebook)
    assert str(raised.value) == (
        "The team review has no member nosuch. Known are: counter, lead, reader. As a prompt, write "
        "`%planck -- review/nosuch hi`."
    )
    assert interpret("review/counter hi", None, notebook) == Prompt({"agent": "review/counter"}, "hi")
    for line in ("review/ or not?", "other/nosuch hi", "-- review/nosuch hi"):
        assert interpret(line, None, notebook) == Prompt({}, line.removeprefix("-- "))


async def test_a_path_starts_the_team_once(notebook: Notebook) -> None:
    for _ in range(2):
        assert "responded" in await asked(notebook, DELEGATE, team=".planck/teams/review")
    assert list(notebook.workspace.teams) == ["review"]


async def test_an_agent_with_the_name_of_a_team_gets_its_prompts(notebook: Notebook) -> None:
    await said(notebook, "team start review")
    notebook.workspace.add_agent("review", model=notebook.workspace.model("demo"))
    await asked(notebook, "hello", agent="review")
    assert notebook.workspace.agent("review").state.messages
    assert not notebook.workspace.team("review").orchestrator.state.messages
    await asked(notebook, "hello", team="review")
    assert notebook.workspace.team("review").orchestrator.state.messages


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"team": "review", "agent": "ann"}, "either a name or --team"),
        ({"team": "review", "system": "x"}, "--system is for single agents"),
        ({"team": "review", "new": True}, "--new is for agents outside teams; stop the team and start it again"),
        ({"team": "nobody"}, "no team named nobody"),
        ({"team": "review", "base-url": "http://127.0.0.1:1"}, "--base-url needs --model"),
    ],
)
async def test_options_that_a_team_does_not_have_are_refused(
    notebook: Notebook, options: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(PlanckError, match=sentence):
        await notebook.controller.start("hello", options, notebook.names)
    assert not notebook.workspace.teams
    assert not notebook.workspace.agents


async def test_a_model_in_a_prompt_is_that_of_all_members(notebook: Notebook, tmp_path: Path) -> None:
    members = [{**member, "model_id": "nothing-of-this-name", "provider": "anthropic"} for member in MEMBERS]
    write_template(tmp_path, "costly", members)
    notebook.workspace.trust()
    assert "responded" in await asked(notebook, DELEGATE, team="costly", model="demo")
    assert {str(agent.model) for agent in notebook.workspace.team("costly").agents} == {"demo:demo"}
    assert "responded" in await asked(notebook, DELEGATE, team="costly", model="demo")


async def test_members_are_prompted_and_named_with_their_team(notebook: Notebook) -> None:
    await said(notebook, "team start review")
    assert await asked(notebook, "count_words 'a b'", agent="review/counter") == "`count_words` returned `2`."
    with pytest.raises(AgentError, match="has no member conter"):
        await asked(notebook, "hello", agent="review/conter")
    agents = await said(notebook, "agents")
    rows = agents.set_index("agent")[["team", "role", "status", "turns"]].to_dict("index")
    assert rows["counter"] == {"team": "review", "role": "worker", "status": "idle", "turns": 1}
    assert rows["lead"] == {"team": "review", "role": "orchestrator", "status": "idle", "turns": 0}
    assert "count_words" in await said(notebook, "request counter")
    assert "tool count_words" in await said(notebook, "request review/counter")
    with pytest.raises(UsageError, match="`%planck team stop review` stops the team"):
        await said(notebook, "remove counter")
    with pytest.raises(AgentError, match="is not running"):
        await said(notebook, "steer review/counter faster")
    await said(notebook, "team stop review")
    assert "demo model" in await asked(notebook, "hello")
    assert list(notebook.workspace.agents) == ["planck"]


@pytest.mark.parametrize(
    ("cell", "word", "found"),
    [
        ("%planck team ", "", ["list", "new", "start", "show", "check", "save", "stop"]),
        ("%planck team st", "st", ["start", "stop"]),
        ("%planck team start ", "", ["review", "second"]),
        ("%planck team start review --m", "--m", ["--model"]),
        ("%%planck --team rev", "rev", ["review"]),
        ("%%planck sec", "sec", ["second", "second/lead", "second/counter", "second/reader"]),
        ("%planck stop second/c", "second/c", ["second/counter"]),
        ("%planck help tea", "tea", ["team"]),
    ],
)
async def test_completion_knows_teams_and_members(notebook: Notebook, cell: str, word: str, found: list[str]) -> None:
    await said(notebook, "team start review --name second")
    shown, suggestions = suggest(cell, 0, cell, notebook)
    assert (shown, list(suggestions)) == (word, found)


@pytest.mark.slow
async def test_usage_and_resume_know_members(tmp_path: Path) -> None:
    write_template(tmp_path, "review")
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path / "home")
    async with Workspace(config) as workspace:
        workspace.trust()
        notebook = Notebook(Controller(workspace), {"count_words": count_words})
        await asked(notebook, DELEGATE, team="review")
        used = await said(notebook, "cost --agent review/counter --table")
        assert list(used["agent"]) == ["counter"]
        prompts = await said(notebook, "rewind")
        assert list(prompts["prompt"]) == [DELEGATE], "what agents send each other is no prompt of the user"
    async with Workspace(config) as workspace:
        notebook = Notebook(Controller(workspace), {"count_words": count_words})
        resumed = await said(notebook, "resume")
        assert "with the team review: lead (6 messages), counter (4 messages), reader (0 messages)." in resumed
        await said(notebook, "use review")
        assert "responded" in await asked(notebook, DELEGATE)
        assert list(workspace.teams) == ["review"]
        started = await said(notebook, f"rewind last {DELEGATE}")
        assert "responded" in (await started.run).text


async def test_a_new_team_runs_with_the_demo_model(tmp_path: Path) -> None:
    config = Config.load(environment={}, directory=tmp_path, home=tmp_path / "home")
    async with Workspace(config) as workspace:
        notebook = Notebook(Controller(workspace), {})
        text = str(await said(notebook, "team new helpers"))
        assert "Wrote the team helpers in .planck/teams/helpers: lead, reader, writer" in text
        assert str(await said(notebook, "team check helpers")) == "The template helpers has no problems."
        prompt = next(line for line in text.splitlines() if "delegate_task" in line).partition("helpers ")[2]
        assert '"name": "helpers"' in await asked(notebook, prompt, team="helpers")
        (tmp_path / ".planck/teams/helpers/members/lead.md").write_text("Do evil.")
        assert "not trusted" in str(await said(notebook, "team list")), "an edit waits for trust"
        with pytest.raises(ConfigError, match="helpers exists already"):
            await said(notebook, "team new helpers")
        with pytest.raises(UsageError, match="needs a name"):
            await said(notebook, "team new")


@pytest.mark.parametrize("name", ["../x", "a/b", ".hidden", "two words", "-x", "x" * 80])
async def test_a_new_team_has_a_plain_name(tmp_path: Path, name: str) -> None:
    async with Workspace(Config.load(environment={}, directory=tmp_path)) as workspace:
        with pytest.raises(ConfigError, match="cannot be a team's name"):
            workspace.new_team(name)
    assert not (tmp_path / ".planck").exists()
