"""What the doctor finds in broken environments; each fix that it names is applied, and works."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.sidecar_server import ROOT, write_sidecar

from planck_nb import Config, Workspace, ai
from planck_nb.workspace.doctor import examine, examine_folder
from planck_nb.workspace.installation_findings import Finding

pytestmark = pytest.mark.process
KEY = "sk-ant-" + "a1B2c3D4e5F6" * 3


@dataclass
class Place:
    """A project's folder and a home, as a new notebook finds them."""

    folder: Path
    home: Path
    monkeypatch: pytest.MonkeyPatch
    stack: ExitStack

    def workspace(self) -> Workspace:
        return Workspace(Config.load(directory=self.folder, home=self.home))

    async def findings(self) -> list[Finding]:
        async with self.workspace() as workspace:
            return await examine(workspace)

    def set(self, **variables: str) -> None:
        for name, value in variables.items():
            self.monkeypatch.setenv(name, value)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    folder, home = tmp_path / "project", tmp_path / "home"
    folder.mkdir()
    home.mkdir()
    monkeypatch.setenv("PLANCK_NB_MODEL", "demo")
    with ExitStack() as stack:
        yield Place(folder, home, monkeypatch, stack)


def write(file: Path, content: object) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def one(findings: list[Finding], topic: str) -> Finding:
    """The finding about a topic; the gravest of several."""
    order = ("problem", "note", "ok")
    return min((each for each in findings if each.topic == topic), key=lambda finding: order.index(finding.state))


Mend = Callable[[], object]


def without_key(place: Place) -> Mend:
    place.monkeypatch.delenv("PLANCK_NB_MODEL")
    return lambda: place.set(ANTHROPIC_API_KEY=KEY)


def key_in_quotes(place: Place) -> Mend:
    place.set(OPENAI_API_KEY=f"'{KEY}'\n")
    return lambda: place.set(OPENAI_API_KEY=KEY)


def another_key_is_needed(place: Place) -> Mend:
    place.set(PLANCK_NB_MODEL="openai:gpt-5.4")
    return lambda: place.set(OPENAI_API_KEY=KEY)


def unknown_model(place: Place) -> Mend:
    place.set(PLANCK_NB_MODEL="openai:gpt-5.4o")
    return lambda: place.set(PLANCK_NB_MODEL="demo")


def dead_server(place: Place) -> Mend:
    server = place.stack.enter_context(socket.socket())
    server.bind(("127.0.0.1", 0))  # it does not listen yet
    url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
    models = {"models": [{"id": "mine", "provider": "openai", "base_url": url}]}
    place.set(PLANCK_NB_MODELS_FILE=str(write(place.home / "models.json", models)), PLANCK_NB_MODEL="mine")
    return server.listen


def untrusted(place: Place) -> Mend:
    write(place.folder / ".planck/mcp.json", {"mcpServers": {"theirs": {"command": "true"}}})
    return lambda: place.workspace().trust()


def without_bubblewrap(place: Place) -> Mend:
    path = os.environ["PATH"]
    place.set(PATH=str(place.home))
    return lambda: place.set(PATH=path)


def hidden_module(place: Place) -> Mend:
    file = write(place.folder / "random.py", "print('mine')")
    return lambda: file.rename(place.folder / "my_random.py")


def hidden_package(place: Place) -> Mend:
    file = write(place.folder / "duckdb/__init__.py", "")
    return lambda: file.parent.rename(place.folder / "data")


def broken_settings(place: Place) -> Mend:
    file = write(place.folder / ".planck/config.toml", 'sandbx = "off"\n')
    return lambda: file.write_text('sandbox = "auto"\n')


def no_folder(place: Place) -> Mend:
    place.set(PLANCK_NB_SESSIONS_DIR="/dev/null/sessions")
    return lambda: place.set(PLANCK_NB_SESSIONS_DIR=str(place.folder))


def broken_sidecar(place: Place) -> Mend:
    write_sidecar(place.home, "@sidecar.tool\ndef hello() -> str:\n    'Say hello.'\n    return 'hello'\n")
    server = {"command": "no-such-program", "cwd": str(place.home), "env": {"PYTHONPATH": str(ROOT)}}
    file = write(place.home / ".planck/mcp.json", {"mcpServers": {"mine": server}})
    works = server | {"command": sys.executable, "args": ["-m", "planck_nb.sidecars", "my_sidecar:sidecar"]}
    return lambda: write(file, {"mcpServers": {"mine": works}})


def sidecars_in_bad_json(place: Place) -> Mend:
    file = write(place.home / ".planck/mcp.json", "{")
    return lambda: write(file, {"mcpServers": {}})


@dataclass(frozen=True)
class Case:
    """What is broken, and what the doctor says about it: topic, state, and words of the text and of the fix."""

    broken: Any
    topic: str
    state: str
    text: str
    fix: str


BROKEN = [
    Case(without_key, "model", "note", "so the demo model answers", "set one of ANTHROPIC_API_KEY"),
    Case(key_in_quotes, "keys", "problem", "OPENAI_API_KEY", "set OPENAI_API_KEY to the key alone"),
    Case(another_key_is_needed, "model", "problem", "needs a key in OPENAI_API_KEY", "set OPENAI_API_KEY where"),
    Case(unknown_model, "model", "problem", "gpt-5.4o", "`%planck model PROVIDER:MODEL`"),
    Case(dead_server, "model", "problem", "where no server answers", "start that server"),
    Case(untrusted, "trust", "problem", "before you trust this folder: theirs", "`%planck trust`"),
    Case(without_bubblewrap, "sandbox", "note", "without a sandbox", "install the package bubblewrap"),
    Case(hidden_module, "modules", "problem", "hides the module random", "rename random.py"),
    Case(hidden_package, "modules", "problem", "hides the module duckdb", "rename duckdb"),
    Case(broken_settings, "settings", "problem", "sandbx", "correct this setting"),
    Case(no_folder, "sessions", "problem", "cannot be written", "PLANCK_NB_SESSIONS_DIR"),
    Case(broken_sidecar, "sidecars", "problem", "no-such-program", "mcp.json, then `%planck sidecar start mine`"),
    Case(sidecars_in_bad_json, "sidecars", "problem", "mcp.json", "correct this file"),
]


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.broken.__name__)
async def test_each_problem_has_a_fix_that_works(place: Place, case: Case) -> None:
    mend: Mend = case.broken(place)
    finding = one(await place.findings(), case.topic)
    assert (finding.state, case.text in finding.text, case.fix in finding.fix) == (case.state, True, True), finding
    mend()
    after = [each for each in await place.findings() if each.topic == case.topic]
    assert [each for each in after if each.state != "ok"] == []


PACKAGES = [
    Case(("jupyterlab", None), "JupyterLab", "note", "not in this environment", "[lab]"),
    Case(("matplotlib", None), "JupyterLab", "note", "matplotlib", "[lab]"),
    Case(("ipykernel", "6.29.5"), "ipykernel", "note", "handles no clicks", "install -U ipykernel"),
    Case(("ipykernel", "7.2.0"), "ipykernel", "problem", "can stop answering", "install -U ipykernel"),
    Case(("filelock", "3.12.0"), "packages", "problem", "filelock 3.12.0 is older", "install -U 'filelock>="),
    Case(("tomlkit", None), "packages", "problem", "tomlkit is missing", "install tomlkit"),
]


def examined(site: Path, folder: Path) -> str:
    """What the command says with these packages."""
    code = "import sys; sys.path[:0] = sys.argv[1:3]; from planck_nb.cli import main; sys.exit(main(['doctor']))"
    command = [sys.executable, "-S", "-c", code, str(ROOT), str(site)]
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "PLANCK_NB_MODEL": "demo"}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    assert done.returncode == int("problem " in done.stdout)
    return done.stdout


@pytest.mark.parametrize("case", PACKAGES, ids=lambda case: "-".join(filter(None, case.broken)))
def test_packages_that_are_missing_or_old(tmp_path: Path, case: Case) -> None:
    package, release = case.broken
    site = tmp_path / "site"
    site.mkdir()
    for path in Path(sysconfig.get_path("purelib")).iterdir():
        (site / path.name).symlink_to(path)
    [metadata] = site.glob(f"{package}-*.dist-info")
    original = metadata.readlink()
    metadata.unlink()
    if release is not None:
        metadata.mkdir()
        (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {release}\n")
    lines = examined(site, tmp_path).splitlines()
    number = next(number for number, line in enumerate(lines) if line.startswith(case.state.ljust(9) + case.topic))
    assert case.text in lines[number]
    assert case.fix in lines[number + 1]
    if release is not None:
        shutil.rmtree(metadata)
    metadata.symlink_to(original)
    assert f"{'ok':<9}{case.topic}" in examined(site, tmp_path)


DISKS = {
    "full": (
        "head -c 70M /dev/zero > ballast 2> /dev/null",
        "cannot be written (No space left on device)",
        "Fix: free some space",
        "rm ballast",
    ),
    "read-only": (
        "mount -o remount,ro .",
        "cannot be written (Read-only file system)",
        "writable, or set PLANCK_NB_SESSIONS_DIR",
        "mount -o remount,rw .",
    ),
}


@pytest.mark.skipif(sys.platform != "linux", reason="mounts file systems")
@pytest.mark.parametrize("disk", DISKS)
def test_disks_that_cannot_be_written(tmp_path: Path, disk: str) -> None:
    breaking, text, fix, mend = DISKS[disk]
    script = f"""
        mount -t tmpfs -o size=60m tmpfs "$1" || exit 77
        cd "$1"
        {breaking}
        "$2" -m planck_nb.cli doctor --folder .
        {mend}
        echo MENDED
        "$2" -m planck_nb.cli doctor --folder .
    """
    command = ["unshare", "--mount", "sh", "-c", script, "sh", str(tmp_path), sys.executable]
    environment = {**os.environ, "PLANCK_NB_MODEL": "demo", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare: unshare failed" in done.stderr:
        pytest.skip("only root may mount a file system")
    before, _, after = done.stdout.partition("MENDED")
    assert text in before, done
    assert fix in before
    assert after
    assert "cannot be written" not in after
    assert "problem" not in after


async def test_settings_that_cannot_be_read_are_a_finding(place: Place) -> None:
    write(place.folder / ".planck/config.toml", "[")
    findings = await examine_folder(place.folder)
    assert "config.toml" in one(findings, "settings").text
    assert one(findings, "ipykernel")


async def test_no_finding_shows_a_key(place: Place) -> None:
    place.set(PLANCK_NB_SESSIONS_DIR=str(place.home / KEY))
    (place.home / KEY).mkdir()
    place.set(ANTHROPIC_API_KEY=KEY, OPENAI_API_KEY=f"{KEY}x", GOOGLE_API_KEY=f" {KEY}")
    server = {"command": "no-such-program", "args": [KEY], "env": {"TOKEN": KEY}}
    write(place.home / ".planck/mcp.json", {"mcpServers": {"mine": server}})
    write(place.folder / ".planck/mcp.json", {"mcpServers": {"theirs": {"url": f"https://me:{KEY}@127.0.0.1:9/mcp"}}})
    text = "\n".join(map(str, await place.findings()))
    assert "ANTHROPIC_API_KEY" in text
    assert "GOOGLE_API_KEY" in text
    assert KEY not in text


async def test_no_request_is_sent_to_a_model(place: Place) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        async with place.workspace() as workspace:
            workspace.set_default_model(ai.get_model("openai", "m", base_url=url, api_key=KEY))
            assert one(await examine(workspace), "model").state == "ok"
        connection, _ = server.accept()
        with connection:
            connection.settimeout(10)
            assert connection.recv(100) == b""


async def test_nothing_is_written(place: Place) -> None:
    await place.findings()
    assert [*place.folder.iterdir(), *place.home.iterdir()] == []
