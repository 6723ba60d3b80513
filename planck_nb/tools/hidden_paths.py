"""Files and folders that commands in the sandbox do not see: keys, passwords, tokens, and addresses of this kernel."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

_IN_HOME = (
    ".aws .azure .bash_history .bitcoin .boto .cargo/credentials .cargo/credentials.toml .config/BraveSoftware "
    ".config/chromium .config/doctl .config/gcloud .config/gh .config/git/credentials .config/glab-cli "
    ".config/google-chrome .config/hub .config/huggingface .config/op .config/pypoetry/auth.toml .config/rclone "
    ".config/sops .databrickscfg .docker .electrum .ethereum .gem/credentials .git-credentials .gnupg .huggingface "
    ".jupyter .kaggle .kube .local/share/jupyter/runtime .local/share/keyrings .modal.toml .mozilla .my.cnf .netrc "
    ".npmrc .oci .password-store .pgpass .pypirc .python_history .s3cfg .snowflake .ssh .subversion/auth "
    ".terraform.d/credentials.tfrc.json .thunderbird .vault-token .wandb .yarnrc.yml .zsh_history _netrc"
).split()
"""Below the home folder."""

_OF_SYSTEM = ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/sudoers.d", "/etc/ssl/private", "/var/lib/docker")
"""What root could read."""

_OF_PRODUCT = (".planck/key", ".planck/keys", ".planck/trust", ".planck/trust.json")
"""The product's own, below the home folder: which folders are trusted, and the key that signs grants."""

_NAMED_BY = ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "GNUPGHOME", "DOCKER_CONFIG", "KUBECONFIG", "PGPASSFILE")
"""Variables with the paths of such files and folders."""


def hidden_paths(home: Path | None, environment: Mapping[str, str]) -> list[Path]:
    """Return those that exist, with links followed."""
    named = [path for name in _NAMED_BY for path in environment.get(name, "").split(":") if path.startswith("/")]
    below_home = () if home is None else (home / name for name in (*_IN_HOME, *_OF_PRODUCT))
    candidates = [*below_home, *map(Path, (*_OF_SYSTEM, *named))]
    found: dict[Path, None] = {}
    for path in candidates:
        try:
            if path.exists() and (resolved := path.resolve()) not in (home, Path("/")):
                found[resolved] = None
        except (OSError, RuntimeError):
            continue
    return list(found)
