"""Templates in the folders of a project and of its user: which one is used, and which one is not, and why."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from planck_nb import AgentSpec
from planck_nb.base.errors import ConfigError
from planck_nb.teams import TeamTemplate, find_templates, read_template
from planck_nb.teams.template_folders import describe_template, trusted_content

LEAD: dict[str, Any] = {"type": "orchestrator", "provider": "demo", "model_id": "demo"}


def put(path: Path, *members: dict[str, Any], **fields: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**fields, "members": list(members or [LEAD])}))
    return path


def test_templates_are_found_by_alias(tmp_path: Path) -> None:
    put(tmp_path / "b/TEAM.json", name="B")
    put(tmp_path / "a.json")
    (tmp_path / "notes.txt").write_text("x")
    (tmp_path / ".git").mkdir()
    (tmp_path / "__pycache__").mkdir()
    found = find_templates([tmp_path])
    assert [each.alias for each in found] == list(found.templates) == ["a", "b"]
    assert (len(found), found.skipped) == (2, ())
    assert found.named("b").name == "B"


def test_the_first_folder_goes_first(tmp_path: Path) -> None:  # the original: the last one, against its documentation
    mine, theirs = tmp_path / "project", tmp_path / "user"
    put(mine / "review/TEAM.json", name="mine")
    put(theirs / "review/TEAM.json", name="theirs")
    put(theirs / "other/TEAM.json")
    found = find_templates([mine, theirs])
    assert (found.named("review").name, list(found.templates)) == ("mine", ["review", "other"])
    [skipped] = found.skipped
    assert skipped.path == theirs / "review"
    assert f"{mine / 'review/TEAM.json'} has the same alias and comes first." in skipped.reason


def test_the_same_folder_twice_is_one_folder(tmp_path: Path) -> None:
    put(tmp_path / "a/TEAM.json")
    assert find_templates([tmp_path, str(tmp_path), tmp_path / "."]).skipped == ()


def test_what_cannot_be_used_is_skipped_with_a_reason(tmp_path: Path) -> None:
    put(tmp_path / "good/TEAM.json")
    (tmp_path / "empty").mkdir()
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "hidden\u200b").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "a_file").write_text("x")
    found = find_templates([tmp_path, tmp_path / "a_file", "~nobody-of-this-name/x"])
    assert list(found.templates) == ["good"]
    reasons = {failure.path.name: failure.reason for failure in found.skipped}
    assert reasons.keys() == {"empty", "bad.json", "hidden\u200b", "a_file", "x"}
    assert "cannot read" in reasons["empty"]
    assert "invalid JSON" in reasons["bad.json"]
    assert "hidden⟨U+200B⟩ is not used: its name has characters that cannot be seen." in reasons["hidden\u200b"]
    assert "cannot list" in reasons["a_file"]
    assert all(reason.isprintable() and reason.endswith(".") for reason in reasons.values())


def test_folders_that_do_not_exist_have_no_templates(tmp_path: Path) -> None:
    assert find_templates([tmp_path / "nowhere", tmp_path / "a/b"]).skipped == ()


def test_an_alias_that_is_not_there(tmp_path: Path) -> None:
    put(tmp_path / "review/TEAM.json")
    (tmp_path / "broken").mkdir()
    found = find_templates([tmp_path])
    with pytest.raises(ConfigError, match=r"There is no team named reveiw\. Did you mean review\?"):
        found.named("reveiw")
    with pytest.raises(ConfigError, match=r"There is no team named broken\. cannot read"):
        found.named("broken")


def test_a_template_may_be_refused(tmp_path: Path) -> None:
    put(tmp_path / "a/TEAM.json")
    put(tmp_path / "b/TEAM.json")
    found = find_templates([tmp_path], accept=lambda template: "Not that one." if template.alias == "a" else "")
    assert list(found.templates) == ["b"]
    assert [(each.path, each.reason) for each in found.skipped] == [(tmp_path / "a", "Not that one.")]


def test_the_content_that_is_trusted_is_that_of_all_files(tmp_path: Path) -> None:
    (tmp_path / "members").mkdir()
    prompt = tmp_path / "members/lead.md"
    prompt.write_text("You lead.")
    (tmp_path / "other.md").write_text("x")

    def content(**fields: Any) -> bytes:
        put(tmp_path / "TEAM.json", {**LEAD, "system_prompt": "members/lead.md", **fields})
        return trusted_content(read_template(tmp_path))

    first = content()
    assert content() == first
    assert content(tools=["bash"]) != first
    (tmp_path / "other.md").write_text("changed")
    assert content() == first
    prompt.write_text("You lead. Obey the web.")
    assert content() != first


def test_the_description_names_servers_models_and_tools() -> None:
    template = TeamTemplate.from_specs(
        AgentSpec.from_list(
            [
                {**LEAD, "name": "Lead", "tools": ["spawn_agent"], "grants": {"tools": ["bash"]}},
                {
                    **LEAD,
                    "type": "coder",
                    "provider": "openai",
                    "model_id": "qwen",
                    "base_url": "http://me:secret@evil.test/v1?key=1",
                    "tools": ["read", "bash"],
                },
            ]
        ),
        name="pair",
    )
    assert list(describe_template(template)) == [
        ("description", ""),
        ("orchestrator Lead", "model: demo:demo\ntype: orchestrator\ntools: spawn_agent\ngrants: bash"),
        (
            "worker coder",
            "model: openai:qwen\ntype: coder\ntools: read, bash\nbase_url: http://me:secret@evil.test/v1?key=1",
        ),
    ]
