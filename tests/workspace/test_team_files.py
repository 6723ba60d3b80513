"""Team templates of a project are offered once its user trusts them, and never before."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from planck_nb import Config, Workspace
from planck_nb.ai import get_model
from planck_nb.base.errors import TrustError
from planck_nb.workspace.team_files import find_team_templates, team_trust_items

LEAD: dict[str, Any] = {"type": "orchestrator", "provider": "demo", "model_id": "demo"}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def put(folder: Path, alias: str = "review", **fields: Any) -> Path:
    path = folder / ".planck/teams" / alias / "TEAM.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    (path.parent / "lead.md").write_text("You lead.")
    path.write_text(json.dumps({"members": [{**LEAD, "system_prompt": "lead.md", **fields}]}))
    return path


def load(project: Path, home: Path, **settings: Any) -> Config:
    settings.setdefault("environment", {})
    return Config.load(directory=project, home=home, **settings)


def test_the_folders_of_teams(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    assert load(project, home).teams_dirs == (project / ".planck/teams", home / ".planck/teams")
    environment = {"PLANCK_NB_TEAMS_DIRS": os.pathsep.join(["a", "/b"])}
    assert load(project, home, environment=environment).teams_dirs == (project / "a", Path("/b"))
    assert load(project, home, teams_dirs="c").teams_dirs == (project / "c",)


async def test_a_template_waits_for_trust(project: Path, home: Path) -> None:
    path = put(project, tools=["bash"], base_url="http://evil.test/v1")
    async with Workspace(load(project, home)) as place:
        [(item, status, _)] = place.trust_items()
        assert (item.kind, item.path, status) == ("team", path, "new")
        for line in ("model: demo:demo", "base_url: http://evil.test/v1", "tools: bash"):
            assert f"  | {line}\n" in f"{item.text}\n"
        with pytest.raises(TrustError, match=r"\.planck/teams/review/TEAM\.json \(team review\)"):
            place.require_trust()
        found = find_team_templates(place.config)
        assert (list(found), found.skipped[0].path) == ([], path.parent)
        assert "is not trusted; look at it, then run `%planck trust`." in found.skipped[0].reason
        place.trust()
        assert [file.status for file in place.trust_items()] == ["trusted"]
        assert list(find_team_templates(place.config).templates) == ["review"]
        place.add_agent("ann", model=get_model("demo"))
    assert list(find_team_templates(load(project, home)).templates) == ["review"]


@pytest.mark.parametrize("change", ["TEAM.json", "lead.md"])
def test_a_template_that_changed_waits_again(change: str, project: Path, home: Path) -> None:
    path = put(project)
    config = load(project, home)
    assert config.folder_trust is not None
    config.folder_trust.add(team_trust_items(config))
    assert len(find_team_templates(config)) == 1
    with (path.parent / change).open("a") as file:
        file.write(" ")
    assert len(find_team_templates(config)) == 0
    assert not any(map(config.folder_trust.accepts, team_trust_items(config)))


@pytest.mark.parametrize("settings", [{"environment": {"PLANCK_NB_TRUST": "1"}}, {"trust": True}])
def test_a_folder_may_be_trusted_as_a_whole(settings: dict[str, Any], project: Path, home: Path) -> None:
    put(project)
    assert len(find_team_templates(load(project, home, **settings))) == 1


def test_folders_that_a_program_or_the_environment_names_need_no_trust(project: Path, home: Path) -> None:
    put(project)
    for settings in (
        {"teams_dirs": ".planck/teams"},
        {"environment": {"PLANCK_NB_TEAMS_DIRS": ".planck/teams"}},
    ):
        config = load(project, home, **settings)
        assert (len(find_team_templates(config)), team_trust_items(config)) == (1, [])


def test_the_users_own_templates_need_no_trust(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    put(home, "mine")
    config = load(project, home)
    assert (list(find_team_templates(config).templates), team_trust_items(config)) == (["mine"], [])


def test_the_projects_template_goes_before_the_users(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # W-43
    monkeypatch.setenv("HOME", str(home))
    put(home)
    path = put(project)
    assert find_team_templates(load(project, home, trust=True)).named("review").path == path
    assert find_team_templates(load(project, home)).named("review").path == home / ".planck/teams/review/TEAM.json"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_a_prompt_of_another_user_is_not_used(project: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(home))
    path = put(home, "mine").parent / "lead.md"
    os.chown(path, 12_345, 12_345)
    found = find_team_templates(load(project, home))
    assert list(found) == []
    assert (
        "belongs to another user; copy it to a folder of your own, or set PLANCK_NB_TRUST=1." in found.skipped[0].reason
    )
    assert len(find_team_templates(load(project, home, trust=True))) == 1


def test_a_link_in_the_project_is_not_the_users_own_folder(
    project: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(home))
    put(home, "mine")
    (project / ".planck/teams").mkdir(parents=True)
    (project / ".planck/teams/other").symlink_to(home / ".planck/teams/mine")
    assert [item.kind for item in team_trust_items(load(project, home))] == ["team"]


def test_a_template_that_cannot_be_read_does_not_wait(project: Path, home: Path) -> None:
    put(project).write_text("{")
    config = load(project, home)
    assert team_trust_items(config) == []
    assert "invalid JSON" in find_team_templates(config).skipped[0].reason
