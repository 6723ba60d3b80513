"""A digest for a sidecar's abilities, for remembering trust in it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from planck_nb.sidecars.mcp_client.offers.definitions import ToolDefinition
from planck_nb.sidecars.mcp_client.sidecar_spec import SidecarSpec


def fingerprint(spec: SidecarSpec, tools: Iterable[ToolDefinition] = ()) -> str:
    """Return a digest which changes when a sidecar needs new trust.

    It covers the command, the arguments, the working directory, the address, the names of environment variables and
    headers, whether sampling and roots are allowed, and the names, descriptions, schemas, roles and annotations of the
    tools. It excludes variables' values, so a new token changes nothing.

    Args:
        spec: The sidecar.
        tools: Its tools, in any order; empty before its start.

    Returns:
        The SHA-256 digest, in hexadecimal.

    Example:
        >>> one = SidecarSpec("files", command="server", env={"TOKEN": "1"}, inserted={"MINE": "1"})
        >>> two = SidecarSpec("files", command="server", env={"TOKEN": "2"}, inserted={"MINE": "2"})
        >>> fingerprint(one) == fingerprint(two), fingerprint(one) == fingerprint(one, [ToolDefinition("delete")])
        (True, False)
    """
    content = {
        "command": [spec.command, *spec.args],
        "cwd": "" if spec.cwd is None else str(spec.cwd),
        "env": sorted((name, _as_written(value, spec)) for name, value in spec.env.items()),
        "url": spec.url,
        "headers": sorted(name.lower() for name in spec.headers),
        "token": spec.token_variable,
        "sampling": spec.sampling,
        "roots": spec.roots,
        "tools": sorted(
            json.dumps(
                [tool.name, tool.description, tool.parameters, tool.output_schema, tool.role, tool.claims],
                sort_keys=True,
            )
            for tool in tools
        ),
    }
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _as_written(value: str, spec: SidecarSpec) -> str:
    """Return a variable's value without inserted values."""
    for name, inserted_value in sorted(spec.inserted.items(), key=lambda pair: -len(pair[1])):
        value = value.replace(inserted_value, f"${{{name}}}") if inserted_value else value
    return value
