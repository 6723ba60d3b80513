"""The way to start or reach a sidecar."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from planck_nb.base.errors import ConfigError
from planck_nb.base.secrets import is_generated_key, known_secrets

PROJECT_NAME = "sidecar"
"""The name of a project's own sidecar unless another one is chosen."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,39}")
_SCHEMES = ("http", "https")


@dataclass(frozen=True, slots=True)
class OAuthClient:
    """planck_nb as a client at a server which requires a sign-in.

    By default it registers itself.

    Args:
        client_id: The id for a client which was registered by hand.
        client_secret: Its secret, if any.
        metadata_url: Address of a client metadata document, which some servers accept as an id.
        callback_port: Port of the loopback address for the browser's return, if it was registered; 0 for any.
        issuer: Address of the authorization server with that client, which alone gets the secret.
    """

    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    metadata_url: str = ""
    callback_port: int = 0
    issuer: str = ""

    def problem(self) -> str:
        """Return a problem with these settings and its solution, empty without one."""
        if self.client_secret and not self.issuer:
            return (
                "a `clientSecret` without the `issuer` that may get it; write the address of its authorization server "
                "beside it, such as https://login.example.org"
            )
        if self.issuer and _problem_of_address(self.issuer):
            return "an `issuer` that is not an address; write it as https://login.example.org"
        if self.metadata_url and not re.fullmatch(r"https://[^/\s]+/\S+", self.metadata_url):
            return "a client metadata document without an address such as https://example.org/client.json; correct it"
        if not 0 <= self.callback_port < 2**16:
            return "a callback port that is not a number from 0 to 65535; correct it"
        return ""


@dataclass(frozen=True, slots=True)
class SidecarSpec:
    """The way to start a sidecar, or its address.

    It has either a command or an address.

    Args:
        name: 1 to 40 letters from a to z or A to Z, digits, `_`, `-` and `.`, with a letter or a digit first.
        command: The program to start, which speaks MCP on its standard input and output.
        args: The program's arguments.
        env: Environment variables for the program, in addition to `HOME`, `PATH`, the locale and a few more; the
            kernel's others are hidden from it. Their values are secrets.
        cwd: The program's working directory, None for the session's.
        url: Address of a server which speaks MCP over Streamable HTTP.
        headers: HTTP headers for each request to it. Their values are secrets.
        token: The bearer token for it.
        token_variable: The token's environment variable, for showing.
        source: The sidecar's configuration file, None for one made by a program.
        sampling: Whether the sidecar may ask the user's models for replies.
        roots: Whether the sidecar is told the session's folder.
        observers: Whether its observers get the session's events; a configuration file cannot say so.
        oauth: planck_nb as a client at a server which requires a sign-in.
        inserted: Values of environment variables in its entry, by variable; they are secrets.
        npx_shell: File for a shell, if npx must not take packages from the working directory.

    Raises:
        ConfigError: If a field is invalid, or there is neither a command nor an address, or both.

    Example:
        >>> SidecarSpec("files", command="npx", args=("-y", "some-server")).transport
        'stdio'
    """

    name: str
    command: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    cwd: Path | None = None
    url: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    token: str = field(default="", repr=False)
    token_variable: str = ""
    source: Path | None = None
    sampling: bool = False
    roots: bool = False
    observers: bool = True
    oauth: OAuthClient = field(default_factory=OAuthClient)
    inserted: Mapping[str, str] = field(default_factory=dict, repr=False)
    npx_shell: Path | None = None

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
        if problem := self.oauth.problem():
            raise ConfigError(f"The sidecar {self.name} has {problem}.")

    @property
    def transport(self) -> str:
        """Return the connection type: "stdio" or "http"."""
        return "stdio" if self.command else "http"

    def secrets(self) -> dict[str, str]:
        """Return the secrets in its entry, with inserted values.

        Returns:
            Descriptions, which do not show the values, by value.
        """
        return {
            value: f"the value of {name} of the sidecar {self.name}"
            for name, text in self._secret_fields()
            for value in known_secrets({f"{name}_SECRET": text})
        }

    def _secret_fields(self) -> Iterator[tuple[str, str]]:
        yield from self.inserted.items()
        yield from self.env.items()
        yield from parse_qsl(urlsplit(self.url).query)
        yield from (("the address", key) for key in keys_in_path(self.url))
        for name, value in self.headers.items():
            yield name, value
            yield name, value.rpartition(" ")[2]  # without "Bearer", which a server may leave out when it quotes it
        yield self.token_variable or "the token", self.token
        yield "the client secret", self.oauth.client_secret


def keys_in_path(url: str) -> list[str]:
    """Return generated keys in an address's path, where some services have them.

    Example:
        >>> keys_in_path("https://mcp.example/s/9f9f9f9f9f9f9f9f9f9f/weather-server-v2")
        ['9f9f9f9f9f9f9f9f9f9f']
    """
    return [part for part in urlsplit(url).path.split("/") if any(map(is_generated_key, part.split("-")))]


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
