"""What the user trusts in a folder, and where it is remembered."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from planck_nb.config.trust import FolderTrust, TrustItem, is_consent


@pytest.mark.parametrize(
    ("value", "consents"),
    [
        ("1", True),
        ("true", True),
        (" YES ", True),
        ("On", True),
        ("", False),
        ("0", False),
        ("2", False),
        ("no", False),
    ],
)
def test_a_variable_trusts_only_if_it_says_so(value: str, consents: bool) -> None:
    assert is_consent({"PLANCK_NB_TRUST": value}) is consents
    assert not is_consent({"PLANCK_NB_TRUSTED": value})


def test_trust_is_remembered_under_a_lock_until_it_is_taken_back(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "project"
    project.mkdir()
    item = TrustItem.of("tool", project / "TOOL.json", b"{}", "runs something")
    changed = TrustItem.of("tool", project / "TOOL.json", b"[]", "runs something else")
    trust = FolderTrust(project, home)
    trust.add([])
    assert not home.exists()
    trust.add([item])
    assert {path.name for path in home.iterdir()} == {"trust.json", "trust.lock"}
    for store in (trust, FolderTrust(project, home)):
        assert [store.accepts(each) for each in (item, changed)] == [True, False]
        assert store.knows(changed)
        assert not store.problem
    other = FolderTrust(tmp_path, home)
    assert not other.accepts(item)
    assert FolderTrust(project, home, always=True).accepts(changed)
    FolderTrust(project, home).clear()
    assert not FolderTrust(project, home).knows(item)
    assert trust.accepts(item), "in this process it stays trusted"


@pytest.mark.parametrize(("size", "used"), [(16 * 1024 * 1024, True), (16 * 1024 * 1024 + 1, False)])
def test_a_store_that_is_too_long_is_not_used(tmp_path: Path, size: int, used: bool) -> None:
    item = TrustItem.of("tool", tmp_path / "TOOL.json", b"{}", "runs something")
    FolderTrust(tmp_path, tmp_path).add([item])
    store = tmp_path / "trust.json"
    store.write_bytes(store.read_bytes().ljust(size))
    assert FolderTrust(tmp_path, tmp_path).accepts(item) is used


@pytest.mark.parametrize("data", [[], {"version": 2, "folders": {}}, {"version": 1, "folders": []}, {"version": 1}])
def test_a_store_of_another_form_is_kept_aside_by_the_next_change(tmp_path: Path, data: object) -> None:
    store = tmp_path / "trust.json"
    store.write_text(json.dumps(data))
    item = TrustItem.of("tool", tmp_path / "TOOL.json", b"{}", "runs something")
    trust = FolderTrust(tmp_path, tmp_path)
    assert not trust.accepts(item)
    assert "trust.json is not used" in trust.problem
    trust.add([item])
    assert json.loads((tmp_path / "trust.bad").read_text()) == data
    assert not trust.problem
    assert FolderTrust(tmp_path, tmp_path).accepts(item)


def test_a_description_is_one_line_without_hidden_characters() -> None:
    item = TrustItem.of("tool", Path("TOOL.json"), b"", f"  a\n\tb \u202e {'x' * 300} ")
    assert item.path.is_absolute()
    assert "\n" not in item.description
    assert item.description.startswith("a⟨U+000A⟩ b ⟨U+202E⟩ xxx")
    assert item.description.endswith("xxx")
    assert len(item.summary) < 250 < len(item.description)
    assert TrustItem.of("tool", Path("TOOL.json"), b"", "long", "short\n").summary == "short"
