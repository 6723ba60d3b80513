"""How a sidecar is started or reached."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from planck_nb.base.errors import ConfigError
from planck_nb.base.secrets import known_secrets

PROJECT_NAME = "sidecar"
"""The name of a project's own sidecar unless another one is chosen."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """How planck_nb is known to a server that requires a sign-in. By default it registers itself.

    Args:
        client_id: The id of a client that was registered by hand.
        client_secret: Its secret, if it has one.
        metadata_url: The address of a client metadata document, which some servers accept as an id.
        callback_port: The port of the loopback address that the browser comes back to, if it was registered; 0 for any.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    metadata_url: str = ""
    callback_port: int = 0


@dataclass(frozen=True, slots=True)
class SidecarSpec:
    """How a sidecar is started, or where it is reached. It has either a command or an address.

    Args:
        name: 1 to 40 letters from a to z or A to Z, digits, `_`, `-` and `.`, the first one a letter or a digit.
        command: The program to start, which speaks MCP on its standard input and output.
        args: The arguments of the program.
        env: Environment variables for the program, in addition to `HOME`, `PATH`, the locale and a few more; it gets
            none of the kernel's others. Their values are secrets.
        cwd: The working directory of the program, None for that of the session.
        url: The address of a server that speaks MCP over Streamable HTTP.
        headers: HTTP headers for each request to it. Their values are secrets.
        token: The bearer token that is sent to it.
        token_variable: The environment variable that the token was read from, to be shown.
        source: The file that the sidecar is configured in, None if a program made this.
        sampling: Whether the sidecar may ask for replies of the user's models.
        roots: Whether the sidecar is told the folder of the session.
        oauth: How planck_nb is known to a server that requires a sign-in.

    Raises:
        ConfigError: If a field is not valid, or there is neither a command nor an address, or both.

    Example:
        >>> SidecarSpec("files", command="npx", args=("-y", "some-server")).transport
        'stdio'
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token: str = field(default="", repr=False)
    token_variable: str = ""
    source: Path | None = None
    sampling: bool = False
    roots: bool = False
    oauth: OAuthClient = field(default_factory=OAuthClient)

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ConfigError(
                f"{self.name!r} cannot be the name of a sidecar; use 1 to 40 letters from a to z, digits, '_', '-' "
                "and '.', and begin with a letter or a digit."
            )
        if bool(self.command) == bool(self.url):
            what = "both a command and an address" if self.command else "neither a command nor an address"
            raise ConfigError(f"The sidecar {self.name} has {what}; give it either `command` or `url`.")
        if any("\0" in text for text in (self.command, *self.args, *self.env, *self.env.values())):
            raise ConfigError(f"The command of the sidecar {self.name} contains a null character; remove it.")
        if any(not name or "=" in name for name in self.env):
            raise ConfigError(
                f"The sidecar {self.name} sets a variable whose name is empty or contains '='; rename it."
            )
        if (
            any(not text.isprintable() for pair in self.headers.items() for text in pair)
            or not self.token.isprintable()
        ):
            raise ConfigError(f"The headers of the sidecar {self.name} contain line breaks or controls; remove them.")
        if self.url and (problem := _problem_of_address(self.url)):
            raise ConfigError(f"The address of the sidecar {self.name} {problem}.")
        if (document := self.oauth.metadata_url) and not re.fullmatch(r"https://[^/\s]+/\S+", document):
            raise ConfigError(
                f"The client metadata document of the sidecar {self.name} needs an address such as "
                "https://example.org/client.json."
            )
        if not 0 <= self.oauth.callback_port < 2**16:
            raise ConfigError(f"The callback port of the sidecar {self.name} must be a number from 0 to 65535.")

    @property
    def transport(self) -> str:
        """How it is connected: "stdio" or "http"."""
        return "stdio" if self.command else "http"

    def secrets(self) -> dict[str, str]:
        """Return the values in `env` and `headers` that are specific enough to be recognised, and the token.

        Returns:
            Descriptions, which do not show the values, by value.
        """
        return {
            value: f"the value of {name} of the sidecar {self.name}"
            for name, given in self._secret_fields()
            for value in known_secrets({f"{name}_SECRET": given})
        }

    def _secret_fields(self) -> Iterator[tuple[str, str]]:
        yield from self.env.items()
        for name, value in self.headers.items():
            yield name, value
            yield name, value.rpartition(" ")[2]  # without "Bearer", which a server may leave out when it quotes it
        yield self.token_variable or "the token", self.token
        yield "the client secret", self.oauth.client_secret


def _problem_of_address(url: str) -> str:
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return "cannot be read; write it as http://HOST:PORT/mcp"
    if parts.scheme not in _SCHEMES or not parts.hostname:
        return "is not an address of HTTP; write it as http://HOST:PORT/mcp"
    if parts.username is not None or parts.password is not None:
        return "contains a user name or a password; put it into `headers` or a token"
    return ""
