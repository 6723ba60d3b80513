"""Sidecars' results in a model's terms."""

from __future__ import annotations

import binascii
import json
from base64 import b64decode
from typing import Any

from planck_nb.agent.calling.tool_output import ToolOutput, as_output
from planck_nb.ai.messages import ImagePart, TextPart
from planck_nb.base.errors import ToolError
from planck_nb.sidecars.mcp_client.offers.added_content import added_content


def output_of(result: Any) -> ToolOutput:  # noqa: ANN401 - an mcp_types.CallToolResult
    """Convert a call's result.

    Text stays as it is and images are checked; sounds and other data are described in words. Additional information in
    structured content follows as JSON: servers are to repeat it as text, but
    [many only summarise it](https://github.com/MoonshotAI/kimi-code/issues/2554).

    Raises:
        ToolError: If the sidecar reports the tool's failure.
    """
    items = [part for item in result.content for part in _converted(item)]
    text = "\n".join(item.text for item in items if isinstance(item, TextPart))
    if (news := added_content(result.structured_content, text)) is not None:
        items.append(TextPart(json.dumps(news, ensure_ascii=False)))
    output = as_output(items) if items else ToolOutput("(no result)")
    if result.is_error:
        raise ToolError(output.text if items else "The tool failed and did not say why.")
    return output


def parts_of(content: Any) -> list[TextPart | ImagePart]:  # noqa: ANN401 - a content block of mcp_types
    """Convert a content block, such as a message in a prompt."""
    return _converted(content)


def _converted(item: Any) -> list[TextPart | ImagePart]:  # noqa: ANN401 - a content block of mcp_types
    match item.type:
        case "text":
            return [TextPart(item.text)]
        case "image":
            return [ImagePart(item.data, item.mime_type)]
        case "audio":
            return [TextPart(f"[audio {item.mime_type}, {_size(item.data)}: cannot be played]")]
        case "resource_link":
            words = [f"[resource {item.name}: {item.uri}]", item.description or ""]
            return [TextPart(" ".join(filter(None, words)))]
        case "resource":
            return _resource(item.resource)
        case kind:
            return [TextPart(f"[{kind}: cannot be shown]")]


def _resource(resource: Any) -> list[TextPart | ImagePart]:  # noqa: ANN401 - contents of a resource of mcp_types
    text = getattr(resource, "text", None)
    if text is not None:
        return [TextPart(f"[resource {resource.uri}]\n{text}")]
    mime = resource.mime_type or "data"
    if mime.startswith("image/"):
        return [TextPart(f"[resource {resource.uri}]"), ImagePart(resource.blob, mime)]
    return [TextPart(f"[resource {resource.uri}: {mime}, {_size(resource.blob)}]")]


def resource_parts(contents: Any) -> list[TextPart | ImagePart]:  # noqa: ANN401 - contents of a resource of mcp_types
    """Convert a resource's content: its text, images, and words about other data."""
    parts: list[TextPart | ImagePart] = []
    for resource in contents:
        text = getattr(resource, "text", None)
        parts.extend([TextPart(text)] if text is not None else _resource(resource))
    return parts


def _size(data: str) -> str:
    try:
        return f"{len(b64decode(data, validate=True)):,} bytes"
    except (binascii.Error, ValueError):
        return "damaged"
