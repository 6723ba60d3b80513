"""The files in `tests/fixtures/formats`, in the formats that `planck_nb/FORMATS.md` describes, are what they were."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from fixtures.formats.record import DELEGATION, EXPORTS, FOLDER, PLACE, convert, copy, place, play, record, write_key

from planck_nb import Session, Team, Tool, Workspace, ai, tool
from planck_nb.base.errors import TrustError
from planck_nb.sessions import import_session, list_sessions, query
from planck_nb.sessions.database.session_catalogue import FORMAT
from planck_nb.sessions.database.tables import VERSION

SAID = [
    'read "notes.txt"',
    "",
    "`read` returned \n\n```\nTwo orders from Delft.\n\n```",
    'write "out/report.md" "42 units"',
    "",
    "`write` returned `Written out/report.md (new file, 8 bytes).`.",
    'bash "rm -r out"',
    "",
    "`bash` failed: bash was denied: Running `rm -r out` is forbidden by the rule 'deny bash:rm *'.",
    "convert 250",
    "",
    "`convert` returned `230.0`.",
    'bash "echo three"',
    "",
    "`bash` returned \n\n```\nthree\n\n```",
    "What is this?",
]
"""The beginning of the session `one`; an empty text is a reply with a call only."""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The home folder of the user who wrote the files, with the project `orders`."""
    folder = tmp_path.resolve() / "home"
    copy(FOLDER / "project", folder / "orders/.planck", folder, PLACE)
    copy(FOLDER / "sessions", folder / "orders/.planck/sessions", folder, PLACE)
    write_key(folder)
    trust = (FOLDER / "trust.json").read_text(encoding="utf-8").replace(PLACE, str(folder))
    (folder / ".planck/trust.json").write_text(trust, encoding="utf-8")
    (folder / "orders/notes.txt").write_text("Two orders from Delft.\n", encoding="utf-8")
    return folder


@pytest.fixture(params=["journals", "DuckDB files"])
def sessions(request: pytest.FixtureRequest, home: Path) -> Path:
    """The sessions, as they are and with DuckDB files."""
    directory = home / "orders/.planck/sessions"
    if request.param == "DuckDB files":
        for info in list_sessions(directory):
            Session.open(directory, info.id).close()
            assert info.database.exists()
    return directory


def find(name: str) -> Tool | None:
    """Find a function of the program that recorded the sessions."""
    return tool(convert) if name == "convert" else None


def rows(sessions: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a query, with None for missing values."""
    frame = query(sessions, sql).astype(object)
    return list(frame.where(frame.notna(), None).itertuples(index=False, name=None))


def test_settings_are_read_and_trusted(home: Path) -> None:
    config = place(home)
    assert (config.default_model, config.approval_deadline, config.sandbox) == ("demo", 30, "off")
    assert (config.limits.rounds, config.limits.cost) == (20, 0.5)
    assert [(rule.action, str(rule)) for rule in config.rules] == [("deny", "bash:rm *"), ("allow", "bash:echo *")]


@pytest.mark.parametrize("name", ["config.toml", "teams/review/TEAM.json"])
async def test_a_file_that_has_changed_is_not_trusted(name: str, home: Path) -> None:
    async with Workspace(place(home)) as workspace:
        workspace.require_trust()
    with (home / "orders/.planck" / name).open("a") as file:
        file.write("\n")
    async with Workspace(place(home)) as workspace:
        with pytest.raises(TrustError, match="trust"):
            workspace.require_trust()


async def test_templates_are_loaded(home: Path) -> None:
    team = Team.load(home / "orders/.planck/teams/review", strict=True)
    assert (team.alias, team.name, team.description) == ("review", "Reviewers", "Review a change.")
    lead, tess = team.members
    assert (lead.type, lead.system_prompt) == ("orchestrator", "You lead. Delegate all work.")
    assert (tess.type, tess.name, tess.tools, tess.opts) == ("reader", "Tess", ("read",), {"temperature": 0.2})
    async with Workspace(place(home)) as workspace:
        team = await workspace.start_team("review")
        assert [(agent.name, agent.role) for agent in team.agents] == [("Lead", "orchestrator"), ("Tess", "worker")]


@pytest.mark.slow
def test_conversations_are_read(sessions: Path) -> None:
    with Session.read(sessions, "one") as session:
        said = [row.message.text for row in session.messages() if row.message.type != "tool_result"]
        assert said[: len(SAID)] == SAID
    sql = "SELECT text FROM messages WHERE session_name = 'one' AND role <> 'tool_result' ORDER BY id"
    assert [text for (text,) in rows(sessions, sql)] == said
    chapters = rows(sessions, "SELECT chapter, messages, summary IS NULL FROM chapters WHERE session_name = 'one'")
    assert sorted(chapters) == [(0, 22, True), (1, 5, False)]
    sql = "SELECT purpose, replies, rewound_replies, cost_usd > 0 FROM usage ORDER BY session_name, purpose, replies"
    assert rows(sessions, sql) == [
        ("reply", 8, 4, None),
        ("reply", 13, 0, True),
        ("summary", 0, 0, True),
        ("reply", 2, 0, None),
        ("reply", 3, 0, None),
    ]


@pytest.mark.slow
def test_calls_and_decisions_are_read(sessions: Path) -> None:
    calls = rows(sessions, "SELECT name, result, is_error FROM tool_calls WHERE session_name = 'one' ORDER BY ts")
    assert [(name, failed) for name, _, failed in calls] == [
        ("read", False),
        ("write", False),
        ("bash", True),
        ("convert", False),
        ("bash", False),
        ("convert", False),
    ]
    assert calls[4][1] == "three\n"
    sql = "SELECT name, allowed, decided_by, rule FROM approvals WHERE session_name = 'one' ORDER BY decided"
    [(agent_id,)] = rows(sessions, "SELECT agent_id FROM agents WHERE session_name = 'one'")
    assert rows(sessions, sql) == [
        ("read", True, "rule", None),
        ("write", True, "user", f"agent_id={agent_id} write:./out/**"),
        ("bash", False, "rule", "bash:rm *"),
        ("bash", True, "rule", "bash:echo *"),
    ]


@pytest.mark.slow
def test_a_team_is_read(sessions: Path) -> None:
    sql = "SELECT from_agent_name, to_agent_name, kind, task, response, status FROM delegations"
    response = "`read` returned \n\n```\nTwo orders from Delft.\n\n```"
    assert rows(sessions, sql) == [("Lead", "Tess", "delegate", "read 'notes.txt'", response, "answered")]
    sql = "SELECT name, role, granted_tools, granted_models FROM team_members ORDER BY name"
    assert rows(sessions, sql) == [
        ("Lead", "orchestrator", '["read"]', '["demo:demo"]'),
        ("Tess", "worker", "[]", "[]"),
    ]


def test_branches_are_read(sessions: Path) -> None:
    sql = "SELECT messages, last_text FROM branches ORDER BY branch_id"
    assert rows(sessions, sql) == [(4, "`convert` returned `18.4`."), (4, "`convert` returned `27.6`.")]


@pytest.mark.slow
async def test_a_session_goes_on_with_its_model_its_rule_and_its_changes(home: Path) -> None:
    report = home / "orders/out/report.md"
    report.parent.mkdir()
    report.write_text("42 units")
    async with Workspace(place(home)) as workspace:
        assert await workspace.resume("one", find=find) == []
        agent = workspace.agent("ann")
        assert agent.model.pricing == ai.Pricing(1.0, 2.0)
        assert [each.name for each in agent.tools] == ["read", "write", "bash", "convert"]
        run = agent.prompt('write "out/more.md" "7 units"')
        await run
        decided = [event async for event in run if event.type == "approval_decision"]
        assert [(event.by, event.rule) for event in decided] == [("rule", f"agent_id={agent.id} write:./out/**")]
        workspace.changes.undo(1)
        assert not report.exists()


@pytest.mark.slow
async def test_a_session_of_another_user_gives_nothing(home: Path) -> None:
    (home / ".planck/session.key").unlink()
    async with Workspace(place(home)) as workspace:
        [problem, *_] = await workspace.resume("one", find=find)
        assert "was not written by you" in problem
        assert "convert" not in [each.name for each in workspace.agent("ann").tools]
        assert "write:./out/**" not in " ".join(map(str, workspace.approvals.policy.rules))


@pytest.mark.slow
async def test_a_session_returns_to_a_branch(home: Path) -> None:
    async with Workspace(place(home)) as workspace:
        await workspace.resume("branches", find=find)
        await workspace.return_to(workspace.session.branches()[0].id, find=find)
        reply = workspace.agent("bob").state.messages[-1].message
        assert isinstance(reply, ai.AssistantMessage)
        assert reply.text == "`convert` returned `18.4`."


@pytest.mark.slow
async def test_a_team_goes_on(home: Path) -> None:
    async with Workspace(place(home)) as workspace:
        assert await workspace.resume("team") == []
        team = workspace.team("review")
        result = await team.prompt(DELEGATION)
        assert "**Tess** responded: `read` returned" in result.text


async def test_a_cassette_is_replayed(tmp_path: Path) -> None:
    cassette = ai.Cassette(FOLDER / "cassettes/convert.jsonl", "replay", environment={})
    assert await play(cassette, None, tmp_path) == ["They are 230 euros.", "Still 230."]


@pytest.mark.parametrize("file", EXPORTS)
def test_a_session_is_exported_as_before(file: str, tmp_path: Path) -> None:
    copy(FOLDER / "sessions", tmp_path, Path(PLACE), PLACE)
    name, form = EXPORTS[file]
    with Session.read(tmp_path, name) as session:
        assert session.export(form) == (FOLDER / "exports" / file).read_text(encoding="utf-8")


def test_an_export_is_imported(tmp_path: Path) -> None:
    copy(FOLDER / "sessions", tmp_path / "before", Path(PLACE), PLACE)
    imported = import_session(tmp_path / "after", FOLDER / "exports/branches.jsonl")
    assert "convert" in imported.notice
    with Session.read(tmp_path / "before", "branches") as before, Session.read(tmp_path / "after", "branches") as after:
        assert after.messages() == before.messages()
        assert (len(before.branches()), len(after.branches())) == (2, 0)


def test_the_page_names_the_layouts_of_copies() -> None:
    page = (FOLDER.parents[2] / "planck_nb/FORMATS.md").read_text(encoding="utf-8")
    assert re.findall(r"layout (\d+)", page) == [str(VERSION), str(FORMAT)]


@pytest.mark.process
def test_files_of_now_have_the_same_fields(tmp_path: Path) -> None:
    """Otherwise the folder is to be recorded anew, and the page gets a line."""
    record(tmp_path)
    assert sorted(fields_of(tmp_path)) == sorted(fields_of(FOLDER))


def fields_of(folder: Path) -> set[tuple[str, ...]]:
    """The fields of each kind of line in journals, exports, cassettes and lists of changes."""
    lines = [json.loads(line) for file in folder.rglob("*.jsonl") for line in file.read_text("utf-8").splitlines()]
    return {
        (
            str(line.get("kind")),
            str(line.get("type") or line.get("role")),
            *sorted(line),
            *names_in(line.get("data", {})),
        )
        for line in lines
    }


def names_in(data: dict[str, Any]) -> list[str]:
    """The names of the fields, without the ids of teams in some."""
    return sorted(re.sub(r"^team\.[0-9a-f]+$", "team.ID", name) for name in data)
