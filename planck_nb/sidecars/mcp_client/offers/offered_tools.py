"""A sidecar's tools as an agent's tools."""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any, Protocol
from urllib.parse import quote

from planck_nb.agent.calling.json_schema import problem_of
from planck_nb.agent.calling.tool import Tool, ToolContext
from planck_nb.agent.calling.tool_output import ToolOutput
from planck_nb.agent.effect import Effect
from planck_nb.base.errors import SidecarError, ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.visible import is_hidden, visible
from planck_nb.sidecars.conventions import MAX_TIMEOUT_MS, MIN_TIMEOUT_MS
from planck_nb.sidecars.mcp_client.offers.definitions import ToolDefinition
from planck_nb.sidecars.mcp_client.offers.result_check import without_slow_patterns

_DESCRIPTION_CHARACTERS = 4_000
_SCHEMA_CHARACTERS = 100_000
_NAME_CHARACTERS = 64
_DIGEST_CHARACTERS = 6
_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]+")
_SHOWN = ("description", "title", "$comment")
"""Schema keywords whose texts are only read."""


class Caller(Protocol):
    """Makes calls to a sidecar's tools, however it is currently connected."""

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
        """Call a tool."""


def tool_name(name: str) -> str:
    """Return a version of the tool name for every vendor.

    These take letters from A to Z only. Accents are left out, and a name with other letters gets a digest, so two such
    names differ.

    Returns:
        The name; empty for one without any visible character.

    Example:
        >>> tool_name("météo du jour"), tool_name("天气"), tool_name("get_天气")
        ('meteo_du_jour', 'tool_4d9473', 'get_4436b3')
    """
    plain = "".join(char for char in unicodedata.normalize("NFKD", name) if not unicodedata.combining(char))
    usable = _UNUSABLE.sub("_", plain).strip("_")
    if all(char.isascii() or not char.isalnum() for char in plain) and (usable or all(map(_is_blank, name))):
        return usable[:_NAME_CHARACTERS]
    digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()[:_DIGEST_CHARACTERS]
    return f"{(usable or 'tool')[: _NAME_CHARACTERS - _DIGEST_CHARACTERS - 1]}_{digest}"


def _is_blank(char: str) -> bool:
    return char in "_-" or char.isspace() or is_hidden(char)


def prefixed(sidecar: str, name: str) -> str:
    """Return the name for a tool whose own name is in use."""
    prefix = f"{tool_name(sidecar)[:24]}__"
    return prefix + name[: _NAME_CHARACTERS - len(prefix)]


def problem_with(definition: ToolDefinition) -> str:  # noqa: PLR0911 - one for each problem
    """Return why a tool cannot be offered to a model.

    This is the end of a sentence; empty for a good tool.
    """
    schema = definition.parameters
    if not tool_name(definition.name):
        return "its name has no visible character"
    if schema.get("type", "object") != "object":
        return "its arguments are not a JSON object"
    try:
        text = json.dumps(schema)
    except (TypeError, ValueError, RecursionError):
        return "its schema is not JSON"
    if len(text) > _SCHEMA_CHARACTERS:
        return f"its schema has more than {_SCHEMA_CHARACTERS:,} characters"
    if problem := problem_of(schema):
        return f"its schema is not valid ({visible(problem)[:200]})"
    if hidden_name := _hidden_names(schema):
        return f"its schema has the name {visible(hidden_name)!r}, which hides characters"
    return ""


def make_tool(
    sidecar: str, definition: ToolDefinition, name: str, caller: Caller, session_id: Callable[[], str]
) -> Tool:
    """Make a tool which calls the sidecar.

    Args:
        sidecar: The sidecar's name.
        definition: The tool, for which `problem_with` returned an empty text.
        name: The models' name for it.
        caller: Makes the calls.
        session_id: Returns the current session's id, which is passed on.

    Returns:
        The tool. It stays valid over the sidecar's connections.
    """

    async def execute(args: JsonObject, context: ToolContext) -> ToolOutput:
        try:
            return await caller.call(
                definition.name,
                args,
                agent_id=context.agent_id,
                call_id=context.call_id,
                session_id=session_id(),
                progress=context.progress,
            )
        except SidecarError as error:
            raise ToolError(str(error)) from error

    effects = _effects(sidecar, definition)
    return Tool(
        name=name,
        description=_description(sidecar, definition),
        parameters=_parameters(definition),
        execute_fn=execute,
        timeout=None,  # the link has the limit, which the call itself can set
        touches=lambda _args: effects,
    )


def _description(sidecar: str, definition: ToolDefinition) -> str:
    """Return the text for models, with its source first.

    Hidden characters are spelled out.
    """
    text = visible(definition.description.strip())
    own_name = "" if definition.name.isascii() else f", as {visible(definition.name[:_NAME_CHARACTERS])}"
    if len(text) > _DESCRIPTION_CHARACTERS:
        text = text[: _DESCRIPTION_CHARACTERS - 1] + "…"
    return f"[sidecar {sidecar}{own_name}] {text}".rstrip()


def _effects(sidecar: str, definition: ToolDefinition) -> tuple[Effect, ...]:
    """Return a call's effects: it always runs foreign code.

    The sidecar's declarations can only add to that.
    """
    effects = [Effect("execute", f"sidecar:{sidecar}/{quote(definition.name, safe='')}")]
    if definition.destructive:
        effects.append(Effect("write"))
    if definition.open_world:
        effects.append(Effect("network"))
    return tuple(effects)


def _parameters(definition: ToolDefinition) -> JsonObject:
    schema: JsonObject = _visible_schema(without_slow_patterns(definition.parameters))
    schema.setdefault("type", "object")
    properties = schema.get("properties")
    if isinstance(properties, dict) and "timeout_ms" not in properties:
        limit = {
            "type": "integer",
            "minimum": MIN_TIMEOUT_MS,
            "description": f"Milliseconds that the call may take, {MAX_TIMEOUT_MS} at most; by default "
            f"{definition.timeout_ms}.",
        }
        schema["properties"] = {**properties, "timeout_ms": limit}
    return schema


def _visible_schema(schema: Any, *, of_names: bool = False) -> Any:  # noqa: ANN401 - any JSON value
    """Return the schema with visible texts for readers.

    Compared values stay as they are.
    """
    if isinstance(schema, list):
        return [_visible_schema(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: visible(value[:_DESCRIPTION_CHARACTERS])
        if key in _SHOWN and isinstance(value, str) and not of_names
        else _visible_schema(value, of_names=key in ("properties", "$defs", "definitions") and not of_names)
        for key, value in schema.items()
    }


def _hidden_names(schema: Any) -> str:  # noqa: ANN401 - any JSON value
    """Return a schema text with hidden characters, if any.

    Texts for readers do not count.
    """
    if isinstance(schema, str):
        # ASCII control characters hide nothing: a default may well be a line break.
        return schema if any(not char.isascii() and is_hidden(char) for char in schema) else ""
    if isinstance(schema, list):
        return next(filter(None, map(_hidden_names, schema)), "")
    if isinstance(schema, dict):
        for key, value in schema.items():
            if any(map(is_hidden, key)):
                return str(key)
            if key in _SHOWN and isinstance(value, str):
                continue
            if hidden_name := _hidden_names(value):
                return hidden_name
    return ""
