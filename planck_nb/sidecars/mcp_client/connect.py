"""An MCP server's tools in a Python program."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from planck_nb.agent.calling.tool import Tool
from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.base.errors import SidecarError, UsageError
from planck_nb.base.json_types import JsonObject
from planck_nb.sidecars.mcp_client.link.settings import LinkTiming
from planck_nb.sidecars.mcp_client.oauth.sign_in import sign_in
from planck_nb.sidecars.mcp_client.offers.definitions import PromptDefinition, ResourceDefinition, ToolDefinition
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

if TYPE_CHECKING:
    from planck_nb.ai.messages import ImagePart, TextPart
    from planck_nb.sidecars.mcp_client.link.questions import Ask
    from planck_nb.sidecars.mcp_client.manager import Sidecars

START_SECONDS = LinkTiming().start
"""Default time for a server's start."""


class ConnectedSidecar:
    """A connected MCP server, from `connect`.

    After a loss it is started again with a pause, as in a notebook, and calls made meanwhile wait for it.

    Args:
        sidecars: A manager with this server alone.
        name: The server's name.
    """

    def __init__(self, sidecars: Sidecars, name: str) -> None:
        self._sidecars = sidecars
        self._link = sidecars.link(name)

    @property
    def name(self) -> str:
        """Return its name, which is in rules such as `execute:sidecar:NAME/*`."""
        return self._link.name

    def tools(self) -> list[Tool]:
        """Return its tools, for `Agent(tools=...)`."""
        return self._sidecars.all_tools()

    def notes(self) -> list[str]:
        """Return a sentence for each tool which is renamed or left out."""
        return self._sidecars.notes()

    def logs(self, count: int | None = None) -> list[str]:
        """Return the newest lines from the server.

        Args:
            count: Number of lines, None for all available ones (500).

        Returns:
            The lines, the oldest first.
        """
        return self._link.logs(count)

    async def call(self, tool: str, args: JsonObject | None = None, *, timeout_ms: int | None = None) -> ToolOutput:
        """Call a tool without an agent.

        Args:
            tool: The tool's name on the server.
            args: Its arguments.
            timeout_ms: The time limit in milliseconds, from 1 to 3,600,000; by default the tool's own, else 300,000.

        Returns:
            Text and images.

        Raises:
            ToolError: If the tool reports a failure.
            SidecarError: If the server does not run, lacks the tool, or does not answer.
        """
        return await self._link.call(tool, args or {}, timeout_ms=timeout_ms)

    async def list_resources(self) -> tuple[ResourceDefinition, ...]:
        """Return the server's resources and resource templates, or raise `SidecarError`."""
        return await self._link.list_resources()

    async def read_resource(self, uri: str) -> list[TextPart | ImagePart]:
        """Read a resource, or raise `SidecarError`.

        Args:
            uri: Its address, such as "file:///notes.md".

        Returns:
            Its content as message parts.
        """
        return await self._link.read_resource(uri)

    async def list_prompts(self) -> tuple[PromptDefinition, ...]:
        """Return the server's prompts, or raise `SidecarError`."""
        return await self._link.list_prompts()

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[TextPart | ImagePart]:
        """Fetch a prompt with its arguments filled in, or raise `SidecarError`.

        Args:
            name: The prompt's name.
            arguments: Its arguments.

        Returns:
            Its messages' content as parts for one message.
        """
        return await self._link.get_prompt(name, arguments)


@asynccontextmanager
async def connect(
    server: SidecarSpec | str | Sequence[str],
    *,
    name: str = "",
    env: Mapping[str, str] | None = None,
    cwd: Path | str | None = None,
    headers: Mapping[str, str] | None = None,
    token: str = "",
    ask: Ask | None = None,
    sign_in_folder: Path | None = None,
    start_seconds: float = START_SECONDS,
) -> AsyncIterator[ConnectedSidecar]:
    """Connect an MCP server while the context is open.

    The rules are those for a notebook's sidecars: each call has the effect `execute` on `sidecar:NAME/TOOL`, a process
    gets only `env` and a few harmless variables, results are bounded, calls have time limits, and a changed tool is not
    called.

    Args:
        server: An address with "http" at its start, a command as one text or a list of words, or a spec.
        name: The server's name, by default its program or host.
        env: Environment variables for the program.
        cwd: The program's working directory.
        headers: HTTP headers for a server at an address.
        token: A bearer token for it.
        ask: Shows the server's question to a person; without it all questions are declined.
        sign_in_folder: The folder for tokens, if a server may require a sign-in through `ask`; None refuses sign-ins.
        start_seconds: Time for the server until it has listed its tools.

    Yields:
        The connected server.

    Raises:
        ConfigError: If the command or the address cannot be used.
        UsageError: If there is a spec, and arguments which belong into it.
        SidecarError: If the server cannot be started or reached, or does not speak MCP.

    Example:
        ```python
        async with connect("python -m mcp_server_time") as clock:
            async with Agent(model="anthropic:claude-sonnet-4-6", tools=clock.tools()) as agent:
                print((await agent.prompt("What time is it in Tokyo?")).text)
        ```
    """
    from planck_nb.sidecars.mcp_client.manager import Sidecars  # noqa: PLC0415 - a sidecar's own process has less

    if isinstance(server, SidecarSpec):
        if name or env or cwd or headers or token:
            raise UsageError("A spec has its own name, env, cwd, headers and token; give them there.")
        spec = server
    else:
        spec = _spec(server, name, env=env or {}, cwd=cwd, headers=headers or {}, token=token)
    sidecars = Sidecars(
        ask=ask,
        accept=_FirstTools(),
        timing=LinkTiming(start=start_seconds),
        auth=None if sign_in_folder is None else partial(sign_in, folder=sign_in_folder),
    )
    sidecars.add(spec)
    try:
        [status] = await sidecars.start()
        if status.state != "connected":
            raise SidecarError(status.reason)
        sidecars.settle_names()
        yield ConnectedSidecar(sidecars, spec.name)
    finally:
        await sidecars.aclose()


class _FirstTools:
    """A check which accepts new tools and refuses changed ones."""

    def __init__(self) -> None:
        self._tools: dict[str, ToolDefinition] = {}

    def __call__(self, _spec: SidecarSpec, _digest: str, tools: tuple[ToolDefinition, ...]) -> bool:
        is_same = all(self._tools.get(tool.name, tool) == tool for tool in tools)
        if is_same:
            self._tools.update((tool.name, tool) for tool in tools)
        return is_same


def _spec(
    server: str | Sequence[str],
    name: str,
    *,
    env: Mapping[str, str],
    cwd: Path | str | None,
    headers: Mapping[str, str],
    token: str,
) -> SidecarSpec:
    folder = None if cwd is None else Path(cwd)
    if isinstance(server, str) and re.match(r"https?://", server):
        default = _usable(urlsplit(server).hostname or "")
        return SidecarSpec(name or default, url=server, headers=headers, token=token, env=env, cwd=folder)
    try:
        words = shlex.split(server) if isinstance(server, str) else list(server)
    except ValueError as error:
        raise UsageError(f"The command {server!r} cannot be read ({error}); give its words as a list.") from error
    command, args = (words[0], tuple(words[1:])) if words else ("", ())
    return SidecarSpec(
        name or _usable(Path(command).stem),
        command=command,
        args=args,
        env=env,
        cwd=folder,
        headers=headers,
        token=token,
    )


def _usable(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]+", "-", text).strip("-._")[:40] or "server"
