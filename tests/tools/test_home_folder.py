"""What commands see of the home folder: its ordinary entries, and what their programs need of the hidden ones."""

from __future__ import annotations

import os
import pwd
import shlex
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.evidence import missing

from planck_nb import BuiltinTools, ToolError
from planck_nb.agent.approval import Policy
from planck_nb.agent.effect import Effect
from planck_nb.tools.hidden_paths import hidden_paths, needed_paths
from planck_nb.tools.private_folders import runtime_folder
from planck_nb.tools.sandbox import find_sandbox

pytestmark = pytest.mark.process

SECRET = "TOP-" + "HIDDEN-0452"

CREDENTIALS = """
.claude/.credentials.json .claude.json .codex/auth.json .codex/config.toml .gemini/oauth_creds.json
.gemini/settings.json .cursor/mcp.json .config/github-copilot/apps.json .config/github-copilot/hosts.json
.copilot/config.json .config/Claude/claude_desktop_config.json .config/pip/pip.conf .pip/pip.conf .m2/settings.xml
.m2/settings-security.xml .gradle/gradle.properties .dbt/profiles.yml .pg_service.conf .pgpass .mysql_history
.config/containers/auth.json .docker/config.json .Xauthority .ICEauthority .ipython/profile_default/history.sqlite
.jupyter/jupyter_server_config.json .local/share/jupyter/runtime/kernel-1.json .local/share/keyrings/login.keyring
.local/share/gnome-keyring/x .mozilla/firefox/p/logins.json .config/google-chrome/Default/Cookies
.config/BraveSoftware/Default/Login .thunderbird/p/k .var/app/org.mozilla.firefox/x .config/Signal/config.json
.config/Slack/Cookies .config/discord/token .config/Code/User/globalStorage/state.vscdb .vscode-server/data/token
.config/JetBrains/x/c.kdbx .android/adbkey .config/filezilla/sitemanager.xml .config/rclone/rclone.conf
.config/gh/hosts.yml .config/hub .config/glab-cli/config.yml .config/gcloud/application_default_credentials.json
.config/doctl/config.yaml .config/heroku/x .netrc .authinfo.gpg .aws/credentials .aws/config .aws/sso/cache/x.json
.azure/accessTokens.json .azure/msal_token_cache.json .oci/config .kube/config .minikube/client.key .talos/config
.krew/x .terraform.d/credentials.tfrc.json .terraformrc .vault-token .config/sops/age/keys.txt .password-store/a.gpg
.gnupg/secring.gpg .ssh/id_ed25519 .ssh/config .ssh/known_hosts .config/op/config .bitwarden/data.json
.config/Bitwarden/data.json .lastpass/x .1password/agent.sock .local/share/pass/x .npmrc .yarnrc.yml
.config/configstore/x.json .bunfig.toml .cargo/credentials.toml .gem/credentials .composer/auth.json
.config/composer/auth.json .nuget/NuGet/NuGet.Config .pypirc .config/pypoetry/auth.toml .config/hatch/config.toml
.conda/token .condarc .anaconda/x .huggingface/token .cache/huggingface/token .kaggle/kaggle.json .wandb/settings
.config/wandb/settings .modal.toml .config/replicate/token .ollama/id_ed25519 .cdsapirc .netlify/config.json
.config/netlify/config.json .vercel/auth.json .local/share/com.vercel.cli/auth.json .fly/config.yml
.railway/config.json .supabase/access-token .config/stripe/config.toml .twilio-cli/config.json .sentryclirc .slackrc
.config/doppler/x .bash_history .zsh_history .python_history .node_repl_history .psql_history .sqlite_history .lesshst
.viminfo .local/share/fish/fish_history .planck/session.key .planck/trust.json .planck/mcp.json .planck/config.toml
.snowsql/config .databrickscfg .config/snowflake/connections.toml .my.cnf .mylogin.cnf .pgadmin/pgadmin4.db
.dbeaver4/x .redisclirc
""".split()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if find_sandbox() is None:
        missing("bubblewrap does not work here; install it, and allow user namespaces, to run this test.", "bubblewrap")
    folder = tmp_path / "home"
    (folder / "project").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(folder))
    for name in ("XDG_RUNTIME_DIR", "PYTHONPATH", "GIT_CONFIG_COUNT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(folder / "project")
    return folder


def put(path: Path, text: str, mode: int = 0o644) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)
    return path


async def run(folder: Path, command: str) -> str:
    try:
        return (await BuiltinTools.bash(cwd=folder, sandbox="required").run({"command": command})).text
    except ToolError as error:
        return str(error)


@pytest.mark.parametrize("folder", ["project", ""])
async def test_no_credential_is_seen(home: Path, folder: str) -> None:
    assert len(CREDENTIALS) >= 100
    for name in CREDENTIALS:
        put(home / name, f"{SECRET} {name}")
    files = " ".join(f"~/{name}" for name in CREDENTIALS)
    shown = await run(home / folder, f"for f in {files}; do cat $f; done; grep -rl {SECRET} ~ | grep -v /proc")
    assert SECRET not in shown
    assert [name for name in CREDENTIALS if f"/{name}\n" in shown and "No such file" not in shown] == []


async def test_no_number_of_entries_shows_a_hidden_one(home: Path) -> None:
    for number in range(6_000):
        (home / f"entry{number}").touch()
    for number in range(20):
        put(home / f".hidden{number}/token", SECRET)
    assert SECRET not in await run(home / "project", f"cat {home}/.*/token")


async def test_more_hidden_entries_than_can_be_hidden_are_refused(home: Path) -> None:
    for number in range(1_001):
        (home / f".hidden{number}").touch()
    assert "more than 1,000 hidden entries" in await run(home / "project", "echo ran")


def test_the_home_folder_of_this_user_is_hidden_wherever_home_is(home: Path) -> None:
    own = Path(pwd.getpwuid(os.geteuid()).pw_dir).resolve()
    needed = needed_paths(own, dict(os.environ)).values()
    entries = [path for path in own.iterdir() if path.name.startswith(".")]
    private = {path.resolve() for path in entries if not any(place.is_relative_to(path) for place in needed)}
    assert private - set(hidden_paths(home, dict(os.environ))) == set()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root could read such files")
async def test_root_reads_no_file_of_the_system_that_is_closed_to_others(home: Path) -> None:
    listed = "find /etc -maxdepth 2 -type f ! -perm -o+r; find /var/lib /var/log -maxdepth 1 -type f ! -perm -o+r"
    opened = f"for file in $({listed}); do head -c 1 $file > seen && test -s seen && echo $file; done; echo over"
    assert (await run(home / "project", opened)).splitlines()[0] == "over"


async def test_the_sockets_of_other_servers_are_not_reached(home: Path) -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(home / "s.sock"))
    server.listen()
    server.setblocking(False)
    connect = "import socket; socket.socket(socket.AF_UNIX).connect('../s.sock')"
    with server:
        await run(home / "project", f'{shlex.quote(sys.executable)} -c "{connect}"')
        with pytest.raises(BlockingIOError):
            server.accept()


async def test_other_versions_of_a_python_in_the_home_folder_cannot_be_changed(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("3.11", "3.12"):
        put(home / f".pyenv/versions/{version}/bin/tool", "#!/bin/sh\necho fine", 0o755)
    monkeypatch.setenv("PATH", f"{home}/.pyenv/versions/3.11/bin:{os.environ['PATH']}")
    said = await run(home, "tool; echo evil > .pyenv/versions/3.12/bin/tool; mkdir .pyenv/versions/3.13")
    assert "fine" in said
    assert (home / ".pyenv/versions/3.12/bin/tool").read_text() != "evil\n"
    assert not (home / ".pyenv/versions/3.13").exists()


def test_reading_a_credential_asks_in_a_notebook_in_the_home_folder(home: Path) -> None:
    policy = Policy.ask_before_changes(home)
    put(home / "notes.md", "mine")

    def action(name: str) -> str:
        return policy.decide("read", [Effect("read", str(home / name))], {}).action

    assert [name for name in CREDENTIALS if action(name) == "allow"] == []
    assert action("notes.md") == "allow"


@pytest.mark.parametrize("runtime", ["run", "project/run", "project", ""])
@pytest.mark.parametrize("folder", ["project", ""])
async def test_the_sockets_of_kernels_are_not_seen(
    home: Path, monkeypatch: pytest.MonkeyPatch, runtime: str, folder: str
) -> None:
    place = home / runtime
    place.mkdir(exist_ok=True)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(place))
    found = runtime_folder()
    assert found.is_relative_to(place)
    put(found / "kernel-1-a.json", SECRET)
    put(found / "other", SECRET)
    shown = await run(home / folder, f"cat {found}/*; ls -A {found}; grep -rl {SECRET} ~ | grep -v /proc")
    assert SECRET not in shown
    assert "other" not in shown
    assert (found / "other").read_text() == SECRET


async def test_missing_hidden_files_cannot_be_made(home: Path) -> None:
    names = ".bashrc .profile .config/autostart/x .config/systemd/user/x.service .local/bin/git .ssh/authorized_keys"
    said = await run(home, "".join(f"mkdir -p ~/$(dirname {name}); echo evil > ~/{name}\n" for name in names.split()))
    assert [name for name in names.split() if (home / name).exists()] == []
    assert ".bashrc" in said
    await run(home, "echo mine > note; mkdir -p work; echo 1 > work/a")
    assert (home / "note").read_text() == "mine\n"


SCRIPT = "#!/bin/sh\necho {} runs\n"


def link(path: Path, target: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)
    return path


TOOLCHAINS: dict[str, tuple[str, Callable[[Path], object], dict[str, str]]] = {
    "pyenv": (".pyenv/shims", lambda home: put(home / ".pyenv/shims/tool", SCRIPT.format("pyenv"), 0o755), {}),
    "uv tool": (
        ".local/bin",
        lambda home: (
            put(home / ".local/share/uv/tools/t/bin/tool", "#!/bin/sh\n. ~/.local/share/uv/tools/t/lib/x\n", 0o755),
            put(home / ".local/share/uv/tools/t/lib/x", "echo uv runs"),
            link(home / ".local/bin/tool", home / ".local/share/uv/tools/t/bin/tool"),
        ),
        {},
    ),
    "pipx": (
        ".local/bin",
        lambda home: (
            put(home / ".local/pipx/venvs/t/bin/tool", SCRIPT.format("pipx"), 0o755),
            link(home / ".local/bin/tool", home / ".local/pipx/venvs/t/bin/tool"),
        ),
        {},
    ),
    "a program of one's own": (
        ".local/bin",
        lambda home: put(home / ".local/bin/tool", SCRIPT.format("own"), 0o755),
        {},
    ),
    "cargo": (
        ".cargo/bin",
        lambda home: (
            put(home / ".rustup/toolchains/t/bin/rustc", SCRIPT.format("cargo"), 0o755),
            put(home / ".cargo/bin/cargo", "", 0o755),
            put(home / ".cargo/bin/tool", "#!/bin/sh\nexec ~/.rustup/toolchains/t/bin/rustc\n", 0o755),
        ),
        {},
    ),
    "nvm": (
        ".nvm/versions/node/v1/bin",
        lambda home: (
            put(home / ".nvm/versions/node/v1/lib/x", "echo nvm runs"),
            put(home / ".nvm/versions/node/v1/bin/tool", "#!/bin/sh\n. ~/.nvm/versions/node/v1/lib/x\n", 0o755),
        ),
        {},
    ),
    "sdkman": (
        ".sdkman/candidates/java/current/bin",
        lambda home: (
            put(home / ".sdkman/candidates/java/21/bin/tool", SCRIPT.format("java"), 0o755),
            link(home / ".sdkman/candidates/java/current", home / ".sdkman/candidates/java/21"),
        ),
        {},
    ),
    "a conda environment": (
        ".conda/envs/e/bin",
        lambda home: put(home / ".conda/envs/e/bin/tool", SCRIPT.format("conda"), 0o755),
        {},
    ),
    "an environment and its base": (
        ".venvs/e/bin",
        lambda home: (
            put(home / ".pythons/p/bin/python3", "#!/bin/sh\n. ~/.pythons/p/lib/x\n", 0o755),
            put(home / ".pythons/p/lib/x", "echo base runs"),
            link(home / ".venvs/e/bin/python3", home / ".pythons/p/bin/python3"),
            put(home / ".venvs/e/bin/tool", "#!/bin/sh\nexec ~/.venvs/e/bin/python3\n", 0o755),
        ),
        {},
    ),
    "julia": (
        ".juliaup/bin",
        lambda home: (
            put(home / ".julia/juliaup/j/bin/julia", SCRIPT.format("julia"), 0o755),
            put(home / ".juliaup/bin/julia", "", 0o755),
            put(home / ".juliaup/bin/tool", "#!/bin/sh\nexec ~/.julia/juliaup/j/bin/julia\n", 0o755),
        ),
        {},
    ),
    "a folder named by a variable": (
        "bin",
        lambda home: (
            put(home / ".tools/lib/x", "echo named runs"),
            put(home / "bin/tool", "#!/bin/sh\n. $MY_ROOT/lib/x\n", 0o755),
        ),
        {"MY_ROOT": ".tools"},
    ),
}


@pytest.mark.parametrize("name", TOOLCHAINS)
async def test_programs_in_hidden_folders_run(home: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    place, make, variables = TOOLCHAINS[name]
    make(home)
    put(home / ".cargo/credentials.toml", SECRET)
    monkeypatch.setenv("PATH", f"{home}/{place}:{os.environ['PATH']}")
    for variable, value in variables.items():
        monkeypatch.setenv(variable, str(home / value))
    assert "runs" in await run(home / "project", "tool")
    assert SECRET not in await run(home / "project", "cat ~/.cargo/credentials.toml")


async def test_git_knows_who_commits(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put(home / ".gitconfig", f"[user]\n\tname = Ann\n\temail = ann@x.invalid\n[github]\n\ttoken = {SECRET}\n")
    shown = await run(
        home / "project", "git init -q && echo 1 > a && git add a && git commit -qm one && git log --format='%an %ae'"
    )
    assert "Ann ann@x.invalid" in shown
    assert SECRET not in await run(home / "project", "git config --list; cat ~/.gitconfig; env")


async def test_a_linked_data_folder_is_seen(home: Path) -> None:
    link(home / "data", Path("/usr/share"))
    assert "doc\n" in await run(home / "project", "ls ~/data")
