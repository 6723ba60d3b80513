"""A pool of skills: current at every call, cheap when nothing changed, offered as tools."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from planck_nb.agent.effect import Effect
from planck_nb.base.errors import ToolError
from planck_nb.resources import SkillPool
from planck_nb.resources.skills import MAX_RESOURCES
from planck_nb.tools.builtin import BuiltinTools

LONG_AGO = time.time() - 60


def write(folder: Path, name: str, description: str, body: str = "Do it.") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nname: {name}\ndescription: {description}\n---\n{body}\n")
    return path


def test_edits_show_at_the_next_call(tmp_path: Path) -> None:
    path = write(tmp_path, "a", "Old.")
    pool = SkillPool([tmp_path])
    assert "**a**: Old." in pool.section()
    for number in range(20):  # of one size, perhaps within one tick of the file system's clock
        write(tmp_path, "a", f"New {number:02}.")
        assert f"**a**: New {number:02}." in pool.section()
        assert "Old" not in pool.section()
    write(tmp_path, "b", "Came later.")
    assert list(pool.report().skills) == ["a", "b"]
    path.write_text("broken")
    assert list(pool.report().skills) == ["b"]
    assert [skipped.path for skipped in pool.report().skipped] == [path]
    shutil.rmtree(tmp_path)
    assert pool.section() == ""


def test_what_did_not_change_is_not_read_again(tmp_path: Path) -> None:
    good, bad = write(tmp_path, "a", "Does."), write(tmp_path, "b", "Does.")
    bad.write_text("broken")
    pool = SkillPool([tmp_path])
    assert pool.report().skills["a"] is not pool.report().skills["a"]  # too young to tell one version from the next
    for path in (good, bad):
        os.utime(path, (LONG_AGO, LONG_AGO))
    first = pool.report()
    again = pool.report()
    assert again.skills["a"] is first.skills["a"]
    assert again.skipped[0] is first.skipped[0]
    size = good.stat().st_size
    write(tmp_path, "a", "Diff.")
    os.utime(good, (LONG_AGO, LONG_AGO))
    assert good.stat().st_size == size
    assert pool.report().skills["a"].description == "Diff."


def test_a_change_of_the_working_directory_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(Path(".planck"), "a", "Does.")
    pool = SkillPool([".planck"])
    monkeypatch.chdir(tmp_path)
    assert list(pool.report().skills) == ["a"]


def test_a_section_for_some_names(tmp_path: Path) -> None:
    for name in "cab":
        write(tmp_path, name, f"Does {name}.")
    pool = SkillPool([tmp_path])
    section = pool.section(["c", "nothing", "a"])
    assert section.index("**a**") < section.index("**c**")
    assert "**b**" not in section
    assert "nothing" not in section
    assert pool.section([]) == pool.section(["nothing"]) == ""
    assert SkillPool([]).section() == ""


async def test_an_agent_can_read_what_a_skill_refers_to(tmp_path: Path) -> None:
    path = write(tmp_path / "my skills", "review", "Reviews.", "Follow resources/rubric.md.")
    rubric = path.parent / "resources" / "rubric.md"
    rubric.parent.mkdir()
    rubric.write_text("Be kind.")
    load, _ = SkillPool([tmp_path / "my skills"]).tools()
    result = await load.run({"name": " review "})
    assert result.text == (
        f"Skill: review\nFile: {path}\nFolder: {path.parent}\n"
        f"Files that belong to it (relative to the folder: read {rubric}):\n- resources/rubric.md\n\n{path.read_text()}"
    )
    assert (await BuiltinTools.read().run({"path": str(rubric)})).text == "Be kind."
    assert load.touches is not None
    assert load.touches({"name": "review"}) == (Effect("read", str(path)),)
    for args in ({"name": "other"}, {"name": 3}, {}):
        assert load.touches(args) == ()


async def test_the_text_is_read_at_the_call(tmp_path: Path) -> None:
    load, _ = SkillPool([tmp_path]).tools()
    for body in ("First.", "Second."):
        write(tmp_path, "a", "Does.", body)
        text = (await load.run({"name": "a"})).text
        assert text.endswith(f"---\n{body}\n")
        assert "Files that belong" not in text


async def test_a_long_skill_keeps_its_head_and_its_files(tmp_path: Path) -> None:
    path = write(tmp_path, "a", "Does.", "line\n" * 20_000 + "The end.")
    for number in range(MAX_RESOURCES + 1):
        (path.parent / f"f{number:03}").touch()
    load, _ = SkillPool([tmp_path]).tools()
    text = (await load.run({"name": "a"})).text
    assert f"File: {path}" in text
    assert "Files that belong to it, the first 200 (relative" in text
    assert "\n- f199\n\n---\nname: a\n" in text
    assert "left out" in text
    assert text.endswith("The end.\n")


async def test_a_skill_that_cannot_be_loaded_is_reported(tmp_path: Path) -> None:
    pool = SkillPool([tmp_path])
    load, _ = pool.tools()
    with pytest.raises(ToolError, match=r"There is no skill 'x'; no skills are available."):
        await load.run({"name": "x"})
    for name in ("zip", "ask"):
        write(tmp_path, name, "Does.")
    with pytest.raises(ToolError, match=r"There is no skill 'aks'; available are: ask, zip."):
        await load.run({"name": "aks"})
    path = write(tmp_path, "bad", "")
    with pytest.raises(ToolError, match=f"Skill 'bad' cannot be loaded. Cannot use {path}: .* has no description."):
        await load.run({"name": "bad"})
    with pytest.raises(ToolError, match="Invalid arguments for load_skill"):
        await load.run({"name": 3})


async def test_a_skill_that_disappears_is_reported(tmp_path: Path) -> None:
    path = write(tmp_path, "a", "Does.")
    os.utime(path, (LONG_AGO, LONG_AGO))
    os.truncate(path, 2_000_000)
    load, _ = SkillPool([tmp_path]).tools()
    with pytest.raises(ToolError, match="more than 1,048,576 bytes"):
        await load.run({"name": "a"})


async def test_the_list_of_skills(tmp_path: Path) -> None:
    _, show = SkillPool([tmp_path]).tools()
    assert (await show.run({})).text == "No skills available."
    for name in "ba":
        write(tmp_path, name, f"Does {name}.")
    assert (await show.run({})).text == "- a: Does a.\n- b: Does b."
    path = write(tmp_path, "c", "")
    assert (await show.run({})).text == (
        f"- a: Does a.\n- b: Does b.\n\nNot usable:\n- Cannot use {path}: its front matter has no description."
    )
    assert show.touches is not None
    assert tuple(show.touches({})) == ()
