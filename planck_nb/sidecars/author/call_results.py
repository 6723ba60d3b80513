"""Tool results as JSON data for MCP.

This does not import `mcp`, so the processes for sync tools start quickly.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from planck_nb.agent.calling.tool_output import ToolOutput, as_output
from planck_nb.ai.messages import ImagePart
from planck_nb.base.errors import ToolError
from planck_nb.base.json_types import JsonObject
from planck_nb.base.text import encodable, encodable_data
from planck_nb.sidecars.author.recording import returned_values
from planck_nb.sidecars.author.sidecar_tools import SidecarTool
from planck_nb.sidecars.conventions import MAX_MESSAGE_BYTES

_MB = 1024 * 1024


async def call_result(
    tool: SidecarTool, args: JsonObject, *, agent_id: str, call_id: str, progress: Callable[[str], None]
) -> JsonObject:
    """Run a tool, and return its result or its failure as one.

    Only a cancellation raises.
    """
    try:
        with returned_values() as values:
            output = await tool.run(args, agent_id=agent_id, call_id=call_id, progress=progress)
        result: JsonObject = encodable_data(_result(tool, values, output))
        _check_size(tool, result)
    except ToolError as error:
        return failure(str(error))
    return result


def failure(reason: str) -> JsonObject:
    """Return the result for a failed call, for the model."""
    return {"content": [_text(encodable(reason))], "isError": True}


def _result(tool: SidecarTool, values: list[object], output: ToolOutput) -> JsonObject:
    value = values[-1] if values else output
    if isinstance(block := _as_mcp(value), dict):
        return block if "content" in block and "type" not in block else {"content": [block]}
    if isinstance(value, list | tuple) and any(isinstance(_as_mcp(item), dict) for item in value):
        return {"content": [block for item in value for block in _blocks(item)]}
    result: JsonObject = {"content": _output_blocks(output)}
    if tool.structure is not None and values:
        result["structuredContent"] = tool.structure.convert(value)
    return result


def _as_mcp(value: object) -> JsonObject | None:
    """Return JSON data for an object from `mcp.types`, None for others.

    An example is AudioContent.
    """
    if type(value).__module__.partition(".")[0] not in {"mcp", "mcp_types"}:
        return None
    dump: Any = getattr(value, "model_dump", None)
    return None if dump is None else dump(mode="json", by_alias=True, exclude_none=True)


def _blocks(value: object) -> list[JsonObject]:
    block = _as_mcp(value)
    return _output_blocks(as_output(value)) if block is None else [block]


def _output_blocks(output: ToolOutput) -> list[Any]:
    images = [_image(image) for image in output.images]
    return [_text(output.text), *images] if output.text or not images else images


def _image(image: ImagePart) -> JsonObject:
    if image.data is None:
        return _text(f"[image {image.url}]")
    return {"type": "image", "data": image.data, "mimeType": image.mime}


def _text(text: str) -> JsonObject:
    return {"type": "text", "text": text}


def _check_size(tool: SidecarTool, result: JsonObject) -> None:
    size = _size(result)
    if size > MAX_MESSAGE_BYTES:
        raise ToolError(
            f"The result of {tool.name} has {size / _MB:,.0f} MB, and {MAX_MESSAGE_BYTES // _MB} MB are the most; "
            "write it to a file and return the path."
        )


def _size(value: object) -> int:
    """The approximate number of bytes of JSON data, without encoding it."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(len(key) + _size(item) for key, item in value.items())
    if isinstance(value, list):
        return sum(map(_size, value))
    return 8
