"""`@sidecar:uri` in prompts: resources of sidecars that the agent gets."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from planck_nb.ai.messages import ImagePart
from planck_nb.base.errors import UsageError
from planck_nb.base.secrets import redact
from planck_nb.base.text import counted
from planck_nb.base.visible import visible
from planck_nb.jupyter.prompts.mentions import typed_parts
from planck_nb.workspace.sidecar_offers import SidecarOffers

MAX_RESOURCES = 20
"""Resources in one prompt."""

_END = ".,;:!?'\"\u201d\u2019"
_BRACKETS = {")": "(", "]": "[", "}": "{", ">": "<"}


@dataclass(frozen=True, slots=True)
class MentionedResources:
    """The resources of a prompt.

    Args:
        texts: Their texts, each with its name.
        images: Their images.
        notice: A sentence that lists them; empty if there are none.
    """

    texts: tuple[str, ...] = ()
    images: tuple[ImagePart, ...] = ()
    notice: str = ""


def resource_mentions(prompt: str, sidecars: Collection[str]) -> list[tuple[str, str]]:
    """Find the resources that a prompt mentions as `@sidecar:uri`.

    As with `@name`, only what a person typed counts, and a punctuation mark at its end does not belong to it.

    Args:
        prompt: The prompt as it was typed.
        sidecars: The names of the sidecars; after other names a colon is an ordinary one.

    Returns:
        The sidecar and the address of each, once, in order.
    """
    if "@" not in prompt or not sidecars:
        return []
    names = "|".join(re.escape(name) for name in sorted(sidecars, key=len, reverse=True))
    pattern = re.compile(rf"(?<![\w@.+%/\\-])@({names}):(\S+)")
    found = [(name, _without_end(uri)) for part in typed_parts(prompt) for name, uri in pattern.findall(part)]
    return [(name, uri) for name, uri in dict.fromkeys(found) if uri]


def without_resources(prompt: str, resources: Collection[tuple[str, str]]) -> str:
    """Return the prompt without these mentions, to look for others."""
    for name, uri in resources:
        prompt = prompt.replace(f"@{name}:{uri}", " ")
    return prompt


async def read_resources(resources: Collection[tuple[str, str]], offers: SidecarOffers) -> MentionedResources:
    """Read resources.

    Args:
        resources: The sidecar and the address of each.
        offers: The resources of the sidecars.

    Returns:
        What the agent gets, with secrets of the process replaced.

    Raises:
        PlanckError: One cannot be read, in one sentence.
    """
    if len(resources) > MAX_RESOURCES:
        raise UsageError(f"The prompt mentions {len(resources):,} resources, more than {MAX_RESOURCES}; mention fewer.")
    texts: list[str] = []
    images: list[ImagePart] = []
    sizes: list[str] = []
    for name, uri in resources:
        found = await offers.read(name, uri)
        text, shown = redact(found.text), f"@{name}:{visible(uri)}"
        texts.append(f"`{shown}` is a resource of the sidecar {name}:\n\n{_fenced(text)}")
        images += found.images
        drawn = f", {counted(len(found.images), 'image')}" if found.images else ""
        sizes.append(f"{shown} ({counted(len(text), 'character')}{drawn})")
    return MentionedResources(tuple(texts), tuple(images), f"With: {', '.join(sizes)}" if sizes else "")


def _without_end(uri: str) -> str:
    """The address without the punctuation of the sentence that it ends."""
    while uri:
        last = uri[-1]
        unpaired = last in _BRACKETS and uri.count(last) > uri.count(_BRACKETS[last])
        if last not in _END and not unpaired:
            break
        uri = uri[:-1]
    return uri


def _fenced(text: str) -> str:
    """The text in a fence that is longer than each row of backticks in it."""
    longest = max((len(row) for row in re.findall("`+", text)), default=0)
    fence = "`" * max(longest + 1, 3)
    return f"{fence}\n{text}\n{fence}"
