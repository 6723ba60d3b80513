"""Tools that TOOL.json files describe: command lines with placeholders for the arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, overload

from planck_nb.agent.calling.json_schema import problem_of
from planck_nb.agent.calling.tool import Tool, ToolContext
from planck_nb.base.errors import ConfigError, ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.reading import read_bounded
from planck_nb.tools.reserved_names import is_reserved
from planck_nb.tools.sandbox import DEFAULT_SANDBOX, SandboxMode
from planck_nb.tools.shell_commands import CALL_PROPERTIES, DEFAULT_TIMEOUT, command_effects, is_sandboxed, run_shell
from planck_nb.tools.template import Template

_REQUIRED = ("name", "description", "command", "parameters")
_MAX_BYTES = 1_048_576
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class LoadFailure:
    """A file, folder or package that could not be used.

    Args:
        path: The file or folder, or the name of the module.
        reason: Why it could not be used, in one sentence.
    """

    path: Path
    reason: str


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What was loaded, and what was not.

    It is also a sequence of the tools: `[*BuiltinTools.all(), *report]` and `[*BuiltinTools.all()] + report` are lists
    of tools.

    Args:
        tools: The tools, in the order of the folders and then of the names.
        skipped: The files and folders that could not be used.
    """

    tools: tuple[Tool, ...]
    skipped: tuple[LoadFailure, ...]

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools)

    def __len__(self) -> int:
        return len(self.tools)

    @overload
    def __getitem__(self, index: int) -> Tool: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Tool, ...]: ...

    def __getitem__(self, index: int | slice) -> Tool | tuple[Tool, ...]:
        return self.tools[index]

    def __add__(self, other: Iterable[Tool]) -> list[Tool]:
        return [*self.tools, *other]

    def __radd__(self, other: Iterable[Tool]) -> list[Tool]:
        return [*other, *self.tools]


class ExternalTool:
    """Makes tools from TOOL.json files.

        {"name": "complexity", "description": "Cyclomatic complexity of a file.", "command": "radon cc {{path}} -s",
         "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}}

    `{{name}}` in the command stands for the argument of that name; see `Template` for how values are escaped. Every
    such tool also has the arguments `cwd` and `timeout` (milliseconds, by default 30,000) and runs like `bash`.
    """

    @classmethod
    def load_all(
        cls,
        dirs: Iterable[str | Path],
        *,
        cwd: str | Path | None = None,
        sandbox: SandboxMode = DEFAULT_SANDBOX,
        accept: Callable[[Path, bytes], bool] | None = None,
    ) -> LoadReport:
        """Load the tools of all `<dir>/<name>/TOOL.json`.

        Args:
            dirs: The folders, with `~` for the home folder. One that does not exist has no tools.
            cwd: The folder in which the commands run, as for `BuiltinTools.bash`.
            sandbox: Whether they run in a sandbox, as for `BuiltinTools.bash`.
            accept: Called with each file and its content, and before each call; decides whether it is used. By default
                all are.

        Returns:
            The tools, and the files that could not be used with the reasons.
        """
        tools: list[Tool] = []
        skipped: list[LoadFailure] = []
        for folder in map(Path, dirs):
            try:
                candidates = tool_files(folder)
            except (OSError, RuntimeError) as error:
                skipped.append(LoadFailure(folder, f"cannot list {folder}: {_reason(error)}."))
                continue
            for path in candidates:
                try:
                    content = read_tool_file(path)
                    if accept is None or accept(path, content):
                        is_accepted = _always if accept is None else partial(accept, path, content)
                        tools.append(_from_content(path, content, cwd, (), sandbox, is_accepted=is_accepted))
                    else:
                        reason = f"{path} is not trusted; look at it, then run `%planck trust`."
                        skipped.append(LoadFailure(path, reason))
                except ConfigError as error:
                    skipped.append(LoadFailure(path, str(error)))
        return LoadReport(tuple(tools), tuple(skipped))

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        cwd: str | Path | None = None,
        allow_env: Iterable[str] = (),
        sandbox: SandboxMode = DEFAULT_SANDBOX,
    ) -> Tool:
        """Load the tool that a TOOL.json describes.

        Args:
            path: The file.
            cwd: The folder in which the command runs, as for `BuiltinTools.bash`.
            allow_env: Names of environment variables that the command gets although they look like secrets.
            sandbox: Whether the command runs in a sandbox, as for `BuiltinTools.bash`.

        Returns:
            The tool.

        Raises:
            ConfigError: The file cannot be read, or does not describe a tool that is safe to run.
        """
        return _from_content(Path(path), read_tool_file(Path(path)), cwd, tuple(allow_env), sandbox)


def _always() -> bool:
    return True


def _from_content(
    path: Path,
    content: bytes,
    cwd: str | Path | None,
    allow_env: tuple[str, ...],
    sandbox: SandboxMode,
    *,
    is_accepted: Callable[[], bool] = _always,
) -> Tool:
    data = parse_tool(path, content)
    try:
        template = Template.parse(data["command"])
    except ConfigError as error:
        raise ConfigError(f"TOOL.json at {path}: {error}") from error
    return _tool(data, template, None if cwd is None else Path(cwd), allow_env, sandbox, is_accepted=is_accepted)


def _tool(
    data: Mapping[str, Any],
    template: Template,
    folder: Path | None,
    allow_env: tuple[str, ...],
    sandbox: SandboxMode,
    *,
    is_accepted: Callable[[], bool],
) -> Tool:
    async def execute(args: JsonObject, context: ToolContext) -> str:
        if not is_accepted():
            raise ToolError(
                f"{data['name']} was not run, because a file that its command names is not trusted as it is now; look "
                "at it with `%planck trust --list`, run `%planck trust`, and call it again."
            )
        return await run_shell(
            template.fill(args),
            context,
            cwd=folder,
            within=_text(args.get("cwd")),
            milliseconds=_milliseconds(args.get("timeout")),
            allow_env=allow_env,
            sandbox=sandbox,
        )

    def in_folder(other: Path) -> Tool:
        return _tool(data, template, other, allow_env, sandbox, is_accepted=is_accepted)

    return Tool(
        name=data["name"],
        description=data["description"],
        parameters=_with_call_properties(data["parameters"]),
        execute_fn=execute,
        timeout=None,
        touches=lambda args: command_effects(template.fill(args), folder, _text(args.get("cwd")), sandbox),
        sandboxed=lambda: is_sandboxed(sandbox),
        at=None if folder else in_folder,
    )


def tool_files(folder: Path) -> list[Path]:
    """The TOOL.json files of a folder; none if it does not exist. Raises OSError or RuntimeError."""
    expanded = folder.expanduser()
    if not expanded.exists():
        return []
    return [entry / "TOOL.json" for entry in sorted(expanded.iterdir()) if (entry / "TOOL.json").exists()]


def read_tool_file(path: Path) -> bytes:
    """The content of a TOOL.json. Raises ConfigError."""
    try:
        return read_bounded(path.expanduser(), _MAX_BYTES)[0]
    except (OSError, RuntimeError) as error:
        raise ConfigError(f"cannot read {path}: {_reason(error)}.") from error


def parse_tool(path: Path, content: bytes) -> dict[str, Any]:
    """Return a TOOL.json's fields, or raise ConfigError."""
    from pydantic_core import from_json  # noqa: PLC0415 - refuses deep nesting without exhausting Python's stack

    try:
        data = from_json(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise ConfigError(f"cannot read {path}: {_reason(error)}.") from error
    except ValueError as error:
        raise ConfigError(f"invalid JSON in {path}: {error}.") from error
    if not isinstance(data, dict):
        raise ConfigError(f"TOOL.json at {path} must hold a JSON object with {', '.join(_REQUIRED)}.")
    _check(data, path)
    return data


def _check(data: dict[str, Any], path: Path) -> None:
    if missing := [key for key in _REQUIRED if key not in data]:
        raise ConfigError(f"TOOL.json at {path} missing required fields: {', '.join(missing)}.")
    for key in ("name", "description", "command"):
        if not isinstance(data[key], str) or not data[key].strip():
            raise ConfigError(f"TOOL.json at {path}: {key} must be a string that is not empty.")
    if not _NAME.fullmatch(data["name"]):
        raise ConfigError(f"TOOL.json at {path}: name must be up to 64 letters, digits, _ or -.")
    if is_reserved(data["name"]):
        raise ConfigError(f"TOOL.json at {path}: {data['name']} is a reserved name; give another name.")
    if "\0" in data["command"]:
        raise ConfigError(f"TOOL.json at {path}: command must not contain a NUL character.")
    parameters = data["parameters"]
    if not isinstance(parameters, dict) or parameters.get("type", "object") != "object":
        raise ConfigError(f"TOOL.json at {path}: parameters must be a JSON Schema of type object.")
    if not isinstance(parameters.get("properties", {}), dict):
        raise ConfigError(f"TOOL.json at {path}: parameters.properties must be an object.")
    if problem := problem_of(parameters):
        raise ConfigError(f"TOOL.json at {path}: parameters is not a JSON Schema: {problem}.")


def _with_call_properties(parameters: JsonObject) -> JsonObject:
    """The schema with `cwd` and `timeout` after the tool's own properties, unless it has properties of these names."""
    own = parameters.get("properties", {})
    return {"type": "object", **parameters, "properties": own | CALL_PROPERTIES | own}


def _milliseconds(value: object) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
    return float(value) if number else DEFAULT_TIMEOUT  # type: ignore[arg-type]  # a tool may use the name otherwise


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)
