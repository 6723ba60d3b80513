"""Descriptions of agents: each clause of what the original does, by its number."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest

from planck_nb import Agent, AgentSpec, Compactor, Limits, Tool
from planck_nb.agent.calling.functions import as_tool
from planck_nb.agent.context.system_prompt import SystemPromptParts
from planck_nb.agent.identity import Grants
from planck_nb.ai import Options, get_model, list_providers
from planck_nb.ai.models import Model
from planck_nb.base.errors import ConfigError, ModelError, UsageError
from planck_nb.resources.skill_pool import SkillPool

DEMO: dict[str, Any] = {"type": "builder", "provider": "demo", "model_id": "demo"}


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec(**{**DEMO, **fields})


def read(**fields: Any) -> AgentSpec:
    return AgentSpec.from_map({**DEMO, **fields})


def without(field: str) -> dict[str, Any]:
    return {name: value for name, value in DEMO.items() if name != field}


def tool(name: str) -> Tool:
    return Tool(name=name, description="Does it.", execute_fn=lambda args: "done")


def names(options: dict[str, Any]) -> list[str]:
    return [each.name for each in options["tools"]]


class Skills:
    """A pool of skills that can change."""

    def __init__(self, *known: str) -> None:
        self.known = list(known)

    def section(self, wanted: Collection[str] | None = None) -> str:
        return "\n".join(name for name in self.known if wanted is None or name in wanted)

    def tools(self) -> tuple[Tool, ...]:
        return (tool("load_skill"),)


# --- to_start_opts ---------------------------------------------------------------------------------------------------


def test_start_options_have_id_type_prompt_model_and_options() -> None:  # clause 1
    options = spec(system_prompt="Build it.", opts={"temperature": 0.5}).to_start_opts()
    assert options["id"]
    assert (options["type"], options["system_prompt"]) == ("builder", "Build it.")
    assert (str(options["model"]), options["options"]) == ("demo:demo", Options(temperature=0.5))


def test_each_call_gives_another_id() -> None:  # clause 2
    one = spec()
    assert len({one.to_start_opts()["id"] for _ in range(50)}) == 50


def test_a_name_is_passed_through() -> None:  # clause 3
    assert spec(name="Bob").to_start_opts()["name"] == "Bob"


def test_the_name_is_the_type_by_default() -> None:  # clause 4
    assert spec().to_start_opts()["name"] == "builder"


def test_tools_that_are_given_are_used() -> None:  # clause 5
    given = tool("echo")
    assert spec().to_start_opts(tools=[given])["tools"] == [given]


def test_without_tools_there_are_none() -> None:  # clause 6
    assert spec().to_start_opts()["tools"] == []


def test_the_team_is_passed_through() -> None:  # clause 7
    assert spec().to_start_opts(team_id="t1")["team_id"] == "t1"


def test_there_is_no_team_by_default() -> None:  # clause 8
    assert spec().to_start_opts()["team_id"] is None


def test_a_model_that_is_available_is_not_looked_up() -> None:  # clause 9
    mine = Model("demo", "not-in-the-catalogue", "demo", context_window=99)
    assert spec(model_id="not-in-the-catalogue").to_start_opts(available_models=[mine])["model"] is mine


def test_a_compactor_that_is_given_goes_first() -> None:  # clause 10
    given, own = Compactor.build(ratio=0.5), Compactor.build(ratio=0.6)
    options = spec(compactor="mine").to_start_opts(on_compact=given, compactors={"mine": own})
    assert options["on_compact"] is given


def test_names_of_tools_are_looked_up_in_the_pool() -> None:  # clause 11
    pool = [tool("a"), tool("b"), tool("c")]
    assert spec(tools=["c", "a"]).to_start_opts(tool_pool=pool)["tools"] == [pool[2], pool[0]]


def test_unknown_names_of_tools_are_ignored_and_reported() -> None:  # clause 12; the report is ours
    options = spec(tools=["bsah", "a"]).to_start_opts(tool_pool=[tool("a"), tool("bash")])
    assert names(options) == ["a"]
    assert [str(problem) for problem in options.problems] == [
        "member (builder), tools: there is no tool 'bsah'. Did you mean bash?"
    ]


def test_tools_that_are_given_come_after_those_of_the_pool() -> None:  # clause 13
    options = spec(tools=["a"]).to_start_opts(tools=[tool("b")], tool_pool=[tool("a"), tool("b")])
    assert names(options) == ["a", "b"]


def test_an_agent_that_names_no_tools_has_those_that_are_given() -> None:  # clause 14
    assert names(spec().to_start_opts(tools=[tool("b")], tool_pool=[tool("a")])) == ["b"]


@pytest.mark.parametrize(
    ("provider", "model_id", "base_url"),
    [
        ("demo", "nope", None),
        ("anthropic", "claude-sonet-4-6", None),
        ("nowhere", "x", None),
        ("demo", "nope", "http://127.0.0.1:1/v1"),
    ],
)
def test_an_unknown_model_is_not_found(provider: str, model_id: str, base_url: str | None) -> None:  # clause 15
    # Unlike the original, an id that the catalogue does not know is used unless it looks like a typing mistake.
    with pytest.raises(ModelError, match=f"model not found: {provider}:{model_id}") as error:
        AgentSpec("a", provider, model_id, base_url=base_url).to_start_opts()
    assert str(error.value).endswith((".", "?"))
    assert (base_url is None) or f" at {base_url}" in str(error.value)


def test_options_are_passed_through() -> None:  # clause 16
    opts = {
        "max_tokens": 9,
        "temperature": 0,
        "top_p": 0.5,
        "stop": ["END"],
        "thinking": "high",
        "tool_choice": "none",
        "output": {"type": "object"},
        "extra": {"seed": 1},
    }
    assert spec(opts=opts).to_start_opts()["options"].named() == opts
    assert spec(opts=Options(max_tokens=9)).to_start_opts()["options"] == Options(max_tokens=9)


def test_the_prompt_is_unchanged() -> None:  # clause 17
    text = " You build.\n\n"
    assert spec(system_prompt=text, name="Bob", skills=["a"]).to_start_opts()["system_prompt"] == text


def test_skills_are_read_when_a_turn_starts() -> None:  # clause 18
    pool = Skills("one", "two")
    options = spec(system_prompt="P", skills=["one", "three"]).to_start_opts(skill_pool=pool)
    assert options["system_prompt"] == "P"
    assert options["prompt_parts"].names == ("one", "three")
    assert options["prompt_parts"]().skills == "one"
    pool.known.append("three")
    assert options["prompt_parts"]().skills == "one\nthree"


def test_unknown_skills_are_ignored_and_reported() -> None:  # clause 19; the report is ours
    options = spec(skills=["one", "nope"]).to_start_opts(skill_pool=Skills("one"))
    assert options["prompt_parts"]().skills == "one"
    assert [problem.reason for problem in options.problems] == ["there is no skill 'nope'."]
    assert len(spec(skills=["one"]).to_start_opts().problems) == 1


def test_load_skill_is_added_if_there_are_skills() -> None:  # clause 20
    options = spec(skills=["one"]).to_start_opts(tools=[tool("a")], skill_pool=Skills("one"))
    assert names(options) == ["a", "load_skill"]


def test_load_skill_is_not_added_if_there_are_no_skills() -> None:  # clause 21
    options = spec(skills=["one"]).to_start_opts(skill_pool=Skills())
    assert names(options) == []
    assert options["prompt_parts"]() == SystemPromptParts()


def test_load_skill_is_added_for_agents_that_name_no_skill() -> None:  # clause 22
    options = spec().to_start_opts(skill_pool=Skills("one"))
    assert names(options) == ["load_skill"]
    assert options["prompt_parts"]().skills == ""


# --- from_map --------------------------------------------------------------------------------------------------------


def test_the_required_fields_are_enough() -> None:  # clause 23
    assert read() == AgentSpec("builder", "demo", "demo")


def test_a_name_is_kept() -> None:  # clause 24
    assert read(name="Bob").name == "Bob"


def test_a_name_that_is_absent_is_the_type() -> None:  # clause 25
    assert read().name == "builder"


@pytest.mark.parametrize("empty", ["", "  ", None])
def test_a_name_that_is_empty_is_the_type(empty: str | None) -> None:  # clause 26
    assert read(name=empty).name == "builder"


def test_opts_become_options() -> None:  # clause 27
    found = read(opts={"temperature": 0.5, "max_tokens": 7, "top_p": None, "stop": "END"})
    assert found.opts == {"temperature": 0.5, "max_tokens": 7, "stop": ["END"]}


@pytest.mark.parametrize("provider", list_providers())
def test_every_provider_is_accepted(provider: str) -> None:  # clause 28: anthropic, openai and google are among them
    assert AgentSpec.from_map({**DEMO, "provider": provider}).provider == provider


@pytest.mark.parametrize("provider", ["mystery", "Anthropic", "openai:gpt-5", "anthropic 1", "a. b"])
def test_an_unknown_provider_is_refused(provider: str) -> None:  # clause 29
    with pytest.raises(ConfigError, match="unknown provider"):
        AgentSpec.from_map({**DEMO, "provider": provider})


def test_a_type_that_is_absent_is_named() -> None:  # clause 30
    with pytest.raises(ConfigError, match="missing required field: type"):
        AgentSpec.from_map(without("type"))


def test_a_type_that_is_empty_is_named() -> None:  # clause 31
    with pytest.raises(ConfigError, match="type must not be empty"):
        read(type="")


@pytest.mark.parametrize("field", ["model_id", "provider"])
def test_a_missing_model_or_provider_is_named(field: str) -> None:  # clauses 32, 33
    with pytest.raises(ConfigError, match=f"provider or model_id.*{field}"):
        AgentSpec.from_map(without(field))
    with pytest.raises(ConfigError, match=f"provider or model_id must not be empty.*{field}"):
        AgentSpec.from_map({**DEMO, field: ""})


def test_a_prompt_in_the_description_is_kept_as_it_is() -> None:  # clause 34
    assert read(system_prompt="  You build.\n").system_prompt == "  You build.\n"
    assert read(system_prompt="Write all you find into\nNOTES.md").system_prompt == "Write all you find into\nNOTES.md"


def test_a_prompt_that_is_null_is_empty() -> None:  # clause 35
    assert read(system_prompt=None).system_prompt == read().system_prompt == ""


def test_tools_are_a_list_of_names() -> None:  # clause 36
    assert read(tools=["read", "bash", "read"]).tools == ("read", "bash")


def test_there_are_no_tools_by_default() -> None:  # clause 37
    assert read().tools == read(tools=None).tools == ()


def test_tools_that_are_not_names_are_left_out() -> None:  # clause 38
    found = read(tools=["read", 1, None, {}, "", "bash"])
    assert found.tools == ("read", "bash")
    assert [(problem.field, problem.reason) for problem in found.problems] == [
        ("tools", "only names are used, not 1, null, an object and 1 more")
    ]


def test_skills_are_a_list_of_names() -> None:  # clause 39
    assert read(skills=["review"]).skills == ("review",)


def test_there_are_no_skills_by_default() -> None:  # clause 40
    assert read().skills == ()


def test_skills_that_are_not_names_are_left_out() -> None:  # clause 41
    assert read(skills=[["x"], "review"]).skills == ("review",)


def test_a_compactor_has_a_name() -> None:  # clause 42
    assert read(compactor="short").compactor == "short"


@pytest.mark.parametrize("absent", [{}, {"compactor": None}, {"compactor": ""}])
def test_there_is_no_compactor_by_default(absent: dict[str, Any]) -> None:  # clause 43
    assert read(**absent).compactor is None


def test_a_prompt_file_is_read_relative_to_the_folder_and_trimmed(tmp_path: Path) -> None:  # clause 44
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/coder.md").write_bytes(b"\xef\xbb\xbf\n  You code.\r\nWell.\n\n")
    (tmp_path / "b.TXT").write_text("text")
    found = AgentSpec.from_map({**DEMO, "system_prompt": "prompts/coder.md"}, tmp_path)
    assert found.system_prompt == "You code.\nWell."
    assert AgentSpec.from_map({**DEMO, "system_prompt": "./b.TXT"}, str(tmp_path)).system_prompt == "text"


def test_a_prompt_file_is_read_relative_to_the_working_directory_by_default(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "coder.md").write_text("You code.")
    monkeypatch.chdir(tmp_path)
    assert read(system_prompt="coder.md").system_prompt == "You code."


def test_a_prompt_file_that_is_missing_is_named(tmp_path: Path) -> None:  # clause 45
    with pytest.raises(ConfigError, match=r"could not read system_prompt file prompts/x\.md: No such file"):
        AgentSpec.from_map({**DEMO, "system_prompt": "prompts/x.md"}, tmp_path)
    with pytest.raises(ConfigError, match="end it with a line break"):
        AgentSpec.from_map({**DEMO, "system_prompt": "Write into NOTES.md"}, tmp_path)


# --- from_list -------------------------------------------------------------------------------------------------------


def test_a_list_of_valid_descriptions() -> None:  # clause 46
    found = AgentSpec.from_list([DEMO, {**DEMO, "type": "tester"}])
    assert found == [AgentSpec(**DEMO), spec(type="tester")]
    assert found.skipped == found.problems == ()


def test_invalid_descriptions_are_skipped_with_a_reason() -> None:  # clause 47; a report in place of a log message
    found = AgentSpec.from_list([{**DEMO, "opts": {"tempo": 1}}, without("type"), "x", {**DEMO, "name": "b"}])
    assert [each.name for each in found] == ["builder", "b"]
    assert [str(problem) for problem in found.skipped] == [
        "member 2: missing required field: type.",
        "member 3: a member must be an object with the fields type, provider and model_id, not a text.",
    ]
    assert [problem.member for problem in found.problems] == ["member 1 (builder)", "member 2", "member 3"]


def test_a_list_of_invalid_descriptions_is_empty() -> None:  # clause 48
    assert AgentSpec.from_list([{}, None, without("provider")]) == []
    with pytest.raises(ConfigError, match="must be a list"):
        AgentSpec.from_list(DEMO)


# --- beyond the original ---------------------------------------------------------------------------------------------


async def test_the_arguments_start_an_agent() -> None:
    member = spec(name="Bob", tools=["read"], role="worker", limits={"rounds": 3}, description="Builds.")
    async with Agent(**member.to_start_opts(team_id="t", limits=Limits(cost=1.0))) as agent:
        assert (agent.name, agent.type, agent.role, agent.team_id) == ("Bob", "builder", "worker", "t")
        assert (agent.limits.rounds, agent.limits.cost) == (3, 1.0)
        assert [each.name for each in agent.tools] == ["read"]


async def test_an_agent_reads_its_skills_at_each_turn(tmp_path: Path) -> None:
    pool = SkillPool([tmp_path])
    async with Agent(**spec(skills=["review"]).to_start_opts(skill_pool=pool)) as agent:
        await agent.prompt("hello")
        assert "load_skill" not in [each.name for each in agent.request().tools]
        (tmp_path / "review").mkdir()
        (tmp_path / "review/SKILL.md").write_text("---\nname: review\ndescription: How to review.\n---\n")
        await agent.prompt("hello")
        assert "How to review." in agent.request().system
        assert "load_skill" in [each.name for each in agent.request().tools]


def test_the_surroundings_of_a_prompt_are_kept() -> None:
    instructions = SystemPromptParts(instructions="AGENTS.md", skills="all skills")
    options = spec(skills=["one"]).to_start_opts(skill_pool=Skills("one", "two"), prompt_parts=lambda: instructions)
    parts = options["prompt_parts"]()
    assert (parts.instructions, parts.skills) == ("AGENTS.md", "one")


def test_inter_agent_tools_come_with_the_role() -> None:
    options = spec(tools=["spawn_agent", "ask_agent", "read"]).to_start_opts()
    assert (names(options), options.problems, options["role"]) == (["read"], (), "orchestrator")


@pytest.mark.parametrize(
    ("fields", "team", "role"),
    [
        ({}, None, ""),
        ({}, "t", "worker"),
        ({"type": "orchestrator"}, None, "orchestrator"),
        ({"type": "orchestrator", "role": "worker"}, "t", "worker"),
    ],
)
def test_the_role_follows_from_the_description(fields: dict[str, Any], team: str | None, role: str) -> None:
    assert spec(**fields).to_start_opts(team_id=team)["role"] == role
    assert spec(**fields).to_start_opts(team_id=team, role="orchestrator")["role"] == "orchestrator"


def test_a_pool_may_be_a_mapping_or_a_function() -> None:
    known = {"a": tool("a"), "web": as_tool("web_search")}
    assert names(spec(tools=["a"]).to_start_opts(tool_pool=known)) == ["a"]
    options = spec(tools=["a", "web", "x"]).to_start_opts(tool_pool=known.get)
    assert names(options) == ["a", "web_search"]
    assert [problem.reason for problem in options.problems] == ["there is no tool 'x'."]


def test_a_model_is_found_by_server_and_by_alias() -> None:
    here = Model("openai", "qwen", "chat", base_url="http://127.0.0.1:8080/v1", alias="local")
    there = Model("openai", "qwen", "chat", base_url="http://127.0.0.1:9090/v1")
    both = [here, there]

    def found(model_id: str, base_url: str | None = None) -> Model:
        member = AgentSpec("a", "openai", model_id, base_url=base_url)
        return member.to_start_opts(own_models=both)["model"]  # type: ignore[no-any-return]

    assert found("qwen") is here
    assert found("local") is here
    assert found("qwen", "http://127.0.0.1:9090/v1/") is there
    assert found("qwen", "http://127.0.0.1:9090") is there
    assert found("qwen", "http://127.0.0.1:7070").base_url == "http://127.0.0.1:7070"
    assert AgentSpec("a", "demo", "demo", base_url="http://x.test").to_start_opts(available_models=[get_model("demo")])


def test_grants_narrow_what_a_member_may_give() -> None:
    sonnet, opus = get_model("anthropic:claude-sonnet-4-6"), get_model("anthropic:claude-opus-4-6")
    own = Grants(("read",), ("review",), ("anthropic:claude-sonnet-4-6", "demo:demo", "demo:nope"))
    options = spec(grants=own).to_start_opts(available_models=[opus, sonnet], grants=Grants(("bash",)))
    assert [str(model) for model in options["available_models"]] == ["anthropic:claude-sonnet-4-6", "demo:demo"]
    assert options["grants"] == Grants(("read",), ("review",), ("anthropic:claude-sonnet-4-6", "demo:demo"))
    assert [problem.field for problem in options.problems] == ["grants.models"]
    default = spec().to_start_opts(available_models=[opus], grants=Grants(("bash",)))
    assert (default["grants"], default["available_models"]) == (Grants(("bash",)), (opus,))


@pytest.mark.parametrize("pool", [None, {}])
def test_an_unknown_compactor_is_reported(pool: dict[str, Compactor] | None) -> None:
    options = spec(compactor="mine").to_start_opts(compactors=pool)
    assert (options["on_compact"], [problem.field for problem in options.problems]) == (None, ["compactor"])
    assert spec(compactor="default").to_start_opts().problems == ()
    mine = Compactor.build()
    assert spec(compactor="mine").to_start_opts(compactors={"mine": mine}.get)["on_compact"] is mine


def test_options_that_a_program_gives_are_checked_too() -> None:
    options = spec(opts={"temperature": "hot", "tempo": 1, "max_tokens": 5}).to_start_opts()
    assert options["options"] == Options(max_tokens=5)
    assert [problem.field for problem in options.problems] == ["opts.tempo", "opts.temperature"]


@pytest.mark.parametrize("fields", [{"tools": "read"}, {"skills": "x"}, {"opts": [1]}, {"limits": "rounds=5"}])
def test_a_program_cannot_mistake_a_text_for_a_list(fields: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=f"^{next(iter(fields))} must be"):
        spec(**fields)


def test_descriptions_are_immutable_and_can_be_compared() -> None:
    one, other = spec(tools=["a"], opts={"top_p": 1}), spec(tools=("a",), opts={"top_p": 1})
    assert one == other
    assert len({one, other}) == 1
    with pytest.raises(AttributeError):
        one.name = "x"  # type: ignore[misc]


def test_all_fields_are_read() -> None:
    fields = {
        **DEMO,
        "name": "Bob",
        "description": "Builds.",
        "base_url": "http://127.0.0.1:8080/v1",
        "role": "worker",
        "grants": {"tools": ["read"], "models": ["demo:demo"]},
        "limits": {"rounds": 5, "cost": None, "seconds": 1.5},
    }
    found = AgentSpec.from_map(fields)
    assert found.problems == ()
    assert (found.grants, found.limits["cost"]) == (Grants(("read",), (), ("demo:demo",)), None)
    assert AgentSpec.from_map(found.to_map()) == found
    assert found.to_map() == fields
