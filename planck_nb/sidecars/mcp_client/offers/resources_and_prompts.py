"""A server's resources and prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Protocol

import mcp_types as types
from mcp import Client, MCPError

from planck_nb.ai.messages import ImagePart, TextPart
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.offers.definitions import PromptArgument, PromptDefinition, ResourceDefinition
from planck_nb.sidecars.mcp_client.offers.results import parts_of, resource_parts


class Lists(Protocol):
    """A connection, as far as lists are concerned."""

    client: Client

    async def fetch_list(
        self, kind: str, field: str, fetch: Callable[[str | None], Awaitable[Any]], key: str
    ) -> list[Any]:
        """Fetch a list, and note its unusable items."""
        ...


async def resources(lists: Lists) -> tuple[ResourceDefinition, ...]:
    """Return all resources and resource templates."""
    client = lists.client
    if client.server_capabilities.resources is None:
        return ()
    plain = await lists.fetch_list("resource", "resources", lambda at: client.list_resources(cursor=at), "uri")
    templates: list[Any] = []
    with suppress(MCPError):  # many servers have resources and no templates
        templates = await lists.fetch_list(
            "resource template",
            "resource_templates",
            lambda at: client.list_resource_templates(cursor=at),
            "uri_template",
        )
    return (
        *(_resource(item, item.uri, is_template=False) for item in plain),
        *(_resource(item, item.uri_template, is_template=True) for item in templates),
    )


async def resource(lists: Lists, uri: str) -> list[TextPart | ImagePart]:
    """Return a resource's content."""
    return resource_parts((await lists.client.read_resource(uri)).contents)


async def prompts(lists: Lists) -> tuple[PromptDefinition, ...]:
    """Return all prompts."""
    client = lists.client
    if client.server_capabilities.prompts is None:
        return ()
    return tuple(
        map(_prompt, await lists.fetch_list("prompt", "prompts", lambda at: client.list_prompts(cursor=at), "name"))
    )


async def prompt(lists: Lists, name: str, arguments: dict[str, str]) -> list[TextPart | ImagePart]:
    """Return a prompt's messages as parts of one message."""
    parts: list[TextPart | ImagePart] = []
    for message in (await lists.client.get_prompt(name, arguments)).messages:
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
