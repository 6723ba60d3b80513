"""The resources and prompts of sidecars: lists that can be looked at without waiting, and their content."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from planck_nb.agent.calling.tool_output import ToolOutput, as_output
from planck_nb.ai.messages import TextPart, UserPart
from planck_nb.base.async_tasks import cancel_and_wait, spawn
from planck_nb.base.errors import PlanckError, UsageError, did_you_mean
from planck_nb.base.text import one_line
from planck_nb.base.visible import visible
from planck_nb.sidecars.mcp_client.offers.definitions import (
    LeftOut,
    PromptDefinition,
    ResourceDefinition,
    ToolDefinition,
)

if TYPE_CHECKING:
    from planck_nb.sidecars.mcp_client.link.link import SidecarLink

MAX_LISTED = 500
"""Resources of one sidecar that are kept for completion."""

_DESCRIBED = 200
_NAMED = 500


@dataclass(frozen=True, slots=True)
class Offers:
    """What one sidecar offered when it was connected.

    Args:
        resources: Its resources and templates of resources, the first 500.
        prompts: Its prompts, the first 500.
    """

    resources: tuple[ResourceDefinition, ...] = ()
    prompts: tuple[PromptDefinition, ...] = ()


class SidecarOffers:
    """The resources and prompts of the sidecars of a workspace.

    Args:
        connect: Returns the link to a sidecar, which it starts if it does not run.
    """

    def __init__(self, connect: Callable[[str], Awaitable[SidecarLink]]) -> None:
        self._connect = connect
        self._listed: dict[str, Offers] = {}
        self._listing: dict[str, asyncio.Task[None]] = {}

    @property
    def listed(self) -> Mapping[str, Offers]:
        """What each sidecar offered when it was connected last, by its name. Never waits."""
        return self._listed

    def refresh(self, link: SidecarLink) -> None:
        """Fetch the lists of a sidecar in the background."""
        before = self._listing.get(link.name)
        if before is not None and not before.done():
            before.cancel()
        self._listing[link.name] = spawn(self._list(link), name=f"planck-sidecar-{link.name}-offers")

    async def current(self, sidecar: str) -> Offers:
        """Return what a sidecar that was connected offers, as soon as it is fetched."""
        if (listing := self._listing.get(sidecar)) is not None:
            await asyncio.wait([listing])
        return self._listed.get(sidecar, Offers())

    async def aclose(self) -> None:
        """Stop fetching."""
        await cancel_and_wait(*self._listing.values())
        self._listing.clear()

    async def read(self, sidecar: str, uri: str) -> ToolOutput:
        """Read a resource.

        Args:
            sidecar: The name of the sidecar, which is started if it does not run.
            uri: The address of the resource.

        Returns:
            Its text, cut in the middle if it has more than 50,000 characters, and its images.

        Raises:
            UsageError: There is no such sidecar.
            TrustError: The sidecar is not trusted.
            SidecarError: It has no such resource, does not run or does not answer.
        """
        link = await self._connect(sidecar)
        return as_output(await link.read_resource(uri))

    async def prompts(self, sidecar: str) -> tuple[PromptDefinition, ...]:
        """Return the prompts of a sidecar, which is started if it does not run; raises like `read`."""
        return await (await self._connect(sidecar)).list_prompts()

    async def render(self, sidecar: str, name: str, arguments: Mapping[str, str]) -> list[UserPart]:
        """Have a sidecar fill in one of its prompts.

        Args:
            sidecar: The name of the sidecar, which is started if it does not run.
            name: The name of the prompt.
            arguments: Its arguments.

        Returns:
            The parts of a message, bounded like the result of a tool.

        Raises:
            UsageError: There is no such sidecar or prompt, or an argument is missing or unknown.
            TrustError: The sidecar is not trusted.
            SidecarError: It does not run or does not answer.
        """
        link = await self._connect(sidecar)
        known = {prompt.name: prompt for prompt in await link.list_prompts()}
        if name not in known:
            hint = did_you_mean(name, known) or f"`%planck sidecar list {sidecar}` lists what it offers."
            raise UsageError(f"The sidecar {sidecar} has no prompt {visible(name)}. {hint}")
        declared = {argument.name: argument for argument in known[name].arguments}
        missing = [each for each in declared.values() if each.required and each.name not in arguments]
        if missing:
            wanted = ", ".join(
                f"{visible(each.name)}=…{f' ({one_line(each.description, _DESCRIBED)})' if each.description else ''}"
                for each in missing
            )
            raise UsageError(f"The prompt {sidecar}:{visible(name)} needs {wanted}.")
        if unknown := [each for each in arguments if each not in declared]:
            accepted = ", ".join(map(visible, declared)) or "none"
            raise UsageError(
                f"The prompt {sidecar}:{visible(name)} has no argument {unknown[0]}; its arguments are: {accepted}."
            )
        filled = as_output(await link.get_prompt(name, arguments))
        parts: list[UserPart] = [TextPart(filled.text), *filled.images]
        return parts

    async def _list(self, link: SidecarLink) -> None:
        resources: tuple[ResourceDefinition, ...] = ()
        prompts: tuple[PromptDefinition, ...] = ()
        with suppress(PlanckError):
            resources = await link.list_resources()
        with suppress(PlanckError):
            prompts = await link.list_prompts()
        self._listed[link.name] = Offers(resources[:MAX_LISTED], prompts[:MAX_LISTED])


def described_offers(
    tools: Iterable[ToolDefinition], offers: Offers, names: Mapping[str, str], left_out: Sequence[LeftOut]
) -> list[dict[str, str]]:
    """Describe what a sidecar offers, bounded and visible.

    Args:
        tools: Its tools, compactors and observers.
        offers: Its resources and prompts.
        names: The agents' names for tools by the sidecar's, where these differ.
        left_out: Unusable items.

    Returns:
        For each its kind, name, way to run, description, and a remark.
    """
    left_out_tools = {item.name for item in left_out if item.kind == "tool"}
    found = [
        (tool.role, names.get(tool.name, tool.name), tool.runs, tool.description, _remark(tool.name, names))
        for tool in tools
        if tool.name not in left_out_tools
    ]
    for prompt in offers.prompts:
        arguments = [f"{each.name}=…" if each.required else f"[{each.name}=…]" for each in prompt.arguments]
        found.append(("prompt", " ".join([prompt.name, *arguments]), "", prompt.description, ""))
    for resource in offers.resources:
        kind = "resource template" if resource.is_template else "resource"
        found.append((kind, resource.uri, "", resource.description or resource.name, ""))
    found += [(item.kind, item.name, "", "", f"left out, because {item.reason}") for item in left_out]
    return [
        {
            "kind": kind,
            "name": visible(name[:_NAMED]),
            "runs": runs,
            "description": visible(one_line(description, _DESCRIBED)),
            "remark": visible(one_line(remark, _DESCRIBED)),
        }
        for kind, name, runs, description, remark in found
    ]


def _remark(name: str, names: Mapping[str, str]) -> str:
    return f"{name} on the server" if name in names else ""
