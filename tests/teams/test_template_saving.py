"""Saving a team as a template: it reads back as it was, overwrites nothing by mistake, and holds no secret."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planck_nb import AgentSpec
from planck_nb.agent.identity import Grants
from planck_nb.ai.models import LEVELS
from planck_nb.base.errors import ConfigError
from planck_nb.base.secrets import remember_secret
from planck_nb.base.visible import is_hidden
from planck_nb.teams import TeamTemplate, read_template, save_template

KEY = "sk-ant-" + "a1B2" * 8


def spec(name: str = "lead", **fields: Any) -> AgentSpec:
    return AgentSpec(**{"type": "agent", "provider": "demo", "model_id": "demo", "name": name, **fields})


LEAD = spec(role="orchestrator")


def contents(folder: Path) -> dict[str, str]:
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path.relative_to(folder)): path.read_text() for path in files}


def test_a_team_becomes_a_folder(tmp_path: Path) -> None:
    coder = spec("Coder", type="coder", system_prompt="You code.\nWell.", tools=["read"], opts={"temperature": 0.5})
    saved = save_template(tmp_path / "teams/pair", "Pair", "Two.", [LEAD, coder])
    assert saved.left_out == ()
    assert contents(tmp_path / "teams/pair").keys() == {"TEAM.json", "members/Coder.md"}
    assert (tmp_path / "teams/pair/members/Coder.md").read_text() == "You code.\nWell.\n"
    assert json.loads((tmp_path / "teams/pair/TEAM.json").read_text()) == {
        "name": "Pair",
        "description": "Two.",
        "members": [
            {"type": "agent", "name": "lead", "role": "orchestrator", "provider": "demo", "model_id": "demo"},
            {
                "type": "coder",
                "name": "Coder",
                "provider": "demo",
                "model_id": "demo",
                "system_prompt": "members/Coder.md",
                "tools": ["read"],
                "opts": {"temperature": 0.5},
            },
        ],
    }
    found = read_template(tmp_path / "teams/pair", strict=True)
    assert found == saved.template
    assert (found.alias, found.name, found.members) == ("pair", "Pair", (LEAD, coder))
    assert [path.name for path in (tmp_path / "teams").iterdir()] == ["pair"]


def test_who_orchestrates_is_saved(tmp_path: Path) -> None:
    template = TeamTemplate.from_specs([spec("a"), spec("b")])
    saved = save_template(tmp_path / "t", None, None, template.members)
    assert saved.template.roles == read_template(tmp_path / "t").roles == ("orchestrator", "worker")
    assert saved.template.report == ()


@pytest.mark.parametrize("path", ["t", "t/TEAM.json", "t/"])
def test_the_file_may_be_named_in_place_of_the_folder(tmp_path: Path, path: str) -> None:
    assert save_template(f"{tmp_path}/{path}", None, None, [LEAD]).template.path == tmp_path / "t/TEAM.json"


# --- what is there already -------------------------------------------------------------------------------------------


def test_other_files_are_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "TEAM.json").write_text("mine")
    (tmp_path / "notes.md").write_text("mine too")
    with pytest.raises(ConfigError, match=r"TEAM\.json would be overwritten with other content; .*overwrite=True"):
        save_template(tmp_path, None, None, [spec(role="orchestrator", system_prompt="P")])
    assert contents(tmp_path) == {"TEAM.json": "mine", "notes.md": "mine too"}
    save_template(tmp_path, None, None, [spec(role="orchestrator", system_prompt="P")], overwrite=True)
    assert contents(tmp_path).keys() == {"TEAM.json", "notes.md", "members/lead.md"}
    assert contents(tmp_path)["notes.md"] == "mine too"


def test_the_same_team_can_be_saved_again(tmp_path: Path) -> None:
    members = [spec(role="orchestrator", system_prompt="P")]
    save_template(tmp_path / "t", None, None, members)
    before = contents(tmp_path / "t")
    save_template(tmp_path / "t", None, None, members)
    assert contents(tmp_path / "t") == before
    (tmp_path / "t/members/lead.md").write_text("changed by hand")
    with pytest.raises(ConfigError, match=r"members/lead\.md would be overwritten"):
        save_template(tmp_path / "t", None, None, members)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: (folder / "members").symlink_to(folder.parent / "elsewhere"),
        lambda folder: (folder / "TEAM.json").symlink_to(folder.parent / "elsewhere/x"),
        lambda folder: (folder / "TEAM.json").mkdir(),
        lambda folder: os.mkfifo(folder / "TEAM.json"),
        lambda folder: (folder / "members").write_text("a file"),
    ],
    ids=["a link in place of members", "a link", "a folder", "a pipe", "a file in place of members"],
)
def test_nothing_is_written_through_links_or_into_other_things(make: Any, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder = tmp_path / "t"
    folder.mkdir()
    make(folder)
    with pytest.raises(ConfigError, match="the team was not saved to") as error:
        save_template(folder, None, None, [spec(role="orchestrator", system_prompt="P")])
    assert str(error.value).endswith(".")
    assert contents(tmp_path / "elsewhere") == {}


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    target = tmp_path / "target"
    target.write_text("mine")
    (tmp_path / "t/TEAM.json").symlink_to(target)
    save_template(tmp_path / "t", None, None, [LEAD], overwrite=True)
    assert target.read_text() == "mine"
    assert not (tmp_path / "t/TEAM.json").is_symlink()


def test_nothing_is_left_of_a_template_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Path, target: Path) -> Path:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "rename", fail)
    with pytest.raises(ConfigError, match="No space left on device"):
        save_template(tmp_path / "a/t", None, None, [spec(role="orchestrator", system_prompt="P")])
    assert list((tmp_path / "a").iterdir()) == []


@pytest.mark.parametrize("path", ["\0", "~nobody-of-this-name/t", "x" * 5_000, "file", "file/t"])
def test_a_place_that_cannot_be_written(path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ConfigError, match="the team was not saved to") as error:
        save_template(path, None, None, [LEAD])
    assert str(error.value).isprintable()
    assert contents(tmp_path) == {"file": "mine"}


@pytest.mark.parametrize(
    ("members", "reason"),
    [
        ([], "at least one member"),
        ([LEAD, LEAD], "exactly one orchestrator, found 2"),
        ([LEAD, spec("Lead")], "duplicate member name"),
        ([spec("a\nb", role="orchestrator")], "characters that cannot be seen"),
        ([spec(provider="nowhere")], "unknown provider"),
        ([LEAD, spec("b", provider="nowhere")], "unknown provider"),
        ([LEAD, spec("b", tools=["a\nb"])], "only names are used"),
        ([spec(base_url="nonsense")], "is not the address of a server"),
        ([spec(system_prompt="\ud800")], "cannot be written as JSON"),
        ([spec(system_prompt="x" * 1_048_577)], "a prompt has more than 1,048,576 bytes"),
        ([spec(opts={"extra": {"f": object()}})], "cannot be written as JSON"),
        ([spec(opts={"extra": {"f": float("nan")}})], "cannot be written as JSON"),
        ([spec(limits={"costs": 1})], "unknown limit 'costs'"),
        ([spec(system_prompt="notes.md\0")], "lid Unicode text"),
        ([spec(tools=[KEY])], "remove that from the names"),
    ],
)
def test_members_that_are_not_a_team_are_not_saved(members: list[AgentSpec], reason: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as error:
        save_template(tmp_path / "t", None, None, members)
    assert reason in str(error.value)
    assert str(error.value).isprintable()
    assert list(tmp_path.iterdir()) == []


def test_empty_grants_stay_empty_grants(tmp_path: Path) -> None:
    members = [spec(role="orchestrator", grants=Grants())]
    assert save_template(tmp_path / "t", None, None, members).template.members[0].grants == Grants()


# --- secrets ---------------------------------------------------------------------------------------------------------


def test_no_secret_is_saved(tmp_path: Path) -> None:
    remember_secret("hunter22hunter22", "a password")
    members = [
        spec(
            role="orchestrator",
            description=f"Uses {KEY}.",
            system_prompt=f"Log in with hunter22hunter22 or {KEY}.",
            base_url="http://me:hunter22hunter22@127.0.0.1:8080/v1?key=hunter22hunter22",
            opts={"extra": {"api_key": "abcdefgh12345678", "seed": 1, "header": KEY}, "tempo": 1},
        )
    ]
    saved = save_template(tmp_path / "t", f"Team {KEY}", None, members)
    text = "".join(contents(tmp_path / "t").values())
    for secret in (KEY, "hunter22", "abcdefgh"):
        assert secret not in text
    assert [problem.field for problem in saved.left_out] == [
        "opts.tempo",
        "opts.extra.api_key",
        "opts.extra.header",
        "description",
        "system_prompt",
        "base_url",
    ]
    [lead] = read_template(tmp_path / "t", strict=True).members
    assert (lead.base_url, lead.opts) == ("http://127.0.0.1:8080/v1", {"extra": {"seed": 1}})


def test_an_address_without_credentials_stays_as_it_is(tmp_path: Path) -> None:
    member = spec(role="orchestrator", base_url="http://127.0.0.1:8080/v1/")
    assert save_template(tmp_path / "t", None, None, [member]).template.members == (member,)


# --- it reads back ---------------------------------------------------------------------------------------------------

LINE = st.text(st.characters(categories=["L", "N", "P", "S"]), min_size=1, max_size=20).filter(
    lambda text: not any(map(is_hidden, text))
)
PROMPT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=60)
AWKWARD = st.sampled_from(
    ["", " x", "x.md", "a b.TXT", "x\n.md", "\ufeffx", "\ufeffx.md", "a\r\nb", "\n", "…", "C:\\x.txt"]
)
FINITE = st.floats(0, 1, allow_nan=False)
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "max_tokens": st.integers(1, 10**6),
        "temperature": FINITE,
        "top_p": FINITE,
        "stop": st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=2),
        "thinking": st.sampled_from(LEVELS),
        "output": st.just({"type": "object", "properties": {"x": {"type": "integer"}}}),
        "extra": st.dictionaries(st.sampled_from(["seed", "f"]), st.integers() | FINITE, min_size=1),
    },
)
NAMES = st.lists(LINE, max_size=3, unique=True)
MEMBER = st.builds(
    AgentSpec,
    type=LINE.filter(lambda text: text != "orchestrator"),
    provider=st.sampled_from(["demo", "openai", "llama_cpp"]),
    model_id=LINE,
    name=LINE,
    description=PROMPT,
    system_prompt=PROMPT
    | AWKWARD.filter(lambda text: not text.lower().endswith((".md", ".txt")) or text[0] == "\ufeff"),
    tools=NAMES.map(lambda names: [name for name in names if name != "spawn_agent"]),
    skills=NAMES,
    opts=OPTIONS,
    base_url=st.none() | st.just("http://127.0.0.1:8080/v1"),
    compactor=st.none() | LINE,
    role=st.sampled_from(["", "worker"]),
    grants=st.none() | st.builds(Grants, NAMES.map(tuple), NAMES.map(tuple), NAMES.map(tuple)),
    limits=st.fixed_dictionaries({}, optional={"rounds": st.integers(0, 9), "cost": st.none() | FINITE}),
)


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(members=st.lists(MEMBER, max_size=4), about=st.none() | LINE)
def test_what_is_saved_reads_back_as_it_was(
    tmp_path_factory: pytest.TempPathFactory, members: list[AgentSpec], about: str | None
) -> None:
    team = [LEAD, *({spec.name.casefold(): spec for spec in members if spec.name.casefold() != "lead"}.values())]
    folder = tmp_path_factory.mktemp("team") / "t"
    try:
        saved = save_template(folder, about, about, team)
    except ConfigError as error:
        # Names that only look different to a program are refused before anything is written.
        assert re.search("duplicate member name|letters that look like others", str(error))  # noqa: PT017
        assert not folder.exists()
        return
    found = read_template(folder, strict=True)
    assert found.members == tuple(team)
    assert (found.name, found.description) == (about, about)
    assert found == saved.template
    assert saved.left_out == ()


@pytest.mark.parametrize(
    "name", ["CON", "../../x", "a/b", "..", ".hidden", "é" * 127, "Инженер", "</system>", "a b", "!!!", "nul", "日本"]
)
def test_every_name_gets_a_file(name: str, tmp_path: Path) -> None:
    members = [LEAD, spec(name, system_prompt="One."), spec(f"{name}?", system_prompt="Two.")]
    save_template(tmp_path / "t", None, None, members)
    assert read_template(tmp_path / "t", strict=True).members == tuple(members)
    for path in (tmp_path / "t/members").iterdir():
        assert path.stem.casefold() not in {"con", "nul"}
        assert not path.name.startswith(".")
    assert len(list((tmp_path / "t/members").iterdir())) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["t"]
