"""What a command in the sandbox cannot leave: files that run when a folder, shell, editor or agent is opened."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.evidence import missing

from planck_nb import BuiltinTools, ToolError
from planck_nb.base.programs import find_program
from planck_nb.tools.guarded_paths import GuardedPaths
from planck_nb.tools.sandbox import find_sandbox

pytestmark = pytest.mark.process

PLACES = """
.vscode/tasks.json .vscode/settings.json .idea/workspace.xml .zed/tasks.json .fleet/run.json .devcontainer/a.json
.devcontainer.json .exrc .nvim.lua .vimrc .lvimrc .dir-locals.el .emacs.d/init.el .gdbinit .lldbinit a.code-workspace

.planck/config.toml .planck/mcp.json .planck/tools/t/TOOL.json .planck/skills/s/SKILL.md .planck/teams/t/TEAM.json
.mcp.json .cursor/mcp.json .cursor/rules/a.mdc .cursorrules .claude/settings.json .claude.json .codex/config.toml
.gemini/settings.json .continue/config.yaml .aider.conf.yml .windsurfrules .roo/mcp.json .kiro/settings/mcp.json
.clinerules AGENTS.md CLAUDE.md GEMINI.md .github/copilot-instructions.md .opencode/config.json .goosehints

.envrc .mise.toml mise.toml .tool-versions .husky/pre-commit .bashrc .profile .zshenv .inputrc .tmux.conf .screenrc

sitecustomize.py usercustomize.py evil.pth .pdbrc .pythonstartup .ipython/profile_default/startup/0.py
.jupyter/jupyter_server_config.py .Rprofile .Renviron .psqlrc .sqliterc .npmrc .yarnrc.yml .yarn/plugins/p.cjs
.yarn/releases/y.cjs .pnp.cjs .cargo/config.toml .bundle/config .mvn/extensions.xml .gitconfig .hg/hgrc

AGENTS.override.md AGENT.md QWEN.md CRUSH.md WARP.md replit.md .rules .agents/skills/a/SKILL.md .github/hooks/a.json
.openhands/setup.sh .amp/settings.json opencode.jsonc .idx/dev.nix .replit .clangd hie.yaml .run/a.run.xml
.config/mise/config.toml mise.local.toml mise/config.toml .env.zsh .config/fish/config.fish profile.ps1 .xonshrc
startup.m .RData .iex.exs .ocamlinit .ackrc .radare2rc tools/bazel .jj/repo/config.toml _darcs/prefs/defaults
.git/commondir sub/.git/commondir .factory/settings.json .vibe/config.toml forge.yaml .trunk/trunk.yaml
uv.toml pip.conf bunfig.toml .pnpmfile.mjs .pixi/config.toml .jupytext.py renv/activate.R .envrc.local .direnv/a.rc
.devenv/a .devbox/gen/a .flox/env/manifest.toml .githooks/pre-commit

.git/hooks/pre-commit .git/hooks/post-checkout .git/config.worktree sub/.vscode/tasks.json sub/.envrc sub/AGENTS.md
a/b/.claude/settings.json sub/.git/hooks/post-commit
""".split()
"""For editors, agents, shells, languages and repositories, in this order."""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    if find_sandbox() is None:
        missing("bubblewrap does not work here; install it, and allow user namespaces, to run this test.", "bubblewrap")
    folder = tmp_path / "home" / "project"
    folder.mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(folder)
    return folder


async def run(project: Path, command: str) -> str:
    """What a command returned, or its error."""
    tool = BuiltinTools.bash(cwd=project, sandbox="required")
    try:
        return (await tool.run({"command": command})).text
    except ToolError as error:
        return str(error)


HOW = {
    "write": "mkdir -p {folder}; echo evil > {place}",
    "move": "mkdir -p x/{folder}; echo evil > x/{place}; mv -n x/{top} . || cp -r x/{top} .",
    "link": "mkdir -p data {folder}; echo evil > data/f; ln -s $PWD/data/f {place}",
}


@pytest.mark.parametrize("how", HOW)
async def test_nothing_that_runs_by_itself_can_be_left(project: Path, how: str) -> None:
    said = await run(project, "\n".join(HOW[how].format(**parts(place)) for place in PLACES))
    assert [place for place in PLACES if exists(project / place)] == []
    assert [top for place in PLACES if (top := parts(place)["top"]) not in ("sub", "a") and top not in said] == []


def exists(path: Path) -> bool:
    return path.is_symlink() or path.exists()


def files(folder: Path) -> set[Path]:
    return set(folder.rglob("*"))


def parts(place: str) -> dict[str, str]:
    return {"place": place, "top": place.partition("/")[0], "folder": str(Path(place).parent)}


EXISTING = ".vscode/tasks.json .planck/config.toml .mcp.json .git/config .git/hooks/pre-commit .envrc AGENTS.md".split()
WAYS = {
    "write": "echo evil >> {place}",
    "remove": "rm -rf {top}; mkdir -p {folder}; echo evil > {place}",
    "move": "mv {top} other; mkdir -p {folder}; echo evil > {place}",
    "link": "mkdir -p data/{folder}; echo evil > data/{place}; rm -rf {top}; ln -s $PWD/data/{top} {top}",
    "replace": "echo evil > new; mv new {place}",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", EXISTING)
async def test_what_runs_by_itself_stays_as_it_is(project: Path, place: str, way: str) -> None:
    shell(project, f"git init -q; mkdir -p {parts(place)['folder']}; echo mine >> {place}")
    before = (project / place).read_text()
    await run(project, WAYS[way].format(**parts(place)))
    assert (project / place).read_text() == before


def shell(folder: Path, command: str) -> None:
    """Run a command outside of the sandbox."""
    subprocess.run(["sh", "-ec", command], cwd=folder, check=True)


async def test_a_linked_folder_is_as_it_was(project: Path) -> None:
    (project / "shared").mkdir()
    (project / "shared/tasks.json").write_text("mine")
    (project / ".vscode").symlink_to("shared")
    await run(project, "echo evil > shared/tasks.json; rm .vscode; mkdir .vscode; echo evil > .vscode/tasks.json")
    assert (project / ".vscode").readlink() == Path("shared")
    assert (project / "shared/tasks.json").read_text() == "mine"


@pytest.mark.parametrize("link", [".planck/skills", ".planck/sidecar/src", ".vscode/tasks.json"])
async def test_what_a_link_in_such_a_folder_leads_to_stays_as_it_is(project: Path, link: str) -> None:
    target = project / "elsewhere" / Path(link).name
    (target if not target.suffix else target.parent).mkdir(parents=True)
    file = target if target.suffix else target / "file"
    file.write_text("mine")
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(target)
    inner = link if target.suffix else f"{link}/file"
    await run(
        project,
        f"echo evil > {inner}; echo evil > {file}; mv elsewhere other; mkdir -p {file.parent}; echo evil > {file}",
    )
    assert (project / inner).read_text() == "mine"


LINKS = {
    "replaced": ("real", "rm .planck; mkdir .planck; echo evil > .planck/config.toml"),
    "moved": ("real", "mv .planck x; ln -s evil .planck; mkdir evil; echo evil > evil/config.toml"),
    "another": ("real", "ln -sfn evil .planck; mkdir evil; echo evil > evil/config.toml"),
    "by a link": ("by", "ln -sfn evil by; mkdir evil; echo evil > evil/config.toml"),
    "below a link": (
        "by/../real",
        "mkdir -p evil/x evil/real; ln -sfn evil/x by; echo evil > evil/real/config.toml",
    ),
    "in a linked folder": ("up/real", "ln -sfn evil up; mkdir -p evil/real; echo evil > evil/real/config.toml"),
    "nowhere": ("nowhere", "mkdir nowhere; echo evil > nowhere/config.toml"),
    "below nowhere": ("no/where", "mkdir -p no/where; echo evil > no/where/config.toml"),
}


@pytest.mark.parametrize("way", LINKS)
async def test_a_linked_folder_of_settings_leads_where_it_led(project: Path, way: str) -> None:
    target, command = LINKS[way]
    (project / "real").mkdir()
    (project / "real/config.toml").write_text("mine")
    (project / "by").symlink_to("real")
    (project / "up").symlink_to(".")
    (project / ".planck").symlink_to(target)
    before = (project / ".planck").resolve()
    said = await run(project, f"echo 1 > work && {command}")
    assert (project / "work").exists(), said
    assert (project / ".planck").readlink() == Path(target)
    assert (project / ".planck").resolve() == before
    config = project / ".planck/config.toml"
    assert not config.exists() if "nowhere" in way else config.read_text() == "mine", said


@pytest.mark.parametrize("target", [".", "sub/..", "..", "/"])
async def test_a_link_to_the_folder_itself_changes_nothing(project: Path, target: str) -> None:
    (project / "sub").mkdir()
    (project / ".vscode").symlink_to(target)
    said = await run(project, "echo 1 > work; echo 1 > ../outside; echo 1 > /usr/outside; rm .vscode; mkdir .vscode")
    assert (project / "work").read_text() == "1\n", said
    assert not (project / "../outside").exists()
    assert (project / ".vscode").readlink() == Path(target)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root's programs give rights to others")
async def test_no_program_with_roots_rights_is_left(project: Path) -> None:
    said = await run(
        project, "mkdir -p a/b/c/d; cp /bin/sh a/b/c/d/sh; chmod 6755 a/b/c/d/sh; cp /bin/sh plain; ln -s plain link"
    )
    assert (project / "a/b/c/d/sh").stat().st_mode & 0o7777 == 0o755
    assert "would have given root's rights to other users, and no longer do: " in said
    assert "a/b/c/d/sh" in said


WORK: dict[str, tuple[str, str]] = {
    "commit": ("echo 1 > a && git add a && git commit -qm one && git log --oneline", "one"),
    "switch": ("git switch -qc other && git switch -q - && git branch", "other"),
    "stash": ("echo 2 > f && git stash -q && git stash pop -q && cat f", "2"),
    "checkout of code": ("git checkout -q side && cat conftest.py && git checkout -q -", "side"),
    "merge": ("git merge -q side && cat conftest.py", "side"),
    "tag": ("git tag v1 && git tag", "v1"),
    "diff": ("echo 3 > f && git diff --stat", "1 file changed"),
    "write code": ("echo 'x = 1' > conftest.py && cat conftest.py", "x = 1"),
    "a make file": ("printf 'a:\\n\\techo made\\n' > Makefile && cat Makefile", "made"),
    "a new environment": ("python3 -m venv --without-pip env && env/bin/python -c 'print(6*7)'", "42"),
    "a package folder": ("mkdir -p src/pkg && touch src/pkg/__init__.py && ls src/pkg", "__init__"),
    "run Python": ("python3 -c 'print(6*7)'", "42"),
    "a script": ("printf '#!/bin/sh\\necho ran\\n' > run.sh && chmod +x run.sh && ./run.sh", "ran"),
    "an archive": ("echo 1 > b && tar cf a.tar b && tar tf a.tar", "b"),
    "a new repository": (
        "mkdir new && cd new && git init -q && echo 1 > a && git add a && git commit -qm two && git log",
        "two",
    ),
    "a clone": ("git clone -q . copy && cd copy && git remote get-url origin", "/project"),
    "a rename": ("git mv f g && git status --short", "R  f -> g"),
    "a worktree": ("git worktree add -q wt side && cat wt/conftest.py", "side"),
    "ignored files": ("echo build > .gitignore && mkdir build && cat .gitignore", "build"),
    "a long line": ("for i in 1 2 3; do echo $i; done | sort -r | head -1", "3"),
}


BEFORE = """
git init -q; git config user.name n; git config user.email e@x; echo 1 > f; git add f; git commit -qm first
git switch -qc side; echo side > conftest.py; git add .; git commit -qm side; git switch -q -
"""


@pytest.mark.parametrize("name", WORK)
async def test_ordinary_work_goes_on(project: Path, name: str) -> None:
    shell(project, BEFORE)
    command, expected = WORK[name]
    command = command.replace("git commit", "git -c user.name=n -c user.email=e@x commit")
    assert expected in await run(project, command)


async def test_a_new_repository_keeps_its_settings_without_those_that_run_programs(project: Path) -> None:
    said = await run(
        project, "git init -q new; cd new; git remote add origin https://x.invalid/r; git config core.fsmonitor ./e"
    )
    config = (project / "new/.git/config").read_text()
    assert "https://x.invalid/r" in config
    assert "fsmonitor" not in config
    assert "new/.git/config" in said
    assert "fsmonitor" in (project / "new/.git/config.set-aside-1").read_text()


DEEP = """
cd {folder}; git init -q {options}; git config user.name n; git config user.email e@x; echo 1 > g; git add g
git commit -qm x; git config core.fsmonitor "touch $TOP/ran; false"; commit=$(git rev-parse HEAD)
cd $TOP; {before}; git update-index --add --cacheinfo 160000,$commit,{folder}; {after}
"""


@pytest.mark.parametrize(
    ("folder", "options", "before", "after"),
    [
        ("a/b/c/d/e", "", ":", ":"),
        ("node_modules/e", "", ":", ":"),
        ("a/b/c/d/e", "", "git update-index --index-version 4; mkdir a/b/c/d/f; echo 1 > a/b/c/d/a; git add a", ":"),
        ("a/b/c/d/e", "", ":", "git update-index --split-index"),
        ("a/b/c/d/e", "", ":", "mv .git/index other; ln -s ../other .git/index"),
    ],
)
async def test_git_runs_nothing_in_a_new_submodule_however_deep(
    project: Path, folder: str, options: str, before: str, after: str
) -> None:
    shell(project, BEFORE)
    command = DEEP.format(folder=folder, options=options, before=before, after=after)
    said = await run(project, f"TOP=$PWD; mkdir -p {folder}; {command}")
    shell(project, "git status")
    assert "ran" not in {path.name for path in files(project)}, said
    shell(project, "git ls-files -s | grep -q ^160000")


async def test_an_index_that_is_too_large_to_look_at_is_renamed(project: Path) -> None:
    shell(project, BEFORE)
    said = await run(project, "truncate -s 20G .git/index")
    assert "left .git/index, which programs load automatically; it was renamed to index.set-aside-1" in said


async def test_git_runs_nothing_in_a_submodule_of_a_repository_with_long_digests(project: Path) -> None:
    command = DEEP.format(folder="new/a/b/c/d/e", options="--object-format=sha256", before=":", after=":")
    command = command.replace("cd $TOP; :;", "cd $TOP/new; git init -q --object-format=sha256;")
    await run(project, f"TOP=$PWD; mkdir -p new/a/b/c/d/e; {command.replace(',new/a', ',a')}")
    shell(project / "new", "git status")
    assert "ran" not in {path.name for path in files(project)}


NAMED = {
    "hook": ("git config core.hooksPath checks; mkdir checks; echo : > checks/pre-commit", "checks/pre-commit"),
    "new hook": ("git config core.hooksPath checks; mkdir checks", "checks/pre-commit"),
    "folder of hooks": ("git config core.hooksPath checks", "checks/pre-commit"),
    "included settings": (
        "git config include.path ../shared/settings; mkdir shared; : > shared/settings",
        "shared/settings",
    ),
    "missing settings": ("git config include.path ../shared", "shared"),
    "settings in included ones": (
        "git config include.path ../a; printf '[include]\\npath = b\\n' > a; : > b",
        "b",
    ),
    "program": ("git config core.fsmonitor './watch now'; echo : > watch", "watch"),
    "script in .envrc": ("echo 'source ./tools.sh' > .envrc; : > tools.sh", "tools.sh"),
    "programs in .envrc": ("echo 'PATH_add scripts' > .envrc; mkdir scripts", "scripts/git"),
    "missing script in .envrc": ("echo 'source_env_if_exists mine.sh' > .envrc", "mine.sh"),
    "script in .Rprofile": ("echo 'source(\"setup.R\")' > .Rprofile; : > setup.R", "setup.R"),
}


@pytest.mark.parametrize("name", NAMED)
async def test_what_a_persons_own_settings_name_stays_as_it_is(project: Path, name: str) -> None:
    before, place = NAMED[name]
    shell(project, f"{BEFORE}\n{before}")
    content = (project / place).read_text() if (project / place).exists() else None
    await run(project, f"mkdir -p {parts(place)['folder']}; echo evil > {place}; mv {place} x; echo evil > {place}")
    assert ((project / place).read_text() if (project / place).exists() else None) == content


async def test_settings_that_a_command_leaves_rename_nothing_else(project: Path) -> None:
    (project / "work.sh").write_text("mine")
    await run(project, "echo 'source ./work.sh' > .envrc")
    await run(project, ":")
    assert (project / "work.sh").read_text() == "mine"


async def test_a_folder_that_git_takes_for_a_repository_runs_nothing(project: Path) -> None:
    await run(project, "mkdir -p bare && cd bare && git init -q --bare . && git config core.fsmonitor ./evil")
    assert "fsmonitor" not in (project / "bare/config").read_text()


async def test_files_that_were_there_stay_where_they_are_however_many_entries_a_command_makes(project: Path) -> None:
    shell(
        project, "mkdir -p sub/.vscode; echo mine | tee sub/.envrc > sub/.vscode/tasks.json; git init -q sub/repository"
    )
    before = files(project)
    said = await run(project, "seq 20001 | xargs touch; mkdir -p other/.vscode")
    assert before - files(project) == set()
    assert "renamed to .vscode.set-aside-1" in said
    assert "sub" not in said


def test_no_folder_is_closed_to_its_owner_with_such_a_file_in_it(tmp_path: Path) -> None:
    """In a process without root's rights, which need none."""
    project = tmp_path / "project"
    project.mkdir()
    own = os.geteuid() or 65534
    for folder in (project, *project.parents):
        if folder.stat().st_uid == os.geteuid() and folder.is_relative_to(tmp_path.parents[2]):
            folder.chmod(folder.stat().st_mode | 0o055)
    os.chown(project, own, -1)
    child = os.fork()
    if not child:
        status = 1
        try:
            if os.geteuid() == 0:
                os.setuid(own)
            guard = GuardedPaths.of(project, {})
            shell(project, CLOSED)
            guard.clean({})
            status = int(any((project / place / ".envrc").exists() for place in ("a", "b", "c", "d/e")))
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


CLOSED = """
mkdir -p a b c d/e; for folder in a b c d/e; do echo evil > $folder/.envrc; done
chmod 311 a; chmod 555 b; chmod 000 c; chmod 000 d/e d
"""


async def test_a_folder_with_too_many_entries_is_said(project: Path) -> None:
    shell(project, "mkdir -p many/inner; cd many; seq 20001 | xargs touch")
    (project / "zoo").mkdir()
    said = await run(project, "mkdir -p .vscode zoo/.vscode")
    assert "renamed to .vscode.set-aside-1" in said
    assert said.count("too many entries to look through them all") == 1
    assert "too many entries" not in await run(project, ":")


@pytest.mark.parametrize("folder", ["sub", "."])
async def test_git_takes_no_settings_from_a_common_folder(project: Path, folder: str) -> None:
    shell(project, f"{BEFORE}\nmkdir sub")
    make = (
        "mkdir -p a/b/c/d; cp -r .git a/b/c/d/e; git config -f a/b/c/d/e/config core.fsmonitor 'touch ran; false';"
        f"p=$PWD; cd {folder}; cp $p/.git/HEAD . ; echo $p/a/b/c/d/e > commondir; echo $p/a/b/c/d/e > $p/.git/commondir"
    )
    await run(project, make)
    shell(project / folder, "git status || true")
    assert "ran" not in {path.name for path in files(project)}


@pytest.mark.parametrize("make", ["truncate -s 20G .git/config", "mkfifo .git/config", "ln -s /dev/zero .git/config"])
async def test_settings_that_are_no_text_take_no_memory_and_no_time(project: Path, make: str) -> None:
    said = await run(project, f"mkdir -p .git/objects .git/refs; echo 'ref: refs/heads/x' > .git/HEAD; {make}")
    assert "set-aside" in said
    assert not exists(project / ".git/config") or (project / ".git/config").read_text() == ""


async def test_a_missing_folder_of_programs_cannot_be_made(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{project}/bin:{os.environ['PATH']}")
    said = await run(project, "mkdir bin; echo echo evil > bin/git; chmod +x bin/git")
    assert "bin.set-aside-1" in said
    assert not (project / "bin").exists()


async def test_hidden_files_of_unknown_purpose_are_said(project: Path) -> None:
    said = await run(
        project, "mkdir .newagent .pytest_cache; touch .newagent/rules.md .gitignore .python-version a.txt"
    )
    assert "made hidden files" in said
    assert said.endswith(": .newagent.")


async def test_what_runs_later_is_said(project: Path) -> None:
    (project / "Makefile").write_text("a:\n")
    said = await run(
        project, "echo 1 > data; touch conftest.py; echo b: >> Makefile; echo x = 1 > pandas.py; touch json.pyc"
    )
    assert "that other programs run automatically: Makefile, conftest.py." in said
    assert "hide installed ones of their name: json, pandas" in said
    assert "automatically" not in await run(project, "echo 2 > data")


LATER = """setup.cfg .python-version Dockerfile.dev Containerfile .justfile pnpm-workspace.yaml environment.yml Pipfile
pixi.toml flake.nix devbox.json rust-toolchain.toml gradle-wrapper.properties jupytext.toml jupyter_server_config.py
ipython_config.py kernel.json evil.desktop mise.ci.toml""".split()


async def test_a_new_environment_and_settings_of_tools_are_said(project: Path) -> None:
    shell(project, "mkdir -p old/bin; touch old/bin/activate")
    command = f"mkdir .venv; touch .venv/pyvenv.cfg {' '.join(LATER)}; echo 1 > old/bin/activate"
    said = (await run(project, command)).rpartition("\n")[2]
    names = (
        said.removeprefix("This command changed files that other programs run automatically: ").rstrip(".").split(", ")
    )
    assert sorted(names) == sorted([*LATER, ".venv/pyvenv.cfg", "old/bin/activate"])


async def test_what_is_approved_can_be_changed(project: Path) -> None:
    (project / ".vscode").mkdir()
    assert "Read-only" in await run(project, "echo 1 > .vscode/a")
    assert (
        await run(project, f"PLANCK_NB_SANDBOX_ALLOW=write:{project}/.vscode sh -c 'echo 1 > .vscode/a'")
        == "(no output)"
    )
    assert (project / ".vscode/a").read_text() == "1\n"


async def test_no_program_is_taken_from_where_commands_can_write(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with an activated environment in the project."""
    (project / ".venv/bin").mkdir(parents=True)
    monkeypatch.setenv("PATH", f"{project}/.venv/bin:{os.environ['PATH']}")
    script = f"'#!/bin/sh\\ntouch {project}/PWNED\\n'"
    for folder in (".venv/bin", "tools"):
        (project / folder).mkdir(exist_ok=True)
        await run(
            project, f"for name in bwrap uv python3; do printf {script} > {folder}/$name; done; chmod +x {folder}/*"
        )
    monkeypatch.setenv("PATH", f"{project}/tools:{os.environ['PATH']}")
    assert await run(project, "echo hello") == "hello\n"
    assert not (project / "PWNED").exists()
    assert find_program("bwrap") == shutil.which("bwrap", path="/usr/bin:/bin:/usr/local/bin")


def test_a_program_that_appears_later_is_not_used(project: Path, tmp_path: Path) -> None:
    search_path = f"{tmp_path}/early:{tmp_path}/late"
    late = tmp_path / "late/tool"
    late.parent.mkdir()
    shutil.copy(sys.executable, late)
    assert find_program("tool", search_path=search_path) == str(late)
    (tmp_path / "early").mkdir()
    shutil.copy(sys.executable, tmp_path / "early/tool")
    assert find_program("tool", search_path=search_path) == str(late)
    assert find_program("tool", search_path=search_path, writable=[tmp_path / "late"]) is None


@pytest.mark.parametrize(
    "variable",
    ["PLANCK_NB_ENV_FILE", "PLANCK_NB_MODELS_FILE", "BASH_ENV", "JUPYTER_PATH", "ZDOTDIR", "PIP_CONFIG_FILE"],
)
async def test_a_file_that_a_variable_names_stays_as_it_is(
    project: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    (project / "named").write_text("mine")
    monkeypatch.setenv(variable, "named" if variable != "BASH_ENV" else str(project / "named"))
    await run(project, "echo evil > named; rm -f named; echo evil > named")
    assert (project / "named").read_text() == "mine"
