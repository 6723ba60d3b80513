"""The tools that every agent can have: read, write, edit, bash."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from planck_nb.agent.calling.tool import Tool, ToolContext
from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.agent.effect import Effect, EffectKind
from planck_nb.base.json_types import JsonObject
from planck_nb.tools.file_access import resolve
from planck_nb.tools.files import Files
from planck_nb.tools.files import files as shared_files
from planck_nb.tools.sandbox import DEFAULT_SANDBOX, SandboxMode
from planck_nb.tools.shell_commands import CALL_PROPERTIES, DEFAULT_TIMEOUT, command_effects, is_sandboxed, run_shell

_PATH: JsonObject = {
    "type": "string",
    "minLength": 1,
    "description": "Path of the file; relative to the working directory.",
}


class BuiltinTools:
    """Makes the built-in tools.

    Example:
        >>> [tool.name for tool in BuiltinTools.all()]
        ['read', 'write', 'edit', 'bash']
    """

    files: Files = shared_files

    @classmethod
    def read(cls, *, cwd: str | Path | None = None, files: Files | None = None) -> Tool:
        """Return the tool `read(path, offset=0, limit=None)`: the text of a file, `offset` lines skipped.

        A notebook is shown as cells, which `offset` and `limit` count then.

        Args:
            cwd: The folder that relative paths start in, by default the agent's `cwd`, or else the process's working
                directory at the time of the call.
            files: What agents have read and changed, shared with other tools; by default one for the whole process.

        Returns:
            The tool. It touches the file that it reads.
        """
        folder, disk = _folder(cwd), files or cls.files

        def execute(args: JsonObject, context: ToolContext) -> str | ToolOutput:
            offset, limit = args.get("offset", 0), args.get("limit")
            return disk.read(args["path"], cwd=folder, context=context, offset=offset, limit=limit)

        return Tool(
            name="read",
            description="Read a text file. Long files come in parts: go on with offset.",
            parameters=_schema(
                required=["path"],
                path=_PATH,
                offset={
                    "type": "integer",
                    "minimum": 0,
                    "description": "Lines to skip; by default 0.",
                },
                limit={"type": "integer", "minimum": 0, "description": "Lines to give at most."},
            ),
            execute_fn=execute,
            touches=_touching("read", folder),
            at=None if folder else lambda folder: cls.read(cwd=folder, files=disk),
            guidance="Read a file with `read` before you change it; of a long one only the part that you need.",
        )

    @classmethod
    def write(cls, *, cwd: str | Path | None = None, files: Files | None = None) -> Tool:
        """Return the tool `write(path, content)`: create or replace a file, with missing parent folders.

        Args:
            cwd: The folder that relative paths start in, by default the agent's `cwd`, or else the process's working
                directory at the time of the call.
            files: What agents have read and changed, shared with other tools; by default one for the whole process.

        Returns:
            The tool. It touches the file that it writes, and records the change in `files.changes`.
        """
        folder, disk = _folder(cwd), files or cls.files

        def execute(args: JsonObject, context: ToolContext) -> str:
            return disk.write(args["path"], args["content"], cwd=folder, context=context)

        return Tool(
            name="write",
            description="Write a file: make it, with the folders above it, or replace all of it.",
            parameters=_schema(
                required=["path", "content"],
                path=_PATH,
                content={"type": "string", "description": "The whole content."},
            ),
            execute_fn=execute,
            touches=_touching("write", folder),
            at=None if folder else lambda folder: cls.write(cwd=folder, files=disk),
            guidance="Use `write` for new files and for whole rewrites; to change a part of a file use `edit`.",
        )

    @classmethod
    def edit(cls, *, cwd: str | Path | None = None, files: Files | None = None) -> Tool:
        """Return the tool `edit(path, old_string, new_string)`: replace a text that occurs exactly once.

        Args:
            cwd: The folder that relative paths start in, by default the agent's `cwd`, or else the process's working
                directory at the time of the call.
            files: What agents have read and changed, shared with other tools; by default one for the whole process.

        Returns:
            The tool. It touches the file that it edits, and records the change in `files.changes`.
        """
        folder, disk = _folder(cwd), files or cls.files

        def execute(args: JsonObject, context: ToolContext) -> str:
            return disk.edit(args["path"], args["old_string"], args["new_string"], cwd=folder, context=context)

        return Tool(
            name="edit",
            description="Replace a text in a file. It must occur exactly once: take in lines around it if need be.",
            parameters=_schema(
                required=["path", "old_string", "new_string"],
                path=_PATH,
                old_string={"type": "string", "description": "The text to replace, exactly as in the file."},
                new_string={"type": "string", "description": "The text to put in its place."},
            ),
            execute_fn=execute,
            touches=_touching("write", folder),
            at=None if folder else lambda folder: cls.edit(cwd=folder, files=disk),
            guidance=(
                "Keep old_string in `edit` short, but unique in the file. The result shows the change: no need to read "
                "the file again."
            ),
        )

    @classmethod
    def bash(
        cls, *, cwd: str | Path | None = None, allow_env: Iterable[str] = (), sandbox: SandboxMode = DEFAULT_SANDBOX
    ) -> Tool:
        """Return the tool `bash(command, cwd=None, timeout=30000)`: run a command with /bin/sh, `timeout` in ms.

        Args:
            cwd: The folder in which commands run, by default the agent's `cwd`, or else the process's working directory
                at the time of the call.
            allow_env: Names of environment variables that commands get although they look like secrets, by their
                names or because they contain an address with a password.
            sandbox: "auto" runs commands in a sandbox if one works on this system, "required" runs none without one,
                "off" uses none. In the sandbox a command changes only files below `cwd`, and has no network unless it
                declares that it needs it.

        Returns:
            The tool. It touches the command line, and what the command needs beyond the sandbox.
        """
        folder, allowed = _folder(cwd), tuple(allow_env)

        async def execute(args: JsonObject, context: ToolContext) -> str:
            timeout = args.get("timeout", DEFAULT_TIMEOUT)
            return await run_shell(
                args["command"],
                context,
                cwd=folder,
                within=args.get("cwd"),
                milliseconds=timeout,
                allow_env=allowed,
                sandbox=sandbox,
            )

        return Tool(
            name="bash",
            description=(
                "Run a command with /bin/sh. It has no input; what it starts in the background ends with it. "
                "Of a long output the beginning and the end are shown, and where the whole is."
            ),
            parameters=_schema(
                required=["command"],
                command={"type": "string", "minLength": 1, "description": "The command."},
                **CALL_PROPERTIES,
            ),
            execute_fn=execute,
            timeout=None,
            touches=lambda args: command_effects(args["command"], folder, args.get("cwd"), sandbox),
            sandboxed=lambda: is_sandboxed(sandbox),
            at=None if folder else lambda folder: cls.bash(cwd=folder, allow_env=allowed, sandbox=sandbox),
            guidance=(
                "Use `bash` to search, build, test and run programs. Change files with `edit` and `write` instead, "
                "which can be undone."
            ),
        )

    @classmethod
    def all(
        cls,
        *,
        cwd: str | Path | None = None,
        files: Files | None = None,
        allow_env: Iterable[str] = (),
        sandbox: SandboxMode = DEFAULT_SANDBOX,
    ) -> tuple[Tool, ...]:
        """Return the tools `read`, `write`, `edit` and `bash`.

        Args:
            cwd: The folder that relative paths start in, by default the agent's `cwd`, or else the process's working
                directory at the time of the call.
            files: What agents have read and changed, shared with other tools; by default one for the whole process.
            allow_env: Names of environment variables that commands get although they look like secrets.
            sandbox: Whether commands run in a sandbox, as for `bash`.

        Returns:
            The four tools.
        """
        return (
            cls.read(cwd=cwd, files=files),
            cls.write(cwd=cwd, files=files),
            cls.edit(cwd=cwd, files=files),
            cls.bash(cwd=cwd, allow_env=allow_env, sandbox=sandbox),
        )


def _folder(cwd: str | Path | None) -> Path | None:
    return None if cwd is None else Path(cwd)


def _touching(kind: EffectKind, folder: Path | None) -> Callable[[JsonObject], list[Effect]]:
    """Make the `touches` of a file tool: the file that the path leads to once links are followed."""
    return lambda args: [Effect(kind, str(resolve(args["path"], folder)))]


def _schema(*, required: list[str], **properties: JsonObject) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
