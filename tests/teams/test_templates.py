"""Team templates: each clause of what the original does, by its number, and who orchestrates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planck_nb import AgentSpec
from planck_nb.base.errors import ConfigError
from planck_nb.teams import TeamTemplate, decide_roles, read_template

SEEDS = [
    {
        "type": "planner",
        "name": "Planner",
        "description": "Breaks tasks into steps",
        "provider": "anthropic",
        "model_id": "claude-sonnet-4-6",
        "system_prompt": "You are an expert planner.",
        "opts": {"temperature": 0.5},
    },
    {
        "type": "coder",
        "name": "Coder",
        "description": "Writes and edits code",
        "provider": "ollama",
        "model_id": "llama3.2",
        "system_prompt": "prompts/coder.md",
    },
]
"""The example of the original's documentation."""


def member(kind: str = "orchestrator", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "provider": "demo", "model_id": "demo", **fields}


LEAD = member()


def write(folder: Path, data: Any, name: str = "TEAM.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(data if isinstance(data, str) else json.dumps(data))
    return path


def team(folder: Path, *members: dict[str, Any], **fields: Any) -> Path:
    write(folder, {**fields, "members": list(members)})
    return folder


# --- the folder form -------------------------------------------------------------------------------------------------


def test_the_smallest_team(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:  # clause 1
    team(tmp_path / "review", LEAD)
    monkeypatch.chdir(tmp_path)
    for path in ("review", "review/TEAM.json", tmp_path / "review"):
        found = read_template(path)
        assert (found.alias, found.source, found.dir) == ("review", "filesystem", tmp_path / "review")
        assert found.members == (AgentSpec.from_map(LEAD),)
        assert found.report == ()
    assert not hasattr(found, "id")  # a `Team` has one once it runs


def test_name_and_description_are_kept(tmp_path: Path) -> None:  # clause 2
    found = read_template(team(tmp_path, LEAD, name="Reviewers", description="Reviews."))
    assert (found.name, found.description) == ("Reviewers", "Reviews.")


def test_there_is_no_name_and_no_description_by_default(tmp_path: Path) -> None:  # clause 3
    found = read_template(team(tmp_path, LEAD))
    assert (found.name, found.description) == (None, None)


def test_members_are_in_order(tmp_path: Path) -> None:  # clause 4
    found = read_template(team(tmp_path, member("a"), LEAD, member("b")))
    assert [each.type for each in found.members] == ["a", "orchestrator", "b"]
    assert found.roles == ("worker", "orchestrator", "worker")
    assert found.orchestrator.type == "orchestrator"
    assert [each.type for each in found.workers] == ["a", "b"]


def test_prompts_are_relative_to_the_folder_and_trimmed(tmp_path: Path) -> None:  # clause 5
    write(tmp_path / "t/members", "\n You lead. \n", "lead.md")
    found = read_template(team(tmp_path / "t", {**LEAD, "system_prompt": "members/lead.md"}))
    assert found.members[0].system_prompt == "You lead."
    assert set(found.files) == {"TEAM.json", "members/lead.md"}
    assert found.files["members/lead.md"] == b"\n You lead. \n"


def test_a_folder_that_does_not_exist(tmp_path: Path) -> None:  # clause 6
    with pytest.raises(ConfigError, match=r"team directory not found: .*nowhere; name a folder with a TEAM\.json"):
        read_template(tmp_path / "nowhere")


def test_a_folder_without_a_team(tmp_path: Path) -> None:  # clause 7
    with pytest.raises(ConfigError, match=r"cannot read .*TEAM\.json: No such file"):
        read_template(tmp_path)
    with pytest.raises(ConfigError, match=r"cannot read .*x\.json: No such file"):
        read_template(tmp_path / "x.json")


def test_invalid_json_has_a_place(tmp_path: Path) -> None:  # clause 8
    write(tmp_path, '{"members": [\n  {"type": "a",}]}')
    with pytest.raises(ConfigError, match=r"invalid JSON in .*TEAM\.json: .*line 2 column 1[56]"):
        read_template(tmp_path)


def test_members_are_required(tmp_path: Path) -> None:  # clause 9
    write(tmp_path, {"name": "x", "member": []})
    with pytest.raises(ConfigError, match=r"missing required field 'members'\. Did you mean member\?"):
        read_template(tmp_path)


def test_there_must_be_members(tmp_path: Path) -> None:  # clause 10
    with pytest.raises(ConfigError, match="members must not be empty"):
        read_template(team(tmp_path))


@pytest.mark.parametrize("members", [{}, "x", None, 3, True])
def test_members_must_be_an_array(tmp_path: Path, members: object) -> None:  # clause 11
    write(tmp_path, {"members": members})
    with pytest.raises(ConfigError, match="members must be an array"):
        read_template(tmp_path)


def test_one_member_must_be_valid(tmp_path: Path) -> None:  # clause 12
    with pytest.raises(ConfigError, match=r"no valid members\. .*member 1 \(a\): missing required field"):
        read_template(team(tmp_path, {"type": "a"}, {}))


def test_exactly_one_member_orchestrates(tmp_path: Path) -> None:  # clause 13
    with pytest.raises(ConfigError, match="exactly one orchestrator, found 0"):
        read_template(team(tmp_path, member("a"), member("b")))


def test_two_orchestrators_are_counted(tmp_path: Path) -> None:  # clause 14
    with pytest.raises(ConfigError, match=r"exactly one orchestrator, found 2 \(a, b\)"):
        read_template(team(tmp_path, {**LEAD, "name": "a"}, {**LEAD, "name": "b"}))


def test_a_type_may_be_repeated(tmp_path: Path) -> None:  # clause 15
    found = read_template(team(tmp_path, LEAD, member("coder", name="a"), member("coder", name="b")))
    assert [each.name for each in found.workers] == ["a", "b"]


def test_a_name_is_the_type_by_default(tmp_path: Path) -> None:  # clause 16
    assert read_template(team(tmp_path, LEAD, member("coder"))).members[1].name == "coder"


@pytest.mark.parametrize("other", ["Ann", "ann", " Ann ", "\uff21nn"])
def test_a_name_may_not_be_repeated(tmp_path: Path, other: str) -> None:  # clause 17; names that look alike, too
    with pytest.raises(ConfigError, match=r"duplicate member name .*; give one of them another name"):
        read_template(team(tmp_path, LEAD, member("coder", name="Ann"), member("tester", name=other)))


def test_members_of_a_type_without_names_need_names(tmp_path: Path) -> None:  # clause 18
    with pytest.raises(ConfigError, match="duplicate member name 'coder'; give the members of the type 'coder' diff"):
        read_template(team(tmp_path, LEAD, member("coder"), member("coder")))


def test_skills_are_a_list(tmp_path: Path) -> None:  # clause 19
    assert read_template(team(tmp_path, {**LEAD, "skills": ["review"]})).members[0].skills == ("review",)


def test_there_are_no_skills_by_default(tmp_path: Path) -> None:  # clause 20
    assert read_template(team(tmp_path, LEAD)).members[0].skills == ()


def test_a_team_of_one_orchestrator() -> None:  # clause 21
    lead = AgentSpec("orchestrator", "demo", "demo")
    found = TeamTemplate.dynamic(lead)
    assert (found.members, found.roles, found.source) == ((lead,), ("orchestrator",), "dynamic")
    assert (found.alias, found.name, found.dir, found.path) == ("", None, None, None)
    by_tool = AgentSpec("boss", "demo", "demo", tools=["spawn_agent"])
    assert TeamTemplate.dynamic(by_tool).orchestrator is by_tool


def test_a_team_of_one_worker_is_refused() -> None:  # clause 22
    with pytest.raises(ConfigError, match="needs an orchestrator, and coder is of the type coder"):
        TeamTemplate.dynamic(AgentSpec("coder", "demo", "demo"))


# --- the flat form ---------------------------------------------------------------------------------------------------


def test_the_example_of_the_original(tmp_path: Path) -> None:
    write(tmp_path / "prompts", "You code.\n", "coder.md")
    path = write(tmp_path, SEEDS, "team.json")
    found = read_template(path, strict=True)
    assert (found.alias, found.dir, found.path) == ("team", tmp_path, path)
    planner, coder = found.members
    assert (planner.opts, planner.system_prompt) == ({"temperature": 0.5}, "You are an expert planner.")
    assert (coder.name, coder.system_prompt) == ("Coder", "You code.")
    assert found.roles == ("orchestrator", "worker")
    [note] = found.report
    assert str(note) == (
        f"{path}, member 1 (Planner): the first member, Planner, is the orchestrator, because no member has the role "
        "orchestrator, the tool spawn_agent or the type orchestrator."
    )
    assert note.note
    assert found.mistakes == ()


def test_the_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    write(tmp_path, [LEAD], "team.json")
    assert read_template("~/team.json").alias == "team"


def test_a_flat_array_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path / "t", [member("a"), member("b")])
    found = read_template(tmp_path / "t")
    assert (found.alias, found.roles) == ("t", ("orchestrator", "worker"))


# --- roles -----------------------------------------------------------------------------------------------------------


def spec(name: str, **fields: Any) -> AgentSpec:
    return AgentSpec.from_map(member("agent", name=name, **fields))


ROLE, TOOL, TYPE = {"role": "orchestrator"}, {"tools": ["spawn_agent"]}, {"type": "orchestrator"}


@pytest.mark.parametrize(
    ("members", "orchestrator", "rule"),
    [
        ([{}, ROLE], 1, "role"),
        ([TOOL, ROLE], 1, "role"),
        ([TYPE, TOOL, ROLE], 2, "role"),
        ([TYPE, TOOL], 1, "spawn_agent"),
        ([{}, TYPE], 1, "type"),
        ([{**TOOL, "role": "worker"}, TYPE], 1, "type"),
        ([{**TYPE, "role": "worker"}, {**TOOL, "role": "worker"}, {}], 2, "first"),
        ([{"role": "worker"}, {}, {}], 1, "first"),
    ],
)
def test_the_first_rule_that_applies_decides(members: list[dict[str, Any]], orchestrator: int, rule: str) -> None:
    specs = [spec(str(number), **fields) for number, fields in enumerate(members)]
    decision = decide_roles(specs, first=True)
    assert (decision.orchestrator, decision.rule) == (orchestrator, rule)
    assert decision.roles.count("orchestrator") == 1


@pytest.mark.parametrize("fields", [ROLE, TOOL, TYPE])
@pytest.mark.parametrize("first", [True, False])
def test_two_by_the_same_rule_are_refused(fields: dict[str, Any], first: bool) -> None:
    with pytest.raises(ConfigError, match=r"found 3 \(a, b, c\)"):
        decide_roles([spec("a", **fields), spec("b", **fields), spec("c", **fields), spec("d")], first=first)


def test_nobody_is_promoted_against_the_template() -> None:
    with pytest.raises(ConfigError, match="found 0"):
        decide_roles([spec("a", role="worker"), spec("b", role="worker")], first=True)


def test_programs_make_templates() -> None:
    one, other = spec("a"), spec("b")
    found = TeamTemplate.from_specs([one, other], name="Pair", description="Two.")
    assert (found.alias, found.name, found.source) == ("Pair", "Pair", "dynamic")
    assert (found.members, found.roles, len(found.report)) == ((one, other), ("orchestrator", "worker"), 1)
    for wrong in ([], [one, one]):
        with pytest.raises(ConfigError):
            TeamTemplate.from_specs(wrong)


# --- the report ------------------------------------------------------------------------------------------------------


def faulty(folder: Path) -> Path:
    return team(
        folder,
        {**LEAD, "opts": {"tempo": 1, "temperature": "hot"}, "colour": "red"},
        member("coder", provider="opnai"),
        member("tester", tools="bash", system_prompt="gone.md"),
        member("writer", tools="bash", skills=[1]),
        titel="x",
        name=3,
    )


def test_the_report_names_file_member_and_field(tmp_path: Path) -> None:
    found = read_template(faulty(tmp_path))
    assert [each.name for each in found.members] == ["orchestrator", "writer"]
    file = tmp_path / "TEAM.json"
    assert {(problem.path, problem.member, problem.field) for problem in found.report} == {
        (file, "", "name"),
        (file, "", "titel"),
        (file, "member 1 (orchestrator)", "colour"),
        (file, "member 1 (orchestrator)", "opts.tempo"),
        (file, "member 1 (orchestrator)", "opts.temperature"),
        (file, "member 2 (coder)", "provider"),
        (file, "member 3 (tester)", "system_prompt"),
        (file, "member 4 (writer)", "tools"),
        (file, "member 4 (writer)", "skills"),
    }
    for problem in found.report:
        assert str(problem).startswith(str(file))
        assert str(problem).endswith((".", "?"))
        assert "\n" not in str(problem)


def test_strict_reading_lists_all_problems(tmp_path: Path) -> None:
    report = read_template(faulty(tmp_path)).report
    with pytest.raises(ConfigError, match="has 9 problems") as error:
        read_template(tmp_path, strict=True)
    assert all(str(problem) in str(error.value) for problem in report)


def test_strict_reading_lists_problems_beside_the_last_one(tmp_path: Path) -> None:
    team(tmp_path, member("a", opts={"tempo": 1}), member("b", colour="red"))
    with pytest.raises(ConfigError, match="3 problems") as error:
        read_template(tmp_path, strict=True)
    assert all(word in str(error.value) for word in ("tempo", "colour", "found 0"))
    with pytest.raises(ConfigError, match="found 0") as error:
        read_template(tmp_path)
    assert "tempo" not in str(error.value)


def test_what_is_fine_is_not_reported(tmp_path: Path) -> None:
    full = member(
        name="Lead",
        description="Leads.",
        system_prompt="Lead.",
        tools=["read", "spawn_agent"],
        skills=["review"],
        opts={"temperature": 0.1, "extra": {"seed": 1}},
        base_url="http://127.0.0.1:8080/v1",
        compactor="short",
        role="orchestrator",
        grants={"tools": ["read"], "skills": [], "models": ["demo:demo"]},
        limits={"cost": 0.5, "rounds": None},
    )
    fields = {"$schema": "https://example.org/team.schema.json", "name": "T", "description": "D"}
    assert read_template(team(tmp_path, full, **fields), strict=True).report == ()
