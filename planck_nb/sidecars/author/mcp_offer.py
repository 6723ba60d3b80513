"""A sidecar's offers, in MCP's types."""

from __future__ import annotations

import base64
from typing import Any

import mcp_types as types
from mcp.shared.uri_template import UriTemplate

from planck_nb.base.errors import PlanckError
from planck_nb.base.text import encodable
from planck_nb.sidecars.author.offer import Offer
from planck_nb.sidecars.author.offerings import SidecarPrompt, SidecarResource, call_offering
from planck_nb.sidecars.author.sidecar_tools import SidecarTool
from planck_nb.sidecars.conventions import ROLE, ROLE_TOOL, RUNS, TIMEOUT

_MAX_COMPLETIONS = 100
"""Largest number of completions in an MCP answer."""


def mcp_tool(tool: SidecarTool) -> types.Tool:
    """Describe a tool."""
    meta: dict[str, Any] = {TIMEOUT: tool.timeout_ms, RUNS: tool.runs}
    if tool.role != ROLE_TOOL:
        meta[ROLE] = tool.role
    return types.Tool(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema={"type": "object", **tool.parameters},
        output_schema=None if tool.structure is None else tool.structure.schema,
        annotations=types.ToolAnnotations.model_validate(tool.annotations) if tool.annotations else None,
        _meta=meta,
    )


def mcp_resources(offer: Offer) -> list[types.Resource]:
    """Describe the resources with a fixed address."""
    return [
        types.Resource(
            uri=item.uri, name=item.name, description=item.description or None, mime_type=item.mime_type or "text/plain"
        )
        for item in offer.resources
        if not item.is_template
    ]


def mcp_templates(offer: Offer) -> list[types.ResourceTemplate]:
    """Describe the resources whose address has variables."""
    return [
        types.ResourceTemplate(
            uri_template=item.uri, name=item.name, description=item.description or None, mime_type=item.mime_type
        )
        for item in offer.resources
        if item.is_template
    ]


async def read_resource(offer: Offer, uri: str) -> types.ReadResourceResult | None:
    """Read a resource by its address; None for an unknown address.

    Raises:
        PlanckError: If its function raises.
    """
    match = _find_resource(offer, uri)
    if match is None:
        return None
    resource, variables = match
    content = await _called(resource, variables)
    if isinstance(content, bytes | bytearray):
        mime = resource.mime_type or "application/octet-stream"
        blob = base64.b64encode(content).decode()
        return types.ReadResourceResult(contents=[types.BlobResourceContents(uri=uri, mime_type=mime, blob=blob)])
    mime = resource.mime_type or "text/plain"
    return types.ReadResourceResult(
        contents=[types.TextResourceContents(uri=uri, mime_type=mime, text=encodable(str(content)))]
    )


async def _called(resource: SidecarResource, variables: dict[str, Any]) -> object:
    try:
        return await call_offering(resource.function, variables)
    except PlanckError:
        raise
    except Exception as error:
        raise PlanckError(encodable(f"{type(error).__name__}: {error}")) from error


def _find_resource(offer: Offer, uri: str) -> tuple[SidecarResource, dict[str, Any]] | None:
    for item in offer.resources:
        if item.uri == uri and not item.is_template:
            return item, {}
    for item in offer.resources:
        if item.is_template and (variables := UriTemplate.parse(item.uri).match(uri)) is not None:
            return item, dict(variables)
    return None


def mcp_prompts(offer: Offer) -> list[types.Prompt]:
    """Describe the prompts."""
    return [
        types.Prompt(
            name=prompt.name,
            description=prompt.description or None,
            arguments=[
                types.PromptArgument(name=item.name, description=item.description or None, required=item.required)
                for item in prompt.arguments
            ],
        )
        for prompt in (offer.prompts or {}).values()
    ]


async def prompt_result(prompt: SidecarPrompt, arguments: dict[str, str]) -> types.GetPromptResult:
    """Fill in a prompt and return its messages.

    Raises:
        PlanckError: If an argument is missing or unknown, or its function raises.
    """
    names = {item.name for item in prompt.arguments}
    missing = [item.name for item in prompt.arguments if item.required and item.name not in arguments]
    if missing:
        raise PlanckError(f"The prompt {prompt.name} needs the argument {missing[0]}; add it.")
    if unknown := arguments.keys() - names:
        raise PlanckError(
            f"The prompt {prompt.name} has no argument {min(unknown)}; it has {', '.join(sorted(names))}."
        )
    try:
        value = await call_offering(prompt.function, dict(arguments))
        items = value if isinstance(value, list) else [value]
        return types.GetPromptResult(
            description=prompt.description or None, messages=[_message(item) for item in items]
        )
    except PlanckError:
        raise
    except Exception as error:
        raise PlanckError(encodable(f"{type(error).__name__}: {error}")) from error


def completions(prompt: SidecarPrompt | None, argument: str, begun: str) -> list[str]:
    """Return the argument values which start with the typed text."""
    arguments = () if prompt is None else prompt.arguments
    choices = next((item.choices for item in arguments if item.name == argument), ())
    return [choice for choice in choices if choice.lower().startswith(begun.lower())][:_MAX_COMPLETIONS]


def _message(item: object) -> types.PromptMessage:
    if isinstance(item, types.PromptMessage):
        return item
    role: Any = "user"
    content: Any = item
    if isinstance(item, tuple):
        role, content = item
    if isinstance(content, str):
        content = types.TextContent(type="text", text=encodable(content))
    return types.PromptMessage(role=role, content=content)
