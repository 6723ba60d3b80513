"""A sidecar's offers as plain values, independent of the MCP library."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from planck_nb.base.json_types import JsonObject
from planck_nb.base.secrets import redact, redact_data
from planck_nb.sidecars.conventions import (
    DEFAULT_COMPACTOR_TIMEOUT_MS,
    DEFAULT_TIMEOUT_MS,
    ROLE,
    ROLE_COMPACTOR,
    ROLE_OBSERVER,
    ROLE_TOOL,
    RUNS,
    TIMEOUT,
    clamp_timeout_ms,
)
from planck_nb.sidecars.mcp_client.transports.usable_schema import usable_schema


@dataclass(frozen=True, slots=True)
class ToolDefinition:
    """A tool in a sidecar's own words.

    Args:
        name: Its name on the sidecar.
        description: Its original description.
        parameters: The original JSON Schema for its arguments.
        output_schema: The JSON Schema for its structured results, if declared.
        role: "tool", "compactor" or "observer"; models see only tools.
        timeout_ms: Default time for a call, in milliseconds.
        runs: How the sidecar runs it, for `%planck sidecar list`; empty if unknown.
        read_only: Whether it declares itself as free of changes.
        destructive: Whether it declares itself as destructive.
        idempotent: Whether it declares repeated calls as harmless.
        open_world: Whether it declares communication with other systems.
    """

    name: str
    description: str = ""
    parameters: JsonObject = field(default_factory=lambda: {"type": "object"})
    output_schema: JsonObject | None = None
    role: str = ROLE_TOOL
    timeout_ms: int = DEFAULT_TIMEOUT_MS
    runs: str = ""
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False
    open_world: bool = False

    @property
    def claims(self) -> tuple[str, ...]:
        """Return its declarations about itself, in words."""
        hints = {
            "changes nothing": self.read_only,
            "destructive": self.destructive,
            "may be repeated": self.idempotent,
            "reaches other systems": self.open_world,
        }
        return tuple(words for words, is_claimed in hints.items() if is_claimed)

    def redacted(self, secrets: Mapping[str, str]) -> ToolDefinition:
        """Return the definition without these secrets, by value."""
        return replace(
            self,
            name=redact(self.name, secrets),
            description=redact(self.description, secrets),
            parameters=redact_data(self.parameters, secrets),
            output_schema=redact_data(self.output_schema, secrets),
        )

    @property
    def may_be_repeated(self) -> bool:
        """Return whether a call with a lost answer may be made again."""
        return self.read_only or self.idempotent

    @property
    def declares_timeout(self) -> bool:
        """Return whether the tool itself has the argument `timeout_ms`."""
        properties = self.parameters.get("properties")
        return isinstance(properties, dict) and "timeout_ms" in properties


@dataclass(frozen=True, slots=True)
class LeftOut:
    """An item of a sidecar's lists which cannot be used.

    Args:
        kind: "tool", "prompt", "resource" or "resource template".
        name: Its name, as the sidecar has it.
        reason: The reason, as the end of a sentence.
    """

    kind: str
    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """A resource, or a resource template.

    Args:
        uri: Its address; with `{placeholders}` for a template.
        name: Its name.
        description: An explanation.
        mime: Its media type, empty if unknown.
        is_template: Whether `uri` is a template.
    """

    uri: str
    name: str = ""
    description: str = ""
    mime: str = ""
    is_template: bool = False


@dataclass(frozen=True, slots=True)
class PromptArgument:
    """An argument for a prompt.

    Args:
        name: Its name.
        description: An explanation.
        required: Whether it is mandatory.
    """

    name: str
    description: str = ""
    required: bool = False


@dataclass(frozen=True, slots=True)
class PromptDefinition:
    """A sidecar's prompt.

    Args:
        name: Its name.
        description: Its purpose.
        arguments: Its arguments.
    """

    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


def tool_definition(tool: Any) -> ToolDefinition:  # noqa: ANN401 - an mcp_types.Tool; this module loads without mcp
    """Convert a tool from the MCP library."""
    meta = tool.meta if isinstance(tool.meta, dict) else {}
    role = meta.get(ROLE, ROLE_TOOL)
    role = role if role in (ROLE_COMPACTOR, ROLE_OBSERVER) else ROLE_TOOL
    timeout = meta.get(TIMEOUT)
    if isinstance(timeout, bool) or not isinstance(timeout, int | float):
        timeout = DEFAULT_COMPACTOR_TIMEOUT_MS if role == ROLE_COMPACTOR else DEFAULT_TIMEOUT_MS
    hints = tool.annotations
    return ToolDefinition(
        name=tool.name,
        description=tool.description or (hints.title if hints and hints.title else "") or tool.title or "",
        parameters=usable_schema(tool.input_schema),
        output_schema=None if tool.output_schema is None else usable_schema(tool.output_schema),
        role=role,
        timeout_ms=clamp_timeout_ms(timeout),
        runs=str(meta.get(RUNS, ""))[:20],
        read_only=bool(hints and hints.read_only_hint),
        destructive=bool(hints and hints.destructive_hint),
        idempotent=bool(hints and hints.idempotent_hint),
        open_world=bool(hints and hints.open_world_hint),
    )
