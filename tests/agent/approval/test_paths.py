"""Paths of effects, and patterns for them, compared with a plain matcher."""

from __future__ import annotations

import random
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from planck_nb.agent.approval.paths import (
    PathPattern,
    ResolvedPath,
    UnresolvedPath,
    below,
    folder_of,
    resolve_once,
    resolved,
)
from planck_nb.agent.effect import Effect, EffectKind


def matches(names: tuple[str, ...], glob: tuple[str, ...]) -> bool:
    """Whether the names match, tried in every way."""
    if not glob:
        return not names
    if glob[0] == "**":
        return matches(names, glob[1:]) or (bool(names) and matches(names[1:], glob))
    return bool(names) and fnmatchcase(names[0], glob[0]) and matches(names[1:], glob[1:])


@pytest.mark.parametrize("seed", range(30))
def test_patterns_match_as_a_plain_matcher_does(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(60):
        glob = tuple(chance.choices(["*", "**", "?", "a", "b*", "[ab]"], k=chance.randrange(1, 5)))
        names = tuple(chance.choices(["a", "b", "bc", "d"], k=chance.randrange(1, 5)))
        if not set("*?[") & set(glob[0]):
            glob = ("*", *glob)
        target = str(tmp_path.joinpath(*names))
        assert PathPattern("/".join(glob), tmp_path).covers(target) is matches(names, glob), (glob, names)


def test_a_pattern_without_wildcards_matches_what_is_below_it(tmp_path: Path) -> None:
    pattern = PathPattern("notes", tmp_path)
    assert [pattern.covers(str(tmp_path / name)) for name in ("notes", "notes/a", "notes2", "")] == [
        True,
        True,
        False,
        False,
    ]
    assert not pattern.covers("/notes")
    assert PathPattern(str(tmp_path), None).covers(str(tmp_path / "a"))


def test_a_pattern_that_cannot_be_placed_may_catch_everything(tmp_path: Path) -> None:
    inside = str(tmp_path / "a")
    assert PathPattern("~/a", tmp_path).may_catch(inside)
    assert PathPattern("a", None).may_catch(inside)
    assert not PathPattern("a~", tmp_path).may_catch(inside)
    assert not PathPattern(inside, None).may_catch(inside)
    assert PathPattern("a", tmp_path).may_catch("\0")
    assert not PathPattern("~/a", tmp_path).catches(inside)


@pytest.mark.parametrize("kind", ["read", "write", "execute", "network"])
def test_an_effect_on_files_is_resolved_once(tmp_path: Path, kind: EffectKind) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "first")
    effect = Effect(kind, "link")
    found = resolve_once(effect, tmp_path)
    if kind in {"execute", "network"}:
        assert found is effect
        return
    assert found == Effect(kind, str(tmp_path / "first"))
    assert isinstance(found.target, ResolvedPath)
    assert resolve_once(found, tmp_path) is found
    (tmp_path / "first").symlink_to(tmp_path / "second")
    assert resolved(found.target, tmp_path) == tmp_path / "first"
    lost = resolve_once(Effect(kind, "\0"), tmp_path)
    assert isinstance(lost.target, UnresolvedPath)
    assert resolve_once(lost, tmp_path) is lost
    assert resolved(lost.target, tmp_path) is None


def test_paths_that_lead_nowhere_are_not_known(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    assert resolved("loop/x", tmp_path) is None
    assert resolved("", tmp_path) is None
    assert resolved("x", None) is None
    assert resolved("x" * 100_000, tmp_path) is None
    assert resolved("a/../b", tmp_path) == tmp_path / "b"


def test_a_folder_is_below_itself(tmp_path: Path) -> None:
    assert below(tmp_path, tmp_path)
    assert below(tmp_path / "a", tmp_path)
    assert not below(tmp_path, tmp_path / "a")
    (tmp_path / "file").touch()
    assert folder_of(tmp_path / "file") == folder_of(tmp_path) == tmp_path
