"""Reads sidecars from `mcpServers` in a JSON file.

Many MCP clients share this format.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from planck_nb.base.errors import ConfigError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import printable
from planck_nb.sidecars.mcp_client.sidecar_spec import OAuthClient, SidecarSpec

_VARIABLE = re.compile(r"\$\{([^}]*)\}|(?<!\$)\$([A-Z_][A-Z0-9_]*)")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_HTTP = ("http", "streamable-http", "streamable_http", "streamablehttp")
_TOKEN_FIELDS = ("token_env", "token_variable", "bearer_token_env_var")
_ORDINARY = frozenset({"HOME", "USER", "LOGNAME", "PATH", "PWD", "SHELL", "LANG"})
"""Variables with harmless values, like paths."""

_SHELLS = frozenset({"bash", "cmd", "cmd.exe", "dash", "fish", "powershell", "powershell.exe", "pwsh", "sh", "zsh"})
"""Programs which replace variables in their arguments themselves."""

_EDITOR_FOLDERS = (".vscode", ".cursor")


@dataclass(frozen=True, slots=True)
class WrittenSidecar:
    """A sidecar's entry in a file, with `${NAME}` for variables.

    Args:
        entry: The file's JSON object.
        command: The program and its arguments.
        env: Its environment variables.
        cwd: Its working directory.
        url: The server's address.
        headers: HTTP headers.
        token_variable: The environment variable with the bearer token.
        oauth: Identification for a sign-in.
    """

    entry: JsonObject
    command: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    cwd: str = ""
    url: str = ""
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    token_variable: str = ""
    oauth: OAuthClient = field(default_factory=OAuthClient)


@dataclass(frozen=True, slots=True)
class SpecReport:
    """A file's contents about sidecars.

    Args:
        specs: The usable sidecars.
        written: Each usable sidecar as the file has it, by name.
        problems: A sentence for each other sidecar, and for each variable left as it is.
        disabled: Names of sidecars which the file disables.
    """

    specs: tuple[SidecarSpec, ...] = ()
    problems: tuple[str, ...] = ()
    written: Mapping[str, WrittenSidecar] = field(default_factory=dict)
    disabled: tuple[str, ...] = ()


def read_mcp_servers(
    data: object, *, source: Path | None = None, environment: Mapping[str, str] | None = None
) -> SpecReport:
    """Read sidecars from a JSON file's content.

    `mcpServers` is read, or `servers` as in files for VS Code. `${VAR}`, `${VAR:-default}` and `${env:VAR}` in
    commands, arguments, variables' values, addresses and headers are replaced; `${workspaceFolder}` is the file's
    folder and `${userHome}` is `HOME`. `$VAR` is replaced if the variable is set, as
    [users expect](https://github.com/anthropics/claude-code/issues/6204), except in arguments for a shell. Fields for
    other clients are ignored, such as those which approve calls.

    Args:
        data: The parsed content.
        source: The file; it is named in problems.
        environment: The variables, by default empty.

    Returns:
        The sidecars and the problems.

    Example:
        >>> report = read_mcp_servers({"mcpServers": {"files": {"command": "npx", "args": ["${PACKAGE}"]}}})
        >>> report.problems
        ('The sidecar files needs the environment variable PACKAGE, which is not set; set it, or write ${PACKAGE:-…}.',)
    """
    where = "" if source is None else f" in {source}"
    servers = _servers(data)
    if servers is None:
        subject = "The file" if source is None else str(source)
        return SpecReport(problems=(f'{subject} has no object "mcpServers"; list the sidecars in one, by name.',))
    specs: list[SidecarSpec] = []
    problems: list[str] = []
    disabled: list[str] = []
    by_name: dict[str, WrittenSidecar] = {}
    for key, entry in servers.items():
        name = _clean(str(key))
        if isinstance(entry, Mapping) and (entry.get("disabled") is True or entry.get("enabled") is False):
            disabled.append(name)
            continue
        if any(other.name == name for other in specs):
            problems.append(f"The sidecar {name}{where} is defined twice; rename one of them.")
            continue
        try:
            sidecar = _written(name, str(key), entry)
            variables = _Variables(name, source, environment or {})
            specs.append(_spec(name, sidecar, source, variables))
            problems += (
                f"The sidecar {name}{where} leaves ${variable} as it is, because this environment variable is not set; "
                f"set it, or write ${{{variable}:-…}}."
                for variable in variables.unset
            )
            problems += (
                f"The sidecar {name}{where} gets {printable(field)} with the name of an environment variable which is "
                "not set; set it, or write ${NAME:-…}."
                for field in variables.unset_fields
            )
            by_name[name] = sidecar
        except ConfigError as error:
            problems.append(str(error).replace(f"The sidecar {name} ", f"The sidecar {name}{where} ", 1))
    return SpecReport(tuple(specs), tuple(problems), by_name, tuple(disabled))


def _servers(data: object) -> Mapping[str, Any] | None:
    if not isinstance(data, Mapping):
        return None
    for holder in (data, data.get("mcp")):
        if isinstance(holder, Mapping):
            for key in ("mcpServers", "servers"):
                if isinstance(holder.get(key), Mapping):
                    return dict(holder[key])
    return None


def _clean(key: str) -> str:
    """Return a name for the sidecar.

    The key may be a package name, or several words.
    """
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", key.rpartition("/")[2]).strip("-._")[:40] or "unnamed"


def _written(name: str, key: str, entry: object) -> WrittenSidecar:
    """Read a file's entry without replacing variables. Raises ConfigError."""
    if not isinstance(entry, Mapping):
        raise ConfigError(f"The sidecar {name} is not an object; give it `command` and `args`, or `url`.")
    if not name[0].isalnum() or not re.search(r"[A-Za-z0-9]", key):
        raise ConfigError(f"The sidecar {printable(key)!r} has a name without letters and digits; rename it.")
    if "envFile" in entry:
        raise ConfigError(f"The sidecar {name} uses `envFile`, which is not read; write the variables into `env`.")
    kind = entry.get("type", entry.get("transport", ""))
    if not isinstance(kind, str):  # in other clients' shape it has the headers
        raise ConfigError(
            f"The sidecar {name} has a `transport` that is not a string; write 'stdio' or 'http', and `url` and "
            "`headers` beside it."
        )
    kind = kind.lower()
    if kind == "sse":
        raise ConfigError(
            f"The sidecar {name} uses the transport SSE, which MCP has replaced; give its Streamable HTTP address."
        )
    if kind not in ("", "stdio", *_HTTP):
        raise ConfigError(f"The sidecar {name} has the unknown type {printable(kind)!r}; write 'stdio' or 'http'.")
    url = entry.get("url", entry.get("httpUrl", entry.get("serverUrl", "")))
    command = _text(name, "command", entry.get("command", ""))
    return WrittenSidecar(
        entry=dict(entry),
        command=(command, *_texts(name, entry.get("args", ()))),
        env=_pairs(name, "env", entry.get("env")),
        cwd=_text(name, "cwd", entry.get("cwd", "")),
        url=_text(name, "url", url),
        headers=_pairs(name, "headers", entry.get("headers")),
        token_variable=next((str(entry[field]) for field in _TOKEN_FIELDS if field in entry), ""),
        oauth=_oauth(name, entry.get("oauth")),
    )


def _spec(name: str, sidecar: WrittenSidecar, source: Path | None, variables: _Variables) -> SidecarSpec:
    """Replace the variables. Raises ConfigError."""
    expand = variables.expand
    variable = sidecar.token_variable
    token = variables.environment.get(variable, "") if variable else ""
    if variable and not token:
        raise ConfigError(f"The sidecar {name} needs a token in the environment variable {variable}; set it.")
    command = expand(sidecar.command[0])
    is_shell = re.split(r"[\\/]", command)[-1].lower() in _SHELLS
    args = [expand(argument, bare=not is_shell) for argument in sidecar.command[1:]]
    cwd, oauth = expand(sidecar.cwd), sidecar.oauth
    return SidecarSpec(
        name=name,
        command=command,
        args=tuple(args),
        env={key: expand(value, field=key) for key, value in sidecar.env.items()},
        cwd=Path(cwd) if cwd else None,
        url=expand(sidecar.url),
        headers={key: expand(value, field=key) for key, value in sidecar.headers.items()},
        token=token,
        token_variable=variable,
        source=source,
        sampling=sidecar.entry.get("sampling") is True,
        roots=sidecar.entry.get("roots") is True,
        observers=False,
        oauth=replace(
            oauth,
            client_id=expand(oauth.client_id),
            client_secret=expand(oauth.client_secret),
            issuer=expand(oauth.issuer),
            metadata_url=expand(oauth.metadata_url),
        ),
        inserted=variables.values,
    )


def _oauth(name: str, value: object) -> OAuthClient:
    if value is None or value is False or value is True:
        return OAuthClient()
    if not isinstance(value, Mapping):
        raise ConfigError(f"The sidecar {name} has an `oauth` that is not an object; write `clientId` into one.")
    port = value.get("callbackPort", 0)
    if isinstance(port, bool) or not isinstance(port, int):
        raise ConfigError(f"The sidecar {name} has a `callbackPort` that is not a number; write one without quotes.")
    return OAuthClient(
        client_id=_text(name, "clientId", value.get("clientId", "")),
        client_secret=_text(name, "clientSecret", value.get("clientSecret", "")),
        issuer=_text(name, "issuer", value.get("issuer", "")),
        metadata_url=_text(name, "clientMetadataUrl", value.get("clientMetadataUrl", "")),
        callback_port=port,
    )


def _text(name: str, field: str, value: object) -> str:
    if not isinstance(value, str):
        raise ConfigError(f"The sidecar {name} has a `{field}` that is not a string; write it in quotes.")
    return value


def _texts(name: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise ConfigError(f'The sidecar {name} has `args` that are not a list; write them as ["one", "two"].')
    if any(not isinstance(item, str | int | float) or isinstance(item, bool) for item in value):
        raise ConfigError(f"The sidecar {name} has an argument that is not a string; write it in quotes.")
    return tuple(map(str, value))


def _pairs(name: str, field: str, value: object) -> dict[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"The sidecar {name} has an `{field}` that is not an object; write names and values.")
    result: dict[str, str] = {}
    for key, item in value.items():
        if isinstance(item, bool):
            result[str(key)] = str(item).lower()
        elif isinstance(item, str | int | float):
            result[str(key)] = str(item)
        else:
            raise ConfigError(
                f"The sidecar {name} has a value for {printable(key)} in `{field}` that is not a string; "
                "put it in quotes."
            )
    return result


def _is_a_word(match: re.Match[str]) -> bool:
    """Return whether the name is a word; `pa$WORD` has none."""
    around = match.string[match.start() - 1 : match.start()] + match.string[match.end() : match.end() + 1]
    return not any(character.isalnum() for character in around)


class _Variables:
    """The environment variables for one sidecar.

    Args:
        name: The sidecar's name.
        source: Its file.
        environment: The variables.
    """

    def __init__(self, name: str, source: Path | None, environment: Mapping[str, str]) -> None:
        self.environment = environment
        self.values: dict[str, str] = {}
        """The inserted values, without ordinary ones."""
        self.unset: dict[str, None] = {}
        """Names which were left as they are."""
        self.unset_fields: dict[str, None] = {}
        """Fields with such a name, which may be part of a password."""
        self._name = name
        self._source = source

    def expand(self, text: str, *, bare: bool = True, field: str = "") -> str:
        """Replace the variables in a field. Raises ConfigError."""

        def value_of(match: re.Match[str]) -> str:
            if match[1] is not None:
                return self._value(match[1])
            value = self._look_up(match[2]) if bare else None
            if value is not None:
                return value
            if field and _is_a_word(match):
                self.unset_fields[field] = None
            elif bare and not field:
                self.unset[match[2]] = None
            return match[0]

        return _VARIABLE.sub(value_of, text)

    def _value(self, inner: str) -> str:
        """Return the value for `${inner}`."""
        name, source = self._name, self._source
        if inner == "workspaceFolder" and source is not None:
            folder = source.absolute().parent
            return str(folder.parent if folder.name in _EDITOR_FOLDERS else folder)
        if inner == "userHome":
            inner = "HOME"
        if inner.startswith("input:"):
            raise ConfigError(
                f"The sidecar {name} asks for ${{{printable(inner)}}}, which only its editor can ask for; "
                "write ${VARIABLE} and set that environment variable."
            )
        variable, has_default, default = inner.removeprefix("env:").partition(":-")
        if not _NAME.fullmatch(variable):
            raise ConfigError(
                f"The sidecar {name} contains ${{{printable(inner)}}}, which is not known; write ${{VARIABLE}} or "
                "${VARIABLE:-default}."
            )
        value = self._look_up(variable)
        if has_default:
            return value or default
        if value is None:
            raise ConfigError(
                f"The sidecar {name} needs the environment variable {variable}, which is not set; set it, or write "
                f"${{{variable}:-…}}."
            )
        return value

    def _look_up(self, variable: str) -> str | None:
        """Return a variable's value, and note it."""
        value = self.environment.get(variable)
        if value and variable not in _ORDINARY and not value.startswith("/"):
            self.values[variable] = value
        return value
