"""The MCP server `planck-nb mcp`: stored history, and a kernel's agents."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import redirect_stdout
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

import planck_nb
from planck_nb.agent.calling.json_schema import errors_of, validator
from planck_nb.base.errors import PlanckError, SessionError, SessionNotFoundError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import one_line
from planck_nb.serve.bounds import bounded_text
from planck_nb.serve.history import DEFAULT_MESSAGES, DEFAULT_ROWS, History
from planck_nb.serve.kernel_calls import DEFAULT_EVENTS, DEFAULT_WATCH_SECONDS
from planck_nb.serve.kernel_client import KernelClient
from planck_nb.serve.served_tools import TOOLS, ServedTool
from planck_nb.sidecars.author.parent_watch import end_with_client

Context = ServerRequestContext[Any, Any]

_RESOURCE_NOT_FOUND = -32002
_SCHEME = "planck://session/"
_PAGE = 100
_MAX_PROBLEM_LENGTH = 200

_INSTRUCTIONS = (
    "The stored history of planck_nb's sessions (query_history, list_sessions, read_transcript and resources), and the "
    "agents of the notebook that runs in the same folder (list_agents, prompt_agent, watch_events)."
)


class HistoryServer:
    """A server for a sessions directory, and a running kernel's agents.

    Args:
        history: The stored sessions.
        kernel: Reaches the running kernel.
    """

    def __init__(self, history: History, kernel: KernelClient) -> None:
        self._history = history
        self._kernel = kernel
        self._calls: dict[str, Callable[[Mapping[str, Any], Context], Awaitable[JsonObject]]] = {
            "query_history": lambda args, _context: history.query(args["sql"], args.get("limit", DEFAULT_ROWS)),
            "list_sessions": lambda args, _context: history.sessions(args.get("limit", DEFAULT_ROWS)),
            "read_transcript": lambda args, _context: history.transcript(
                args["session"], args.get("agent"), args.get("last", DEFAULT_MESSAGES)
            ),
            "list_agents": lambda _args, _context: kernel.call("list_agents", {}),
            "prompt_agent": self._prompt,
            "watch_events": self._watch,
        }
        self.mcp: Server[Any] = Server(
            "planck-nb",
            version=planck_nb.__version__,
            instructions=_INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
        )

    async def serve_stdio(self) -> None:
        """Serve until standard input ends.

        Printed text goes to standard error.
        """
        end_with_client()
        async with stdio_server() as (incoming, outgoing):
            with redirect_stdout(sys.stderr):
                options = self.mcp.create_initialization_options(NotificationOptions())
                await self.mcp.run(incoming, outgoing, options)

    async def _list_tools(self, _context: Context, _params: object) -> types.ListToolsResult:
        return types.ListToolsResult(tools=list(map(_as_mcp, TOOLS.values())))

    async def _call_tool(self, context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, f"unknown tool: {one_line(params.name)}")
        args = dict(params.arguments or {})
        for problem in errors_of(validator(tool.schema), args):
            place = ".".join(map(str, problem.path)) or tool.name
            return _failure(f"{place}: {one_line(problem.message, _MAX_PROBLEM_LENGTH)}.")
        try:
            result = await self._calls[tool.name](args, context)
        except PlanckError as error:
            return _failure(bounded_text(str(error)))
        text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=result)

    async def _prompt(self, args: Mapping[str, Any], context: Context) -> JsonObject:
        params = {"name": args["agent_or_team"], "text": args["text"]}
        return await self._kernel.call("prompt", params, _progress_to(context))

    async def _watch(self, args: Mapping[str, Any], context: Context) -> JsonObject:
        params: JsonObject = {
            "name": args.get("agent_or_team"),
            "seconds": args.get("seconds", DEFAULT_WATCH_SECONDS),
            "max_events": args.get("max_events", DEFAULT_EVENTS),
            "since": args.get("since"),
            "deltas": args.get("deltas", False),
        }
        return await self._kernel.call("watch", params, _progress_to(context))

    async def _list_resources(
        self, _context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        cursor = params.cursor if params is not None else None
        if cursor is not None and not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 10):  # noqa: PLR2004
            raise MCPError(types.INVALID_PARAMS, "The cursor is not one of this server; list from the beginning.")
        offset = int(cursor or 0)
        try:
            page = await self._history.sessions(_PAGE, offset)
        except SessionError as error:
            raise MCPError(types.INTERNAL_ERROR, bounded_text(str(error))) from error
        resources = [
            types.Resource(
                uri=session["uri"],
                name=session["name"],
                description=f"The session {session['name']}, begun {session['created']}.",
                mime_type="text/markdown",
            )
            for session in page["sessions"]
        ]
        following = offset + _PAGE
        return types.ListResourcesResult(
            resources=resources, next_cursor=str(following) if following < page["total"] else None
        )

    async def _list_templates(self, _context: Context, _params: object) -> types.ListResourceTemplatesResult:
        template = types.ResourceTemplate(
            uri_template=f"{_SCHEME}{{id}}",
            name="session",
            description="A stored session as Markdown, by its id or its name.",
            mime_type="text/markdown",
        )
        return types.ListResourceTemplatesResult(resource_templates=[template])

    async def _read_resource(
        self, _context: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        uri = str(params.uri)
        name = uri.removeprefix(_SCHEME)
        try:
            if not uri.startswith(_SCHEME) or not name:
                raise SessionNotFoundError(f"There is no resource {one_line(uri, _MAX_PROBLEM_LENGTH)}.")
            text = await self._history.document(name)
        except SessionError as error:
            raise MCPError(_RESOURCE_NOT_FOUND, bounded_text(str(error)), {"uri": uri}) from error
        contents = types.TextResourceContents(uri=uri, mime_type="text/markdown", text=text)
        return types.ReadResourceResult(contents=[contents])


def _as_mcp(tool: ServedTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.schema,
        annotations=types.ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=not tool.read_only,
            open_world_hint=not tool.read_only,
        ),
    )


def _progress_to(context: Context) -> Callable[[str], Awaitable[None]]:
    count = 0

    async def send(text: str) -> None:
        nonlocal count
        count += 1
        await context.session.report_progress(float(count), None, text)

    return send


def _failure(sentence: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=sentence)], is_error=True)
