"""Mounts of the sandbox, listed without running anything."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from planck_nb.agent.approval.sandbox_access import SandboxAccess
from planck_nb.tools.guarded_paths import GuardedPaths
from planck_nb.tools.sandbox_mounts import mounts

ARGUMENTS = {"--tmpfs": 1, "--bind": 2, "--ro-bind": 2, "--dev-bind": 2, "--setenv": 2, "--remount-ro": 1}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


@pytest.fixture
def project(home: Path) -> Path:
    folder = home / "project"
    folder.mkdir()
    return folder


def options(
    project: Path,
    environment: dict[str, str],
    *,
    access: SandboxAccess | None = None,
    readable: tuple[Path, ...] = (),
) -> list[tuple[str, ...]]:
    """The options with their arguments."""
    guard = GuardedPaths.of(project, environment)
    words = iter(mounts(guard, access or SandboxAccess(), environment, readable).options)
    return [(word, *(next(words) for _ in range(ARGUMENTS[word]))) for word in words]


def target(option: tuple[str, ...]) -> str:
    return option[-1]


def bind(option: str, path: Path) -> tuple[str, str, str]:
    return option, str(path), str(path)


def test_temporary_folders_are_empty(project: Path, tmp_path: Path) -> None:
    own = tmp_path / "temporary"
    own.mkdir()
    found = options(project, {"TMPDIR": str(own)})
    expected = {str(Path(name).resolve()) for name in ("/tmp", "/var/tmp", "/run") if Path(name).is_dir()}
    assert expected | {str(own)} <= {target(option) for option in found if option[0] == "--tmpfs"}


@pytest.mark.parametrize("named", ["/", "relative", "/does/not/exist", ""])
def test_a_temporary_folder_that_is_none_changes_nothing(project: Path, named: str) -> None:
    assert options(project, {"TMPDIR": named}) == options(project, {})


def test_a_link_to_a_temporary_folder_is_followed(project: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    assert ("--tmpfs", str(tmp_path / "real")) in options(project, {"TMPDIR": str(tmp_path / "link")})


def test_the_home_folder_and_named_paths_are_readable_in_an_empty_folder(
    home: Path, project: Path, tmp_path: Path
) -> None:
    tool, gone = tmp_path / "tool", tmp_path / "gone"
    tool.mkdir()
    environment = {"HOME": str(home), "TMPDIR": str(tmp_path)}
    found = options(project, environment, readable=(tool, gone, Path("/etc/hosts")))
    assert bind("--ro-bind", home) in found
    assert bind("--ro-bind", tool) in found
    assert str(gone) not in map(target, found)
    assert "/etc/hosts" not in map(target, found)  # readable as it is
    assert ("--tmpfs", str(tmp_path)) in found


def test_this_python_is_readable_in_an_empty_folder(project: Path) -> None:
    prefix = Path(sys.prefix).resolve()
    assert bind("--ro-bind", prefix) in options(project, {"TMPDIR": str(prefix.parent)})
    base = Path(sys.base_prefix).resolve()
    if base.parent != Path("/"):
        assert bind("--ro-bind", base) in options(project, {"TMPDIR": str(base.parent)})
    elsewhere = {target(option) for option in options(project, {})}
    if not prefix.is_relative_to("/tmp"):
        assert str(prefix) not in elsewhere


def test_the_resolver_is_readable_where_its_folder_is_empty(project: Path) -> None:
    resolver = Path("/etc/resolv.conf").resolve()
    if not resolver.exists():
        pytest.skip("This machine has no /etc/resolv.conf.")
    assert bind("--ro-bind", resolver) in options(project, {"TMPDIR": str(resolver.parent)})


def test_caches_are_empty_and_programs_find_one(home: Path, project: Path, tmp_path: Path) -> None:
    environment = {"HOME": str(home)}
    assert ("--setenv", "XDG_CACHE_HOME", "/tmp/.cache") in options(project, environment)
    for name in (".cache", ".npm", ".conda/pkgs"):
        (home / name).mkdir(parents=True)
        found = options(project, environment)
        assert ("--tmpfs", str(home / name)) in found
        assert "--setenv" not in {option[0] for option in found}
    named = tmp_path / "caches"
    named.mkdir()
    found = options(project, {"XDG_CACHE_HOME": str(named)})
    assert ("--tmpfs", str(named)) in found
    assert str(home / ".cache") not in map(target, found)


@pytest.mark.parametrize("of", ["home", "root"])
def test_a_folder_of_caches_that_is_everything_is_not_emptied(home: Path, project: Path, of: str) -> None:
    named = str(home) if of == "home" else "/"
    found = options(project, {"HOME": str(home), "XDG_CACHE_HOME": named})
    assert ("--tmpfs", named) not in found
    assert ("--setenv", "XDG_CACHE_HOME", "/tmp/.cache") in found


def test_only_the_project_is_writable_and_its_own_folder_is_not(home: Path, project: Path) -> None:
    environment = {"HOME": str(home)}
    own = project / ".planck"
    assert [option for option in options(project, environment) if option[0] == "--bind"] == [bind("--bind", project)]
    own.mkdir()
    found = options(project, environment)
    assert found.index(bind("--bind", project)) < found.index(bind("--ro-bind", own))
    own.rmdir()
    own.symlink_to(home)
    assert str(own) not in map(target, options(project, environment))
    assert not [option for option in options(Path("/"), environment) if option[0] == "--bind"]


def test_secrets_are_hidden_and_what_was_approved_is_not(home: Path, project: Path) -> None:
    environment = {"HOME": str(home)}
    keys, netrc = home / ".ssh", home / ".netrc"
    keys.mkdir()
    netrc.touch()
    found = options(project, environment)
    assert ("--tmpfs", str(keys)) in found
    assert ("--ro-bind", os.devnull, str(netrc)) in found
    access = SandboxAccess(read=(netrc,), write=(keys,))
    found = options(project, environment, access=access)
    assert bind("--ro-bind", netrc) in found
    assert bind("--bind", keys) in found
    assert [target(option) for option in found].count(str(keys)) == 1
    assert [target(option) for option in found].count(str(netrc)) == 1


def test_a_secret_folder_that_a_command_works_in_is_seen(home: Path) -> None:
    inside = home / ".ssh" / "work"
    inside.mkdir(parents=True)
    found = options(inside, {"HOME": str(home)})
    assert str(home / ".ssh") not in map(target, found)
    assert bind("--bind", inside) in found


def test_what_covers_comes_before_what_is_in_it(home: Path, project: Path, tmp_path: Path) -> None:
    (home / ".cache" / "deep").mkdir(parents=True)
    (home / ".ssh").mkdir()
    (project / ".planck").mkdir()
    access = SandboxAccess(write=(home / ".cache" / "deep",), read=(home / ".ssh",))
    found = options(project, {"HOME": str(home), "TMPDIR": str(tmp_path)}, access=access)
    paths = [target(option) for option in found if option[0] in {"--bind", "--ro-bind", "--tmpfs"}]
    for index, path in enumerate(paths):
        assert not any(Path(path).is_relative_to(later) for later in paths[index + 1 :])


def test_the_same_path_is_mounted_once_and_what_was_approved_wins(home: Path, tmp_path: Path) -> None:
    found = options(tmp_path, {"HOME": str(home), "TMPDIR": str(tmp_path)})
    assert [option for option in found if target(option) == str(tmp_path)] == [bind("--bind", tmp_path)]
    access = SandboxAccess(read=(tmp_path,))
    found = options(tmp_path, {"HOME": str(home), "TMPDIR": str(tmp_path)}, access=access)
    assert [option for option in found if target(option) == str(tmp_path)] == [bind("--ro-bind", tmp_path)]


def test_devices_are_those_of_gpus(project: Path) -> None:
    found = [Path(target(option)) for option in options(project, {}) if option[0] == "--dev-bind"]
    names = {path.name for path in Path("/dev").iterdir()}
    assert {path.name for path in found} == {
        name for name in names if name.startswith("nvidia") or name in {"dri", "kfd"}
    }
