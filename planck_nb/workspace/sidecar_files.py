"""Where a workspace finds sidecars: files of the user, of the project, and those that the user has named."""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from planck_nb.agent.effect import Effect
from planck_nb.base.errors import ConfigError
from planck_nb.base.ownership import foreign_reason, foreign_sentence
from planck_nb.base.reading import read_bounded
from planck_nb.base.secrets import is_generated_key, is_secret_variable
from planck_nb.config import Config, TrustItem
from planck_nb.config.named_files import PACKAGES, NamedFile, covered, find_named_files, find_source_files
from planck_nb.config.trust import MAX_BYTES
from planck_nb.sidecars.conventions import ROLE_TOOL
from planck_nb.sidecars.mcp_client.mcp_servers import SpecReport, WrittenSidecar, read_mcp_servers
from planck_nb.sidecars.mcp_client.offers.definitions import ToolDefinition
from planck_nb.sidecars.mcp_client.offers.fingerprint import fingerprint
from planck_nb.sidecars.mcp_client.sidecar_spec import PROJECT_NAME, SidecarSpec, keys_in_path
from planck_nb.sidecars.mcp_client.transports.npx import runs_npx

OWN_FILE = Path(".planck") / "mcp.json"
"""The file of sidecars in the folder of a project, and in the user's home folder."""

SHARED_FILE = Path(".mcp.json")
"""The file that other MCP clients keep in the folder of a project."""

PROJECT_FOLDER = Path(".planck") / "sidecar"
"""The folder of a project's own sidecar, which has a pyproject.toml."""

_PARAMETER = re.compile(r"([?&])([^=&#]+)=([^&#]+)")


@dataclass(frozen=True, slots=True)
class FoundSidecar:
    """A sidecar that a file describes.

    Args:
        spec: How it is started or reached.
        item: What the user has to trust before it is started; None if that needs no trust.
        folder: The folder of its project if it is built before it starts, else None.
        entry: A digest for its entry as written.
        files: The project's files that its command names.
        is_own: Whether the user's own file describes it, or one that the user has named.
    """

    spec: SidecarSpec
    item: TrustItem | None = None
    folder: Path | None = None
    entry: str = ""
    files: tuple[NamedFile, ...] = ()
    is_own: bool = False


def find_sidecars(config: Config, named: Iterable[Path] = ()) -> tuple[list[FoundSidecar], list[str]]:
    """Find the sidecars of all files, as they are now. Of two with the same name, the first one counts.

    The user's own sidecars need trust only if their file is in the project, or if their command names files there.

    Args:
        config: The settings.
        named: Files that the user has named, which come first.

    Returns:
        The sidecars, and a sentence for each that cannot be used.
    """
    found: dict[str, FoundSidecar] = {}
    problems: list[str] = []
    sources: dict[str, tuple[Path, bool]] = {}
    folder = config.root
    user_folder = config.user_folder
    files = [(path, False) for path in named]
    files += [(folder / OWN_FILE, True), (folder / SHARED_FILE, True)]
    if user_folder is not None:
        files.append((user_folder / OWN_FILE.name, False))
    for path, needs_trust in dict(files).items():
        report = _read(path, config)
        problems += report.problems
        for spec in report.specs:
            if spec.name in found:
                problems.append(_hidden(spec.name, path, *sources[spec.name], is_own=not needs_trust))
            else:
                sources[spec.name] = (path, needs_trust)
                files_of_command = _named_files(spec, config)
                is_covered = needs_trust or path.is_relative_to(folder) or _are_explicit(files_of_command, spec)
                written = report.written[spec.name]
                item = _item(spec, written, path, config, files_of_command) if is_covered else None
                entry = hashlib.sha256(_entry_content(spec, written)).hexdigest()
                found[spec.name] = FoundSidecar(spec, item, entry=entry, files=files_of_command, is_own=not needs_trust)
    try:
        if (project := _project(config)) is not None:
            if PROJECT_NAME in found:
                problems.append(_hidden(PROJECT_NAME, folder / PROJECT_FOLDER, *sources[PROJECT_NAME], is_own=False))
            else:
                found[PROJECT_NAME] = project
    except ConfigError as error:
        problems.append(str(error))
    return list(found.values()), problems


def read_sidecar_file(path: Path, config: Config) -> SpecReport:
    """Read a file that the user has named.

    Raises:
        ConfigError: It cannot be read, or it describes no sidecar that can be used.
    """
    if not path.is_file():
        raise ConfigError(f"There is no file {path}; name a JSON file with `mcpServers`.")
    report = _read(path, config)
    if not report.specs:
        raise ConfigError(" ".join(report.problems) or f"{path} describes no sidecar; it needs `mcpServers`.")
    return report


def tools_item(sidecar: FoundSidecar | None, spec: SidecarSpec, tools: Sequence[ToolDefinition]) -> TrustItem:
    """Describe a sidecar's tools, so a change needs trust again.

    If its entry changes too, that needs trust anyway, and the tools count as new.

    Args:
        sidecar: The sidecar as its file describes it, if it has one.
        spec: The sidecar.
        tools: Its tools.
    """
    source = spec.source or Path(spec.name)
    entry = fingerprint(spec) if sidecar is None else sidecar.entry
    path = source.with_name(f"{source.name}#{spec.name}:tools:{entry[:16]}")
    digest = fingerprint(_ANY, tools)
    details = [
        (f"{tool.name}{_marks(tool)}", f"{tool.description}\n{json.dumps(tool.parameters, ensure_ascii=False)}")
        for tool in sorted(tools, key=lambda tool: tool.name)
    ]
    return TrustItem.of("sidecar", path, digest.encode(), details, name=f"{spec.name}, its tools")


_ANY = SidecarSpec("any", command="any")
"""A sidecar for the tools' digest, without values of variables."""


def _marks(tool: ToolDefinition) -> str:
    """Return a tool's role and its own claims, in brackets."""
    marks = [] if tool.role == ROLE_TOOL else [tool.role]
    marks += tool.claims
    return f" ({', '.join(marks)})" if marks else ""


def _read(path: Path, config: Config) -> SpecReport:
    if not path.is_file():
        return SpecReport()
    try:
        if reason := foreign_reason(path):
            return SpecReport(problems=(foreign_sentence(path, reason),))
        data = json.loads(read_bounded(path, MAX_BYTES)[0])
    except (OSError, ValueError, RecursionError) as error:
        return SpecReport(problems=(f"{path} cannot be read: {error}.",))
    return read_mcp_servers(data, source=path, environment=config.environment())


def _hidden(name: str, path: Path, first: Path, of_project: bool, *, is_own: bool) -> str:
    """A sentence about a sidecar whose name one in `first` has already."""
    if of_project and is_own:
        return (
            f"The project's sidecar {name} in {first} takes the name of your own in {path}, which is not used here; "
            f"rename one of them, or use yours with `%planck sidecar add {path}`."
        )
    return f"The sidecar {name} in {path} is not used, because there is another one in {first}; rename one of them."


def _named_files(spec: SidecarSpec, config: Config) -> tuple[NamedFile, ...]:
    root = config.root
    words = [spec.command, *spec.args, *spec.env.values()] if spec.command else []
    folder = root if spec.cwd is None else root / spec.cwd.expanduser()
    return find_named_files(words, root=root, folder=folder, search_path=config.environment().get("PATH"))


def _are_explicit(files: Sequence[NamedFile], spec: SidecarSpec) -> bool:
    """Return whether a command itself names one of these files."""
    command = spec.command if spec.command.startswith(".") else ""
    words = {Path(word).name for word in (command, *spec.args)} - {""}
    paths = [Path(file.name) for file in files]
    if spec.command and runs_npx([spec.command, *spec.args]) and not any(PACKAGES in word for word in spec.args):
        paths = [path for path in paths if PACKAGES not in path.parts]  # npx does not search there
    return any(path.name in words or path.stem in words for path in paths)


def _item(
    spec: SidecarSpec, written: WrittenSidecar, source: Path, config: Config, files: Sequence[NamedFile]
) -> TrustItem:
    """Describe a sidecar's entry and the files behind its command."""
    details = [
        ("address", _address(written.url)),
        ("goes to", (urlsplit(spec.url).hostname or "") if "$" in written.url else ""),
        ("command", shlex.join(_words(written.command)) if spec.command else ""),
        ("in the folder", written.cwd),
        (
            "runs",
            f"what is installed as {written.command[0]}" if spec.command and not _names(files, spec.command) else "",
        ),
        ("files", "\n".join(file.line for file in files)),
        ("not covered", "what it imports or reads; it runs outside the sandbox of commands" if spec.command else ""),
        ("variables", _pairs(written.env, "=")),
        ("headers", _pairs(written.headers, ": ")),
        ("gets", f"{written.token_variable} from your environment" if written.token_variable else ""),
        ("sign-in as", written.oauth.client_id),
        ("client secret", _value("client_secret", written.oauth.client_secret)),
        ("sign-in server", written.oauth.issuer),
        ("client document", written.oauth.metadata_url),
        ("callback port", str(written.oauth.callback_port or "")),
        ("allowed by your rules", _rules(spec.name, config)),
        (
            "sees",
            "all agents' events, by the setting sidecar_observers" if spec.name in config.sidecar_observers else "",
        ),
        ("asks models", "by the setting sidecar_sampling" if spec.name in config.sidecar_sampling else ""),
    ]
    content = _entry_content(spec, written)
    path = source.with_name(f"{source.name}#{spec.name}")
    return TrustItem.of("sidecar", path, content + covered(files), details, name=spec.name)


def _entry_content(spec: SidecarSpec, sidecar: WrittenSidecar) -> bytes:
    return json.dumps([spec.name, sidecar.entry], sort_keys=True).encode("utf-8", "surrogateescape")


def _names(files: Sequence[NamedFile], command: str) -> bool:
    return any(Path(file.name).name == Path(command).name for file in files)


def _rules(name: str, config: Config) -> str:
    calls = Effect("execute", f"sidecar:{name}/any")
    rules = [
        rule
        for rule in config.rules
        if rule.action == "allow"
        and (f"sidecar:{name}/" in rule.pattern or (rule.kind == "execute" and rule.covers(calls, config.root)))
    ]
    return "\n".join(map(str, rules))


def _pairs(pairs: Mapping[str, str], sign: str) -> str:
    return "\n".join(f"{name}{sign}{_value(name, value)}" for name, value in pairs.items())


def _value(name: str, value: str) -> str:
    """Return a value as written; only a generated key is left out, because it cannot be a command or an address."""
    *before, last = value.split(" ")  # "Bearer KEY"
    is_key = is_secret_variable(name, last) and is_generated_key(last)
    return " ".join([*before, "a key in this file"]) if is_key else value


def _address(address: str) -> str:
    """Return an address without keys in its path and among its parameters."""
    with suppress(ValueError):
        for key in keys_in_path(address):
            address = address.replace(f"/{key}", "/a key in this file")
    return _PARAMETER.sub(lambda match: f"{match[1]}{match[2]}={_value(match[2], match[3])}", address)


def _words(command: Sequence[str]) -> Iterator[str]:
    """Yield a command's words without keys after options."""
    before = ""
    for word in command:
        option, sign, value = word.partition("=")
        is_option = word.startswith("-") and sign
        yield f"{option}={_value(option, value)}" if is_option else _value(before, word)
        before = word if word.startswith("-") else ""


def _project(config: Config) -> FoundSidecar | None:
    folder = config.root / PROJECT_FOLDER
    file = folder / "pyproject.toml"
    if not file.is_file():
        return None
    from planck_nb.sidecars.mcp_client.manager.environment import SidecarEnvironment  # noqa: PLC0415 - only where there is one

    spec = SidecarEnvironment(folder, environment=config.environment()).spec(PROJECT_NAME)
    setup = _setup(file)
    files = find_source_files(folder, config.root, has_setup=bool(setup))
    details = [
        ("command", shlex.join([spec.command, *spec.args])),
        ("installs", "its packages, in an environment of its own"),
        ("set up by", setup),
        ("not covered", f"{PACKAGES}, which these commands fill" if setup else ""),
        ("asks models", _by_setting("sidecar_sampling", config.sidecar_sampling)),
        ("roles", "what it says: its observers get all agents' events, and its compactors shorten conversations"),
        ("files", "\n".join(file.line for file in files)),
    ]
    item = TrustItem.of("sidecar", file, covered(files), details, name=PROJECT_NAME)
    return FoundSidecar(spec, item, folder, entry="project")


def _by_setting(setting: str, names: Collection[str]) -> str:
    return f"by the setting {setting}" if PROJECT_NAME in names else ""


def _setup(file: Path) -> str:
    """Return the commands which set up its environment, as lines."""
    with suppress(OSError, ValueError):
        data = tomllib.loads(read_bounded(file, MAX_BYTES)[0].decode())
        commands = data.get("tool", {}).get("planck_nb", {}).get("sidecar", {}).get("setup", [])
        return "\n".join(shlex.join(map(str, words)) if isinstance(words, list) else str(words) for words in commands)
    return ""
