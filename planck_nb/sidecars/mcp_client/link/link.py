"""`SidecarLink`: keeps a sidecar running and connected, and calls it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.base.errors import SidecarError
from planck_nb.base.event_loops import await_in_loop, is_running_here
from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import remember_secret
from planck_nb.sidecars.conventions import AGENT_ID, CALL_ID, SESSION_ID
from planck_nb.sidecars.mcp_client.link.authorization import Authorize
from planck_nb.sidecars.mcp_client.link.call_origin import CallOrigin
from planck_nb.sidecars.mcp_client.link.calls import LinkCalls
from planck_nb.sidecars.mcp_client.link.settings import Build, LinkCallbacks, LinkTiming
from planck_nb.sidecars.mcp_client.link.state import LinkState
from planck_nb.sidecars.mcp_client.link.status import SidecarStatus
from planck_nb.sidecars.mcp_client.link.supervisor import Supervisor
from planck_nb.sidecars.mcp_client.offers.definitions import (
    LeftOut,
    PromptDefinition,
    ResourceDefinition,
    ToolDefinition,
)
from planck_nb.sidecars.mcp_client.offers.fingerprint import fingerprint
from planck_nb.sidecars.mcp_client.offers.results import output_of
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec

if TYPE_CHECKING:
    from planck_nb.ai.messages import ImagePart, TextPart


class SidecarLink:
    """A link which keeps a sidecar running and connected.

    It belongs to the event loop in which it was started, and can be called from others. If the sidecar is lost, all
    calls in flight fail at once with `SidecarLostError`, and it is started again after a pause; calls made meanwhile
    wait for it.

    Args:
        spec: How to start or reach the sidecar.
        callbacks: The callbacks.
        cwd: Working directory for a process without its own, and the folder for a sidecar with `roots`.
        environment: The kernel's environment, from which a few harmless variables are passed on; `os.environ` by
            default.
        timing: Times.
        auth: Makes the authentication for a server over HTTP, such as `sign_in(spec, folder)`.
        build: Builds the sidecar's needs, before each start by a user; called with a function which shows a line.

    Example:
        >>> link = SidecarLink(SidecarSpec("files", command="some-server"))
        >>> link.status().state
        'idle'
    """

    def __init__(
        self,
        spec: SidecarSpec,
        *,
        callbacks: LinkCallbacks | None = None,
        cwd: Path | None = None,
        environment: Mapping[str, str] | None = None,
        timing: LinkTiming | None = None,
        auth: Authorize | None = None,
        build: Build | None = None,
    ) -> None:
        self.spec = spec
        self._state = LinkState(spec, callbacks or LinkCallbacks())
        self._calls = LinkCalls(self._state)
        self._supervisor = Supervisor(
            self._state,
            cwd=cwd or Path.cwd(),
            environment=os.environ if environment is None else environment,
            timing=timing or LinkTiming(),
            auth=auth,
            build=build,
        )
        for value, what in spec.secrets().items():
            remember_secret(value, what)

    @property
    def name(self) -> str:
        """Return the sidecar's name."""
        return self.spec.name

    def status(self) -> SidecarStatus:
        """Return the sidecar's state, from any thread and without waiting."""
        return self._state.status

    def logs(self, count: int | None = None) -> list[str]:
        """Return the sidecar's newest lines of error output.

        They are without control codes and secrets.

        Args:
            count: Number of lines, None for all available ones (500).

        Returns:
            The lines, the oldest first.
        """
        return self._state.log.lines(count)

    def note(self, line: str) -> None:
        """Add a line to the log."""
        self._state.log.add(line)

    def definitions(self) -> tuple[ToolDefinition, ...]:
        """Return the sidecar's tools, compactors and observers.

        The result is empty before the first connection.

        They stay during a restart.
        """
        return tuple(self._state.definitions.values())

    def left_out(self) -> tuple[LeftOut, ...]:
        """Return the unusable items in the sidecar's lists."""
        connection = self._state.connection
        lists = {} if connection is None else connection.left_out
        return (*self._state.left_out, *(item for kind, items in lists.items() if kind != "tool" for item in items))

    def fingerprint(self) -> str:
        """Return the digest for the spec and the tools, as in `fingerprint`."""
        return fingerprint(self.spec, self.definitions())

    async def start(self) -> None:
        """Start the sidecar, and return when it is connected.

        This has no effect on a connected one.

        Raises:
            SidecarError: If it cannot be started, or does not speak MCP.
        """
        state = self._state
        if state.loop is not None and not is_running_here(state.loop) and state.loop.is_running():
            await await_in_loop(state.loop, self.start)
            return
        await self._supervisor.start()
        try:
            while state.status.state in ("starting", "building"):
                await state.changed.wait()
        except asyncio.CancelledError:
            self._supervisor.stopping.set()
            raise
        if state.status.state != "connected":
            raise SidecarError(state.not_running())

    async def stop(self) -> None:
        """Stop the sidecar and everything started by it.

        Calls in flight fail. This has no effect on a stopped one.
        """
        state = self._state
        if state.loop is not None and not is_running_here(state.loop) and state.loop.is_running():
            await await_in_loop(state.loop, self.stop)
            return
        await self._supervisor.stop()
        if state.status.state != "idle":
            state.enter("idle")
            state.emit("stopped")

    async def restart(self) -> None:
        """Stop the sidecar and start it again.

        Its restarts are counted anew, and its offers are fetched again.

        Raises:
            SidecarError: If it cannot be started.
        """
        await self.stop()
        await self.start()

    async def call(
        self,
        tool: str,
        args: JsonObject,
        *,
        agent_id: str = "",
        call_id: str = "",
        session_id: str = "",
        timeout_ms: int | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> ToolOutput:
        """Call a tool and return its result.

        Cancelling this cancels the call in the sidecar.

        A call which was in flight when the sidecar was lost is made again only if the tool declares itself as read-only
        or repeatable.

        Args:
            tool: The tool's name on the sidecar.
            args: Its arguments. `timeout_ms` among them is the time limit, and is passed on only if the tool itself has
                this argument.
            agent_id: The calling agent, passed on.
            call_id: The call, passed on.
            session_id: The session, passed on.
            timeout_ms: The time limit in milliseconds, from 1 to 3,600,000; by default the tool's own.
            progress: Called with texts while the tool runs.

        Returns:
            Text and images.

        Raises:
            ToolError: If the tool reports a failure.
            SidecarError: If the sidecar does not run, no longer offers the tool, or gives an invalid answer.
            SidecarLostError: If it was lost before its answer.
            SidecarTimeoutError: If the time was up.
        """
        result = await self.call_raw(
            tool,
            args,
            agent_id=agent_id,
            call_id=call_id,
            session_id=session_id,
            timeout_ms=timeout_ms,
            progress=progress,
        )
        return output_of(result)

    async def call_raw(
        self,
        tool: str,
        args: JsonObject,
        *,
        agent_id: str = "",
        call_id: str = "",
        session_id: str = "",
        timeout_ms: int | None = None,
        progress: Callable[[str], None] | None = None,
    ) -> Any:  # noqa: ANN401 - an mcp_types.CallToolResult, which is loaded with the first sidecar
        """Call a tool like `call`, and return the `mcp_types.CallToolResult`."""
        meta = {AGENT_ID: agent_id, CALL_ID: call_id, SESSION_ID: session_id}
        return await self._calls.call(
            tool,
            args,
            meta={key: value for key, value in meta.items() if value},
            origin=CallOrigin(agent_id, call_id),
            timeout_ms=timeout_ms,
            progress=progress,
        )

    async def list_resources(self) -> tuple[ResourceDefinition, ...]:
        """Return the sidecar's resources and resource templates.

        Raises:
            SidecarError: If it does not run or does not answer.
        """
        from planck_nb.sidecars.mcp_client.offers.resources_and_prompts import resources  # noqa: PLC0415 - loads mcp

        return await self._calls.read(resources, "the list of its resources")

    async def read_resource(self, uri: str) -> list[TextPart | ImagePart]:
        """Read a resource.

        Args:
            uri: Its address, such as "file:///notes.md".

        Returns:
            Its content as message parts.

        Raises:
            SidecarError: If the resource is unknown, or the sidecar does not run or does not answer.
        """
        from planck_nb.sidecars.mcp_client.offers.resources_and_prompts import resource  # noqa: PLC0415 - loads mcp

        return await self._calls.read(lambda connection: resource(connection, uri), uri)

    async def list_prompts(self) -> tuple[PromptDefinition, ...]:
        """Return the sidecar's prompts.

        Raises:
            SidecarError: If it does not run or does not answer.
        """
        from planck_nb.sidecars.mcp_client.offers.resources_and_prompts import prompts  # noqa: PLC0415 - loads mcp

        return await self._calls.read(prompts, "the list of its prompts")

    async def get_prompt(self, name: str, arguments: Mapping[str, str] | None = None) -> list[TextPart | ImagePart]:
        """Fetch a prompt, with its arguments filled in.

        Args:
            name: The prompt's name.
            arguments: Its arguments.

        Returns:
            The content in its messages, as parts for one user message; the assistant's parts are marked.

        Raises:
            SidecarError: If the prompt is unknown, or the sidecar does not run or does not answer.
        """
        from planck_nb.sidecars.mcp_client.offers.resources_and_prompts import prompt  # noqa: PLC0415 - loads mcp

        return await self._calls.read(lambda connection: prompt(connection, name, dict(arguments or {})), name)
