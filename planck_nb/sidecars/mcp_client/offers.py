"""A server's resources and prompts."""

from __future__ import annotations

from contextlib import suppress

import mcp_types as types
from mcp import Client, MCPError

from planck_nb.ai.messages import ImagePart, TextPart
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.connection import pages
from planck_nb.sidecars.mcp_client.definitions import PromptArgument, PromptDefinition, ResourceDefinition
from planck_nb.sidecars.mcp_client.results import parts_of, resource_parts


async def resources(client: Client) -> tuple[ResourceDefinition, ...]:
    """Return all resources and resource templates."""
    if client.server_capabilities.resources is None:
        return ()
    plain = pages(lambda at: client.list_resources(cursor=at), "resources")
    definitions = [_resource(item, item.uri, is_template=False) async for item in plain]
    with suppress(MCPError):  # many servers have resources and no templates
        templates = pages(lambda at: client.list_resource_templates(cursor=at), "resource_templates")
        definitions += [_resource(item, item.uri_template, is_template=True) async for item in templates]
    return tuple(definitions)


async def resource(client: Client, uri: str) -> list[TextPart | ImagePart]:
    """Return a resource's content."""
    return resource_parts((await client.read_resource(uri)).contents)


async def prompts(client: Client) -> tuple[PromptDefinition, ...]:
    """Return all prompts."""
    if client.server_capabilities.prompts is None:
        return ()
    return tuple([_prompt(item) async for item in pages(lambda at: client.list_prompts(cursor=at), "prompts")])


async def prompt(client: Client, name: str, arguments: dict[str, str]) -> list[TextPart | ImagePart]:
    """Return a prompt's messages as parts of one message."""
    parts: list[TextPart | ImagePart] = []
    for message in (await client.get_prompt(name, arguments)).messages:
        if message.role == "assistant":
            parts.append(TextPart("Assistant:"))
        parts.extend(parts_of(message.content))
    return parts


def _resource(item: types.Resource | types.ResourceTemplate, uri: object, *, is_template: bool) -> ResourceDefinition:
    return ResourceDefinition(
        uri=str(uri),
        name=visible(item.title or item.name),
        description=visible(item.description or ""),
        mime=item.mime_type or "",
        is_template=is_template,
    )


def _prompt(item: types.Prompt) -> PromptDefinition:
    return PromptDefinition(
        item.name,
        visible(item.description or item.title or ""),
        tuple(
            PromptArgument(argument.name, visible(argument.description or ""), bool(argument.required))
            for argument in item.arguments or ()
        ),
    )
