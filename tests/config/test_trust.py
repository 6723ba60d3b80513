"""What the user trusts in a folder, and where it is remembered."""

from __future__ import annotations

import errno
import json
import os
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
    item = TrustItem.of("tool", project / "TOOL.json", b"{}", [("runs", "something")])
    changed = TrustItem.of("tool", project / "TOOL.json", b"[]", [("runs", "something else")])
    trust = FolderTrust(project, home)
    trust.add([])
    assert not home.exists()
    trust.add([item])
    assert {path.name for path in home.iterdir()} == {"trust.json", "trust.lock"}
    for store in (trust, FolderTrust(project, home)):
        assert [store.accepts(each) for each in (item, changed)] == [True, False]
        assert (before := store.trusted(changed)) is not None
        assert (before.digest, before.text) == (item.digest, "runs: something")
        assert not store.problem
    other = FolderTrust(tmp_path, home)
    assert not other.accepts(item)
    assert FolderTrust(project, home, always=True).accepts(changed)
    FolderTrust(project, home).clear()
    assert FolderTrust(project, home).trusted(item) is None
    assert trust.accepts(item), "in this process it stays trusted"


@pytest.mark.skipif(os.name != "posix", reason="Windows has locks everywhere")
def test_trust_is_remembered_in_a_home_whose_files_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr("fcntl.flock", flock)
    home, item = tmp_path / "home", TrustItem.of("tool", tmp_path / "TOOL.json", b"{}", [("runs", "something")])
    FolderTrust(tmp_path, home).add([item])
    assert FolderTrust(tmp_path, home).accepts(item)
    assert not list(home.glob("*.held"))


@pytest.mark.parametrize(("size", "used"), [(16 * 1024 * 1024, True), (16 * 1024 * 1024 + 1, False)])
def test_a_store_that_is_too_long_is_not_used(tmp_path: Path, size: int, used: bool) -> None:
    item = TrustItem.of("tool", tmp_path / "TOOL.json", b"{}", [("runs", "something")])
    FolderTrust(tmp_path, tmp_path).add([item])
    store = tmp_path / "trust.json"
    store.write_bytes(store.read_bytes().ljust(size))
    assert FolderTrust(tmp_path, tmp_path).accepts(item) is used


@pytest.mark.parametrize("data", [[], {"version": 2, "folders": {}}, {"version": 1, "folders": []}, {"version": 1}])
def test_a_store_of_another_form_is_kept_aside_by_the_next_change(tmp_path: Path, data: object) -> None:
    store = tmp_path / "trust.json"
    store.write_text(json.dumps(data))
    item = TrustItem.of("tool", tmp_path / "TOOL.json", b"{}", [("runs", "something")])
    trust = FolderTrust(tmp_path, tmp_path)
    assert not trust.accepts(item)
    assert "trust.json is not used" in trust.problem
    trust.add([item])
    assert json.loads((tmp_path / "trust.bad").read_text()) == data
    assert not trust.problem
    assert FolderTrust(tmp_path, tmp_path).accepts(item)


def test_one_item_is_taken_back_and_the_others_stay(tmp_path: Path) -> None:
    items = [TrustItem.of("tool", tmp_path / name, b"{}", []) for name in "ab"]
    trust = FolderTrust(tmp_path, tmp_path)
    trust.add(items)
    trust.remove(items[:1])
    for store in (trust, FolderTrust(tmp_path, tmp_path)):
        assert [store.accepts(each) for each in items] == [False, True]


def test_a_description_is_whole_and_without_hidden_characters_and_keys() -> None:
    key = "sk-ant-api03-" + "Ab1_" * 20
    details = [("command", f"  a\n\tb \u202e {'x' * 300} "), ("empty", ""), ("key", f"--key {key}")]
    details.append(("address", "http://host/mcp?token=abcdef&mode=w&api_key=${NAME}"))
    details.append(("two\naddress", "x"))
    item = TrustItem.of("tool", Path("TOOL.json"), b"", details, name="f\u0430t")
    assert item.path.is_absolute()
    assert item.name == "f⟨U+0430⟩t"
    assert item.text == (
        f"command:\n  |   a\n  | \tb ⟨U+202E⟩ {'x' * 300} \n"
        "key: --key sk-ant-a[and 85 more characters of a key]\n"
        "address: http://host/mcp?token=abcdef&mode=w&api_key=${NAME}\n"
        "two⟨U+000A⟩address: x"
    )


def test_a_label_cannot_be_forged_by_a_line_in_a_text() -> None:
    item = TrustItem.of("tool", Path("TOOL.json"), b"", [("command", "echo\naddress: http://good.example")])
    assert "\naddress" not in item.text
