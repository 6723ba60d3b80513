"""A sidecar with the tools, resources and prompts that the MCP conformance suite asks servers for.

Served by `python -m planck_nb.sidecars conformance_server:sidecar --http 127.0.0.1:PORT` in this folder.
"""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Annotated, Literal

import mcp_types as types
from pydantic import BaseModel, Field

from planck_nb.agent.calling.tool import Tool
from planck_nb.ai.messages import ImagePart
from planck_nb.sidecars import Sidecar, ToolContext, ToolError, elicit

sidecar = Sidecar("planck-nb-conformance", version="1.0.0")

PNG = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="  # one red pixel
)
WAV = base64.b64encode(
    b"RIFF&\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0@\x1f\0\0\x80>\0\0\x02\0\x10\0data\2\0\0\0\0\0"
).decode()


@sidecar.tool
async def test_simple_text() -> str:
    """Return text."""
    return "This is a simple text response for testing."


@sidecar.tool
def test_image_content() -> ImagePart:
    """Return an image, from a process of its own."""
    return ImagePart(PNG, "image/png")


@sidecar.tool
async def test_audio_content() -> types.AudioContent:
    """Return a sound."""
    return types.AudioContent(type="audio", data=WAV, mime_type="audio/wav")


def embedded(uri: str, mime_type: str, text: str) -> types.EmbeddedResource:
    contents = types.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return types.EmbeddedResource(type="resource", resource=contents)


@sidecar.tool
async def test_embedded_resource() -> types.EmbeddedResource:
    """Return a resource."""
    return embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")


@sidecar.tool
def test_multiple_content_types() -> list[object]:
    """Return text, an image and a resource, from a process of its own."""
    data = json.dumps({"test": "data", "value": 123})
    resource = embedded("test://mixed-content-resource", "application/json", data)
    return ["Multiple content types test:", ImagePart(PNG, "image/png"), resource]


@sidecar.tool
async def test_tool_with_progress(context: ToolContext) -> str:
    """Report progress three times."""
    for step in ("first", "second", "third"):
        context.progress(f"The {step} step is done.\n")
        await asyncio.sleep(0.06)  # texts that come faster are joined
    return "done"


@sidecar.tool(process=False)
def test_error_handling() -> str:
    """Fail."""
    raise ToolError("This tool intentionally returns an error for testing")


class Person(BaseModel):
    username: str = Field(description="User's response")
    email: str = Field(description="User's email address")


@sidecar.tool
async def test_elicitation(message: str) -> str:
    """Ask the user."""
    answer = await elicit(message, Person)
    return f"User response: action={answer.action}, content={json.dumps(dict(answer.content))}"


class WithDefaults(BaseModel):
    name: str = "John Doe"
    age: int = 30
    score: float = 95.5
    status: Annotated[Literal["active", "inactive", "pending"], Field()] = "active"
    verified: bool = True


@sidecar.tool
async def test_elicitation_sep1034_defaults() -> str:
    """Ask the user for values that have defaults."""
    answer = await elicit("Please review and update the form fields", WithDefaults)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(dict(answer.content))}"


_OPTIONS = ["option1", "option2", "option3"]
_TITLED = [
    {"const": f"value{number}", "title": f"{word} Option"}
    for number, word in enumerate(("First", "Second", "Third"), 1)
]


@sidecar.tool
async def test_elicitation_sep1330_enums() -> str:
    """Ask the user to choose in five ways."""
    schema = {
        "type": "object",
        "properties": {
            "untitledSingle": {"type": "string", "enum": _OPTIONS},
            "titledSingle": {"type": "string", "oneOf": _TITLED},
            "legacyEnum": {"type": "string", "enum": ["opt1", "opt2", "opt3"], "enumNames": ["One", "Two", "Three"]},
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": _OPTIONS}},
            "titledMulti": {"type": "array", "items": {"anyOf": _TITLED}},
        },
    }
    answer = await elicit("Please choose", schema)
    return f"Elicitation completed: action={answer.action}, content={json.dumps(dict(answer.content))}"


sidecar.add(
    Tool(
        name="json_schema_2020_12_tool",
        description="A tool with a schema of JSON Schema 2020-12.",
        parameters={
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "type": "object",
            "$defs": {
                "address": {
                    "type": "object",
                    "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
                }
            },
            "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
            "additionalProperties": False,
        },
        execute_fn=json.dumps,
    )
)


@sidecar.resource("test://static-text", name="Static Text Resource", mime_type="text/plain")
def static_text() -> str:
    """A text."""
    return "This is the content of the static text resource."


@sidecar.resource("test://static-binary", name="Static Binary Resource", mime_type="image/png")
def static_binary() -> bytes:
    """An image."""
    return base64.b64decode(PNG)


@sidecar.resource("test://template/{id}/data", name="Resource Template", mime_type="application/json")
async def template(id: str) -> str:  # noqa: A002 - the variable's name in the suite
    """Data about an id."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@sidecar.resource("test://watched-resource", name="Watched Resource", mime_type="text/plain")
def watched() -> str:
    """A text that may change."""
    return "Watched resource content"


@sidecar.prompt
def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@sidecar.prompt
def test_prompt_with_arguments(arg1: Literal["testValue1", "testValue2"], arg2: str) -> str:
    """A prompt with two arguments.

    Args:
        arg1: First test argument.
        arg2: Second test argument.
    """
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@sidecar.prompt
def test_prompt_with_embedded_resource(resourceUri: str) -> list[object]:  # noqa: N803 - the argument's name in the suite
    """A prompt with a resource.

    Args:
        resourceUri: URI of the resource to embed.
    """
    return [
        embedded(resourceUri, "text/plain", "Embedded resource content for testing."),
        "Please process the embedded resource above.",
    ]


@sidecar.prompt
async def test_prompt_with_image() -> list[object]:
    """A prompt with an image."""
    image = types.ImageContent(type="image", data=PNG, mime_type="image/png")
    return [image, ("user", "Please analyze the image above.")]
