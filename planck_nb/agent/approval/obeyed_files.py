"""Files which programs obey by themselves. This is the only list.

A shell, Python, git, an editor or an agent runs or follows them when it starts or opens their folder.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from glob import has_magic
from os import path as os_path
from pathlib import Path

from planck_nb.agent.approval.paths import ignores_case, resolved
from planck_nb.agent.approval.secret_files import TOO_MANY, matching_files, path_words

NAMES = frozenset(
    """
    .vscode .idea .zed .fleet .devcontainer .devcontainer.json .nova .sublime-workspace .theia .eclipse .settings
    .exrc .nexrc .nvimrc .nvim.lua .vimrc .gvimrc .lvimrc .local.vimrc .nvim .vim .dir-locals.el .dir-locals-2.el
    .projectile .emacs .emacs.d .helix .kakrc .nanorc .lldbinit .gdbinit .gdbearlyinit .radare2rc .idlerc .vimrc.local
    .neoconf.json .vs .run .lapce .kak .gitpod.yml .idx .replit .clangd hie.yaml

    .planck .mcp.json mcp.json .cursor .cursorrules .claude .claude.json .codex .gemini .continue .aider.conf.yml
    .aider.conf.yaml .windsurf .windsurfrules .roo .roomodes .kiro .kilocode .clinerules .cline .junie .amazonq
    .augment .opencode opencode.json .goosehints .goose .trae .qwen .crush .crush.json AGENTS.md CLAUDE.md
    CLAUDE.local.md GEMINI.md AGENTS.override.md AGENT.md AGENTS.local.md QWEN.md CRUSH.md WARP.md GROK.md replit.md
    opencode.jsonc crush.json .agents .agent .agents.md .aiassistant .amp .openhands .warp .grok .droid .antigravity
    .rules .roorules .continuerules .kilocodemodes .augment-guidelines .aider.model.settings.yml .sourcegraph .cody
    .tabnine .rovodev .zencoder .firebender firebender.json .iflow .codebuddy .lingma .kimi .pi .copilot .mcp .ruler
    .rulesync .sweep.yaml .void .pearai .bolt .factory .vibe .forge forge.yaml .trunk

    .envrc .env.fish .env.zsh .autoenv.zsh .autoenv .in .out .mise.toml mise.toml .mise mise.local.toml .mise.local.toml
    .smartcd .ondirrc .localrc .cd.sh profile.ps1 .xonshrc .mkshrc .shrc .pam_environment .rtx.toml .tool-versions
    .envrc.local .envrc.private .direnv .devenv .devbox .flox .githooks .git-hooks
    .asdfrc .husky .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile
    .zlogin .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .xinitrc .xsession .xprofile .xsessionrc .tmux.conf
    .screenrc .direnvrc .shellrc

    sitecustomize.py usercustomize.py .pythonrc .pythonrc.py .pythonstartup .pdbrc .pdbrc.py .ipython .jupyter
    .Rprofile .Renviron .irbrc .pryrc .gemrc .perldb .psqlrc .sqliterc .duckdbrc .my.cnf .ghci .npmrc .yarnrc
    .yarnrc.yml .pnpmfile.cjs .pnp.cjs .pnp.loader.mjs .bunfig.toml .noderc .julia .octaverc startup.m .RData .iex.exs
    .utop .ocamlinit .sbclrc .guile .byebugrc .rdbgrc .ackrc .lesskey .lessfilter .mailcap .sbtrc .curlrc .wgetrc
    .pypirc .condarc uv.toml pip.conf bunfig.toml .pnpmfile.mjs .jupytext.py

    .gitconfig .hgrc
    """.split()
)
"""Files and folders for editors, agents, shells, languages and repositories."""

NAMES_IN = {
    ".github": frozenset({"copilot-instructions.md", "instructions", "prompts", "chatmodes", "agents", "hooks"}),
    ".config": frozenset({"mise", "mise.toml", "fish"}),
    "mise": frozenset({"config.toml", "config.local.toml"}),
    "tools": frozenset({"bazel"}),
    ".jj": frozenset({"repo"}),
    ".sl": frozenset({"config"}),
    "_darcs": frozenset({"prefs"}),
    ".yarn": frozenset({"releases", "plugins", "sdks"}),
    ".cargo": frozenset({"config", "config.toml"}),
    ".bundle": frozenset({"config"}),
    ".mvn": frozenset({"wrapper", "extensions.xml", "jvm.config", "maven.config"}),
    ".hg": frozenset({"hgrc"}),
    ".pixi": frozenset({"config.toml"}),
    "renv": frozenset({"activate.R"}),
}
"""Names in a folder whose other entries are ordinary."""

ENDS = (".pth", ".code-workspace", ".vim.local")
IN_GIT = ("config", "config.worktree", "commondir", "hooks", "modules")
"""Names in `.git`."""


_FOLDED_NAMES = frozenset(name.casefold() for name in NAMES)
_FOLDED_NAMES_IN = {folder: frozenset(name.casefold() for name in names) for folder, names in NAMES_IN.items()}

_ENVIRONMENT = ("pyvenv.cfg", "conda-meta")
"""Names in a Python environment."""

_READERS = frozenset(
    ". [ basename cat cmp cut diff dirname du echo egrep export false fgrep grep head ls md5sum nl od printf pwd "
    "readlink realpath rg sha1sum sha256sum source stat tail test true type unset wc which".split()
)
"""Programs which only read their arguments."""

_READERS_OF_GIT = frozenset("add blame check-ignore commit diff log ls-files rev-parse show status".split())
_CHANGING = {"git": ("--output",), "find": ("-exec", "-ok", "-delete", "-fprint", "-fls")}
"""Beginnings of arguments with which programs change files."""


def is_obeyed(path: Path, root: Path | None) -> bool:
    """Return whether programs obey a file by itself.

    Args:
        path: The file, or one in a folder which they obey.
        root: The project's folder, whose own name does not count; None if there is none.
    """
    inner = root is not None and path.is_relative_to(root)
    parts = path.relative_to(root).parts if root is not None and inner else path.parts
    if not parts:
        return False
    names, names_in = NAMES, NAMES_IN
    if ignores_case(path):
        names, names_in = _FOLDED_NAMES, _FOLDED_NAMES_IN
        parts = tuple(part.casefold() for part in parts)
    pairs = zip(parts, (*parts[1:], ""), strict=True)
    return (
        parts[-1].endswith(ENDS)
        or any(
            part in names or below in names_in.get(part, ()) or (part == ".git" and below in (*IN_GIT, ""))
            for part, below in pairs
        )
        or _is_in_environment(path, root if inner else None)
    )


def _is_in_environment(path: Path, root: Path | None) -> bool:
    """Return whether a path is in a Python environment."""
    folders = [folder for folder in path.parents if root is None or (folder != root and folder.is_relative_to(root))]
    if path.name in _ENVIRONMENT or "site-packages" in path.parts[len(root.parts) if root else 0 :]:
        return True
    return any(
        os_path.lexists(os_path.join(folder, name))  # noqa: PTH118 - texts are faster
        for folder in folders
        for name in _ENVIRONMENT
    )


def obeyed_words(
    calls: Iterable[tuple[Sequence[Sequence[str]], Sequence[str]]], folder: Path | None, root: Path | None
) -> list[str]:
    """Return a command's words for such files.

    Programs which only read them do not count.

    Args:
        calls: For each call, its invocations and the files to which its output is redirected.
        folder: The folder in which it runs; None if unknown.
        root: The project's folder.
    """
    words: list[str] = []
    for invocations, outputs in calls:
        words += outputs
        if invocations and not _only_reads(invocations[-1]):
            words += invocations[0][1:]
    pieces = dict.fromkeys(piece for word in words for piece in path_words(word))
    return [piece for piece in pieces if piece == TOO_MANY or _names_obeyed(piece, folder, root)]


def _only_reads(words: Sequence[str]) -> bool:
    program, arguments = words[0].rpartition("/")[2], words[1:]
    if program in _CHANGING and any(word.startswith(_CHANGING[program]) for word in arguments):
        return False
    return (
        program in _READERS or program == "find" or (program == "git" and not _READERS_OF_GIT.isdisjoint(arguments[:1]))
    )


def _names_obeyed(word: str, folder: Path | None, root: Path | None) -> bool:
    word = os_path.expanduser(word)  # noqa: PTH111 - it may be no path at all, and then stays as it is
    if not word:
        return False
    if has_magic(word):
        files = [] if folder is None else matching_files(word, folder)
        return files is None or any(is_obeyed(path, root) for path in files)
    path = resolved(word, folder)
    return is_obeyed(Path(word) if path is None else path, root)
