"""Where a workspace finds sidecars: files of the user, of the project, and those that the user has named."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from planck_nb.base.errors import ConfigError
from planck_nb.base.ownership import foreign_reason, foreign_sentence
from planck_nb.base.reading import read_bounded
from planck_nb.base.secrets import redact
from planck_nb.config import Config, TrustItem
from planck_nb.config.trust import MAX_BYTES
from planck_nb.sidecars.mcp_client.fingerprint import fingerprint
from planck_nb.sidecars.mcp_client.mcp_servers import SpecReport, read_mcp_servers
from planck_nb.sidecars.mcp_client.spec import PROJECT_NAME, SidecarSpec

OWN_FILE = Path(".planck") / "mcp.json"
"""The file of sidecars in the folder of a project, and in the user's home folder."""

SHARED_FILE = Path(".mcp.json")
"""The file that other MCP clients keep in the folder of a project."""

PROJECT_FOLDER = Path(".planck") / "sidecar"
"""The folder of a project's own sidecar, which has a pyproject.toml."""


@dataclass(frozen=True, slots=True)
class FoundSidecar:
    """A sidecar that a file describes.

    Args:
        spec: How it is started or reached.
        item: What the user has to trust before it is started; None if that needs no trust.
        folder: The folder of its project if it is built before it starts, else None.
    """

    spec: SidecarSpec
    item: TrustItem | None = None
    folder: Path | None = None


def find_sidecars(config: Config, named: Iterable[Path] = ()) -> tuple[list[FoundSidecar], list[str]]:
    """Find the sidecars of all files, as they are now. Of two with the same name, the first one counts.

    Args:
        config: The settings.
        named: Files that the user has named, which come first and need no trust.

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
                found[spec.name] = FoundSidecar(spec, _item(spec, path) if needs_trust else None)
    if (project := _project(config)) is not None and PROJECT_NAME not in found:
        found[PROJECT_NAME] = project
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


def tools_item(spec: SidecarSpec, digest: str, tools: Sequence[str] = ()) -> TrustItem:
    """What the user trusts about the tools of a sidecar, so that a change of them needs trust again.

    If its command changes too, that needs trust anyway, and the tools count as new.

    Args:
        spec: The sidecar.
        digest: The fingerprint with its tools.
        tools: Its tools' names to show, with roles other than a tool's.
    """
    source = spec.source or Path(spec.name)
    path = source.with_name(f"{source.name}#{spec.name}:tools:{fingerprint(spec)[:16]}")
    return TrustItem.of("sidecar", path, digest.encode(), f"{spec.name}: the tools that it offers: {', '.join(tools)}")


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


def _item(spec: SidecarSpec, source: Path) -> TrustItem:
    described = redact(spec.url or " ".join([spec.command, *spec.args]))  # which may contain a key of the environment
    variables = f" (variables {', '.join(spec.env)})" if spec.env else ""
    path = source.with_name(f"{source.name}#{spec.name}")
    return TrustItem.of("sidecar", path, fingerprint(spec).encode(), f"{spec.name}: {described}{variables}")


def _project(config: Config) -> FoundSidecar | None:
    folder = config.root / PROJECT_FOLDER
    file = folder / "pyproject.toml"
    if not file.is_file():
        return None
    from planck_nb.sidecars.mcp_client.environment import SidecarEnvironment  # noqa: PLC0415 - only where there is one

    spec = SidecarEnvironment(folder, environment=config.environment()).spec(PROJECT_NAME)
    try:
        content = read_bounded(file, MAX_BYTES)[0]
    except OSError:
        return None
    item = TrustItem.of("sidecar", file, content, f"{PROJECT_NAME}: installs and runs the project in {folder}")
    return FoundSidecar(spec, item, folder)
