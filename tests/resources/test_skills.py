"""Skills in folders: what is loaded, what is skipped and why, and what a system prompt says about them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from planck_nb.base.errors import ConfigError
from planck_nb.resources import Skill, load_all, system_prompt_section
from planck_nb.resources.skills import MAX_BYTES, MAX_DESCRIPTION, MAX_RESOURCES

PUBLIC = """\
---
name: csv-tidy
description: >-
  Tidies messy CSV exports: finds the header row, fixes types and writes Parquet.
  Use when a table has merged headers, units in cells or mixed date formats.
license: Apache-2.0 (see LICENSE.txt)
compatibility: Needs Python 3.11 and pandas
metadata:
  author: example-lab
  version: "1.10"
allowed-tools: Read Bash(python:*)
---

# Tidy a CSV

Run `scripts/tidy.py`, then read [the checks](references/CHECKS.md).
"""


def skill(folder: Path, content: str | bytes | None = None, *, name: str | None = None) -> Path:
    """The SKILL.md of a new folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "SKILL.md"
    if content is None:
        content = f"---\nname: {name or folder.name}\ndescription: Does {name or folder.name}.\n---\nDo it.\n"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def why_skipped(folder: Path) -> str:
    """The one reason why nothing came from a directory."""
    report = load_all([folder])
    assert not report.skills
    (skipped,) = report.skipped
    return skipped.reason


def test_a_skill_of_the_public_format_works_unchanged(tmp_path: Path) -> None:
    path = skill(tmp_path / "csv-tidy", PUBLIC)
    for name in ("scripts/tidy.py", "scripts/lib/dates.py", "references/CHECKS.md", "assets/logo.png", "LICENSE.txt"):
        (path.parent / name).parent.mkdir(parents=True, exist_ok=True)
        (path.parent / name).write_text("x")
    report = load_all([tmp_path])
    assert not report.skipped
    found = report.skills["csv-tidy"]
    assert found.path == path
    assert found.folder == path.parent
    assert found.description.startswith(
        "Tidies messy CSV exports: finds the header row, fixes types and writes Parquet. Use"
    )
    assert found.front_matter["license"] == "Apache-2.0 (see LICENSE.txt)"
    assert found.front_matter["compatibility"] == "Needs Python 3.11 and pandas"
    assert found.front_matter["metadata"] == {"author": "example-lab", "version": "1.10"}
    assert found.front_matter["allowed-tools"] == "Read Bash(python:*)"
    assert found.text() == PUBLIC
    assert found.resources() == (
        "LICENSE.txt", "assets/logo.png", "references/CHECKS.md", "scripts/lib/dates.py", "scripts/tidy.py",
    )  # fmt: skip


def test_the_text_is_what_the_file_holds_now(tmp_path: Path) -> None:
    path = skill(tmp_path / "s")
    (found,) = load_all([tmp_path]).skills.values()
    path.write_bytes(b"\xef\xbb\xbf---\r\nname: s\r\n---\r\nNew \xff.\r\n")
    assert found.text() == "---\nname: s\n---\nNew �.\n"
    path.write_bytes(b"x" * (MAX_BYTES + 1))
    with pytest.raises(ConfigError, match=r"Cannot read skill 's' at .* more than 1,048,576 bytes"):
        found.text()
    path.unlink()
    with pytest.raises(ConfigError, match=r"Cannot read skill 's' at .*: No such file or directory"):
        found.text()


def test_directories_in_order_and_the_first_wins(tmp_path: Path) -> None:
    project, user = tmp_path / "project", tmp_path / "user"
    for folder in (project / "zip", project / "plot", user / "plot", user / "ask"):
        skill(folder)
    skill(project / "zip2", name="zip")
    report = load_all([project, user])
    assert list(report.skills) == ["plot", "zip", "ask"]
    assert report.skills["plot"].path == project / "plot" / "SKILL.md"
    assert [skipped.path for skipped in report.skipped] == [
        project / "zip2" / "SKILL.md",
        user / "plot" / "SKILL.md",
    ]
    first, second = (project / "plot" / "SKILL.md", user / "plot" / "SKILL.md")
    assert report.skipped[1].reason == f"{second} is not used: {first} has the same name and comes first."


def test_a_skill_is_not_its_own_double(tmp_path: Path) -> None:
    skill(tmp_path / "a" / "s")
    skill(tmp_path / "a" / "bad", "")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "s").symlink_to(tmp_path / "a" / "s")
    report = load_all([tmp_path / "a", tmp_path / "a", tmp_path / "b"])
    assert list(report.skills) == ["s"]
    assert len(report.skipped) == 1


def test_home_missing_directories_and_other_files(tmp_path: Path) -> None:
    skill(Path.home() / ".planck" / "skills" / "mine")
    skill(Path("rel") / "here")
    (Path("rel") / "README.md").write_text("no skill")
    (Path("rel") / "empty").mkdir()
    (Path("rel") / "gone").symlink_to("nowhere")
    report = load_all(["~/.planck/skills", tmp_path / "missing", "~nobody-of-this-name/x", "rel"])
    assert list(report.skills) == ["mine", "here"]
    assert all(found.path.is_absolute() for found in report.skills.values())
    assert not report.skipped


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it does not begin with a line '---' and front matter."),
        ("Just do it.\n", "it does not begin with a line '---' and front matter."),
        (os.urandom(100) + b"\0", "it does not begin with a line '---' and front matter."),
        ("---\nname: s\n---\n", "its front matter has no description."),
        ("---\ndescription: d\n---\n", "its front matter has no name."),
        ("---\nname: ''\ndescription: d\n---\n", "its front matter has no name."),
        ('---\nname: "\\n\\x1b"\ndescription: d\n---\n', "its front matter has no name."),
        ("---\nname: [s]\ndescription: d\n---\n", "the name in its front matter is not a string."),
        ("---\nname: s\ndescription: {}\n---\n", "the description in its front matter is not a string."),
        (f"---\nname: {'x' * 129}\ndescription: d\n---\n", "its name has more than 128 characters."),
        ("---\n" + "a: b\n" * 9_999 + "---\n", "its front matter has no closing line '---' in the first 16,384 bytes."),
    ],
)  # fmt: skip
def test_a_bad_file_is_skipped_with_a_sentence(tmp_path: Path, content: str | bytes, reason: str) -> None:
    path = skill(tmp_path / "s", content)
    assert why_skipped(tmp_path) == f"Cannot use {path}: {reason}"


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = skill(tmp_path / "s")
    os.truncate(path, 10 * 1024 * 1024)
    monkeypatch.setattr(Path, "open", None)
    assert why_skipped(tmp_path).endswith("it has more than 1,048,576 bytes; move parts of it to files beside it.")


@pytest.mark.timeout(10)
def test_link_cycles_and_special_files(tmp_path: Path) -> None:
    (tmp_path / "ring").symlink_to("ring")
    (tmp_path / "looped").mkdir()
    (tmp_path / "looped" / "SKILL.md").symlink_to("SKILL.md")
    (tmp_path / "dangling").mkdir()
    (tmp_path / "dangling" / "SKILL.md").symlink_to("nowhere")
    (tmp_path / "folder" / "SKILL.md").mkdir(parents=True)
    (tmp_path / "pipe").mkdir()
    os.mkfifo(tmp_path / "pipe" / "SKILL.md")
    (tmp_path / "up").symlink_to(tmp_path)
    report = load_all([tmp_path, tmp_path / "ring", tmp_path / "pipe" / "SKILL.md", "nul\0"])
    assert not report.skills
    reasons = {skipped.path.relative_to(tmp_path).as_posix(): skipped.reason for skipped in report.skipped[:-1]}
    assert set(reasons) == {
        "dangling/SKILL.md", "folder/SKILL.md", "looped/SKILL.md", "pipe/SKILL.md", "ring/SKILL.md", "ring",
    }  # fmt: skip
    assert reasons["looped/SKILL.md"].endswith("Too many levels of symbolic links.")
    assert reasons["pipe/SKILL.md"].endswith("Not a directory.")  # the later of its two reasons
    assert reasons["ring"].startswith("Cannot list skills in ")
    assert "embedded null " in report.skipped[-1].reason  # byte, or character


def test_names_are_made_fit_for_one_line(tmp_path: Path) -> None:
    skill(
        tmp_path / "a", '---\nname: "two\\nlines\\u2028and\\x1b[31m \\uD800"\ndescription: |\n  One.\n\n  Two.\n---\n'
    )
    skill(tmp_path / "b", f"---\nname: Not The Folder\ndescription: {'long ' * 1_000}\n---\n")
    found, other = load_all([tmp_path]).skills.values()
    assert (found.name, found.description) == ("two lines and [31m", "One. Two.")
    assert other.name == "Not The Folder"
    assert len(other.description) == MAX_DESCRIPTION
    assert len(system_prompt_section([found]).splitlines()) == len(system_prompt_section([other]).splitlines())


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names themselves")
def test_folders_that_no_prompt_can_name(tmp_path: Path) -> None:
    skill(tmp_path / "two\nlines", name="s")
    skill(tmp_path / os.fsdecode(b"caf\xe9"), name="t")
    report = load_all([tmp_path])
    assert not report.skills
    for skipped in report.skipped:
        assert skipped.reason.endswith("characters that cannot be shown; rename the folder.")
        assert "\n" not in skipped.reason.encode().decode()


@pytest.mark.timeout(10)
def test_resources_are_bounded_and_links_not_followed(tmp_path: Path) -> None:
    path = skill(tmp_path / "s")
    (found,) = load_all([tmp_path]).skills.values()
    assert found.resources() == ()
    (path.parent / "loop").symlink_to(path.parent)
    (path.parent / "self").symlink_to("self")
    deep = path.parent.joinpath(*"123456789")
    deep.mkdir(parents=True)
    for folder in (deep, deep.parents[2], path.parent / ".git", path.parent / "__pycache__"):
        folder.mkdir(exist_ok=True)
        (folder / "file").write_text("x")
    (path.parent / ".hidden").write_text("x")
    (path.parent / "new\nline").write_text("x")
    assert found.resources() == ("1/2/3/4/5/6/file", "loop/", "self")
    for number in range(MAX_RESOURCES + 50):
        (path.parent / f"n{number:03}").write_text("x")
    assert len(found.resources()) == MAX_RESOURCES
    assert found.resources() == tuple(sorted(found.resources()))


def test_the_section_of_the_system_prompt(tmp_path: Path) -> None:
    assert system_prompt_section({}) == ""
    for name in ("b", "a"):
        skill(tmp_path / name)
    report = load_all([tmp_path])
    section = system_prompt_section(report.skills)
    assert section == system_prompt_section(load_all([tmp_path]).skills.values())
    assert "call load_skill" in section
    assert section.endswith(
        f"- **a**: Does a.\n  File: {tmp_path}/a/SKILL.md (folder: {tmp_path}/a)\n"
        f"- **b**: Does b.\n  File: {tmp_path}/b/SKILL.md (folder: {tmp_path}/b)"
    )


def test_skills_are_values() -> None:
    one, same = (Skill("a", "d", Path("/a/SKILL.md"), {"name": "a"}) for _ in range(2))
    assert one == same
    assert len({one, same}) == 1


@pytest.mark.slow
def test_yaml_is_loaded_with_the_first_skill() -> None:
    code = "import planck_nb.resources, sys; print({'yaml', 'jsonschema', 'httpx', 'pydantic_core'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert "yaml" not in done.stdout
