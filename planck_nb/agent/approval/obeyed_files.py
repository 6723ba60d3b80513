"""Files which programs obey by themselves. This is the only list.

A shell, Python, git, an editor or an agent runs or follows them when it starts or opens their folder.
"""

from __future__ import annotations

from pathlib import Path

NAMES = frozenset(
    """
    .vscode .idea .zed .fleet .devcontainer .devcontainer.json .nova .sublime-workspace .theia .eclipse .settings
    .exrc .nexrc .nvimrc .nvim.lua .vimrc .gvimrc .lvimrc .local.vimrc .nvim .vim .dir-locals.el .dir-locals-2.el
    .projectile .emacs .emacs.d .helix .kakrc .nanorc .lldbinit .gdbinit .idlerc

    .planck .mcp.json mcp.json .cursor .cursorrules .claude .claude.json .codex .gemini .continue .aider.conf.yml
    .aider.conf.yaml .windsurf .windsurfrules .roo .roomodes .kiro .kilocode .clinerules .cline .junie .amazonq
    .augment .opencode opencode.json .goosehints .goose .trae .qwen .crush .crush.json AGENTS.md CLAUDE.md
    CLAUDE.local.md GEMINI.md

    .envrc .env.fish .autoenv.zsh .autoenv .in .out .mise.toml mise.toml .mise .rtx.toml .tool-versions .asdfrc
    .husky .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin
    .zlogout .kshrc .cshrc .tcshrc .login .logout .inputrc .xinitrc .xsession .xprofile .xsessionrc .tmux.conf
    .screenrc .direnvrc .shellrc

    sitecustomize.py usercustomize.py .pythonrc .pythonrc.py .pythonstartup .pdbrc .pdbrc.py .ipython .jupyter
    .Rprofile .Renviron .irbrc .pryrc .gemrc .perldb .psqlrc .sqliterc .duckdbrc .my.cnf .ghci .npmrc .yarnrc
    .yarnrc.yml .pnpmfile.cjs .pnp.cjs .pnp.loader.mjs .bunfig.toml .noderc .julia .octaverc .sbtrc .curlrc .wgetrc
    .pypirc .condarc

    .gitconfig .hgrc
    """.split()
)
"""Files and folders for editors, agents, shells, languages and repositories."""

NAMES_IN = {
    ".github": frozenset({"copilot-instructions.md", "instructions", "prompts", "chatmodes", "agents"}),
    ".yarn": frozenset({"releases", "plugins", "sdks"}),
    ".cargo": frozenset({"config", "config.toml"}),
    ".bundle": frozenset({"config"}),
    ".mvn": frozenset({"wrapper", "extensions.xml", "jvm.config", "maven.config"}),
    ".hg": frozenset({"hgrc"}),
}
"""Names in a folder whose other entries are ordinary."""

ENDS = (".pth", ".code-workspace", ".vim.local")
IN_GIT = ("config", "config.worktree", "hooks", "modules")
"""Names in `.git`."""


def is_obeyed(path: Path, root: Path | None) -> bool:
    """Return whether programs obey a file by itself.

    Args:
        path: The file, or one in a folder which they obey.
        root: The project's folder, whose own name does not count; None if there is none.
    """
    parts = path.relative_to(root).parts if root is not None and path.is_relative_to(root) else path.parts
    if not parts:
        return False
    pairs = zip(parts, (*parts[1:], ""), strict=True)
    return parts[-1].endswith(ENDS) or any(
        part in NAMES or inner in NAMES_IN.get(part, ()) or (part == ".git" and inner in (*IN_GIT, ""))
        for part, inner in pairs
    )
