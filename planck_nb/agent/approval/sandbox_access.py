"""What a command may reach outside its sandbox, derived from its text.

It is shown for approval, then allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from planck_nb.agent.effect import Effect

VARIABLE = "PLANCK_NB_SANDBOX_ALLOW"
"""An assignment to it at the beginning of a command requests what the command needs."""

_REQUEST = re.compile(rf"""\s*{VARIABLE}=(?:"([^"$`\\]*)"|'([^']*)'|([^\s"'$`\\;&|<>()]*))(?=\s|$)""")

_ALWAYS = frozenset(
    "aria2c aws axel az conda dig doctl docker ftp gcloud gh glab gsutil helm hf host http https huggingface-cli hub "
    "kaggle kubectl lftp mamba micromamba nc ncat netcat nslookup npx ping pipx pnpm podman rsync rclone scp sftp ssh "
    "ssh-copy-id telnet terraform tracepath traceroute twine uvx wget whois yarn curl bunx flyctl heroku ollama "
    "skopeo".split()
)
"""Programs that use the network whatever their arguments."""

_SUBCOMMANDS = {
    "git": "clone fetch pull push ls-remote submodule remote archive lfs",
    "pip": "install download wheel index",
    "uv": "add sync lock pip tool run publish python",
    "poetry": "add install lock publish self update",
    "pdm": "add install lock publish sync update",
    "hatch": "env publish run",
    "npm": "add audit ci create exec i info init install install-test it outdated ping publish search update view",
    "bun": "add create i install update x",
    "deno": "add cache install run",
    "cargo": "add build check fetch install publish run search test update",
    "go": "build get install mod run test",
    "gem": "fetch install push search update",
    "bundle": "add install update",
    "composer": "install require update",
    "apt": "download install update upgrade full-upgrade dist-upgrade source",
    "apk": "add fetch update upgrade",
    "dnf": "install update upgrade download",
    "yum": "install update upgrade",
    "brew": "fetch install update upgrade",
    "mvn": "",
    "gradle": "",
}
"""Programs that use the network with these subcommands, or always if none are listed."""

_SAME_AS = {"pip3": "pip", "apt-get": "apt", "gradlew": "gradle", "mvnw": "mvn"}
_WITH_VALUE = frozenset({"-C", "-c", "--prefix", "--directory", "--project", "--proxy", "--manifest-path"})
_PYTHON = re.compile(r"python[\d.]*|pypy[\d.]*")
_VERSIONED = re.compile(r"pip[\d.]+")


@dataclass(frozen=True, slots=True)
class SandboxAccess:
    """What a command may reach beyond the sandbox.

    Args:
        network: Whether it may use the network.
        read: Paths that it sees although they are hidden otherwise.
        write: Paths that it may change.
    """

    network: bool = False
    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()

    @classmethod
    def of(cls, command: str, invocations: Iterable[Sequence[str]]) -> SandboxAccess:
        """Return a command's needs.

        It needs the network if it runs a program which uses it. It may request more by an assignment at its beginning,
        such as `PLANCK_NB_SANDBOX_ALLOW="network write:/opt/venv"`. A path is allowed only as written, absolute or with
        `~` and without links: what is approved is what is allowed.

        Args:
            command: Its text.
            invocations: The programs which it runs, with their arguments.
        """
        words = _requested(command)
        network = "network" in words or any(map(_uses_network, invocations))
        return cls(network, tuple(_paths(words, "read:")), tuple(_paths(words, "write:")))

    def effects(self) -> list[Effect]:
        """Return the effects that have to be approved before the command gets this."""
        return [
            *([Effect("network")] if self.network else []),
            *(Effect("read", str(path)) for path in self.read),
            *(Effect("write", str(path)) for path in self.write),
        ]

    def limited_to(self, approved: Iterable[Effect]) -> SandboxAccess:
        """Return the part of this that was approved."""
        kinds = {(effect.kind, effect.target) for effect in approved}
        return SandboxAccess(
            self.network and ("network", "") in kinds,
            tuple(path for path in self.read if ("read", str(path)) in kinds),
            tuple(path for path in self.write if ("write", str(path)) in kinds),
        )


def _requested(command: str) -> list[str]:
    found = _REQUEST.match(command)
    return re.split(r"[\s,]+", next((text for text in found.groups() if text), "")) if found else []


def _paths(words: list[str], prefix: str) -> Iterator[Path]:
    for word in words:
        if word.startswith(prefix):
            try:
                path = Path(word.removeprefix(prefix)).expanduser()
                if path.is_absolute() and path.exists() and path.resolve() == path:
                    yield path
            except (OSError, RuntimeError):  # a loop of links; no such user
                continue


def _uses_network(words: Sequence[str]) -> bool:
    """Whether these words run a program that uses the network, judging by its name and subcommand."""
    program, rest = words[0].rpartition("/")[2], words[1:]
    if _PYTHON.fullmatch(program) and "-m" in rest[:-1]:
        at = rest.index("-m")
        program, rest = rest[at + 1], rest[at + 2 :]
    if _VERSIONED.fullmatch(program):
        program = "pip"
    program = _SAME_AS.get(program, program)
    if program in _ALWAYS:
        return True
    if program not in _SUBCOMMANDS:
        return False
    known = _SUBCOMMANDS[program].split()
    return not known or _subcommand(rest) in known


def _subcommand(words: Sequence[str]) -> str:
    """The first word that is neither an option nor the value of one."""
    before = ""
    for word in words:
        if not word.startswith("-") and before not in _WITH_VALUE:
            return word
        before = word
    return ""
