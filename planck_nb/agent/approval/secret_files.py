"""Files that look like secrets: keys, passwords, tokens, and what gives access to them. This is the only list.

The name is enough: the content of such a file is not looked at. Case does not matter.
"""

from __future__ import annotations

import re
import site
import sys
from fnmatch import fnmatchcase, translate
from glob import has_magic, iglob
from itertools import islice
from os import path as os_path
from pathlib import Path

from planck_nb.agent.approval.paths import resolved

_NAMES = (
    ".env* .flaskenv *.pem *.key *.p12 *.pfx *.jks *.keystore *.kdbx *.kdb *.ppk *.p8 id_rsa* id_dsa* id_ecdsa* "
    "id_ed25519* ssh_host_*_key .netrc _netrc .authinfo* .git-credentials .npmrc .yarnrc.yml .pypirc .pgpass "
    "pgpass.conf .my.cnf .mylogin.cnf .htpasswd .s3cfg .boto .dockercfg .databrickscfg .terraformrc *.tfvars "
    "terraform.tfstate* credentials* *_credentials.json client_secret*.json service[-_]account*.json kaggle.json "
    "secrets.toml secrets.json secrets.y*ml .secrets .vault-token .vault_pass* logins.json key[34].db "
    "cookies.sqlite jupyter_cookie_secret jpserver-*.json nbserver-*.json kernel-*.json *.gpg *.age "
    ".bash_history .zsh_history .psql_history .mysql_history .python_history .rediscli_auth .modal.toml  "
    "auth.json .cdsapirc .smbcredentials wallet.dat"
).split()
"""Patterns for the last name of a path."""

_FOLDERS = (
    ".ssh .aws .azure .gnupg .kube .oci .password-store .mozilla .thunderbird .bitcoin .ethereum .electrum .snowflake "
    ".kaggle .docker/config.json .config/gcloud .config/doctl .config/gh .config/glab-cli .config/hub .config/op "
    ".config/rclone .config/sops .config/heroku .config/google-chrome .config/chromium .config/bravesoftware "
    ".config/microsoft-edge .config/vivaldi .config/opera .config/pypoetry/auth.toml .config/configstore "
    ".huggingface/token .cache/huggingface/token .config/huggingface .cargo/credentials.toml .terraform.d "
    ".subversion/auth .local/share/keyrings .local/share/kwalletd .local/share/jupyter/runtime "
    "library/keychains library/jupyter/runtime application?support/google/chrome application?support/firefox "
    "application?support/bravesoftware google/chrome/user?data mozilla/firefox microsoft/credentials "
    ".planck/key* .planck/trust* .planck/sign-in run/secrets"
).split()
"""Consecutive names anywhere in a path; everything below them is secret, too."""

SYSTEM_FILES = (
    *("/etc/shadow", "/etc/gshadow", "/etc/shadow-", "/etc/gshadow-", "/etc/sudoers"),
    *("/etc/security/opasswd", "/etc/krb5.keytab"),
)
"""Secrets of the system; their names are secret anywhere."""

SYSTEM_FOLDERS = ("/etc/sudoers.d", "/etc/ssl/private", "/etc/kubernetes", "/etc/NetworkManager/system-connections")
"""Folders of secrets of the system."""

_HARMLESS = frozenset({".ipynb_checkpoints", ".gitignore", ".venv", ".cache"})
"""Hidden names in a home folder which are not private."""

_ALL_NAMES = (*_NAMES, *(path.rpartition("/")[2] for path in SYSTEM_FILES))
_ANY_NAME = re.compile("|".join(map(translate, _ALL_NAMES)))
_FOLDER_PARTS = tuple(tuple(folder.strip("/").split("/")) for folder in map(str.casefold, (*_FOLDERS, *SYSTEM_FOLDERS)))

_PROCESS = re.compile(r"/proc/([^/]+/|[^/]+/task/[^/]+/)(environ|mem|auxv)|/proc/kcore|/dev/(mem|kmem)")
_KEY_WITHOUT_SUFFIX = re.compile(r"id_\w+(_sk)?")

_SEPARATORS = re.compile(r"[\s;&|<>()'\"`,=:@!$#]+")
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_MAX_WORDS = 5_000
TOO_MANY = " "
"""In place of further words, which would take too long."""

_MAX_DEPTH = 3
_MAX_FILES = 2_000
_SAMPLES = ("id_rsa", "credentials", "server.pem", "server.key", "secrets.toml", "kaggle.json", "auth.json")
_HIDDEN_SAMPLES = (".env", ".netrc", ".npmrc", ".pypirc", ".pgpass", ".git-credentials", ".ssh", ".aws", ".kube")


def is_secret_path(path: Path | str) -> bool:
    """Return whether a path looks like a secret file or a folder of secrets."""
    text = os_path.normpath(str(path)).casefold()
    parts = text.strip("/").split("/")
    return bool(_PROCESS.search(text)) or _is_secret_name(parts[-1]) or _is_below_secrets(parts)


def is_hidden_at_home(path: Path, root: Path | None) -> bool:
    """Return whether a path is hidden in the home folder.

    This Python's own files and a project in such an entry do not count.

    Args:
        path: The path, with links followed.
        root: The project's folder, with links followed; None without one.
    """
    home = _home()
    if home is None or not path.is_relative_to(home) or path == home:
        return False
    if root is not None and root != home and root.is_relative_to(home) and path.is_relative_to(root):
        return False
    pythons = (sys.prefix, sys.base_prefix, site.getusersitepackages())
    name = path.relative_to(home).parts[0]
    return name.startswith(".") and name not in _HARMLESS and not any(path.is_relative_to(folder) for folder in pythons)


def _home() -> Path | None:
    try:
        return Path.home().resolve()
    except (OSError, RuntimeError):
        return None


def secret_words(text: str, folder: Path | None) -> list[str]:
    """Return a command's words for secrets, as far as its text shows them.

    Patterns are compared with existing files; what variables, substitutions or programs make of the text is not known.

    Args:
        text: The command without its quotes and backslashes, which do not hide a name.
        folder: The folder in which it runs; None if that is not known.

    Returns:
        The words, and `TOO_MANY` if there are more than can be looked at.
    """
    words = path_words(text)
    moves = any(word in ("cd", "pushd") for word in words)
    return [word for word in words if word == TOO_MANY or _names_secret(word, None if moves else folder)]


def path_words(text: str) -> list[str]:
    """Return the possible paths in a text, with alternatives in braces written out.

    Args:
        text: The text of a command, or one of its words.

    Returns:
        Each piece once, and `TOO_MANY` at the end if there are more.
    """
    pieces: dict[str, None] = {}
    waiting = text.split()[::-1]
    for _ in range(2 * _MAX_WORDS):
        if not waiting:
            return list(pieces)
        word = waiting.pop()
        braces = _BRACES.search(word)
        if braces is not None:
            waiting += [word[: braces.start()] + part + word[braces.end() :] for part in braces[1].split(",")]
            continue
        for piece in _SEPARATORS.split(word):
            pieces[piece] = None
            if piece.startswith("-") and not piece.startswith("--"):
                pieces[piece[2:]] = None  # such as -f.env
        if len(pieces) > _MAX_WORDS:
            break
    return [*pieces, TOO_MANY]


def _names_secret(word: str, root: Path | None) -> bool:
    if not word or is_secret_path(word):
        return bool(word)
    if not has_magic(word):
        path = None if root is None else resolved(_expanded(word), root)
        return path is not None and is_secret_path(path)
    if word.count("/") > _MAX_DEPTH and has_magic(word.rpartition("/")[0]):
        return True  # finding out could take a long time
    if root is None:
        name = word.rstrip("/").rpartition("/")[2].casefold()
        samples = _HIDDEN_SAMPLES if name.startswith(".") else _SAMPLES
        return any(fnmatchcase(sample, name) for sample in samples)
    files = matching_files(word, root)
    return files is None or any(is_secret_path(path) for path in files)


def matching_files(pattern: str, folder: Path) -> list[Path] | None:
    """Return a pattern's files, links followed; None for too many."""
    try:
        names = iglob(_expanded(pattern), root_dir=folder)  # noqa: PTH207 - skips hidden files, as a shell does
        files = [resolved(name, folder) or folder / name for name in islice(names, _MAX_FILES)]
    except (OSError, ValueError, re.error):
        return None
    return None if len(files) == _MAX_FILES else files


def _expanded(word: str) -> str:
    return os_path.expanduser(word)  # noqa: PTH111 - the word may be no path at all, and then stays as it is


def _is_secret_name(name: str) -> bool:
    return bool(_KEY_WITHOUT_SUFFIX.fullmatch(name)) or _ANY_NAME.match(name) is not None


def _is_below_secrets(parts: list[str]) -> bool:
    return any(
        all(map(fnmatchcase, parts[start : start + len(folder)], folder))
        for folder in _FOLDER_PARTS
        for start in range(len(parts) - len(folder) + 1)
    )
